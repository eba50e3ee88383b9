//! Has a model judge attempts, criterion by criterion, through the attempt's own endpoint: its calls are recorded with the attempt,
//! by the judge's name, and never trained.

use std::path::PathBuf;
use std::time::Duration;

use fulgurite_client::{Assignment, Server};
use futures::StreamExt;
use futures::stream;
use reqwest::{Client, Url};
use serde_json::{Map, Number, Value, json};
use tokio::time::{Instant, timeout_at};

use super::agreement::Agreement;
use super::known_judgements::{KnownJudgements, digest};
use super::options::{Criterion, JUDGES_AGREE, RubricOptions};
use super::question::{Judgement, Material, judgement, request};
use super::spending::{Allowed, Spending};
use crate::RunnerError;
use crate::grader::GradeFault;
use crate::reward::Reward;

/// Criteria of an attempt that are judged at a time.
const AT_ONCE: usize = 4;
/// How long a connection to our own server may take.
const CONNECTING: Duration = Duration::from_secs(10);
/// The header that keeps a call's answer from being trained: not every judge is asked with a grader's key.
const TRAINABLE: &str = "x-fulgurite-trainable";
/// The field of an attempt's metadata that holds what its judge said.
const JUDGEMENTS: &str = "judgements";

/// A rubric and its judges.
#[derive(Debug)]
pub(crate) struct Rubric {
    options: RubricOptions,
    client: Client,
    known: KnownJudgements,
    spending: Spending,
}

/// Where judges are asked.
#[derive(Clone, Debug)]
pub(super) struct JudgeEndpoint {
    /// Of chat completions.
    pub(super) url: Url,
    /// The bearer token, if one is asked for: the grader's, whose calls take nothing from the agent's budget, or that of the
    /// server's own endpoint for what is of no attempt.
    pub(super) key: Option<String>,
}

/// A criterion that has been judged.
struct Judged<'r> {
    criterion: &'r Criterion,
    judgement: Judgement,
    is_known: bool,
    /// What the second judge said, if it was asked, or why it said nothing.
    second: Option<Result<Judgement, String>>,
}

impl Rubric {
    /// Judgements, and what they cost, are kept in `directory`, if there is one.
    ///
    /// # Errors
    /// If there can be no HTTP client, or what was spent cannot be read.
    pub(crate) fn new(options: &RubricOptions, directory: Option<PathBuf>) -> Result<Self, RunnerError> {
        let client = Client::builder().connect_timeout(CONNECTING).build();
        let client = client.map_err(|error| RunnerError::JudgeClient { reason: error.to_string() })?;
        let spending = Spending::new(options, directory.as_deref())
            .map_err(|error| RunnerError::JudgesSpending { directory: directory.clone().unwrap_or_default(), error })?;
        Ok(Self { options: options.clone(), client, known: KnownJudgements::new(directory), spending })
    }

    /// Who rewards, as the server is told.
    pub(crate) fn name(&self) -> String {
        format!("rubric:{}", self.options.judge)
    }

    /// The rubric's part of the reward, where a grader gives the rest.
    pub(crate) fn share(&self) -> Option<f64> {
        self.options.share
    }

    /// What an attempt earns, beside what it earned otherwise, and what the judges said, for its metadata.
    pub(crate) async fn judge(
        &self,
        server: &Server,
        assignment: &Assignment,
        material: Material<'_>,
        deadline: Instant,
    ) -> Result<(Reward, Map<String, Value>), GradeFault> {
        let url = server.attempt_url(assignment, &["v1", "chat", "completions"]);
        // With any other key its calls would take from the agent's budget.
        let key = assignment.grader_key.clone();
        let key = key.ok_or_else(|| GradeFault::Failed("the server gave no grader's key to judge with".to_owned()))?;
        let endpoint = JudgeEndpoint { url, key: Some(key) };
        let criteria = self.options.criteria.iter();
        let judgements: Vec<_> = criteria.map(|criterion| self.judge_one(&endpoint, criterion, material)).collect();
        let all = stream::iter(judgements).buffered(AT_ONCE).collect::<Vec<_>>();
        let all = timeout_at(deadline, all).await.map_err(|_| GradeFault::TimedOut)?;
        let all = all.into_iter().collect::<Result<Vec<_>, _>>().map_err(GradeFault::Failed)?;
        Ok((reward(&all)?, Map::from_iter([(JUDGEMENTS.to_owned(), judgements_json(&all))])))
    }

