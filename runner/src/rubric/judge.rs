//! Has a model judge attempts, criterion by criterion, through the attempt's own door: its calls are recorded with the attempt,
//! by the judge's name, and never trained.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fulgurite_client::{Assignment, Server};
use futures::StreamExt;
use futures::stream;
use reqwest::Client;
use serde_json::{Map, Number, Value, json};
use tokio::time::{Instant, timeout_at};

use super::known_judgements::{KnownJudgements, digest};
use super::options::{Criterion, RubricOptions};
use super::question::{Judgement, Material, judgement, request};
use crate::RunnerError;
use crate::grader::GradeFault;
use crate::reward::Reward;

/// Criteria of an attempt that are judged at a time.
const AT_ONCE: usize = 4;
/// How long a connection to our own server may take.
const CONNECTING: Duration = Duration::from_secs(10);
/// The header that keeps a call's answer from being trained.
const TRAINABLE: &str = "x-fulgurite-trainable";
/// The field of an attempt's metadata that holds what its judge said.
const JUDGEMENTS: &str = "judgements";

/// A rubric and its judge.
#[derive(Debug)]
pub(crate) struct Rubric {
    options: RubricOptions,
    client: Client,
    known: KnownJudgements,
    /// Model calls made.
    calls: AtomicU64,
}

/// A criterion that has been judged.
struct Judged<'r> {
    criterion: &'r Criterion,
    judgement: Judgement,
    is_known: bool,
}

impl Rubric {
    /// Judgements are kept in `directory`, if there is one.
    ///
    /// # Errors
    /// If there can be no HTTP client.
    pub(crate) fn new(options: &RubricOptions, directory: Option<PathBuf>) -> Result<Self, RunnerError> {
        let client = Client::builder().connect_timeout(CONNECTING).build();
        let client = client.map_err(|error| RunnerError::JudgeClient { reason: error.to_string() })?;
        let known = KnownJudgements::new(directory);
        Ok(Self { options: options.clone(), client, known, calls: AtomicU64::new(0) })
    }

    /// Who rewards, as the server is told.
    pub(crate) fn name(&self) -> String {
        format!("rubric:{}", self.options.judge)
    }

    /// What an attempt earns, and what the judge said, for its metadata.
    pub(crate) async fn judge(
        &self,
        server: &Server,
        assignment: &Assignment,
        material: Material<'_>,
        deadline: Instant,
    ) -> Result<(Reward, Map<String, Value>), GradeFault> {
        let criteria = self.options.criteria.iter();
        let asked: Vec<_> = criteria.map(|criterion| self.judge_one(server, assignment, criterion, material)).collect();
        let all = stream::iter(asked).buffered(AT_ONCE).collect::<Vec<_>>();
        let all = timeout_at(deadline, all).await.map_err(|_| GradeFault::TimedOut)?;
        let all = all.into_iter().collect::<Result<Vec<_>, _>>().map_err(GradeFault::Failed)?;
        Ok((reward(&all)?, Map::from_iter([(JUDGEMENTS.to_owned(), said(&all))])))
    }

    async fn judge_one<'r>(
        &'r self,
        server: &Server,
        assignment: &Assignment,
        criterion: &'r Criterion,
        material: Material<'_>,
    ) -> Result<Judged<'r>, String> {
        let request = request(&self.options, criterion, material);
        let digest = digest(&request);
        if let Some(judgement) = self.known.get(&digest) {
            return Ok(Judged { criterion, judgement, is_known: true });
        }
        let failed = |why: String| format!("judge {:?} on {:?}: {why}", self.options.judge, criterion.name);
        let made = self.calls.fetch_add(1, Ordering::Relaxed);
        if let Some(limit) = self.options.max_calls.filter(|limit| made >= *limit) {
            return Err(failed(format!("[runner.rubric] max_calls = {limit} are made")));
        }
        let url = server.attempt_url(assignment, &["v1", "chat", "completions"]);
        let call = self.client.post(url).bearer_auth(assignment.agent_key()).header(TRAINABLE, "false").json(&request);
        let reply = call.send().await.map_err(|error| failed(format!("the server cannot be reached: {error}")))?;
        let status = reply.status();
        let text = reply.text().await.map_err(|error| failed(format!("its answer broke off: {error}")))?;
        if !status.is_success() {
            return Err(failed(format!("{status}: {}", text.chars().take(300).collect::<String>())));
        }
        let reply: Value = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        let judgement = judgement(&reply).map_err(failed)?;
        self.known.keep(digest, &judgement);
        Ok(Judged { criterion, judgement, is_known: false })
    }
}

/// The share of criteria that are met, by their weights, with each of them beside it.
fn reward(judged: &[Judged<'_>]) -> Result<Reward, GradeFault> {
    let all: f64 = judged.iter().map(|one| one.criterion.weight).sum();
    let met: f64 = judged.iter().filter(|one| one.judgement.met).map(|one| one.criterion.weight).sum();
    let share = Number::from_f64(met / all).ok_or_else(|| GradeFault::Failed("the weights have no sum".to_owned()))?;
    let component = |one: &Judged<'_>| (one.criterion.name.clone(), json!(u8::from(one.judgement.met)));
    Ok(Reward::new(share, judged.iter().map(component).collect()))
}

/// What the judge said, for people.
fn said(judged: &[Judged<'_>]) -> Value {
    let one = |Judged { criterion, judgement: Judgement { reason, met }, is_known }: &Judged<'_>| json!({ "criterion": criterion.name, "met": met, "reason": reason, "known_before": is_known });
    judged.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_earns_the_share_of_criteria_by_their_weights() {
        let criteria = [("a", 1.0), ("b", 2.0), ("c", 1.0)].map(|(name, weight)| Criterion {
            name: name.to_owned(),
            text: "t".to_owned(),
            weight,
        });
        let judged: Vec<Judged<'_>> = criteria
            .iter()
            .zip([true, true, false])
            .map(|(criterion, met)| Judged {
                criterion,
                judgement: Judgement { reason: "r".to_owned(), met },
                is_known: false,
            })
            .collect();
        let reward = json!(reward(&judged).unwrap());
        assert_eq!((&reward["value"], &reward["components"]), (&json!(0.75), &json!({ "a": 1, "b": 1, "c": 0 })));
        assert_eq!(said(&judged)[2], json!({ "criterion": "c", "met": false, "reason": "r", "known_before": false }));
    }
}
