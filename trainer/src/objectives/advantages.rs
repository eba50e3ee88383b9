//! From rewards to advantages.

use serde::{Deserialize, Serialize};

/// What a rollout's reward is measured against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Baseline {
    /// The mean of its group, itself included.
    #[default]
    GroupMean,
    /// The mean of the others of its group (RLOO: Ahmadian et al. 2024): `n / (n - 1)` times the centred reward.
    LeaveOneOut,
}

/// How advantages are computed; the default is tinker-cookbook's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdvantageOptions {
    /// What is taken off the reward.
    pub baseline: Baseline,
    /// Whether to divide by the group's sample standard deviation plus [`STANDARD_DEVIATION_FLOOR`]
    /// (GRPO: Shao et al. 2024).
    pub normalize_by_standard_deviation: bool,
}

/// Added to the standard deviation, so that rewards that hardly differ do not explode.
pub const STANDARD_DEVIATION_FLOOR: f32 = 1e-6;

/// The advantage of each rollout of one group: `A = r - mean(r)` in 32 bits, unless `options` say otherwise.
/// A group of one gets 0.
pub fn group_advantages(total_rewards: &[f64], options: AdvantageOptions) -> Vec<f32> {
    let rewards: Vec<f32> = total_rewards.iter().map(|reward| *reward as f32).collect();
    let count = rewards.len() as f32;
    let mean = rewards.iter().sum::<f32>() / count;
    let mut advantages: Vec<f32> = rewards.iter().map(|reward| reward - mean).collect();
    if rewards.len() < 2 {
        return advantages;
    }
    let variance = advantages.iter().map(|centred| centred * centred).sum::<f32>() / (count - 1.0);
    let scale = match options.baseline {
        Baseline::GroupMean => 1.0,
        Baseline::LeaveOneOut => count / (count - 1.0),
    };
    let divisor =
        if options.normalize_by_standard_deviation { variance.sqrt() + STANDARD_DEVIATION_FLOOR } else { 1.0 };
    advantages.iter_mut().for_each(|advantage| *advantage = *advantage * scale / divisor);
    advantages
}

/// Whether every rollout earned exactly the same (compared in 64 bits), so that the group teaches nothing.
pub fn is_constant(total_rewards: &[f64]) -> bool {
    total_rewards.windows(2).all(|pair| pair[0] == pair[1])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::objectives::vectors::{doubles, doubles_of, floats, vectors};

    fn advantages(total_rewards: &[f64]) -> Vec<f32> {
        group_advantages(total_rewards, AdvantageOptions::default())
    }

    #[test]
    fn the_cookbooks_advantages() {
        let file = vectors("rl_advantages.json");
        let cases = file["compute_advantages"].as_array().unwrap();
        assert_eq!(cases.len(), 8);
        for case in cases {
            assert_eq!(advantages(&doubles(&case["rewards"])), floats(&case["advantages_float32"]), "{case}");
        }
    }

    #[test]
    fn the_cookbooks_batch() {
        let file = vectors("rl_batch_2x3.json");
        for (rewards, expected) in doubles_of(&file["total_rewards"]).iter().zip(file["advantages"].as_array().unwrap())
        {
            assert_eq!(advantages(rewards), floats(expected));
        }
    }

    #[test]
    fn the_cookbooks_constant_groups() {
        let file = vectors("rl_advantages.json");
        let cases = file["remove_constant_reward_groups"].as_array().unwrap();
        assert_eq!(cases.len(), 4);
        for case in cases {
            let groups = doubles_of(&case["rewards"]);
            let kept: Vec<usize> = (0..groups.len()).filter(|group| !is_constant(&groups[*group])).collect();
            let of_kept: Vec<Vec<f32>> = kept.iter().map(|group| advantages(&groups[*group])).collect();
            let all_constant = !groups.is_empty() && kept.is_empty();
            if all_constant {
                // They keep the first group, whose advantages are 0, and step the optimizer on it; we keep none, so
                // that the step is skipped.
                assert_eq!(doubles(&case["kept_indices"]), [0.0]);
                assert!(advantages(&groups[0]).iter().all(|advantage| *advantage == 0.0));
                continue;
            }
            assert_eq!(kept.iter().map(|group| *group as f64).collect::<Vec<_>>(), doubles(&case["kept_indices"]));
            let expected: Vec<Vec<f32>> = case["advantages_of_kept"].as_array().unwrap().iter().map(floats).collect();
            assert_eq!(of_kept, expected, "{case}");
        }
    }

    #[test]
    fn leave_one_out_measures_against_the_others() {
        let options = AdvantageOptions { baseline: Baseline::LeaveOneOut, ..AdvantageOptions::default() };
        assert_eq!(group_advantages(&[3.0, 0.0, 0.0], options), [3.0, -1.5, -1.5]);
        assert_eq!(group_advantages(&[3.0], options), [0.0]);
    }

    #[test]
    fn normalizing_divides_by_the_sample_standard_deviation() {
        let options = AdvantageOptions { normalize_by_standard_deviation: true, ..AdvantageOptions::default() };
        // Deviations 4, -4, 4, -4: the sample variance is 64 / 3.
        let expected = 4.0 / ((64.0f32 / 3.0).sqrt() + 1e-6);
        assert_eq!(group_advantages(&[8.0, 0.0, 8.0, 0.0], options), [expected, -expected, expected, -expected]);
        assert_eq!(group_advantages(&[1.0, 1.0], options), [0.0, 0.0]);
        assert_eq!(group_advantages(&[5.0], options), [0.0]);
        assert_eq!(group_advantages(&[], options), [0.0; 0]);
    }

    proptest! {
        #[test]
        fn advantages_sum_to_nothing_and_keep_the_order(rewards in proptest::collection::vec(-1e3..1e3f64, 1..20)) {
            let advantages = advantages(&rewards);
            prop_assert!(advantages.iter().sum::<f32>().abs() < 0.1);
            for (a, advantage_a) in rewards.iter().zip(&advantages) {
                for (b, advantage_b) in rewards.iter().zip(&advantages) {
                    prop_assert!(a < b || advantage_a >= advantage_b);
                }
            }
        }

    }
}
