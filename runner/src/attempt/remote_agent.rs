//! An agent that lives elsewhere: a server of the user's that is told of each attempt by a POST.

use std::time::Duration;

use fulgurite_client::{Assignment, Server, ServerError};
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode, Url};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

use crate::RunnerError;
use crate::warm::{Answer, read_answer};

/// Bytes of an answer, at most.
const LONGEST_ANSWER: usize = 4 << 20;

/// Characters of an answer that an error quotes.
const QUOTED: usize = 200;

/// How long a connection may take.
const CONNECTING: Duration = Duration::from_secs(10);

/// How often it is looked whether an agent that said it had begun has posted its reward.
const LOOKING: Duration = Duration::from_secs(1);

/// An agent that lives elsewhere.
#[derive(Debug)]
pub(crate) struct RemoteAgent {
    url: Url,
    client: Client,
}

/// Why an attempt has no answer.
#[derive(Debug)]
pub(crate) enum NoRemoteAnswer {
    /// There was none at its deadline.
    TimedOut,
    /// Nobody took it.
    Unreachable(String),
    /// What was answered is no answer.
    Wrong(String),
    /// Fulgurite's own server is out of reach.
    Server(ServerError),
}

impl RemoteAgent {
    /// The agent at a URL.
    ///
    /// # Errors
    /// If that is none.
    pub(crate) fn new(url: &str) -> Result<Self, RunnerError> {
        let wrong = |reason: String| RunnerError::AgentUrl { url: url.to_owned(), reason };
        let parsed = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(wrong("it is neither http nor https".to_owned()));
        }
        // The body holds the attempt's key.
        let client = Client::builder().redirect(Policy::none()).connect_timeout(CONNECTING).build();
        Ok(Self { url: parsed, client: client.map_err(|error| wrong(error.to_string()))? })
    }

    /// Tells the agent of an attempt, as `line` says, and waits for what it says of it: an answer in its reply, or, if that is
    /// `202 Accepted`, a reward that it posts.
    pub(crate) async fn ask(
        &self,
        server: &Server,
        assignment: &Assignment,
        line: Vec<u8>,
        deadline: Instant,
    ) -> Result<Answer, NoRemoteAnswer> {
        let answered = timeout_at(deadline, async {
            match self.post(assignment, line).await? {
                Some(answer) => Ok(answer),
                None => posted(server, assignment).await,
            }
        });
        answered.await.unwrap_or(Err(NoRemoteAnswer::TimedOut))
    }

    /// The answer in the agent's reply; `None` if it says that it has begun.
    async fn post(&self, assignment: &Assignment, line: Vec<u8>) -> Result<Option<Answer>, NoRemoteAnswer> {
        let request = self.client.post(self.url.clone()).header("content-type", "application/json");
        let request = request.header("idempotency-key", &assignment.attempt_id).body(line);
        let unreachable = |error: reqwest::Error| {
            // The URL may hold a key.
            NoRemoteAnswer::Unreachable(format!("cannot be reached: {}", chain(&error.without_url())))
        };
        let mut reply = request.send().await.map_err(unreachable)?;
        let mut body = Vec::new();
        while let Some(chunk) = reply.chunk().await.map_err(unreachable)? {
            body.extend_from_slice(&chunk);
            if body.len() > LONGEST_ANSWER {
                return Err(NoRemoteAnswer::Wrong(format!("answered with more than {LONGEST_ANSWER} bytes")));
            }
        }
        match reply.status() {
            StatusCode::ACCEPTED => Ok(None),
            status if status.is_success() => match serde_json::from_slice(&body) {
                Ok(Value::Object(fields)) => Ok(Some(read_answer(fields))),
                _ => Err(NoRemoteAnswer::Wrong(format!("answered with what is no JSON object: {}", quoted(&body)))),
            },
            status @ (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::BAD_GATEWAY) => {
                Err(NoRemoteAnswer::Unreachable(format!("answered {status}: {}", quoted(&body))))
            }
            status => Err(NoRemoteAnswer::Wrong(format!("answered {status}: {}", quoted(&body)))),
        }
    }
}

/// Waits for the reward that the agent posts.
async fn posted(server: &Server, assignment: &Assignment) -> Result<Answer, NoRemoteAnswer> {
    while !server.has_reward(assignment).await.map_err(NoRemoteAnswer::Server)? {
        sleep(LOOKING).await;
    }
    Ok(Answer::posted())
}

fn quoted(body: &[u8]) -> String {
    String::from_utf8_lossy(body).chars().take(QUOTED).collect()
}

/// An error and all that caused it.
fn chain(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
