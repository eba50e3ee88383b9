//! From rewards to the advantage of each sampled token.

use std::num::NonZeroUsize;

use fulgurite_backends::{Datum, LossInputs};

use crate::policy_metrics::{PolicyDataError, trained_targets};

/// What a rollout's reward is measured against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Baseline {
    /// The mean of its group, itself included.
    #[default]
    GroupMean,
    /// The mean of the others of its group (RLOO: Ahmadian et al. 2024): `n / (n - 1)` times the centred reward.
    LeaveOneOut,
}

/// How advantages are computed; the default is tinker-cookbook's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    pub discount: f64,
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
    let differences: Vec<Vec<f32>> = trained_targets(data, reference_logprobs)?
        .iter()
        .map(|targets| targets.iter().map(|target| target.sampler_logprob - target.logprob).collect())
        .collect();
    let count = differences.iter().map(Vec::len).sum::<usize>();
    if count == 0 {
        return Ok(None);
    }
    let sum: f32 = differences.iter().map(|differences| differences.iter().sum::<f32>()).sum();
    let mean = sum / count as f32;
    for (datum, differences) in data.iter_mut().zip(differences) {
        let LossInputs::Policy { advantages, mask, .. } = &mut datum.loss_inputs else { continue };
        let mut addends = vec![0.0; mask.len()];
        let mut of_trained = differences.iter().map(|difference| penalty.coefficient * (mean - difference));
        for (addend, _) in addends.iter_mut().zip(mask.iter()).filter(|(_, mask)| **mask > 0.0) {
            *addend = of_trained.next().unwrap_or(0.0);
        }
        if penalty.discount > 0.0 {
            addends = discounted_future_sum(&addends, penalty.discount);
        }
        for ((advantage, addend), mask) in advantages.iter_mut().zip(addends).zip(mask.iter()) {
            *advantage = if *mask > 0.0 { *advantage + addend } else { 0.0 };
        }
    }
    Ok(Some(mean))
}

/// `y[t] = x[t] + discount * y[t + 1]`, accumulated in 64 bits.
pub fn discounted_future_sum(values: &[f32], discount: f64) -> Vec<f32> {
    let mut future = 0.0;
    let mut sums: Vec<f32> = values
        .iter()
        .rev()
        .map(|value| {
            future = f64::from(*value) + discount * future;
            future as f32
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
