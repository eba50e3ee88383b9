//! Rewards that cannot be learnt from, and those that a person should look at.

use std::fmt;

use fulgurite_types::{RecordedReward, UntrainedCause};

use super::collected::Collected;
use super::member::Member;
use crate::options::RewardBounds;

/// The greatest magnitude that is learnt from: advantages are 32-bit numbers, whose squares and sums have to be finite.
const GREATEST_MAGNITUDE: f64 = 1e15;
/// A magnitude that no reward is expected to have.
const NOTEWORTHY_MAGNITUDE: f64 = 1e6;
/// How many times the median distance from the median, or 1 if that is less, a reward may be from the median.
const NOTEWORTHY_DISTANCE: f64 = 100.0;
/// Fewer rewards than these have no median worth the name.
const FEWEST_TO_COMPARE: usize = 3;

/// What is odd about the rewards of a rollout.
#[derive(Clone, Debug, PartialEq)]
pub struct RewardFinding {
    /// The rollout.
    pub rollout_id: String,
    /// What it earned in all.
    pub reward: f64,
    /// What is odd.
    pub oddity: RewardOddity,
}

/// What may be odd about rewards.
#[derive(Clone, Debug, PartialEq)]
pub enum RewardOddity {
    /// The attempt as a whole was given rewards of different values, of which the last counts.
    SeveralDiffer {
        /// The values, in the order in which they were given.
        values: Vec<f64>,
    },
    /// Nothing is learnt from it.
    Refused {
        /// The cause in the account of tokens.
        cause: UntrainedCause,
    },
    /// It is very large, or far from the others.
    Outlier {
        /// The median of the rewards beside it.
        median: f64,
    },
}

impl RewardOddity {
    /// The name in metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::SeveralDiffer { .. } => "several_differ",
            Self::Refused { .. } => "refused",
            Self::Outlier { .. } => "outliers",
        }
    }
}

impl fmt::Display for RewardFinding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rollout_id, reward, oddity } = self;
        match oddity {
            RewardOddity::SeveralDiffer { values } => {
                write!(formatter, "rollout {rollout_id} has several final rewards, {values:?}: the last counts")
            }
            RewardOddity::Refused { cause: UntrainedCause::RewardOutOfBounds } => {
                let bounds = "[trainer] reward_bounds";
                write!(formatter, "rollout {rollout_id} earned {reward:e}, outside {bounds}: it counts as failed")
            }
            RewardOddity::Refused { cause } => {
                let cause = cause.as_str();
                write!(formatter, "rollout {rollout_id} earned {reward:e} ({cause}): it counts as failed")
            }
            RewardOddity::Outlier { median } => {
                write!(formatter, "rollout {rollout_id} earned {reward:e}, far from the median {median}: is it meant?")
            }
        }
    }
}

/// Why nothing may be learnt from a rollout that was rewarded like this and earned `total`; `None` if it may.
pub(crate) fn refusal(rewards: &[RecordedReward], total: f64, bounds: RewardBounds) -> Option<UntrainedCause> {
    let components = rewards.iter().flat_map(|recorded| &recorded.reward.components).map(|(_, value)| *value);
    let mut values = rewards.iter().map(|recorded| recorded.reward.value).chain(components).chain([total]);
    // A number that is none is not within either.
    if !values.all(|value| value.abs() <= GREATEST_MAGNITUDE) {
        return Some(UntrainedCause::RewardTooLarge);
    }
    let is_within = rewards.is_empty() || bounds.is_none_or(|[least, greatest]| (least..=greatest).contains(&total));
    (!is_within).then_some(UntrainedCause::RewardOutOfBounds)
}

/// What is odd about the rewards of a set of rollouts.
pub(crate) fn findings(collected: &Collected) -> Vec<RewardFinding> {
    let members = || collected.groups.iter().flatten();
    let counted: Vec<f64> = members().filter(|member| member.succeeded()).map(|member| member.total_reward).collect();
    let typical = Typical::of(&counted);
    members().flat_map(|member| of_member(member, &typical)).collect()
}

fn of_member(member: &Member, typical: &Typical) -> Vec<RewardFinding> {
    let whole = member.rewards.iter().filter(|recorded| recorded.generation_id.is_none());
    let values: Vec<f64> = whole.map(|recorded| recorded.reward.value).collect();
    let several = values.windows(2).any(|pair| pair[0] != pair[1]).then_some(RewardOddity::SeveralDiffer { values });
    let refused = member.refused.map(|cause| RewardOddity::Refused { cause });
    let is_outlier = member.succeeded() && typical.is_far(member.total_reward);
    let outlier = is_outlier.then_some(RewardOddity::Outlier { median: typical.median });
    let finding =
        |oddity| RewardFinding { rollout_id: member.rollout.rollout_id.clone(), reward: member.total_reward, oddity };
    [several, refused, outlier].into_iter().flatten().map(finding).collect()
}

