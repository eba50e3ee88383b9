//! The runner's side of the server's routes. A server that is out of reach is tried again until patience ends.

use crate::reward::Reward;
use crate::{RunnerError, RunnerOptions};
use fulgurite_types::{AttemptStatus, AttemptedRollout};
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, RequestBuilder, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};
use tokio::time::sleep;
use uuid::Uuid;

/// The header of a dequeue's reply that holds the keys of the attempts in it.
const KEY_HEADER: &str = "x-fulgurite-key";

/// The header that holds the keys of their graders, in the same order.
const GRADER_KEY_HEADER: &str = "x-fulgurite-grader-key";

/// What an attempt's agents are given for a key when the server hands out none, as other servers than ours do.
const ANY_KEY: &str = "fulgurite";

/// How long the server waits for the first heartbeat of an attempt, after which its reply counts as lost. Several heartbeats
/// fit into it.
const LEASE: Duration = Duration::from_secs(30);

/// How long a request may take, beside the time that the server was asked to wait.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a runner that is about to leave waits for an answer.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause before the second try of a request, doubled for each further one up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// An attempt that the server has given to this runner.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// The rollout.
    pub rollout_id: String,
    /// Which attempt at it this is.
    pub attempt_id: String,
    /// The rollout's input.
    pub task: Value,
    /// What opens the attempt's own routes; `None` of a server that hands out no keys.
    pub key: Option<String>,
    /// What opens its reward when it is graded. The agent never gets it.
    pub grader_key: Option<String>,
}

/// What an attempt is called on the server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AttemptName {
    /// The rollout.
    pub rollout_id: String,
    /// Which attempt at it.
    pub attempt_id: String,
}

/// An attempt as it stands on the server, as far as a runner needs to know.
#[derive(Debug, Deserialize)]
pub struct KnownAttempt {
    /// Which it is.
    #[serde(flatten)]
    pub name: AttemptName,
    /// Where it stands.
    pub status: AttemptStatus,
}

/// A dequeue's answer.
#[derive(Debug)]
pub struct Dequeued {
    /// The attempts to run now.
    pub assignments: Vec<Assignment>,
    /// An earlier try of the same request may have got through: the server may hold attempts to be this runner's of which it
    /// has never heard.
    pub reply_lost: bool,
}

/// The parts of the server's spans that a runner needs.
#[derive(Deserialize)]
struct Spans {
    items: Vec<Span>,
}

#[derive(Deserialize)]
struct Span {
    attributes: Map<String, Value>,
}

/// The server, as one runner sees it.
#[derive(Debug, Clone)]
pub struct Server {
    base: Url,
    client: Client,
    admin_key: Option<String>,
    worker_id: String,
    patience: Duration,
}

impl Assignment {
    /// What the attempt's programs send for a key.
    pub fn agent_key(&self) -> String {
        self.key.clone().unwrap_or_else(|| ANY_KEY.to_owned())
    }

    /// What the attempt is called on the server.
    pub fn name(&self) -> AttemptName {
        AttemptName { rollout_id: self.rollout_id.clone(), attempt_id: self.attempt_id.clone() }
    }
}

impl Server {
    /// The server of `options`; nothing is sent yet.
    pub fn new(options: &RunnerOptions) -> Result<Self, RunnerError> {
        let wrong = |reason: String| RunnerError::ServerUrl { url: options.server.clone(), reason };
        let base = Url::parse(&options.server).map_err(|error| wrong(error.to_string()))?;
        let Some(host) = base.host_str().filter(|_| !base.cannot_be_a_base()) else {
            return Err(wrong("it has no host".to_owned()));
        };
        if !base.username().is_empty() || base.password().is_some() {
            // Agents are given URLs that begin with it.
            let reason = "it must hold no key: the admin key's place is FULGURITE_ADMIN_KEY".to_owned();
            return Err(RunnerError::ServerUrl { url: host.to_owned(), reason });
        }
        Ok(Self {
            base,
            client: Client::builder().build().map_err(RunnerError::Client)?,
            admin_key: options.admin_key.clone(),
            worker_id: options.worker_id.clone(),
            patience: options.patience,
        })
    }

