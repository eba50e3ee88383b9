use std::collections::BTreeMap;

use serde::Serialize;

use crate::{BranchReason, Defect, StopReason};

/// How one call's prompt stands to the calls of its attempt before it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallDrift {
    /// The call's generation.
    pub generation_id: String,
    /// Whose call it was.
    pub rollout_id: String,
    /// During which attempt.
    pub attempt_id: String,
    /// The sequence id of its span.
    pub sequence_id: u64,
    /// The model's name, as the client knows it.
    pub model: String,
    /// When the call arrived.
    pub start_time: f64,
    /// Tokens of its prompt.
    pub prompt_tokens: u64,
    /// Tokens that were sampled after it.
    pub sampled_tokens: u64,
    /// The generation that its prompt continues token by token.
    pub continues: Option<String>,
    /// Tokens that it has from there: that generation's prompt and what was sampled after it.
    pub kept_tokens: u64,
    /// Why it does not continue the latest call, by name; `None` where it does.
    pub reason: Option<BranchReason>,
    /// The earlier generation that is closest to it, where it leaves what was recorded.
    pub nearest: Option<String>,
    /// The first message that is not as recorded there.
    pub message_index: Option<u64>,
    /// The first token that is not as recorded there.
    pub token_index: Option<u64>,
    /// What the renderer said, where it could not continue.
    pub detail: Option<String>,
    /// Why sampling ended.
    pub stop_reason: StopReason,
    /// Whether the client hung up before it had the whole answer.
    #[serde(rename = "client_gone")]
    pub client_disconnected: bool,
    /// Why it must not be trained, by name, if it must not.
    pub defect: Option<Defect>,
}

/// How the calls of a rollout stand to each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DriftReport {
    /// The rollout.
    pub rollout_id: String,
    /// How many of its calls continue another token by token.
    pub continued: u64,
    /// How many of its calls do not continue the latest, by reason.
    pub reasons: BTreeMap<String, u64>,
    /// Its calls, in the order in which they were recorded.
    pub calls: Vec<CallDrift>,
}

impl DriftReport {
    /// The report of a rollout's calls.
    pub fn of(rollout_id: &str, calls: Vec<CallDrift>) -> Self {
        let mut reasons = BTreeMap::new();
        for reason in calls.iter().filter_map(|call| call.reason.as_ref()) {
            *reasons.entry(reason.to_string()).or_default() += 1;
        }
        let continued = calls.iter().filter(|call| call.continues.is_some()).count() as u64;
        Self { rollout_id: rollout_id.to_owned(), continued, reasons, calls }
    }
}
