//! What the trials say of an agent.

use std::collections::{BTreeMap, BTreeSet};

use fulgurite_types::{Defect, DepartureReason, Generation};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::evidence::Evidence;
use super::http_log::Dialect;
use super::script::PRINTED;
use super::trial::Trial;

/// How well the agent does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As training needs it.
    Ok,
    /// It can be trained, at a cost.
    Warning,
    /// What is recorded of it is not what training needs, or its rollouts are lost.
    Fault,
}

impl Verdict {
    /// The word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Fault => "fault",
        }
    }
}

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// In which way it calls a model.
    Dialect,
    /// The variables that it reads.
    Variables,
    /// The tools that it offers.
    Tools,
    /// Whether calls that are made at once are all run.
    ParallelCalls,
    /// Whether its conversation goes on token by token.
    Continuation,
    /// What it does when an answer breaks off.
    BrokenAnswer,
    /// What it does when the model's host fails.
    ServerError,
    /// What it does at 429.
    RateLimit,
    /// What it asks beside its task.
    SideRequests,
    /// What it does when its budget is used up.
    Budget,
}

impl Check {
    /// For people and for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dialect => "dialect",
            Self::Variables => "variables",
            Self::Tools => "tools",
            Self::ParallelCalls => "parallel calls",
            Self::Continuation => "continuation",
            Self::BrokenAnswer => "broken answer",
            Self::ServerError => "server error",
            Self::RateLimit => "rate limit",
            Self::SideRequests => "side requests",
            Self::Budget => "budget",
        }
    }
}

impl Serialize for Check {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// What was found of one thing.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub check: Check,
    /// How well it is.
    pub verdict: Verdict,
    /// What was seen, for people.
    pub message: String,
    /// The same in numbers, for programs.
    pub facts: Value,
}

impl Finding {
    fn new(check: Check, verdict: Verdict, message: impl Into<String>, facts: Value) -> Self {
        Self { check, verdict, message: message.into(), facts }
    }
}

/// How often an agent may ask in vain until it is said to be obstinate.
const REFUSALS: usize = 8;

/// What the trials say, in the order of the checks.
pub(crate) fn findings_of(evidence: &[Evidence]) -> Vec<Finding> {
    let of_trial = |trial| evidence.iter().find(|evidence| evidence.trial == trial);
    let Some(plain) = of_trial(Trial::Plain) else { return Vec::new() };
    let mut findings = vec![dialect(plain)];
    if plain.seen.iter().all(|seen| seen.dialect.is_none()) {
        return findings;
    }
    findings.extend([variables(plain), tools(plain), parallel_calls(plain), continuation(plain)]);
    findings.extend(of_trial(Trial::BrokenAnswer).map(broken_answer));
    findings.extend(of_trial(Trial::ServerError).map(server_error));
    findings.extend(of_trial(Trial::RateLimit).map(rate_limit));
    findings.push(side_requests(plain));
    findings.extend(of_trial(Trial::Budget).map(budget));
    findings
}

fn dialect(plain: &Evidence) -> Finding {
    let calls = plain.seen.iter().filter_map(|seen| Some((seen.dialect?, seen.is_streamed)));
    let calls: BTreeSet<(Dialect, bool)> = calls.collect();
    if calls.is_empty() {
        let others: BTreeSet<&str> = plain.seen.iter().map(|seen| seen.request.as_str()).collect();
        let others = match others.is_empty() {
            true => String::new(),
            false => format!(", but {}", Vec::from_iter(others).join(", ")),
        };
        let message = format!("no call of a model came{others}: {}", plain.ending());
        return Finding::new(Check::Dialect, Verdict::Fault, message, json!([]));
    }
    let words = calls.iter().map(|(dialect, is_streamed)| {
        format!("{}, {}", dialect.name(), if *is_streamed { "streamed" } else { "whole" })
    });
    let facts = calls.iter().map(|(dialect, streamed)| json!({ "dialect": dialect, "streamed": streamed })).collect();
    Finding::new(Check::Dialect, Verdict::Ok, words.collect::<Vec<_>>().join("; "), facts)
}

