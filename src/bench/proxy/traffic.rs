use anyhow::{Context, Result, ensure};
use axum::body::Bytes;
use fulgurite_renderers::{Message, Renderer};
use reqwest::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::host::MODEL;
use super::load::Call;
use crate::bench::render::conversation::Writer;

/// Tokens of a prompt, of a conversation its first.
pub const PROMPT_TOKENS: usize = 200;
/// Turns of a conversation.
pub const TURNS: usize = 8;
/// Different tasks, each of which several attempts are made at.
const TASKS: usize = 64;
/// Attempts that are started or ended at the same time.
const CONNECTIONS: usize = 16;

/// A kind of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Attempts of one call each, answered whole.
    Whole,
    /// The same, streamed.
    Streamed,
    /// Attempts of several turns, each of which has the earlier ones in its history.
    Conversations,
    /// Calls that do not say whose they are.
    Sessions,
}

impl Traffic {
    /// Every kind, in the order of the table.
    pub const ALL: [Self; 4] = [Self::Whole, Self::Streamed, Self::Conversations, Self::Sessions];

    /// What the table calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Whole => "attempts of 1 call",
            Self::Streamed => "the same, streamed",
            Self::Conversations => "attempts of 8 turns",
            Self::Sessions => "calls of nobody",
        }
    }

    /// What its figures begin with in JSON.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Whole => "",
            Self::Streamed => "streamed_",
            Self::Conversations => "conversation_",
            Self::Sessions => "session_",
        }
    }

    /// Attempts that so many calls need.
    fn attempts(self, calls: usize) -> usize {
        match self {
            Self::Whole | Self::Streamed => calls,
            Self::Conversations => calls.div_ceil(TURNS),
            Self::Sessions => 0,
        }
    }
}

/// The bodies of calls.
pub struct Bodies {
    whole: Vec<Bytes>,
    streamed: Vec<Bytes>,
    /// Of each task, one for each turn.
    turns: Vec<Vec<Bytes>>,
}

impl Bodies {
    /// Bodies of prompts that have [`PROMPT_TOKENS`], in conversations whose answers are always `answer`.
    pub fn new(renderer: &dyn Renderer, answer: &Message) -> Result<Self> {
        let mut writer = Writer::new();
        let mut bodies = Self { whole: Vec::new(), streamed: Vec::new(), turns: Vec::new() };
        for _ in 0..TASKS {
            let task = task(renderer, &mut writer)?;
            bodies.whole.push(body(&task, false));
            bodies.streamed.push(body(&task, true));
            let mut messages = task;
            let turns = (0..TURNS).map(|turn| {
                if turn > 0 {
                    messages.extend([answer.clone(), Message::text("user", writer.text(2))]);
                }
                body(&messages, false)
            });
            bodies.turns.push(turns.collect());
        }
        Ok(bodies)
    }

    /// So many calls, straight to a model's host if there are no attempts. Of conversations, every turn comes before any
    /// next one.
    pub fn calls(&self, traffic: Traffic, url: &str, attempts: Option<&[Attempt]>, count: usize) -> Vec<Call> {
        let conversations = traffic.attempts(count).max(1);
        let call = |number: usize| {
            let bodies = match traffic {
                Traffic::Whole | Traffic::Sessions => &self.whole,
                Traffic::Streamed => &self.streamed,
                Traffic::Conversations => &self.turns[number % conversations % TASKS],
            };
            let (attempt, body) = match traffic {
                Traffic::Conversations => (number % conversations, &bodies[number / conversations]),
                _ => (number, &bodies[number % TASKS]),
            };
            let base = attempts.and_then(|attempts| attempts.get(attempt)).map_or(String::new(), Attempt::path);
            let url = format!("{url}{base}/v1/chat/completions");
            Call { url, body: body.clone(), is_streamed: traffic == Traffic::Streamed }
        };
        (0..count).map(call).collect()
    }
}

