//! From rewards to advantages.

use crate::options::{AdvantageOptions, Baseline, STANDARD_DEVIATION_FLOOR, Spread};

/// The advantage of each rollout of a batch of groups, in 32 bits: `A = r - mean(r)` of its group, unless `options` say
/// otherwise. Against the mean of its group, one that is alone gets 0.
pub fn batch_advantages(groups: &[Vec<f64>], options: AdvantageOptions) -> Vec<Vec<f32>> {
    let over_batch = options.standard_deviation_of == Spread::Batch;
    let of_group = AdvantageOptions {
        normalize_by_standard_deviation: options.normalize_by_standard_deviation && !over_batch,
        ..options
    };
    let all = || groups.iter().flatten();
    let subtracted = match options.baseline {
        Baseline::BatchMean => all().sum::<f64>() / all().count().max(1) as f64,
        Baseline::GroupMean | Baseline::LeaveOneOut | Baseline::None => 0.0,
    };
    let less = |reward: &f64| (reward - subtracted) as f32;
    let mut advantages: Vec<Vec<f32>> = match options.baseline.is_of_group() {
        true => groups.iter().map(|rewards| group_advantages(rewards, of_group)).collect(),
        false => groups.iter().map(|rewards| rewards.iter().map(less).collect()).collect(),
    };
    if options.normalize_by_standard_deviation && over_batch {
        let divisor = standard_deviation(&advantages.concat()) + STANDARD_DEVIATION_FLOOR;
        advantages.iter_mut().flatten().for_each(|advantage| *advantage /= divisor);
    }
    advantages
}

/// The sample standard deviation; 0 of less than two.
fn standard_deviation(numbers: &[f32]) -> f32 {
    if numbers.len() < 2 {
        return 0.0;
    }
    let mean = numbers.iter().sum::<f32>() / numbers.len() as f32;
    let squares = numbers.iter().map(|number| (number - mean) * (number - mean)).sum::<f32>();
    (squares / (numbers.len() as f32 - 1.0)).sqrt()
}

/// The advantage of each rollout of one group, against the mean of all or of the others. A group of one gets 0.
fn group_advantages(total_rewards: &[f64], options: AdvantageOptions) -> Vec<f32> {
    let rewards: Vec<f32> = total_rewards.iter().map(|reward| *reward as f32).collect();
    let count = rewards.len() as f32;
    let mean = rewards.iter().sum::<f32>() / count;
    let mut advantages: Vec<f32> = rewards.iter().map(|reward| reward - mean).collect();
    if rewards.len() < 2 {
        return advantages;
    }
    let variance = advantages.iter().map(|centred| centred * centred).sum::<f32>() / (count - 1.0);
    let scale = match options.baseline {
        Baseline::GroupMean | Baseline::BatchMean | Baseline::None => 1.0,
        Baseline::LeaveOneOut => count / (count - 1.0),
    };
    let divisor =
        if options.normalize_by_standard_deviation { variance.sqrt() + STANDARD_DEVIATION_FLOOR } else { 1.0 };
    advantages.iter_mut().for_each(|advantage| *advantage = *advantage * scale / divisor);
    advantages
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::objectives::policy::vectors::{doubles, doubles_of, floats, vectors};
    use crate::rollouts::is_constant;

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

    fn of_batch(groups: &[&[f64]], options: Value) -> Vec<Vec<f32>> {
        let groups: Vec<Vec<f64>> = groups.iter().map(|rewards| rewards.to_vec()).collect();
        batch_advantages(&groups, serde_json::from_value(options).unwrap())
    }

    #[test]
    fn a_batchs_mean_lets_constant_groups_teach() {
        let groups: [&[f64]; 3] = [&[1.0, 1.0], &[0.0, 0.0], &[3.0]];
        let expected = [vec![0.0, 0.0], vec![-1.0, -1.0], vec![2.0]];
        assert_eq!(of_batch(&groups, json!({ "baseline": "batch_mean" })), expected);
        assert_eq!(of_batch(&groups, json!({ "baseline": "none" })), [vec![1.0, 1.0], vec![0.0, 0.0], vec![3.0]]);
        assert_eq!(of_batch(&groups, json!({})), [vec![0.0, 0.0], vec![0.0, 0.0], vec![0.0]]);
        assert_eq!(of_batch(&[], json!({ "baseline": "batch_mean" })), [[0.0; 0]; 0]);
    }

    #[test]
    fn reinforce_plus_plus_divides_by_the_deviation_of_the_batch() {
        let over_batch = |baseline: &str| json!({ "baseline": baseline, "normalize_by_standard_deviation": true, "standard_deviation_of": "batch" });
        let groups: [&[f64]; 2] = [&[2.0, 0.0], &[7.0, 3.0]];
        // Against the groups' means: 1, -1, 2, -2, whose sample variance is 10 / 3.
        let divisor = (10.0f32 / 3.0).sqrt() + STANDARD_DEVIATION_FLOOR;
        let expected = [vec![1.0 / divisor, -1.0 / divisor], vec![2.0 / divisor, -2.0 / divisor]];
        assert_eq!(of_batch(&groups, over_batch("group_mean")), expected);
        // Against the batch's mean: -1, -3, 4, 0, whose sample variance is 26 / 3.
        let divisor = (26.0f32 / 3.0).sqrt() + STANDARD_DEVIATION_FLOOR;
        let expected = [vec![-1.0 / divisor, -3.0 / divisor], vec![4.0 / divisor, 0.0]];
        assert_eq!(of_batch(&groups, over_batch("batch_mean")), expected);
        assert_eq!(of_batch(&[&[5.0, 5.0]], over_batch("batch_mean")), [[0.0, 0.0]], "nothing is divided by nothing");
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