    /// What the first judge says, and the second where it is asked; of the second nothing depends, so that its failure is none.
    async fn judge_one<'r>(
        &'r self,
        endpoint: &JudgeEndpoint,
        criterion: &'r Criterion,
        material: Material<'_>,
    ) -> Result<Judged<'r>, String> {
        let first = request(&self.options, &self.options.judge, criterion, material);
        let second = self.options.second.as_ref().filter(|second| is_within(&digest(&first), second.share));
        let second = async {
            let judge = &second?.judge;
            let judged = self.ask(endpoint, judge, criterion, request(&self.options, judge, criterion, material)).await;
            Some(judged.map(|(judgement, _)| judgement))
        };
        let (first, second) = futures::join!(self.ask(endpoint, &self.options.judge, criterion, first), second);
        let (judgement, is_known) = first?;
        Ok(Judged { criterion, judgement, is_known, second })
    }

    /// A judge's judgement, and whether it was known.
    pub(super) async fn ask(
        &self,
        endpoint: &JudgeEndpoint,
        judge: &str,
        criterion: &Criterion,
        request: Value,
    ) -> Result<(Judgement, bool), String> {
        let digest = digest(&request);
        if let Some(judgement) = self.known.get(&digest) {
            return Ok((judgement, true));
        }
        let failed = |why: String| format!("judge {judge:?} on {:?}: {why}", criterion.name);
        let (bytes, prices) = (request.to_string().len(), self.options.prices_of(judge));
        let allowed = self.spending.allow(bytes, self.options.max_tokens, prices).map_err(failed)?;
        let reply = self.call(endpoint, &request, allowed).await.map_err(failed)?;
        let judgement = judgement(&reply).map_err(failed)?;
        self.known.keep(digest, &judgement);
        Ok((judgement, false))
    }

    /// The reply to a call; the error says why there is none.
    async fn call(&self, endpoint: &JudgeEndpoint, request: &Value, allowed: Allowed) -> Result<Value, String> {
        let call = self.client.post(endpoint.url.clone()).header(TRAINABLE, "false").json(request);
        let call = endpoint.key.iter().fold(call, |call, key| call.bearer_auth(key));
        let reply = call.send().await.map_err(|error| format!("the server cannot be reached: {error}"))?;
        let status = reply.status();
        let text = reply.text().await.map_err(|error| format!("its answer broke off: {error}"))?;
        if !status.is_success() {
            self.spending.refund(allowed);
            return Err(format!("{status}: {}", text.chars().take(300).collect::<String>()));
        }
        let reply: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        self.spending.settle(allowed, &reply["usage"]);
        Ok(reply)
    }
}

/// Whether a question is among the share that is chosen, by its digest, so that it always is or never.
fn is_within(digest: &str, share: f64) -> bool {
    let place = digest.get(..8).and_then(|start| u32::from_str_radix(start, 16).ok()).unwrap_or(u32::MAX);
    f64::from(place) < share * (f64::from(u32::MAX) + 1.0)
}

