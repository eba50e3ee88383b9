//! A penalty for differing from another policy, taken into the advantages.

use fulgurite_types::{Datum, LossInputs};

use super::policy_metrics::{TrainedTarget, trained_targets};
use crate::error::PolicyDataError;

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
    let Some(mean) = mean_of(&targets) else { return Ok(None) };
    penalize(data, &targets, penalty, mean);
    Ok(Some(mean))
}

/// As [`penalize_kl`], but the mean is not taken off: what is learnt is the reverse divergence itself, not how one token
/// differs from the others. For each trained target the advantage grows by `-coefficient * d`.
pub fn distill(
    data: &mut [Datum],
    teacher_logprobs: &[Vec<f32>],
    penalty: KlPenalty,
) -> Result<Option<f32>, PolicyDataError> {
    let targets = trained_targets(data, teacher_logprobs)?;
    let Some(mean) = mean_of(&targets) else { return Ok(None) };
    penalize(data, &targets, penalty, 0.0);
    Ok(Some(mean))
}

/// The mean of `sampler logprob - other logprob` over the trained targets; `None` if there are none.
pub(crate) fn mean_difference(data: &[Datum], logprobs: &[Vec<f32>]) -> Result<Option<f32>, PolicyDataError> {
    Ok(mean_of(&trained_targets(data, logprobs)?))
}

fn difference(target: &TrainedTarget) -> f32 {
    target.sampler_logprob - target.logprob
}

fn mean_of(targets: &[Vec<TrainedTarget>]) -> Option<f32> {
    let count = targets.iter().map(Vec::len).sum::<usize>();
    let sum: f32 = targets.iter().map(|of_datum| of_datum.iter().map(difference).sum::<f32>()).sum();
    (count > 0).then(|| sum / count as f32)
}

/// Adds `coefficient * (baseline - d)` to the advantages.
fn penalize(data: &mut [Datum], targets: &[Vec<TrainedTarget>], penalty: KlPenalty, baseline: f32) {
    for (datum, targets) in data.iter_mut().zip(targets) {
        let mut addends = vec![0.0; datum.target_tokens.len()];
        for target in targets {
            addends[target.target] = penalty.coefficient * (baseline - difference(target));
        }
        if penalty.discount > 0.0 {
            addends = discounted_future_sum(&addends, penalty.discount);
        }
        add_where_trained(datum, &addends);
    }
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

#[cfg(test)]
mod tests {
    use fulgurite_types::Chunk;
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::objectives::policy::vectors::{close, doubles, floats, vectors};

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
            LossInputs::Supervised { .. } | LossInputs::SoftTargets { .. } => unreachable!(),
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
    fn pytorchs_advantages_of_distillation() {
        let file = vectors("torch/distillation.json");
        for case in file["on_policy"].as_array().unwrap() {
            let mask = floats(&case["mask"]);
            let targets = vec![1; mask.len()];
            let mut data = [Datum {
                model_input: vec![Chunk::Tokens(targets.clone())],
                target_tokens: targets,
                loss_inputs: LossInputs::Policy {
                    logprobs: floats(&case["sampler"]),
                    advantages: vec![0.0; mask.len()],
                    mask,
                },
            }];
            let number = |key: &str| case[key].as_f64().unwrap();
            let penalty = KlPenalty { coefficient: number("coefficient") as f32, discount: number("discount") as f32 };
            let mean = distill(&mut data, &[floats(&case["teacher"])], penalty).unwrap().unwrap();
            close(mean.into(), number("mean"));
            let theirs = doubles(&case["advantages"]);
            policy(&data[0]).0.iter().zip(theirs).for_each(|(ours, theirs)| close((*ours).into(), theirs));
            // The gradient of importance sampling is ratio times advantage.
            let LossInputs::Policy { logprobs, advantages, .. } = &data[0].loss_inputs else { unreachable!() };
            let (now, gradient) = (floats(&case["logprobs"]), doubles(&case["gradient"]));
            for (((old, advantage), now), theirs) in logprobs.iter().zip(advantages).zip(now).zip(gradient) {
                close(-f64::from(now - old).exp() * f64::from(*advantage), theirs);
            }
        }
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

    proptest! {
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
