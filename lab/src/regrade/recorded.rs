//! The rollouts that can be graded again.

use std::collections::BTreeMap;

use anyhow::Result;
use fulgurite_store::Store;
use fulgurite_types::{AttemptStatus, Reward, Rollout, RolloutExpression, RolloutRecord};

use crate::records::matching_rollouts::each_record;

/// A rollout whose agent's output is recorded.
pub struct Recorded {
    /// The rollout.
    pub rollout: Rollout,
    /// Its last attempt.
    pub attempt_id: String,
    /// What that attempt's agent printed.
    pub output: String,
    /// Its last reward as a whole.
    pub reward: Option<Reward>,
}

/// Why a rollout is not graded again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// It failed, or has not ended.
    NotSucceeded,
    /// Its runner kept nothing, or not all, of what the agent printed.
    NoOutput,
    /// The grader failed.
    Grader,
}

impl LeftOut {
    /// In words, behind a number of rollouts.
    pub fn words(self) -> &'static str {
        match self {
            Self::NotSucceeded => "did not end well",
            Self::NoOutput => "have no whole output recorded",
            Self::Grader => "could not be graded",
        }
    }

    /// In JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::NotSucceeded => "not_succeeded",
            Self::NoOutput => "no_output",
            Self::Grader => "grader_failed",
        }
    }
}

/// Rollouts of a store, or of one run in it, that the expression means, in the order in which they were made; and how many of
/// them cannot be graded again.
pub async fn recorded(
    store: &Store,
    run_id: Option<&str>,
    expression: Option<&RolloutExpression>,
) -> Result<(Vec<Recorded>, BTreeMap<LeftOut, usize>)> {
    let (mut found, mut left_out) = (Vec::new(), BTreeMap::new());
    each_record(store, run_id, expression, |record| match regradable(record) {
        Ok(recorded) => found.push(recorded),
        Err(cause) => *left_out.entry(cause).or_default() += 1,
    })
    .await?;
    Ok((found, left_out))
}

fn regradable(record: RolloutRecord) -> Result<Recorded, LeftOut> {
    let RolloutRecord { rollout, mut attempts, rewards, .. } = record;
    let attempt = attempts.pop().filter(|attempt| attempt.status == AttemptStatus::Succeeded);
    let attempt = attempt.ok_or(LeftOut::NotSucceeded)?;
    let output = attempt.whole_output().ok_or(LeftOut::NoOutput)?.to_owned();
    let reward = rewards.into_iter().rfind(|reward| reward.generation_id.is_none()).map(|reward| reward.reward);
    Ok(Recorded { rollout, attempt_id: attempt.attempt_id, output, reward })
}
