//! What a runner asks of a server: rollouts off the queue, signs of life, and how attempts ended.

use std::time::Duration;

use fulgurite_types::{AttemptStatus, AttemptedRollout, Rollout};
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder, Url};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{Server, ServerError};

/// The header of a dequeue's reply that holds the keys of the attempts in it.
const KEY_HEADER: &str = "x-fulgurite-key";

/// The header that holds the keys of their graders, in the same order.
const GRADER_KEY_HEADER: &str = "x-fulgurite-grader-key";

/// What an attempt's agents are given for a key when the server hands out none, as other servers than ours do.
const ANY_KEY: &str = "fulgurite";

/// How long the server waits for the first heartbeat of an attempt, after which its reply counts as lost. Several heartbeats
/// fit into it.
const LEASE: Duration = Duration::from_secs(30);

/// How long a runner's request may take, beside the time that the server was asked to wait: shorter than a trainer's, since
/// others depend on its signs of life.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a runner that is about to leave waits for an answer.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(5);

/// An attempt that the server has given to this runner.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// The rollout.
    pub rollout_id: String,
    /// Which attempt at it this is.
    pub attempt_id: String,
    /// The rollout's input.
    pub task: Value,
    /// By which its world is made: the same for all members of a group, if it has one.
    pub world_seed: Option<u64>,
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
    /// Takes up to `limit` rollouts off the queue, waiting for up to `wait` until there is one. With a `grader`, which
    /// this is the name of, the server lets nobody else reward them.
    pub async fn dequeue(
        &self,
        worker_id: &str,
        limit: usize,
        wait: Duration,
        grader: Option<&str>,
    ) -> Result<Dequeued, ServerError> {
        let url = self.route(&["v1", "agl", "queues", "rollouts", "dequeue"]);
        let mut body = json!({
            "limit": limit,
            "worker_id": worker_id,
            "wait_seconds": wait.as_secs_f64(),
            "lease_seconds": LEASE.as_secs_f64(),
        });
        if let Some(grader) = grader {
            body["grader"] = json!(grader);
        }
        let request = self.request(Method::POST, &url).json(&body).timeout(wait + REQUEST_TIMEOUT);
        let reply = self.send(&url, request).await?.accepted(&url)?;
        let (agents, graders) = (keys(&reply.headers, KEY_HEADER), keys(&reply.headers, GRADER_KEY_HEADER));
        let of = |keys: &[String], index: usize| keys.get(index).or(keys.last()).cloned();
        let reply_lost = reply.earlier_lost;
        let rollouts: Vec<AttemptedRollout> = reply.read(&url)?;
        let assignments =
            rollouts.into_iter().enumerate().map(|(index, AttemptedRollout { rollout, attempt })| Assignment {
                world_seed: rollout.noted(Rollout::WORLD_SEED).and_then(Value::as_u64),
                rollout_id: rollout.rollout_id,
                attempt_id: attempt.attempt_id,
                task: rollout.input,
                key: of(&agents, index),
                grader_key: of(&graders, index),
            });
        Ok(Dequeued { assignments: assignments.collect(), reply_lost })
    }

    /// Lets go of every attempt that the server holds to be this worker's: their rollouts go back to the queue if they may be
    /// tried again.
    pub async fn release_worker(&self, worker_id: &str) -> Result<(), ServerError> {
        let url = self.release_route(worker_id);
        self.send(&url, self.runners_post(&url, &json!({}))).await?.accepted(&url).map(|_| ())
    }

    /// [`Server::release_worker`] in a single try, for a runner that is about to leave.
    pub async fn release_worker_once(&self, worker_id: &str) -> Result<(), ServerError> {
        let url = self.release_route(worker_id);
        self.send_once(&url, self.runners_post(&url, &json!({})), FAREWELL_TIMEOUT).await?.accepted(&url).map(|_| ())
    }

    /// Says that these attempts are still running, and gives those that the server knows as they stand there.
    pub async fn heartbeat(&self, running: &[AttemptName]) -> Result<Vec<KnownAttempt>, ServerError> {
        let url = self.route(&["v1", "fulgurite", "attempts", "heartbeat"]);
        let request = self.runners_post(&url, &json!({ "attempts": running }));
        self.send(&url, request).await?.read(&url)
    }

    /// Says how the attempt ended, and gives the status that it has on the server from now on: another one if the server had
    /// given the attempt up before. A rollout that has gone on since is not disturbed.
    pub async fn report(
        &self,
        assignment: &Assignment,
        status: AttemptStatus,
        metadata: &Value,
    ) -> Result<AttemptStatus, ServerError> {
        let Assignment { rollout_id, attempt_id, .. } = assignment;
        let url = self.route(&["v1", "fulgurite", "rollouts", rollout_id, "attempts", attempt_id, "report"]);
        let request = self.runners_post(&url, &json!({"status": status, "metadata": metadata}));
        let attempt: KnownAttempt = self.send(&url, request).await?.read(&url)?;
        Ok(attempt.status)
    }

    /// Posts the attempt's reward in the name of who gives it: its grader, or the agent that printed it. However often
    /// it is sent, it is given once.
    pub async fn reward(&self, assignment: &Assignment, reward: &impl Serialize) -> Result<(), ServerError> {
        let url = self.attempt_url(assignment, &["reward"]);
        let key = assignment.grader_key.as_deref().or(assignment.key.as_deref()).or(self.admin_key());
        let request = self.request_with_key(Method::POST, &url, key).timeout(REQUEST_TIMEOUT).json(reward);
        let request = request.header("idempotency-key", Uuid::now_v7().to_string());
        self.send(&url, request).await?.accepted(&url).map(|_| ())
    }

    /// Whether somebody, the agent itself for one, has posted a reward for the attempt.
    pub async fn has_reward(&self, assignment: &Assignment) -> Result<bool, ServerError> {
        let url = self.attempt_url(assignment, &["reward"]);
        let key = assignment.key.as_deref().or(self.admin_key());
        let request = self.request_with_key(Method::GET, &url, key).timeout(REQUEST_TIMEOUT);
        let rewards: Vec<Value> = self.send(&url, request).await?.read(&url)?;
        Ok(!rewards.is_empty())
    }

    /// The URL of one of the attempt's own routes: those that the agent is given.
    pub fn attempt_url(&self, assignment: &Assignment, segments: &[&str]) -> Url {
        let attempt = ["rollout", &assignment.rollout_id, "attempt", &assignment.attempt_id];
        self.route(&[&attempt, segments].concat())
    }

    fn release_route(&self, worker_id: &str) -> Url {
        self.route(&["v1", "fulgurite", "workers", worker_id, "release"])
    }

    fn runners_post(&self, url: &Url, body: &impl Serialize) -> RequestBuilder {
        self.request(Method::POST, url).json(body).timeout(REQUEST_TIMEOUT)
    }
}

/// The keys in the reply's headers, in the order of its attempts: one header each, or one header with commas. A single key is
/// every attempt's.
fn keys(headers: &HeaderMap, name: &str) -> Vec<String> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|key| key.trim().to_owned()).filter(|key| !key.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
