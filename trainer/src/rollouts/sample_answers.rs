//! What the policy says, for people.

use std::sync::Arc;

use fulgurite_types::shortened_line;
use serde_json::Value;

use super::collected::Collected;
use super::member::Member;

/// How tokens are read.
pub type Decode = Arc<dyn Fn(&[u32]) -> String + Send + Sync>;

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

/// Answers of the first rollouts that succeeded, one a group.
pub(crate) fn sample_answers(collected: &Collected, decode: &Decode) -> Vec<SampleAnswer> {
    let firsts = collected.groups.iter().filter_map(|members| members.iter().find(|member| member.succeeded()));
    firsts.filter_map(|member| answer(member, decode)).take(ANSWERS).collect()
}

fn answer(member: &Member, decode: &Decode) -> Option<SampleAnswer> {
    let call = member.generations.iter().rev().find(|call| member.is_latest(&call.attempt_id))?;
    let task = match &member.rollout.input {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Some(SampleAnswer {
        task: shortened_line(&task, SHOWN, "..."),
        answer: shortened_line(&decode(&call.sampled_tokens), SHOWN, "..."),
        reward: member.total_reward,
    })
}