/// How many findings of each kind there are, by the names of their metrics.
pub(crate) fn metrics(collected: &Collected, findings: &[RewardFinding]) -> Vec<(String, usize)> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for finding in findings {
        let name = format!("rewards/{}/{}", collected.phase.as_str(), finding.oddity.as_str());
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    counts
}

/// Where rewards usually are.
struct Typical {
    median: f64,
    /// How far from it one may be.
    reach: f64,
}

impl Typical {
    fn of(rewards: &[f64]) -> Self {
        let middle = median(rewards.to_vec());
        let distance = median(rewards.iter().map(|reward| (reward - middle).abs()).collect());
        let is_known = rewards.len() >= FEWEST_TO_COMPARE;
        Self { median: middle, reach: if is_known { NOTEWORTHY_DISTANCE * distance.max(1.0) } else { f64::INFINITY } }
    }

    fn is_far(&self, reward: f64) -> bool {
        reward.abs() > NOTEWORTHY_MAGNITUDE || (reward - self.median).abs() > self.reach
    }
}

/// 0 of nothing.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.get(middle) {
        None => 0.0,
        Some(upper) if values.len() % 2 == 1 => *upper,
        Some(upper) => (values[middle - 1] + upper) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::Reward;

    use super::*;

    fn recorded(value: f64) -> RecordedReward {
        RecordedReward {
            attempt_id: "a".into(),
            span_id: "s".into(),
            sequence_id: 1,
            time: None,
            generation_id: None,
            reward: Reward::new(value),
            giver: None,
        }
    }

    #[test]
    fn a_reward_whose_group_has_no_finite_mean_is_refused_by_name() {
        let of = |value: f64, bounds| refusal(&[recorded(value)], value, bounds);
        assert_eq!(of(1e308, None), Some(UntrainedCause::RewardTooLarge));
        assert_eq!(of(-1e308, Some([f64::MIN, 1.0])), Some(UntrainedCause::RewardTooLarge));
        assert_eq!(refusal(&[recorded(1.0)], f64::NAN, None), Some(UntrainedCause::RewardTooLarge));
        let mut with_component = recorded(1.0);
        with_component.reward.components = vec![("exact".into(), 1e308)];
        assert_eq!(refusal(&[with_component], 1.0, None), Some(UntrainedCause::RewardTooLarge));
        assert_eq!(of(1e6, None), None);
    }

    #[test]
    fn a_reward_outside_the_bounds_is_refused_and_their_ends_are_within() {
        let of = |value: f64| refusal(&[recorded(value)], value, Some([-1.0, 1.0]));
        assert_eq!([of(-1.0), of(0.0), of(1.0)], [None; 3]);
        assert_eq!([of(1.001), of(3000.0), of(-2.0)], [Some(UntrainedCause::RewardOutOfBounds); 3]);
        assert_eq!(refusal(&[], 0.0, Some([0.5, 1.0])), None, "a failure has no reward to refuse");
    }

    fn member(values: &[f64]) -> Member {
        let rollout = serde_json::json!({
            "rollout_id": "r", "input": 1, "start_time": 0.0, "end_time": 1.0, "mode": null, "resources_id": null,
            "status": "succeeded", "config": {}, "metadata": null,
        });
        let rewards: Vec<RecordedReward> = values.iter().map(|value| recorded(*value)).collect();
        let total_reward = values.last().copied().unwrap_or(0.0);
        Member {
            refused: refusal(&rewards, total_reward, Some([0.0, 1.0])),
            rewards,
            total_reward,
            ..Member::of_rollout(rollout)
        }
    }

    #[test]
    fn an_attempt_with_several_final_rewards_that_differ_is_named() {
        let warnings = |values: &[f64]| -> Vec<String> {
            of_member(&member(values), &Typical::of(&[])).iter().map(RewardFinding::to_string).collect()
        };
        assert_eq!(warnings(&[1.0, 1.0]), Vec::<String>::new());
        assert_eq!(warnings(&[0.5, 1.0]), ["rollout r has several final rewards, [0.5, 1.0]: the last counts"]);
        assert_eq!(
            warnings(&[1.0, 3000.0]),
            [
                "rollout r has several final rewards, [1.0, 3000.0]: the last counts",
                "rollout r earned 3e3, outside [trainer] reward_bounds: it counts as failed",
            ]
        );
    }

    #[test]
    fn a_reward_far_from_the_others_is_noticed_and_usual_ones_are_not() {
        let typical = Typical::of(&[0.0, 0.0, 1.0, 3000.0]);
        assert!(typical.is_far(3000.0) && !typical.is_far(0.0) && !typical.is_far(1.0));
        let wide = Typical::of(&[-5000.0, 100.0, 4000.0, 7000.0]);
        assert!(!wide.is_far(7000.0) && wide.is_far(2e6));
        assert!(!Typical::of(&[0.0, 3000.0]).is_far(3000.0), "two are no others to be far from");
    }
}
