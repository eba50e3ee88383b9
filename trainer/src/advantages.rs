//! From rewards to the advantage of each sampled token.

use std::num::NonZeroUsize;

use fulgurite_backends::{Datum, LossInputs};
use serde::{Deserialize, Serialize};

use crate::policy_metrics::{PolicyDataError, TrainedTarget, trained_targets};

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

/// A penalty for leaving a reference policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KlPenalty {
    /// Scale of the penalty.
    pub coefficient: f32,
    /// If above 0, a token answers for what follows it in its datum too, each step further discounted by this.
    pub discount: f32,
}

/// Adds the penalty to the advantages of `data` and returns the mean of `d` (the metric `kl_policy_base`), or `None` if
/// no target is trained.
///
/// For each trained target `d = sampler logprob - reference logprob`, and its advantage grows by
/// `coefficient * (mean(d) - d)`, or by the discounted future sum of that along its datum. Targets whose mask is 0 have
/// advantage 0 afterwards. `reference_logprobs` has one list per datum, one entry per target. On error nothing changes.
pub fn penalize_kl(
    data: &mut [Datum],
    reference_logprobs: &[Vec<f32>],
    penalty: KlPenalty,
) -> Result<Option<f32>, PolicyDataError> {
    let targets = trained_targets(data, reference_logprobs)?;
    let count = targets.iter().map(Vec::len).sum::<usize>();
    if count == 0 {
        return Ok(None);
    }
    let difference = |target: &TrainedTarget| target.sampler_logprob - target.logprob;
    let sum: f32 = targets.iter().map(|of_datum| of_datum.iter().map(difference).sum::<f32>()).sum();
    let mean = sum / count as f32;
    for ((datum, targets), reference) in data.iter_mut().zip(targets).zip(reference_logprobs) {
        let mut addends = vec![0.0; reference.len()];
        for target in targets {
            addends[target.target] = penalty.coefficient * (mean - difference(&target));
        }
        if penalty.discount > 0.0 {
            addends = discounted_future_sum(&addends, penalty.discount);
        }
        add_where_trained(datum, &addends);
    }
    Ok(Some(mean))
}

/// Leaves advantage 0 wherever the mask is 0. A supervised datum has no advantages.
fn add_where_trained(datum: &mut Datum, addends: &[f32]) {
    if let LossInputs::Policy { advantages, mask, .. } = &mut datum.loss_inputs {
        for ((advantage, mask), addend) in advantages.iter_mut().zip(mask).zip(addends) {
            *advantage = if *mask > 0.0 { *advantage + addend } else { 0.0 };
        }
    }
}

/// `y[t] = x[t] + discount * y[t + 1]`, in 32 bits.
fn discounted_future_sum(values: &[f32], discount: f32) -> Vec<f32> {
    let mut future = 0.0;
    let mut sums: Vec<f32> = values
        .iter()
        .rev()
        .map(|value| {
            future = value + discount * future;
            future
        })
        .collect();
    sums.reverse();
    sums
}

