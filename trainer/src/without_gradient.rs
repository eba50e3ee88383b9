//! Updates one after another that had nothing to learn from: said while there is time to stop.

use std::collections::BTreeMap;
use std::sync::Arc;

use fulgurite_types::{GenerationUse, Step, TokenUse};
use serde_json::Value;

use crate::TrainEvent;
use crate::collection::{Collected, Member};

/// How tokens are read.
pub type Decode = Arc<dyn Fn(&[u32]) -> String + Send + Sync>;

/// So many updates in a row without a gradient are told of, and each further such number.
const TOLD_AFTER: usize = 3;
/// Answers that are shown.
const ANSWERS: usize = 3;
/// Characters of a task or an answer that are shown.
const SHOWN: usize = 200;

/// An answer of the policy, and what it earned.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleAnswer {
    /// The beginning of the task.
    pub task: String,
    /// The beginning of what was sampled last.
    pub answer: String,
    /// What the rollout earned.
    pub reward: f64,
}

/// The warning that is due after a step whose batch was empty, if one is. `steps` are all that are recorded.
pub(crate) fn warning(
    steps: &[Step],
    collected: &Collected,
    uses: &[GenerationUse],
    decode: &Decode,
) -> Option<TrainEvent> {
    let is_empty = |step: &&Step| step.metrics["optim/datums"] == 0;
    let updates = steps.iter().rev().take_while(is_empty).count();
    if updates == 0 || !updates.is_multiple_of(TOLD_AFTER) {
        return None;
    }
    let mut untrained = BTreeMap::new();
    for usage in uses.iter().filter(|usage| usage.cause != TokenUse::Trained) {
        *untrained.entry(usage.cause.to_string()).or_insert(0) += usage.tokens;
    }
    let firsts = collected.groups.iter().filter_map(|members| members.iter().find(|member| member.succeeded()));
    let answers = firsts.filter_map(|member| answer(member, decode)).take(ANSWERS).collect();
    Some(TrainEvent::WithoutGradient { step: steps.last()?.weights_version, updates, untrained, answers })
}

fn answer(member: &Member, decode: &Decode) -> Option<SampleAnswer> {
    let call = member.generations.iter().rev().find(|call| member.is_latest(&call.attempt_id))?;
    let task = match &member.rollout.input {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Some(SampleAnswer {
        task: beginning(&task),
        answer: beginning(&decode(&call.sampled_tokens)),
        reward: member.total_reward,
    })
}

/// The beginning of a text on one line.
fn beginning(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push_str("...");
    }
    shown
}
