use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use axum::body::Bytes;
use clap::ValueEnum;
use fulgurite_renderers::Renderer;
use fulgurite_types::Message;
use reqwest::Client;
use serde_json::{Value, json};

use super::gateway;
use super::load::{Call, together};
use super::script::{Attempt, MODEL, PROMPT_TOKENS};
use crate::render::conversation::Writer;

/// Turns of a conversation.
pub const TURNS: usize = 8;
/// Attempts at one task, whose prompts are the same: a group, as the trainer makes them.
const GROUP: usize = 8;
/// Attempts that are started or ended at the same time.
const CONNECTIONS: usize = 64;

/// A kind of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
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

    fn turns(self) -> usize {
        if self == Self::Conversations { TURNS } else { 1 }
    }
}

/// Makes up tasks, no two of which are the same.
pub struct Tasks {
    renderer: Arc<dyn Renderer>,
    writer: Writer,
    system: Message,
}

impl Tasks {
    /// Tasks for a model.
    pub fn new(renderer: Arc<dyn Renderer>) -> Self {
        let mut writer = Writer::new();
        let system = Message::text("system", writer.text(2));
        Self { renderer, writer, system }
    }

    /// The bodies of what so many agents say, turn by turn, to a model that always gives the same answer.
    pub fn agents(&mut self, traffic: Traffic, count: usize, answer: &Message) -> Result<Agents> {
        let mut turns: Vec<Vec<Bytes>> = Vec::with_capacity(count);
        while turns.len() < count {
            let mut messages = self.task()?;
            let mut task = vec![body(&messages, traffic)];
            for _ in 1..traffic.turns() {
                messages.extend([answer.clone(), Message::text("user", self.writer.text(2))]);
                task.push(body(&messages, traffic));
            }
            turns.extend(std::iter::repeat_n(task, GROUP.min(count - turns.len())));
        }
        Ok(Agents { traffic, turns })
    }

    /// A conversation whose prompt has [`PROMPT_TOKENS`].
    fn task(&mut self) -> Result<Vec<Message>> {
        loop {
            let text = self.writer.text(PROMPT_TOKENS / 8);
            let messages = |end: usize| vec![self.system.clone(), Message::text("user", &text[..end])];
            let tokens = |end| anyhow::Ok(self.renderer.render_prompt(&messages(end), &[])?.tokens.len());
            let (mut enough, mut too_few) = (text.len(), 0);
            while too_few + 1 < enough {
                let middle = (too_few + enough) / 2;
                match tokens(middle)? {
                    PROMPT_TOKENS => return Ok(messages(middle)),
                    fewer if fewer < PROMPT_TOKENS => too_few = middle,
                    _ => enough = middle,
                }
            }
        }
    }
}

/// What some agents say.
pub struct Agents {
    traffic: Traffic,
    /// The bodies of each agent's calls.
    turns: Vec<Vec<Bytes>>,
}

impl Agents {
    /// How many calls they make.
    pub fn calls(&self) -> usize {
        self.turns.len() * self.traffic.turns()
    }

    /// Starts the attempts that they are made for, if they say whose they are.
    pub async fn start_attempts(&self, client: &Client, url: &str) -> Result<Vec<Attempt>> {
        let count = if self.traffic == Traffic::Sessions { 0 } else { self.turns.len() };
        let url = format!("{url}/v1/agl/rollouts");
        together(CONNECTIONS, (0..count).map(|_| Attempt::start(client.clone(), url.clone()))).await
    }

    /// The same at a gateway of Agent-lightning 1.0.
    pub async fn start_at_gateway(&self, client: &Client, url: &str) -> Result<Vec<Attempt>> {
        together(CONNECTIONS, self.turns.iter().map(|_| gateway::start(client.clone(), url.to_owned()))).await
    }

    /// Their calls, each for its attempt if there are any: first all first turns, then all second ones, and so on.
    pub fn calls_to(&self, url: &str, attempts: &[Attempt]) -> Vec<Call> {
        let call = |(turn, agent): (usize, usize)| {
            let attempt = attempts.get(agent).map(|attempt| attempt.path.as_str()).unwrap_or_default();
            let url = format!("{url}{attempt}/v1/chat/completions");
            let body = self.turns[agent][turn].clone();
            Call { url, body, is_streamed: self.traffic == Traffic::Streamed, agent }
        };
        let turns = 0..self.traffic.turns();
        turns.flat_map(|turn| (0..self.turns.len()).map(move |agent| (turn, agent))).map(call).collect()
    }

    /// Looks at one of their attempts at a gateway, and lets it forget them all.
    pub async fn end_at_gateway(&self, client: &Client, url: &str, attempts: Vec<Attempt>) -> Result<()> {
        if let Some(first) = attempts.first() {
            gateway::check_recorded(client, url, first).await?;
        }
        let ends = attempts.into_iter().map(|attempt| gateway::forget(client.clone(), url.to_owned(), attempt));
        together(CONNECTIONS, ends).await?;
        Ok(())
    }

    /// Ends their attempts, as a runner does; of conversations, looks at one first.
    pub async fn end_attempts(&self, client: &Client, url: &str, attempts: Vec<Attempt>) -> Result<()> {
        if let (Traffic::Conversations, Some(first)) = (self.traffic, attempts.first()) {
            first.check_continued(client, url).await?;
        }
        let ends = attempts.into_iter().map(|attempt| attempt.end(client.clone(), url.to_owned()));
        together(CONNECTIONS, ends).await?;
        Ok(())
    }
}

fn body(messages: &[Message], traffic: Traffic) -> Bytes {
    let mut body = json!({ "model": MODEL, "messages": messages, "max_tokens": 128, "temperature": 1.0 });
    if traffic == Traffic::Streamed {
        body["stream"] = json!(true);
    }
    Bytes::from(body.to_string())
}

impl Attempt {
    async fn start(client: Client, url: String) -> Result<Self> {
        let request = client.post(url).json(&json!({ "input": { "question": "1 + 1" } }));
        let started: Value = request.send().await?.error_for_status()?.json().await?;
        let id = |value: &Value| value.as_str().map(str::to_owned).context("a started rollout has no id");
        let (rollout_id, attempt_id) = (id(&started["rollout_id"])?, id(&started["attempt"]["attempt_id"])?);
        let path = format!("/rollout/{rollout_id}/attempt/{attempt_id}");
        Ok(Self { rollout_id, attempt_id, path })
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
