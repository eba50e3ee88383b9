//! How the losses of tokens add up: each token's advantage is scaled, since every loss is a sum.

use fulgurite_types::{Datum, LossInputs};
use serde::{Deserialize, Serialize};

/// What the losses of the tokens of an optimizer step are divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossAggregation {
    /// Nothing: the sum over all tokens, as tinker-cookbook.
    #[default]
    Sum,
    /// All trained tokens (DAPO: Yu et al. 2025), so that each token counts the same, however many there are.
    TokenMean,
    /// The trained tokens of the rollout, and the rollouts (GRPO: Shao et al. 2024), so that each rollout counts the same,
    /// however long it is.
    RolloutMean,
    /// The rollouts (Dr. GRPO: Liu et al. 2025): a rollout counts by its length, and a batch not by its size.
    RolloutSum,
}

impl LossAggregation {
    /// Scales the advantages of one optimizer step: of each rollout that is trained, its rows.
    pub(crate) fn scale(self, rollouts: &mut [Vec<Datum>]) {
        let tokens: Vec<usize> = rollouts.iter().map(|rows| rows.iter().map(trained_tokens).sum()).collect();
        let all: usize = tokens.iter().sum();
        let trained = tokens.iter().filter(|tokens| **tokens > 0).count();
        for (rows, tokens) in rollouts.iter_mut().zip(tokens).filter(|(_, tokens)| *tokens > 0) {
            let divisor = match self {
                Self::Sum => continue,
                Self::TokenMean => all as f64,
                Self::RolloutMean => trained as f64 * tokens as f64,
                Self::RolloutSum => trained as f64,
            };
            rows.iter_mut().for_each(|row| divide(row, divisor));
        }
    }
}

fn trained_tokens(row: &Datum) -> usize {
    match &row.loss_inputs {
        LossInputs::Policy { mask, .. } => mask.iter().filter(|mask| **mask > 0.0).count(),
        LossInputs::Supervised { .. } => 0,
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
        aggregation.scale(&mut rollouts);
        let of_row = |row: Datum| match row.loss_inputs {
            LossInputs::Policy { advantages, .. } => advantages,
            LossInputs::Supervised { .. } => unreachable!(),
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
}
