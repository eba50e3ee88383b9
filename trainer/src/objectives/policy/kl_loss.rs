//! What leaving a reference policy costs, as a loss of its own beside the policy's.

use fulgurite_backends::LossFunction;
use fulgurite_types::{Datum, LossInputs};

use super::policy_metrics::trained_targets;
use crate::error::PolicyDataError;

/// Rows for a cross entropy whose gradient is the penalty's, and what the penalty is.
#[derive(Debug, PartialEq)]
pub(crate) struct KlLoss {
    pub(crate) rows: Vec<Datum>,
    /// The sum over trained targets.
    pub(crate) loss: f64,
    /// The sum of `d` over trained targets.
    pub(crate) distance: f64,
    /// Trained targets.
    pub(crate) targets: usize,
}

/// How rows of the penalty reach the learner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KlRows {
    /// With weights, for a cross entropy.
    Weighted,
    /// With logprobs, for importance sampling.
    OfPolicy,
}

impl KlRows {
    /// Those of a run that samples at this temperature.
    pub(crate) fn at_temperature(temperature: f32) -> Self {
        if temperature == 1.0 { Self::Weighted } else { Self::OfPolicy }
    }

    /// The loss that they are for.
    pub(crate) fn loss(self) -> LossFunction {
        match self {
            Self::Weighted => LossFunction::CrossEntropy,
            Self::OfPolicy => LossFunction::ImportanceSampling,
        }
    }
}

/// The loss `coefficient * (exp(-d) + d - 1)` of each trained target, with `d = logprob - reference logprob`: Schulman's third
/// estimator of KL(policy, reference), which GRPO has in its loss (Shao et al. 2024, equation 4). Its derivative by the logprob
/// is `coefficient * (1 - exp(-d))`, and that of a cross entropy is its negative weight.
///
/// `logprobs` are those of the weights that are trained, `divisors` what the losses of each row are divided by. At another
/// temperature than 1 the rows carry `logprobs`, for importance sampling at a ratio of 1, whose derivative is the negative
/// advantage: only such rows are computed at it.
pub(crate) fn kl_loss(
    data: &[Datum],
    logprobs: &[Vec<f32>],
    reference: &[Vec<f32>],
    coefficient: f32,
    divisors: &[f64],
    rows: KlRows,
) -> Result<KlLoss, PolicyDataError> {
    let (ours, theirs) = (trained_targets(data, logprobs)?, trained_targets(data, reference)?);
    let mut made = KlLoss { rows: Vec::with_capacity(data.len()), loss: 0.0, distance: 0.0, targets: 0 };
    for ((((datum, all), ours), theirs), divisor) in data.iter().zip(logprobs).zip(ours).zip(theirs).zip(divisors) {
        let scale = f64::from(coefficient) / divisor;
        let mut weights = vec![0.0; datum.target_tokens.len()];
        for (ours, theirs) in ours.into_iter().zip(theirs) {
            let distance = f64::from(ours.logprob) - f64::from(theirs.logprob);
            weights[ours.target] = (scale * (-distance).exp_m1()) as f32;
            made.loss += scale * ((-distance).exp_m1() + distance);
            made.distance += distance;
            made.targets += 1;
        }
        let loss_inputs = match (rows, &datum.loss_inputs) {
            (KlRows::OfPolicy, LossInputs::Policy { mask, .. }) => {
                LossInputs::Policy { logprobs: all.clone(), advantages: weights, mask: mask.clone() }
            }
            _ => LossInputs::Supervised { weights },
        };
        made.rows.push(Datum { loss_inputs, ..datum.clone() });
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use fulgurite_types::Chunk;

    use super::*;
    use crate::objectives::policy::vectors::{close, doubles, floats, vectors};

    #[test]
    fn pytorchs_kl_loss_and_its_gradient() {
        let file = vectors("torch/policy_losses.json");
        let rows = file["rows"].as_array().unwrap();
        let of_rows = |key: &str| rows.iter().map(|row| floats(&row[key])).collect::<Vec<_>>();
        let data: Vec<Datum> = rows
            .iter()
            .map(|row| {
                let mask = floats(&row["mask"]);
                let targets = vec![1; mask.len()];
                let loss_inputs =
                    LossInputs::Policy { logprobs: floats(&row["sampler"]), advantages: mask.clone(), mask };
                Datum { model_input: vec![Chunk::Tokens(targets.clone())], target_tokens: targets, loss_inputs }
            })
            .collect();
        let theirs = &file["losses"]["kl_in_loss"];
        let coefficient = theirs["parameters"]["coefficient"].as_f64().unwrap() as f32;
        let (logprobs, reference) = (of_rows("logprobs"), of_rows("reference"));
        let made =
            kl_loss(&data, &logprobs, &reference, coefficient, &vec![1.0; data.len()], KlRows::Weighted).unwrap();
        close(made.loss, theirs["value"].as_f64().unwrap());
        for (row, gradient) in made.rows.iter().zip(theirs["gradient"].as_array().unwrap()) {
            let LossInputs::Supervised { weights } = &row.loss_inputs else { unreachable!() };
            weights.iter().zip(doubles(gradient)).for_each(|(weight, slope)| close(-f64::from(*weight), slope));
        }
        let of_policy = kl_loss(&data, &logprobs, &reference, coefficient, &vec![1.0; data.len()], KlRows::OfPolicy);
        for ((one, other), known) in made.rows.iter().zip(of_policy.unwrap().rows).zip(&logprobs) {
            let LossInputs::Supervised { weights } = &one.loss_inputs else { unreachable!() };
            let LossInputs::Policy { logprobs, advantages, .. } = other.loss_inputs else { unreachable!() };
            assert_eq!((&advantages, &logprobs), (weights, known));
        }
        let halved =
            kl_loss(&data, &logprobs, &reference, coefficient, &vec![2.0; data.len()], KlRows::Weighted).unwrap();
        close(halved.loss, made.loss / 2.0);
    }
}
