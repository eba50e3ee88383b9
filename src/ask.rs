//! `fulgurite ask`: an agent of one model call, for tasks that are one question.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use reqwest::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::terminal::output;

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
    let (url, key) = (variable("OPENAI_BASE_URL")?, std::env::var("OPENAI_API_KEY").unwrap_or_default());
    output::data(&answer(&arguments, &client, &json!(question), (&url, &key)).await?);
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
                    let answered = answer(&arguments, &client, &task, (&base_url, &api_key)).await;
                    let mut answer = json!({ "rollout_id": rollout_id, "attempt_id": attempt_id });
                    match answered {
                        Ok(text) => answer["output"] = json!(text),
                        Err(error) => answer["error"] = json!(format!("{error:#}")),
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

async fn answer(arguments: &AskArguments, client: &Client, task: &Value, (url, key): (&str, &str)) -> Result<String> {
    let system = arguments.system.iter().map(|text| json!({ "role": "system", "content": text }));
    let messages: Vec<Value> = system.chain(messages(task, &arguments.field)?).collect();
    let mut request = json!({ "model": arguments.model, "messages": messages });
    if let Some(max_tokens) = arguments.max_tokens {
        request["max_tokens"] = json!(max_tokens);
    }
    let reply = client.post(format!("{url}/chat/completions")).bearer_auth(key).json(&request).send().await;
    let reply = reply.context("cannot reach the model")?;
    let (status, text) = (reply.status(), reply.text().await.context("cannot read the model's answer")?);
    if !status.is_success() {
        bail!("the model answered {status}: {text}");
    }
    let reply: Value = serde_json::from_str(&text).context("the model's answer is not JSON")?;
    let content = &reply["choices"][0]["message"]["content"];
    content.as_str().map(str::to_owned).ok_or_else(|| anyhow!("the model answered no text: {text}"))
}

/// What a task has the model asked: itself if it is text, its messages, or a field of it.
fn messages(task: &Value, field: &str) -> Result<Vec<Value>> {
    let question = match (task, &task["messages"], &task[field]) {
        (Value::String(question), ..) => question,
        (Value::Object(_), Value::Array(messages), _) => return Ok(messages.clone()),
        (Value::Object(_), _, Value::String(question)) => question,
        _ => bail!("a task must be text, or have `messages` or the text `{field}`; this one is {task}"),
    };
    Ok(vec![json!({ "role": "user", "content": question })])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_a_question_or_holds_one() {
        let user = |text: &str| json!([{ "role": "user", "content": text }]);
        let messages_for = |task: Value| messages(&task, "q").map(Value::from).map_err(|error| error.to_string());
        assert_eq!(messages_for(json!("2+2")), Ok(user("2+2")));
        assert_eq!(messages_for(json!({ "q": "2+2", "answer": 4 })), Ok(user("2+2")));
        assert_eq!(messages_for(json!({ "messages": user("a"), "q": "b" })), Ok(user("a")));
        assert!(messages_for(json!({ "prompt": "2+2" })).unwrap_err().contains("the text `q`"));
        assert!(messages_for(json!(4)).is_err());
    }
}
