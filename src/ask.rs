//! `fulgurite ask`: an agent of one model call, for tasks that are one question.

use std::sync::Arc;

use anyhow::{Context, Error, Result};
use clap::Args;
use fulgurite_lab::chat::{ChatEndpoint, Question, QuestionError};
use fulgurite_terminal::output;
use reqwest::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// `fulgurite ask`.
#[derive(Debug, Args)]
pub struct AskArguments {
    /// What is asked; without it, tasks come as lines on standard input, as a warm agent gets them
    #[arg(value_name = "QUESTION")]
    question: Option<String>,
    /// What the agent sends in `model`
    #[arg(long, value_name = "NAME", default_value = "policy")]
    model: String,
    /// What the model is told first
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// The field of a task that holds the question, where tasks are objects
    #[arg(long, value_name = "FIELD", default_value = "prompt")]
    field: String,
    /// Tokens of the answer at most
    #[arg(long, value_name = "N")]
    max_tokens: Option<u64>,
}

/// A task, as a warm agent gets it.
#[derive(Deserialize)]
struct Line {
    rollout_id: String,
    attempt_id: String,
    task: Value,
    base_url: String,
    api_key: String,
}

/// Asks, and prints the answer.
pub async fn ask(arguments: AskArguments) -> Result<()> {
    let client = Client::builder().build().context("cannot make an HTTP client")?;
    let Some(question) = &arguments.question else { return serve(Arc::new(arguments), client).await };
    let variable =
        |name: &str| std::env::var(name).with_context(|| format!("{name} is not set: it says where the model is"));
    let key = std::env::var("OPENAI_API_KEY").unwrap_or_default();
    let endpoint = ChatEndpoint { url: variable("OPENAI_BASE_URL")?, key: Some(key) };
    output::data(&answer(&arguments, &client, &json!(question), &endpoint).await?);
    Ok(())
}

/// Answers each line of standard input, as they come.
async fn serve(arguments: Arc<AskArguments>, client: Client) -> Result<()> {
    let (sender, mut answers) = mpsc::unbounded_channel::<Value>();
    let mut playing = JoinSet::new();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut output = tokio::io::stdout();
    loop {
        tokio::select! {
            line = lines.next_line() => {
                let Some(line) = line.context("cannot read standard input")? else { return Ok(()) };
                // What else there is tells of tasks that were given up, whose answers nobody reads.
                let Ok(Line { rollout_id, attempt_id, task, base_url, api_key }) = serde_json::from_str(&line) else { continue };
                let (arguments, client, sender) = (Arc::clone(&arguments), client.clone(), sender.clone());
                playing.spawn(async move {
                    let endpoint = ChatEndpoint { url: base_url, key: Some(api_key) };
                    let answered = answer(&arguments, &client, &task, &endpoint).await;
                    let mut answer = json!({ "rollout_id": rollout_id, "attempt_id": attempt_id });
                    match answered {
                        Ok(text) => answer["output"] = json!(text),
                        Err(error) => answer["error"] = json!(format!("{:#}", Error::new(error))),
                    }
                    // Nobody reads any more once this process ends.
                    drop(sender.send(answer));
                });
            }
            Some(answer) = answers.recv() => {
                let written = async { output.write_all(format!("{answer}\n").as_bytes()).await?; output.flush().await };
                written.await.context("cannot write to standard output")?;
            }
            Some(_) = playing.join_next() => {}
        }
    }
}

async fn answer(
    arguments: &AskArguments,
    client: &Client,
    task: &Value,
    endpoint: &ChatEndpoint,
) -> Result<String, QuestionError> {
    let AskArguments { model, system, field, max_tokens, .. } = arguments;
    let question = Question { model, system: system.as_deref(), field, max_tokens: *max_tokens };
    question.ask(client, endpoint, task).await
}
