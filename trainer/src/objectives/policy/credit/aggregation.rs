//! How the losses of tokens add up: each token's advantage is scaled, since every loss is a sum.

use fulgurite_types::{Datum, LossInputs};

use crate::options::LossAggregation;

impl LossAggregation {
    /// Scales the advantages of one optimizer step: of each rollout that is trained, its rows. Gives what those of each row
    /// were divided by, one row after the other. `rollout_length` is what the sum of a rollout is divided by, of
    /// [`LossAggregation::RolloutSum`].
    pub(crate) fn scale(self, rollouts: &mut [Vec<Datum>], rollout_length: Option<usize>) -> Vec<f64> {
        let tokens: Vec<usize> = rollouts.iter().map(|rows| rows.iter().map(trained_tokens).sum()).collect();
        let all: usize = tokens.iter().sum();
        let trained = tokens.iter().filter(|tokens| **tokens > 0).count();
        let mut divisors = Vec::new();
        for (rows, tokens) in rollouts.iter_mut().zip(tokens) {
            let divisor = match self {
                _ if tokens == 0 => 1.0,
                Self::Sum => 1.0,
                Self::TokenMean => all as f64,
                Self::RolloutMean => trained as f64 * tokens as f64,
                Self::RolloutSum => trained as f64 * rollout_length.unwrap_or(1) as f64,
            };
            divisors.extend(rows.iter().map(|_| divisor));
            if divisor != 1.0 {
                rows.iter_mut().for_each(|row| divide(row, divisor));
            }
        }
        divisors
    }
}

/// How many targets of a row are trained.
pub(crate) fn trained_tokens(row: &Datum) -> usize {
    match &row.loss_inputs {
        LossInputs::Policy { mask, .. } => mask.iter().filter(|mask| **mask > 0.0).count(),
        LossInputs::Supervised { .. } | LossInputs::SoftTargets { .. } => 0,
    }
}