    /// The URL of a route, given by the segments of its path.
    pub fn url(&self, segments: &[&str]) -> Url {
        let mut url = self.base.clone();
        // `new` has seen to it that the URL has a path.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }

    /// Takes up to `limit` rollouts off the queue, waiting for up to `wait` until there is one. With a `grader`, which
    /// this is the name of, the server lets nobody else reward them.
    pub async fn dequeue(&self, limit: usize, wait: Duration, grader: Option<&str>) -> Result<Dequeued, RunnerError> {
        let url = self.url(&["v1", "agl", "queues", "rollouts", "dequeue"]);
        let mut body = json!({
            "limit": limit,
            "worker_id": self.worker_id,
            "wait_seconds": wait.as_secs_f64(),
            "lease_seconds": LEASE.as_secs_f64(),
        });
        if let Some(grader) = grader {
            body["grader"] = json!(grader);
        }
        let request = self.post(&url, &body).timeout(wait + REQUEST_TIMEOUT);
        let reply = self.send_patiently(&url, request).await?;
        let (agents, graders) = (keys(&reply.headers, KEY_HEADER), keys(&reply.headers, GRADER_KEY_HEADER));
        let of = |keys: &[String], index: usize| keys.get(index).or(keys.last()).cloned();
        let rollouts: Vec<AttemptedRollout> = reply.json(&url)?;
        let assignments =
            rollouts.into_iter().enumerate().map(|(index, AttemptedRollout { rollout, attempt })| Assignment {
                rollout_id: rollout.rollout_id,
                attempt_id: attempt.attempt_id,
                task: rollout.input,
                key: of(&agents, index),
                grader_key: of(&graders, index),
            });
        Ok(Dequeued { assignments: assignments.collect(), reply_lost: reply.earlier_lost })
    }

    /// Lets go of every attempt that the server holds to be this runner's: their rollouts go back to the queue if they may be
    /// tried again.
    pub async fn release(&self) -> Result<(), RunnerError> {
        let (url, request) = self.release_request();
        self.send_patiently(&url, request).await.map(|_| ())
    }

    /// [`Server::release`] in a single try, for a runner that is about to leave.
    pub async fn release_once(&self) -> Result<(), RunnerError> {
        let (url, request) = self.release_request();
        let reply = receive(request.timeout(FAREWELL_TIMEOUT))
            .await
            .map_err(|error| unreachable(&url, FAREWELL_TIMEOUT, &describe(&error)))?;
        reply.accepted(&url).map(|_| ())
    }

    /// Says that these attempts are still running, and gives those that the server knows as they stand there.
    pub async fn heartbeat(&self, running: &[AttemptName]) -> Result<Vec<KnownAttempt>, RunnerError> {
        let url = self.url(&["v1", "fulgurite", "attempts", "heartbeat"]);
        self.send_patiently(&url, self.post(&url, &json!({ "attempts": running }))).await?.json(&url)
    }

    /// Says how the attempt ended, and gives the status that it has on the server from now on: another one if the server had
    /// given the attempt up before. A rollout that has gone on since is not disturbed.
    pub async fn report(
        &self,
        assignment: &Assignment,
        status: AttemptStatus,
        metadata: &Value,
    ) -> Result<AttemptStatus, RunnerError> {
        let Assignment { rollout_id, attempt_id, .. } = assignment;
        let url = self.url(&["v1", "fulgurite", "rollouts", rollout_id, "attempts", attempt_id, "report"]);
        let request = self.post(&url, &json!({"status": status, "metadata": metadata}));
        let attempt: KnownAttempt = self.send_patiently(&url, request).await?.json(&url)?;
        Ok(attempt.status)
    }

    /// Posts the attempt's reward in the name of who gives it: its grader, or the agent that printed it. However often
    /// it is sent, it is given once.
    pub async fn reward(&self, assignment: &Assignment, reward: &Reward) -> Result<(), RunnerError> {
        let url = self.attempt_url(assignment, &["reward"]);
        let request = self.client.post(url.clone()).timeout(REQUEST_TIMEOUT).json(reward);
        let request = match assignment.grader_key.as_ref().or(assignment.key.as_ref()).or(self.admin_key.as_ref()) {
            Some(key) => request.bearer_auth(key),
            None => request,
        };
        let request = request.header("idempotency-key", Uuid::now_v7().to_string());
        self.send_patiently(&url, request).await.map(|_| ())
    }

    /// Whether somebody, the agent itself for one, has posted a reward for the attempt.
    pub async fn has_reward(&self, assignment: &Assignment) -> Result<bool, RunnerError> {
        let mut url = self.url(&["v1", "agl", "spans"]);
        url.query_pairs_mut()
            .append_pair("rollout_id", &assignment.rollout_id)
            .append_pair("attempt_id", &assignment.attempt_id)
            .append_pair("name", "agentlightning.annotation");
        let spans: Spans = self.send_patiently(&url, self.request(Method::GET, &url)).await?.json(&url)?;
        let is_reward = |name: &String| name.starts_with("agentlightning.reward") || name == "reward";
        Ok(spans.items.iter().any(|span| span.attributes.keys().any(is_reward)))
    }

    /// The URL of one of the attempt's own routes: those that the agent is given.
    pub fn attempt_url(&self, assignment: &Assignment, segments: &[&str]) -> Url {
        let attempt = ["rollout", &assignment.rollout_id, "attempt", &assignment.attempt_id];
        self.url(&[&attempt, segments].concat())
    }

    fn release_request(&self) -> (Url, RequestBuilder) {
        let url = self.url(&["v1", "fulgurite", "workers", &self.worker_id, "release"]);
        let request = self.post(&url, &json!({}));
        (url, request)
    }

    fn post(&self, url: &Url, body: &impl Serialize) -> RequestBuilder {
        self.request(Method::POST, url).json(body)
    }

    fn request(&self, method: Method, url: &Url) -> RequestBuilder {
        let request = self.client.request(method, url.clone()).timeout(REQUEST_TIMEOUT);
        match &self.admin_key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    /// Sends the request until the server answers it.
    async fn send_patiently(&self, url: &Url, request: RequestBuilder) -> Result<Reply, RunnerError> {
        let mut since = None;
        let mut pause = FIRST_PAUSE;
        let mut earlier_lost = false;
        loop {
            let Some(attempt) = request.try_clone() else {
                return Err(unreachable(url, self.patience, "its body can be sent only once"));
            };
            let reason = match receive(attempt).await {
                Ok(reply) if !reply.status.is_server_error() => {
                    return Reply { earlier_lost, ..reply }.accepted(url);
                }
                Ok(reply) => {
                    earlier_lost = true;
                    format!("it answered {}: {}", reply.status, reply.text())
                }
                Err(error) => {
                    earlier_lost |= !error.is_connect();
                    describe(&error)
                }
            };
            let since = *since.get_or_insert_with(Instant::now);
            if since.elapsed() + pause > self.patience {
                return Err(unreachable(url, self.patience, &reason));
            }
            tracing::debug!(%url, reason, "the server is out of reach; trying again");
            sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }
}

fn unreachable(url: &Url, patience: Duration, reason: &str) -> RunnerError {
    RunnerError::ServerUnreachable { url: url.to_string(), patience, reason: reason.to_owned() }
}

/// The keys in the reply's headers, in the order of its attempts: one header each, or one header with commas. A single key is
/// every attempt's.
fn keys(headers: &HeaderMap, name: &str) -> Vec<String> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|key| key.trim().to_owned()).filter(|key| !key.is_empty()).collect()
}

/// A reply that has arrived whole.
struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
    /// An earlier try of the same request may have reached the server, its reply lost.
    earlier_lost: bool,
}