/// Splits the groups of a batch, in order, into at most `substeps` optimizer steps of nearly equal numbers of groups:
/// step `i` of `k` begins at group `floor(i n / k)`. Never through a group, so that everything that shares a baseline
/// is trained under the same weights.
pub fn split_into_substeps<Group>(groups: Vec<Group>, substeps: NonZeroUsize) -> Vec<Vec<Group>> {
    let count = groups.len();
    let substeps = substeps.get().min(count);
    let mut groups = groups.into_iter();
    (0..substeps)
        .map(|step| {
            let size = (step + 1) * count / substeps - step * count / substeps;
            groups.by_ref().take(size).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use fulgurite_backends::Chunk;
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn vectors(name: &str) -> Value {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors").join(name);
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    fn doubles(value: &Value) -> Vec<f64> {
        value.as_array().unwrap().iter().map(|entry| entry.as_f64().unwrap()).collect()
    }

    fn floats(value: &Value) -> Vec<f32> {
        doubles(value).into_iter().map(|entry| entry as f32).collect()
    }

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

    fn doubles_of(value: &Value) -> Vec<Vec<f64>> {
        value.as_array().unwrap().iter().map(doubles).collect()
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

    fn datum(value: &Value) -> Datum {
        let data = |name: &str| floats(&value[name]["data"]);
        let targets: Vec<u32> = data("target_tokens").into_iter().map(|token| token as u32).collect();
        Datum {
            model_input: vec![Chunk::Tokens(targets.clone())],
            target_tokens: targets,
            loss_inputs: LossInputs::Policy {
                logprobs: data("logprobs"),
                advantages: data("advantages"),
                mask: data("mask"),
            },
        }
    }

    fn policy(datum: &Datum) -> (&[f32], &[f32]) {
        match &datum.loss_inputs {
            LossInputs::Policy { advantages, mask, .. } => (advantages, mask),
            LossInputs::Supervised { .. } => unreachable!(),
        }
    }

    /// The file's rule: position i of the whole sequence has logprob round(-0.3 - 0.01 i, 4).
    fn reference_logprobs(datum: &Datum) -> Vec<f32> {
        (1..=datum.positions()).map(|position| (-(3000.0 + 100.0 * position as f64) / 10000.0) as f32).collect()
    }

    #[test]
    fn the_cookbooks_kl_penalty() {
        let file = vectors("rl_batch_2x3.json");
        let batch: Vec<Datum> = file["datums"].as_array().unwrap().iter().map(datum).collect();
        let reference: Vec<Vec<f32>> = batch.iter().map(reference_logprobs).collect();
        let cases = file["kl_penalty"].as_array().unwrap();
        assert_eq!(cases.len(), 2);
        for case in cases {
            let mut data = batch.clone();
            let penalty = KlPenalty {
                coefficient: case["coef"].as_f64().unwrap() as f32,
                discount: case["discount"].as_f64().unwrap() as f32,
            };
            let mean = penalize_kl(&mut data, &reference, penalty).unwrap();
            assert_eq!(mean, Some(case["metrics"]["kl_policy_base"].as_f64().unwrap() as f32));
            for (datum, theirs) in data.iter().zip(case["advantages"].as_array().unwrap()) {
                let (advantages, mask) = policy(datum);
                // Where the mask is 0 their discounted sum leaves advantages; we mask again. Without a discount there
                // is nothing to mask.
                let expected: Vec<f32> = floats(theirs)
                    .into_iter()
                    .zip(mask)
                    .map(|(advantage, mask)| if *mask > 0.0 || penalty.discount == 0.0 { advantage } else { 0.0 })
                    .collect();
                assert_eq!(advantages, expected, "discount {}", penalty.discount);
            }
        }
    }

    #[test]
    fn the_cookbooks_discounted_sum() {
        let case = &vectors("rl_batch_2x3.json")["discounted_future_sum"];
        let sums = discounted_future_sum(&floats(&case["x"]), case["gamma"].as_f64().unwrap() as f32);
        assert_eq!(sums, floats(&case["y"]));
    }

    #[test]
    fn a_penalty_that_cannot_be_computed_changes_nothing() {
        let file = vectors("rl_batch_2x3.json");
        let batch: Vec<Datum> = file["datums"].as_array().unwrap().iter().map(datum).collect();
        let mut data = batch.clone();
        let mut reference: Vec<Vec<f32>> = batch.iter().map(reference_logprobs).collect();
        reference[6].pop();
        let penalty = KlPenalty { coefficient: 0.1, discount: 0.0 };
        let error = penalize_kl(&mut data, &reference, penalty).unwrap_err();
        assert_eq!(error, PolicyDataError::LogprobCount { datum: 6, targets: 7, logprobs: 6 });
        assert_eq!(data, batch);
    }

    #[test]
    fn the_cookbooks_splits_when_every_datum_is_a_group() {
        let file = vectors("rl_batch_2x3.json");
        for substeps in [2, 3] {
            let expected = doubles_of(&file[format!("split_list_num_substeps_{substeps}")]);
            let groups = (0..7).map(f64::from).collect();
            assert_eq!(split_into_substeps(groups, NonZeroUsize::new(substeps).unwrap()), expected);
        }
    }

    #[test]
    fn no_substep_begins_inside_a_group() {
        // The batch's 5 and 2 datums. They split its 7 datums into 3 and 4, or into 2, 2 and 3.
        let groups = || vec![vec![0, 1, 2, 3, 4], vec![5, 6]];
        for substeps in [2, 3] {
            let split = split_into_substeps(groups(), NonZeroUsize::new(substeps).unwrap());
            assert_eq!(split, [[vec![0, 1, 2, 3, 4]], [vec![5, 6]]]);
        }
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

        #[test]
        fn a_split_loses_nothing_and_is_even(count in 0..50usize, substeps in 1..20usize) {
            let split = split_into_substeps((0..count).collect(), NonZeroUsize::new(substeps).unwrap());
            prop_assert_eq!(split.len(), substeps.min(count));
            prop_assert_eq!(split.concat(), (0..count).collect::<Vec<_>>());
            let sizes = || split.iter().map(Vec::len);
            prop_assert!(sizes().max().unwrap_or(0) - sizes().min().unwrap_or(0) <= 1);
        }

        #[test]
        fn nothing_is_left_where_the_mask_is_0(
            targets in proptest::collection::vec((-5.0..0.0f32, -5.0..0.0f32, any::<bool>()), 1..12),
            discount in 0.0..1.0f32,
        ) {
            let mask: Vec<f32> = targets.iter().map(|(_, _, trained)| if *trained { 1.0 } else { 0.0 }).collect();
            let mut data = vec![Datum {
                model_input: vec![Chunk::Tokens(vec![1; targets.len()])],
                target_tokens: vec![1; targets.len()],
                loss_inputs: LossInputs::Policy {
                    logprobs: targets.iter().map(|(sampler, _, _)| *sampler).collect(),
                    advantages: mask.clone(),
                    mask: mask.clone(),
                },
            }];
            let reference = vec![targets.iter().map(|(_, reference, _)| *reference).collect()];
            let mean = penalize_kl(&mut data, &reference, KlPenalty { coefficient: 0.5, discount }).unwrap();
            prop_assert_eq!(mean.is_some(), mask.contains(&1.0));
            for (advantage, mask) in policy(&data[0]).0.iter().zip(&mask) {
                prop_assert!(*mask == 1.0 || *advantage == 0.0);
            }
        }
    }
}