/// The share of criteria that are met, by their weights, with each of them beside it.
fn reward(judged: &[Judged<'_>]) -> Result<Reward, GradeFault> {
    let all: f64 = judged.iter().map(|one| one.criterion.weight).sum();
    let met: f64 = judged.iter().filter(|one| one.judgement.met).map(|one| one.criterion.weight).sum();
    let share = Number::from_f64(met / all).ok_or_else(|| GradeFault::Failed("the weights have no sum".to_owned()))?;
    let mut components: Map<String, Value> =
        judged.iter().map(|one| (one.criterion.name.clone(), json!(u8::from(one.judgement.met)))).collect();
    if let Some(share) = agreement(judged).share() {
        components.insert(JUDGES_AGREE.to_owned(), json!(share));
    }
    Ok(Reward::new(share, components))
}

/// How far the judges agree on an attempt.
fn agreement(judged: &[Judged<'_>]) -> Agreement {
    let mut all = Agreement::default();
    for one in judged {
        if let Some(Ok(second)) = &one.second {
            all += Agreement::of(one.judgement.met, second.met);
        }
    }
    all
}

/// What the judges said, for people.
fn judgements_json(judged: &[Judged<'_>]) -> Value {
    let one = |one: &Judged<'_>| {
        let Judgement { reason, met } = &one.judgement;
        let mut judgements_json =
            json!({ "criterion": one.criterion.name, "met": met, "reason": reason, "known_before": one.is_known });
        match &one.second {
            None => {}
            Some(Ok(second)) => judgements_json["second"] = json!({ "met": second.met, "reason": second.reason }),
            Some(Err(why)) => judgements_json["second"] = json!({ "failed": why }),
        }
        judgements_json
    };
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
                second: (criterion.name != "c").then(|| {
                    let met = criterion.name == "a";
                    Ok(Judgement { reason: "s".to_owned(), met })
                }),
            })
            .collect();
        let reward = json!(reward(&judged).unwrap());
        assert_eq!(
            (&reward["value"], &reward["components"]),
            (&json!(0.75), &json!({ "a": 1, "b": 1, "c": 0, "judges_agree": 0.5 }))
        );
        assert_eq!(judgements_json(&judged)[1]["second"], json!({ "met": false, "reason": "s" }));
        assert_eq!(
            judgements_json(&judged)[2],
            json!({ "criterion": "c", "met": false, "reason": "r", "known_before": false })
        );
    }

    #[test]
    fn a_share_of_questions_is_asked_twice_and_the_same_ones_always() {
        let digests: Vec<String> = (0..1000).map(|n| digest(&json!(n))).collect();
        let chosen = |share: f64| digests.iter().filter(|digest| is_within(digest, share)).count();
        assert_eq!(chosen(1.0), 1000);
        assert!((200..300).contains(&chosen(0.25)), "{}", chosen(0.25));
    }

    /// Answers one request as a model that says everything is met, and gives the request's head.
    fn one_answer(listener: std::net::TcpListener) -> String {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        while !String::from_utf8_lossy(&request).contains("\"messages\"") {
            let mut part = [0; 4096];
            let read = stream.read(&mut part).unwrap();
            request.extend_from_slice(&part[..read]);
        }
        let content = json!({ "reason": "r", "met": true }).to_string();
        let reply = json!({ "choices": [{ "message": { "content": content }, "finish_reason": "stop" }] }).to_string();
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{reply}", reply.len())
            .unwrap();
        let request = String::from_utf8_lossy(&request).into_owned();
        request.split("\r\n\r\n").next().unwrap_or_default().to_ascii_lowercase()
    }

    #[tokio::test]
    async fn a_judges_answer_is_not_trained_whoevers_key_it_is_asked_with() {
        let options = json!({ "judge": "j", "criteria": [{ "name": "c", "text": "t" }] });
        let options: RubricOptions = serde_json::from_value(options).unwrap();
        let rubric = Rubric::new(&options, None).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/chat/completions", listener.local_addr().unwrap());
        let answered = std::thread::spawn(move || one_answer(listener));
        let endpoint = JudgeEndpoint { url: url.parse().unwrap(), key: None };
        let question = json!({ "model": "j", "messages": [] });
        let (judgement, _) = rubric.ask(&endpoint, "j", &options.criteria[0], question).await.unwrap();
        assert!(judgement.met);
        let head = answered.join().unwrap();
        assert!(head.contains("x-fulgurite-trainable: false"), "{head}");
    }
}