impl Reply {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The reply, unless the server refuses in it to do what was asked.
    fn accepted(self, url: &Url) -> Result<Self, RunnerError> {
        if self.status.is_success() {
            return Ok(self);
        }
        Err(RunnerError::Refused { url: url.to_string(), status: self.status.as_u16(), body: self.text() })
    }

    fn json<T: DeserializeOwned>(&self, url: &Url) -> Result<T, RunnerError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| RunnerError::Reply { url: url.to_string(), reason: error.to_string() })
    }
}

/// Sends the request once.
async fn receive(request: RequestBuilder) -> reqwest::Result<Reply> {
    let mut reply = request.send().await?;
    let (status, headers) = (reply.status(), std::mem::take(reply.headers_mut()));
    Ok(Reply { status, headers, body: reply.bytes().await?.to_vec(), earlier_lost: false })
}

/// An error with its causes: reqwest's own text leaves out the one that matters.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: &str) -> Result<Server, RunnerError> {
        Server::new(&RunnerOptions::new(url, vec!["agent".to_owned()]))
    }

    #[test]
    fn routes_follow_the_base_url_and_ids_cannot_leave_their_segment() {
        let server = server("http://host:1/prefix/").unwrap();
        assert_eq!(server.url(&["v1", "agl"]).as_str(), "http://host:1/prefix/v1/agl");
        assert_eq!(server.url(&["w", "a/b?c", "release"]).as_str(), "http://host:1/prefix/w/a%2Fb%3Fc/release");
    }

    #[test]
    fn what_is_no_servers_url_is_refused() {
        for url in ["", "localhost:4747", "mailto:someone", "/v1"] {
            assert!(matches!(server(url), Err(RunnerError::ServerUrl { .. })), "{url}");
        }
        let holds_a_key = server("http://any:opens-all@host:4747").unwrap_err().to_string();
        assert!(holds_a_key.contains("it must hold no key") && !holds_a_key.contains("opens-all"), "{holds_a_key}");
    }

    #[test]
    fn keys_come_in_several_headers_or_in_one() {
        let mut headers = HeaderMap::new();
        assert!(keys(&headers, KEY_HEADER).is_empty());
        headers.append(KEY_HEADER, "a, b".parse().unwrap());
        headers.append(KEY_HEADER, "c".parse().unwrap());
        assert_eq!(keys(&headers, KEY_HEADER), ["a", "b", "c"]);
        assert!(keys(&headers, GRADER_KEY_HEADER).is_empty());
    }
}