fn divide(row: &mut Datum, divisor: f64) {
    if let LossInputs::Policy { advantages, .. } = &mut row.loss_inputs {
        advantages.iter_mut().for_each(|advantage| *advantage = (f64::from(*advantage) / divisor) as f32);
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::Chunk;

    use super::*;
    use crate::objectives::policy::vectors::{close, doubles, floats, vectors};

    fn row(mask: &[f32]) -> Datum {
        Datum {
            model_input: vec![Chunk::Tokens(vec![1; mask.len()])],
            target_tokens: vec![1; mask.len()],
            loss_inputs: LossInputs::Policy {
                logprobs: vec![-1.0; mask.len()],
                advantages: mask.to_vec(),
                mask: mask.to_vec(),
            },
        }
    }

    /// Advantages of 1 of a rollout of one token and one of three, in two rows; the third has none that is trained.
    fn scaled(aggregation: LossAggregation) -> Vec<Vec<Vec<f32>>> {
        let mut rollouts = vec![vec![row(&[0.0, 1.0])], vec![row(&[1.0, 1.0]), row(&[1.0])], vec![row(&[0.0])]];
        aggregation.scale(&mut rollouts, None);
        let of_row = |row: Datum| match row.loss_inputs {
            LossInputs::Policy { advantages, .. } => advantages,
            LossInputs::Supervised { .. } | LossInputs::SoftTargets { .. } => unreachable!(),
        };
        rollouts.into_iter().map(|rows| rows.into_iter().map(of_row).collect()).collect()
    }

    #[test]
    fn each_aggregation_weighs_tokens_and_rollouts_by_its_formula() {
        let is = |aggregation, short: f32, long: f32| {
            let expected = [vec![vec![0.0, short]], vec![vec![long, long], vec![long]], vec![vec![0.0]]];
            assert_eq!(scaled(aggregation), expected, "{aggregation:?}");
        };
        is(LossAggregation::Sum, 1.0, 1.0);
        is(LossAggregation::TokenMean, 1.0 / 4.0, 1.0 / 4.0);
        is(LossAggregation::RolloutMean, 1.0 / 2.0, 1.0 / 6.0);
        is(LossAggregation::RolloutSum, 1.0 / 2.0, 1.0 / 2.0);
    }

    /// TRL's `dr_grpo` divides by the rollouts and by the greatest length of an answer, which is 10 here; PPO's loss, whose
    /// advantages are scaled alike, has the slope of the vectors.
    #[test]
    fn trls_constant_divides_the_sum_of_a_rollout() {
        let file = vectors("trl/losses.json");
        let rollouts = file["rollouts"].as_array().unwrap();
        let mut data: Vec<Vec<Datum>> = Vec::new();
        for rollout in rollouts {
            let logprobs = floats(&rollout["sampler"]);
            let count = logprobs.len();
            let advantages = vec![rollout["advantage"].as_f64().unwrap() as f32; count];
            let loss_inputs = LossInputs::Policy { logprobs, advantages, mask: vec![1.0; count] };
            let model_input = vec![Chunk::Tokens(vec![1; count])];
            data.push(vec![Datum { model_input, target_tokens: vec![1; count], loss_inputs }]);
        }
        assert_eq!(LossAggregation::RolloutSum.scale(&mut data, Some(10)), [40.0; 4]);
        let theirs = file["policies"]["dr_grpo"]["gradient"].as_array().unwrap();
        for ((datum, rollout), gradient) in data.iter().flatten().zip(rollouts).zip(theirs) {
            let LossInputs::Policy { logprobs, advantages, .. } = &datum.loss_inputs else { unreachable!() };
            let now = floats(&rollout["logprobs"]);
            for (((now, then), advantage), slope) in now.iter().zip(logprobs).zip(advantages).zip(doubles(gradient)) {
                let (ratio, advantage) = (f64::from(now - then).exp(), f64::from(*advantage));
                let is_clipped = (advantage > 0.0 && ratio > 1.28) || (advantage < 0.0 && ratio < 0.8);
                close(if is_clipped { 0.0 } else { -ratio * advantage }, slope);
            }
        }
    }

    /// The slope of importance sampling is minus the ratio times the advantage.
    #[test]
    fn pytorchs_gradients_of_each_aggregation() {
        let file = vectors("torch/policy_losses.json");
        for (name, aggregation) in [
            ("sum", LossAggregation::Sum),
            ("token_mean", LossAggregation::TokenMean),
            ("rollout_mean", LossAggregation::RolloutMean),
            ("rollout_sum", LossAggregation::RolloutSum),
        ] {
            let mut rollouts: Vec<Vec<Datum>> = Vec::new();
            for row in file["rows"].as_array().unwrap() {
                let (advantages, mask) = (floats(&row["advantages"]), floats(&row["mask"]));
                let targets = vec![1; mask.len()];
                let loss_inputs = LossInputs::Policy { logprobs: floats(&row["sampler"]), advantages, mask };
                let model_input = vec![Chunk::Tokens(targets.clone())];
                rollouts.resize(row["rollout"].as_u64().unwrap() as usize + 1, Vec::new());
                rollouts.last_mut().unwrap().push(Datum { model_input, target_tokens: targets, loss_inputs });
            }
            aggregation.scale(&mut rollouts, None);
            let theirs = file["aggregations"][name]["gradient"].as_array().unwrap();
            let rows = file["rows"].as_array().unwrap();
            for ((datum, row), gradient) in rollouts.iter().flatten().zip(rows).zip(theirs) {
                let LossInputs::Policy { logprobs, advantages, .. } = &datum.loss_inputs else { unreachable!() };
                let now = floats(&row["logprobs"]);
                for (((now, then), advantage), slope) in now.iter().zip(logprobs).zip(advantages).zip(doubles(gradient))
                {
                    close(-f64::from(now - then).exp() * f64::from(*advantage), slope);
                }
            }
        }
    }
}
