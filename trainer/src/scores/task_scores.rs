//! What the samples of each task earned.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::options::RewardRules;
use crate::rollouts::{Member, Phase, Policy, member_of};
use crate::weights::VersionDistances;
use crate::{Record, RecordError, TrainError};

/// What was earned at one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskScore {
    /// The task.
    pub task: Value,
    /// What it is tagged with: its `tag`, a text, and its `tags`, a list of texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Rollouts that succeeded.
    pub samples: Vec<SampleScore>,
    /// Rollouts that failed, by their cause, and so count in no mean.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<String, usize>,
    /// The whole reason of one rollout of each cause, where it says more than the cause.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failure_examples: BTreeMap<String, String>,
}

/// What one rollout earned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampleScore {
    /// The rollout.
    pub rollout_id: String,
    /// What it earned in all.
    pub reward: f64,
    /// The named numbers beside it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub components: BTreeMap<String, f64>,
}

impl TaskScore {
    /// The mean reward of the samples; `None` without one.
    pub fn reward(&self) -> Option<f64> {
        mean(self.samples.iter().map(|sample| sample.reward))
    }

    /// The samples that earned `least`.
    pub fn passed(&self, least: f64) -> usize {
        self.samples.iter().filter(|sample| sample.reward >= least).count()
    }

    pub(crate) fn of(members: &[Member]) -> Option<Self> {
        let task = members.first()?.rollout.input.clone();
        let mut score = Self {
            tags: tags(&task),
            task,
            samples: Vec::new(),
            failed: BTreeMap::new(),
            failure_examples: BTreeMap::new(),
        };
        for member in members {
            if member.succeeded() {
                score.samples.push(SampleScore {
                    rollout_id: member.rollout.rollout_id.clone(),
                    reward: member.total_reward,
                    components: member.reward().iter().flat_map(|reward| reward.components.iter().cloned()).collect(),
                });
            } else {
                let (cause, reason) = (member.failure_cause(), member.failure_reason());
                if cause != reason {
                    score.failure_examples.entry(cause.clone()).or_insert(reason);
                }
                *score.failed.entry(cause).or_default() += 1;
            }
        }
        Some(score)
    }
}

/// The tags that a task itself has.
pub(crate) fn tags(task: &Value) -> Vec<String> {
    let one = task.get("tag").and_then(Value::as_str);
    let several = task.get("tags").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let mut tags: Vec<String> = one.into_iter().chain(several).map(str::to_owned).collect();
    tags.sort_unstable();
    tags.dedup();
    tags
}

/// The mean; `None` of nothing.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0usize), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}

/// What rollouts that were recorded as groups of held-out or final tasks earned, group by group. `rules` are those
/// of whoever recorded them, and `model` what they called.
pub async fn recorded_scores(
    record: &dyn Record,
    rollout_ids: &[String],
    model: &str,
    rules: RewardRules,
) -> Result<Vec<TaskScore>, TrainError> {
    let distances = VersionDistances::default();
    let (tokenizer, model) = (String::new(), model.to_owned());
    let mut policy = Policy { tokenizer, model, temperature: 1.0, distances, max_staleness: 0 };
    let mut groups: BTreeMap<u64, Vec<Member>> = BTreeMap::new();
    for (recorded, rollout_id) in record.rollout_records(rollout_ids).await?.into_iter().zip(rollout_ids) {
        let recorded = recorded.ok_or_else(|| RecordError::Deleted { rollout_id: rollout_id.clone() })?;
        policy.temperature = recorded.rollout.sampling().map_or(1.0, |sampling| sampling.temperature);
        let member = member_of(recorded, rules, Phase::HeldOut, &policy)?;
        let group = member.rollout.noted("group").and_then(Value::as_u64).unwrap_or_default();
        groups.entry(group).or_default().push(member);
    }
    Ok(groups.values().filter_map(|members| TaskScore::of(members)).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_task_names_its_tags() {
        assert_eq!(tags(&json!({ "n": 1, "tag": "hard", "tags": ["even", "hard", 3] })), ["even", "hard"]);
        for plain in [json!(17), json!("tag"), json!({ "tags": "even" }), json!(null)] {
            assert!(tags(&plain).is_empty(), "{plain}");
        }
    }

    #[test]
    fn nothing_has_no_mean() {
        assert_eq!(mean([].into_iter()), None);
        assert_eq!(mean([1.0, 2.0].into_iter()), Some(1.5));
    }
}