fn variables(plain: &Evidence) -> Finding {
    let calls = || plain.seen.iter().filter(|seen| seen.dialect.is_some());
    let read: BTreeSet<&str> = calls().flat_map(|seen| [seen.base, seen.key]).flatten().collect();
    let read = Vec::from_iter(read);
    // Without a key an attempt's calls are known by their path alone, which a server with an admin key does not let in.
    let (verdict, note) = match calls().all(|seen| seen.key.is_some()) {
        true => (Verdict::Ok, ""),
        false => (Verdict::Warning, "; not every call brings the key, which a server with an admin key asks for"),
    };
    Finding::new(Check::Variables, verdict, format!("{}{note}", read.join(", ")), json!(read))
}

fn tools(plain: &Evidence) -> Finding {
    let offered = plain.seen.iter().map(|seen| seen.tools).max().unwrap_or_default();
    let facts = json!({ "offered": offered, "shell": plain.model.shell });
    let number = if offered == 1 { "1 tool".to_owned() } else { format!("{offered} tools") };
    match &plain.model.shell {
        Some(shell) => Finding::new(Check::Tools, Verdict::Ok, format!("{number}; {shell} runs commands"), facts),
        None => {
            let message = format!("{number}, none of which runs a command: what follows says little");
            Finding::new(Check::Tools, Verdict::Warning, message, facts)
        }
    }
}

fn parallel_calls(plain: &Evidence) -> Finding {
    let run = PRINTED.into_iter().filter(|printed| plain.last_prompt().contains(printed)).count();
    let (verdict, message) = match run {
        _ if plain.model.shell.is_none() => (Verdict::Warning, "nothing could be called".to_owned()),
        2 => (Verdict::Ok, "both of two calls were run".to_owned()),
        1 => (Verdict::Warning, "only one of two calls was run".to_owned()),
        _ => (Verdict::Warning, format!("neither of two calls was run: {}", plain.ending())),
    };
    Finding::new(Check::ParallelCalls, verdict, message, json!({ "made": PRINTED.len(), "run": run }))
}

fn continuation(plain: &Evidence) -> Finding {
    let (later, continued) = plain.continued();
    let reasons: BTreeSet<String> = plain
        .calls_of_task()
        .iter()
        .skip(1)
        .filter_map(|call| Some(call.branch_reason.as_ref()?.to_string()))
        .collect();
    let facts = json!({ "calls": later, "continued": continued, "reasons": reasons });
    let message = format!("{continued} of {later} later calls go on token by token");
    if !plain.has_succeeded() {
        return Finding::new(Check::Continuation, Verdict::Fault, format!("{message}; {}", plain.ending()), facts);
    }
    match later == continued {
        true => Finding::new(Check::Continuation, Verdict::Ok, message, facts),
        false => {
            let message = format!("{message}: {}", Vec::from_iter(reasons).join(", "));
            Finding::new(Check::Continuation, Verdict::Fault, message, facts)
        }
    }
}

fn broken_answer(evidence: &Evidence) -> Finding {
    let trajectories = evidence.trajectories();
    let facts = json!({ "went_on": evidence.has_succeeded(), "trajectories": trajectories });
    let (verdict, message) = match (evidence.has_succeeded(), trajectories) {
        (true, 1) => (Verdict::Ok, "it asks again, and goes on".to_owned()),
        // What it was told of the answer that broke off is in its history, say.
        (true, more) => {
            (Verdict::Warning, format!("it asks again, and goes on: its conversation is {more} trajectories"))
        }
        (false, _) => (Verdict::Fault, format!("the rollout is lost: {}", evidence.ending())),
    };
    Finding::new(Check::BrokenAnswer, verdict, message, facts)
}

fn server_error(evidence: &Evidence) -> Finding {
    let failed = evidence.answered(|status| status >= 500);
    let facts = json!({ "failed": failed, "went_on": evidence.has_succeeded() });
    let (verdict, message) = match evidence.has_succeeded() {
        true => (Verdict::Ok, "it asks again, and goes on".to_owned()),
        false => (Verdict::Fault, format!("the rollout is lost: {}", evidence.ending())),
    };
    Finding::new(Check::ServerError, verdict, message, facts)
}