/// A conversation whose prompt has [`PROMPT_TOKENS`].
fn task(renderer: &dyn Renderer, writer: &mut Writer) -> Result<Vec<Message>> {
    loop {
        let system = Message::text("system", writer.text(2));
        let mut text = writer.text(PROMPT_TOKENS / 8);
        while !text.is_empty() {
            let messages = vec![system.clone(), Message::text("user", text.as_str())];
            match renderer.render_prompt(&messages, &[])?.tokens.len() {
                PROMPT_TOKENS => return Ok(messages),
                fewer if fewer < PROMPT_TOKENS => break,
                _ => drop(text.pop()),
            }
        }
    }
}

fn body(messages: &[Message], stream: bool) -> Bytes {
    let mut body = json!({ "model": MODEL, "messages": messages, "max_tokens": 128, "temperature": 1.0 });
    if stream {
        body["stream"] = json!(true);
    }
    Bytes::from(body.to_string())
}

/// An attempt at a rollout, under way.
#[derive(Debug)]
pub struct Attempt {
    rollout_id: String,
    attempt_id: String,
}

impl Attempt {
    /// What stands before the routes of its calls.
    fn path(&self) -> String {
        format!("/rollout/{}/attempt/{}", self.rollout_id, self.attempt_id)
    }

    async fn start(client: Client, url: String) -> Result<Self> {
        let asked = client.post(url).json(&json!({ "input": { "question": "1 + 1" } }));
        let started: Value = asked.send().await?.error_for_status()?.json().await?;
        let id = |value: &Value| value.as_str().map(str::to_owned).context("a started rollout has no id");
        Ok(Self { rollout_id: id(&started["rollout_id"])?, attempt_id: id(&started["attempt"]["attempt_id"])? })
    }

    /// Ends it, as a runner does when its agent is done.
    async fn end(self, client: Client, url: String) -> Result<()> {
        let url = format!("{url}/v1/agl/rollouts/{}/attempts/{}", self.rollout_id, self.attempt_id);
        client.post(url).json(&json!({ "status": "succeeded" })).send().await?.error_for_status()?.bytes().await?;
        Ok(())
    }

    /// Fails unless each of its calls after the first went on token by token.
    async fn check_continued(&self, client: &Client, url: &str) -> Result<()> {
        let url = format!("{url}/rollout/{}/drift", self.rollout_id);
        let drift: Value = client.get(url).send().await?.error_for_status()?.json().await?;
        let calls = drift["calls"].as_array().context("no calls in the report of a rollout")?;
        let continued = calls.iter().filter(|call| call["continues"].is_string()).count();
        ensure!(calls.len() == TURNS && continued == TURNS - 1, "the turns of a conversation do not go on: {drift}");
        Ok(())
    }
}

/// Starts the attempts that so many calls need.
pub async fn start_attempts(client: &Client, url: &str, traffic: Traffic, calls: usize) -> Result<Vec<Attempt>> {
    let url = format!("{url}/v1/agl/rollouts");
    let starts = (0..traffic.attempts(calls)).map(|_| Attempt::start(client.clone(), url.clone()));
    together(starts).await
}

/// Ends attempts whose calls have all been made; of conversations, looks at one first.
pub async fn end_attempts(client: &Client, url: &str, traffic: Traffic, attempts: Vec<Attempt>) -> Result<()> {
    if let (Traffic::Conversations, Some(first)) = (traffic, attempts.first()) {
        first.check_continued(client, url).await?;
    }
    together(attempts.into_iter().map(|attempt| attempt.end(client.clone(), url.to_owned()))).await?;
    Ok(())
}

/// Does a few at a time until all are done.
async fn together<T: Send + 'static>(
    mut tasks: impl Iterator<Item = impl Future<Output = Result<T>> + Send + 'static>,
) -> Result<Vec<T>> {
    let mut running = JoinSet::new();
    tasks.by_ref().take(CONNECTIONS).for_each(|task| drop(running.spawn(task)));
    let mut done = Vec::new();
    while let Some(ended) = running.join_next().await {
        done.push(ended??);
        tasks.next().map(|task| running.spawn(task));
    }
    Ok(done)
}