fn rate_limit(evidence: &Evidence) -> Finding {
    let refused = evidence.answered(|status| status == 429);
    let facts = json!({ "refused": refused, "went_on": evidence.has_succeeded() });
    // A server answers so only where too many large requests of one attempt wait already.
    let (verdict, message) = match evidence.has_succeeded() {
        true => (Verdict::Ok, "it asks again".to_owned()),
        false => (Verdict::Warning, format!("it gives up at the first 429: {}", evidence.ending())),
    };
    Finding::new(Check::RateLimit, verdict, message, facts)
}

fn side_requests(plain: &Evidence) -> Finding {
    let mut marked: BTreeMap<String, usize> = BTreeMap::new();
    for call in &plain.calls {
        if let Some(defect @ Defect::Auxiliary(_)) = &call.generation.defect {
            *marked.entry(defect.to_string()).or_default() += 1;
        }
    }
    let without_mark: Vec<Generation> =
        plain.calls.iter().map(|call| call.generation.clone()).filter(|call| call.defect.is_none()).collect();
    let by_shape = fulgurite_adapters::side_requests(&without_mark).len();
    if by_shape > 0 {
        marked.insert(DepartureReason::NextToTools.to_string(), by_shape);
    }
    let mut others: BTreeMap<&str, usize> = BTreeMap::new();
    for seen in plain.seen.iter().filter(|seen| seen.dialect.is_none()) {
        *others.entry(&seen.request).or_default() += 1;
    }
    let answered = |seen: &&super::http_log::Seen| seen.dialect.is_some() && !seen.is_of_task() && seen.status == 200;
    let without_tools = plain.seen.iter().filter(answered).count();
    let unmarked = match plain.model.shell {
        Some(_) => without_tools.saturating_sub(marked.values().sum()),
        None => 0,
    };
    let facts = json!({ "marked": marked, "unmarked": unmarked, "others": others });
    let counted = |(what, times): (&str, usize)| match times {
        1 => what.to_owned(),
        times => format!("{what} ({times} times)"),
    };
    let marked_words = marked.iter().map(|(name, times)| counted((name, *times)));
    let mut words: Vec<String> = marked_words.chain(others.into_iter().map(counted)).collect();
    if unmarked > 0 {
        words.push(format!("{unmarked} without tools that no rule of [proxy] auxiliary_rules recognises"));
    }
    let (verdict, message) = match (unmarked, words.is_empty()) {
        (0, true) => (Verdict::Ok, "none".to_owned()),
        (0, false) => (Verdict::Ok, words.join(", ")),
        _ => (Verdict::Warning, words.join(", ")),
    };
    Finding::new(Check::SideRequests, verdict, message, facts)
}

fn budget(evidence: &Evidence) -> Finding {
    let refused = evidence.answered(|status| status == 400);
    let recorded = evidence.calls.len();
    let facts = json!({ "calls": recorded, "refused": refused, "ended": !evidence.ran_out_of_time() });
    let (verdict, message) = match refused {
        _ if evidence.ran_out_of_time() => {
            (Verdict::Fault, format!("it does not end: {refused} calls were refused until its time was over"))
        }
        0 => {
            (Verdict::Warning, format!("it ended after {recorded} calls, before its budget did: {}", evidence.ending()))
        }
        refused if recorded as u64 > Trial::CALLS => {
            (Verdict::Fault, format!("{recorded} calls were answered, {refused} refused"))
        }
        refused if refused <= REFUSALS => (Verdict::Ok, format!("it ends when {} refused", calls(refused))),
        refused => (Verdict::Warning, format!("it ends when {} refused", calls(refused))),
    };
    Finding::new(Check::Budget, verdict, message, facts)
}

fn calls(number: usize) -> String {
    match number {
        1 => "a call is".to_owned(),
        number => format!("{number} calls are"),
    }
}
