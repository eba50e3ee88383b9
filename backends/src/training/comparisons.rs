//! Losses of comparisons: of two answers to one prompt, which one is better.

use std::ops::Range;

use fulgurite_types::{Datum, LossInputs};

use crate::BackendError;

/// Greatest mean logprob whose odds are told apart from certainty, which has none.
const GREATEST_MEAN_LOGPROB: f64 = -1e-6;

/// What a comparison costs, as a function of what the logprobs of its answers' trained tokens add up to: `c` of the chosen
/// one and `r` of the rejected one, `c'` and `r'` under the reference; `mean` divides by the number of those tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PreferenceLoss {
    /// `-(1 - s) log sigmoid(x) - s log sigmoid(-x)` with `x = beta ((c - c') - (r - r'))` (DPO: Rafailov et al. 2023;
    /// with `s` above 0 conservative DPO).
    Dpo {
        /// How little the policy is held to the reference.
        beta: f64,
        /// The share `s` of comparisons that are the wrong way round.
        label_smoothing: f64,
    },
    /// `max(0, 1 - x)`, with the `x` of DPO (SLiC: Zhao et al. 2023).
    Hinge {
        /// How little the policy is held to the reference.
        beta: f64,
    },
    /// `(-(1 - s) log sigmoid(x) + s log sigmoid(-x)) / (1 - 2 s)`, with the `x` of DPO (robust DPO: Chowdhury et al. 2024):
    /// without bias where a share `s` of comparisons is the wrong way round.
    Robust {
        /// How little the policy is held to the reference.
        beta: f64,
        /// That share, below a half.
        label_smoothing: f64,
    },
    /// `1 - sigmoid(beta (c - c')) + sigmoid(beta (r - r'))` (APO-zero: D'Oosterlinck et al. 2024, equation 7): the chosen answer
    /// becomes likelier, the rejected one less likely.
    ApoZero {
        /// How little the policy is held to the reference.
        beta: f64,
    },
    /// `sigmoid(beta (c - c')) + 1 - sigmoid(x)`, with the `x` of DPO (APO-down: D'Oosterlinck et al. 2024, equation 8): both
    /// become less likely, the rejected one more so.
    ApoDown {
        /// How little the policy is held to the reference.
        beta: f64,
    },
    /// `-log sigmoid(beta (mean(c) - mean(r)) - gamma)` (SimPO: Meng et al. 2024); there is no reference.
    Simpo {
        /// Scale of the mean logprobs.
        beta: f64,
        /// The margin that is aimed at.
        gamma: f64,
    },
    /// `(mean(c - c') - mean(r - r') - 1 / (2 beta))^2` (IPO: Azar et al. 2023, of means as TRL has it).
    Ipo {
        /// The margin that is aimed at is `1 / (2 beta)`.
        beta: f64,
    },
    /// `-mean(c) - beta log sigmoid(odds(c) - odds(r))` with `odds(c) = mean(c) - log(1 - exp(mean(c)))` (ORPO: Hong et al.
    /// 2024); there is no reference.
    Orpo {
        /// What the odds count beside the likelihood.
        beta: f64,
    },
    /// `-log sigmoid(c - r) + centering (c + r)^2` of scores, not logprobs (Bradley and Terry 1952; the second part as TRL's
    /// `center_rewards_coefficient`): a learner gives the score of a model's head in the place of a logprob.
    BradleyTerry {
        /// How strongly scores are held around 0.
        centering: f64,
    },
    /// `desirable (1 - sigmoid(beta ((c - c') - z)))` and `undesirable (1 - sigmoid(beta (z - (r - r'))))` (KTO: Ethayarajh et
    /// al. 2024); either answer may be alone.
    Kto {
        /// How little the policy is held to the reference.
        beta: f64,
        /// `z`: how far policy and reference are apart, taken as a number.
        baseline: f64,
        /// What a chosen answer counts.
        desirable_weight: f64,
        /// What a rejected answer counts.
        undesirable_weight: f64,
    },
}

/// An answer that is compared.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedAnswer {
    /// Its datums, which carry weights.
    pub data: Range<usize>,
    /// What their weighted logprobs add up to under the reference; 0 where the loss has none.
    pub reference: f64,
}

/// A better and a worse answer; one of them may be missing where the loss can do without.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// The better one.
    pub chosen: Option<ComparedAnswer>,
    /// The worse one.
    pub rejected: Option<ComparedAnswer>,
}

/// A loss of comparisons that counts next to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightedLoss {
    /// What each comparison costs.
    pub loss: PreferenceLoss,
    /// What that is multiplied by.
    pub weight: f64,
}

/// Comparisons under a loss. Their datums follow each other: of each comparison those of the chosen answer, then those of the
/// rejected one.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparisons {
    /// What each costs.
    pub loss: PreferenceLoss,
    /// What each costs besides; rewards are those of `loss`.
    pub others: Vec<WeightedLoss>,
    /// What each counts in the sum.
    pub scale: f64,
    /// What a nat of the chosen answers' negative logprobs adds to that, to keep them likely (as TRL's `sft`); 0 adds nothing.
    pub likelihood_scale: f64,
    /// Which they are.
    pub list: Vec<Comparison>,
}

/// What the logprobs of an answer add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AnswerScore {
    /// Sum of weight times logprob.
    pub logprob: f64,
    /// Sum of the weights.
    pub weight: f64,
    /// As `logprob`, under the reference.
    pub reference: f64,
}

/// What a comparison costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ComparisonCost {
    /// The loss.
    pub value: f64,
    /// Its derivative by the logprob of the chosen answer.
    pub chosen: f64,
    /// Its derivative by the logprob of the rejected answer.
    pub rejected: f64,
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The logarithm of the sigmoid, also where the sigmoid is no number any more.
fn log_sigmoid(x: f64) -> f64 {
    x.min(0.0) - (-x.abs()).exp().ln_1p()
}

/// The logarithm of the odds of a mean logprob, and its derivative.
fn log_odds(mean: f64) -> (f64, f64) {
    let limited = mean.min(GREATEST_MEAN_LOGPROB);
    let other = -limited.exp_m1();
    (limited - other.ln(), if mean < GREATEST_MEAN_LOGPROB { 1.0 / other } else { 0.0 })
}

impl AnswerScore {
    fn ratio(&self) -> f64 {
        self.logprob - self.reference
    }

    fn mean(&self, sum: f64) -> f64 {
        sum / self.weight.max(f64::MIN_POSITIVE)
    }
}

impl PreferenceLoss {
    /// Whether it asks a reference.
    pub fn has_reference(&self) -> bool {
        !matches!(self, Self::Orpo { .. } | Self::Simpo { .. } | Self::BradleyTerry { .. })
    }

    /// Whether it is of the scores of a model's head, in place of logprobs.
    pub fn is_of_scores(&self) -> bool {
        matches!(self, Self::BradleyTerry { .. })
    }

    /// Whether an answer may be alone.
    pub fn takes_single_answers(&self) -> bool {
        matches!(self, Self::Kto { .. })
    }

    /// What the loss rewards an answer with.
    pub fn reward(&self, answer: &AnswerScore) -> f64 {
        match *self {
            Self::Dpo { beta, .. }
            | Self::Hinge { beta }
            | Self::Robust { beta, .. }
            | Self::ApoZero { beta }
            | Self::ApoDown { beta }
            | Self::Kto { beta, .. } => beta * answer.ratio(),
            Self::Ipo { beta } => beta * answer.mean(answer.ratio()),
            Self::Orpo { beta } | Self::Simpo { beta, .. } => beta * answer.mean(answer.logprob),
            Self::BradleyTerry { .. } => answer.logprob,
        }
    }

    /// What a comparison costs. One that lacks an answer which the loss needs costs nothing.
    pub fn cost(&self, chosen: Option<&AnswerScore>, rejected: Option<&AnswerScore>) -> ComparisonCost {
        if let Self::Kto { beta, baseline, desirable_weight, undesirable_weight } = *self {
            let mut cost = ComparisonCost::default();
            if let Some(chosen) = chosen {
                let share = sigmoid(beta * (chosen.ratio() - baseline));
                cost.value += desirable_weight * (1.0 - share);
                cost.chosen = -desirable_weight * beta * share * (1.0 - share);
            }
            if let Some(rejected) = rejected {
                let share = sigmoid(beta * (baseline - rejected.ratio()));
                cost.value += undesirable_weight * (1.0 - share);
                cost.rejected = undesirable_weight * beta * share * (1.0 - share);
            }
            return cost;
        }
        let (Some(chosen), Some(rejected)) = (chosen, rejected) else { return ComparisonCost::default() };
        match *self {
            Self::Dpo { beta, label_smoothing: wrong } => {
                let x = beta * (chosen.ratio() - rejected.ratio());
                let slope = beta * (wrong * sigmoid(x) - (1.0 - wrong) * sigmoid(-x));
                let value = -(1.0 - wrong) * log_sigmoid(x) - wrong * log_sigmoid(-x);
                ComparisonCost { value, chosen: slope, rejected: -slope }
            }
            Self::Hinge { beta } => {
                let distance = 1.0 - beta * (chosen.ratio() - rejected.ratio());
                let slope = if distance > 0.0 { -beta } else { 0.0 };
                ComparisonCost { value: distance.max(0.0), chosen: slope, rejected: -slope }
            }
            Self::Robust { beta, label_smoothing: wrong } => {
                let (x, share) = (beta * (chosen.ratio() - rejected.ratio()), 1.0 - 2.0 * wrong);
                let slope = -beta * (wrong * sigmoid(x) + (1.0 - wrong) * sigmoid(-x)) / share;
                let value = (wrong * log_sigmoid(-x) - (1.0 - wrong) * log_sigmoid(x)) / share;
                ComparisonCost { value, chosen: slope, rejected: -slope }
            }
            Self::ApoZero { beta } => {
                let (up, down) = (sigmoid(beta * chosen.ratio()), sigmoid(beta * rejected.ratio()));
                ComparisonCost {
                    value: 1.0 - up + down,
                    chosen: -beta * up * (1.0 - up),
                    rejected: beta * down * (1.0 - down),
                }
            }
            Self::ApoDown { beta } => {
                let down = sigmoid(beta * chosen.ratio());
                let apart = sigmoid(beta * (chosen.ratio() - rejected.ratio()));
                let slope = beta * apart * (1.0 - apart);
                ComparisonCost {
                    value: down + 1.0 - apart,
                    chosen: beta * down * (1.0 - down) - slope,
                    rejected: slope,
                }
            }
            Self::Simpo { beta, gamma } => {
                let x = beta * (chosen.mean(chosen.logprob) - rejected.mean(rejected.logprob)) - gamma;
                let slope = beta * sigmoid(-x);
                ComparisonCost { value: -log_sigmoid(x), chosen: chosen.mean(-slope), rejected: rejected.mean(slope) }
            }
            Self::Ipo { beta } => {
                let margin = chosen.mean(chosen.ratio()) - rejected.mean(rejected.ratio());
                let distance = margin - 1.0 / (2.0 * beta);
                ComparisonCost {
                    value: distance * distance,
                    chosen: chosen.mean(2.0 * distance),
                    rejected: rejected.mean(-2.0 * distance),
                }
            }
            Self::Orpo { beta } => {
                let (mean, other) = (chosen.mean(chosen.logprob), rejected.mean(rejected.logprob));
                let ((odds, slope), (other_odds, other_slope)) = (log_odds(mean), log_odds(other));
                let x = odds - other_odds;
                let share = beta * sigmoid(-x);
                ComparisonCost {
                    value: -mean - beta * log_sigmoid(x),
                    chosen: chosen.mean(-1.0 - share * slope),
                    rejected: rejected.mean(share * other_slope),
                }
            }
            Self::BradleyTerry { centering } => {
                let (x, sum) = (chosen.logprob - rejected.logprob, chosen.logprob + rejected.logprob);
                let (slope, centered) = (sigmoid(-x), 2.0 * centering * sum);
                let value = centering * sum * sum - log_sigmoid(x);
                ComparisonCost { value, chosen: centered - slope, rejected: centered + slope }
            }
            Self::Kto { .. } => ComparisonCost::default(),
        }
    }
}

impl Comparison {
    /// Its datums.
    pub fn data(&self) -> impl Iterator<Item = usize> {
        [&self.chosen, &self.rejected].into_iter().flatten().flat_map(|answer| answer.data.clone())
    }

    /// The scores of its answers, given that of each datum.
    pub fn scores(&self, of_datum: impl Fn(usize) -> AnswerScore) -> [Option<AnswerScore>; 2] {
        [&self.chosen, &self.rejected].map(|answer| {
            let ComparedAnswer { data, reference } = answer.as_ref()?;
            let mut sum = AnswerScore { reference: *reference, ..AnswerScore::default() };
            for score in data.clone().map(&of_datum) {
                sum.logprob += score.logprob;
                sum.weight += score.weight;
            }
            Some(sum)
        })
    }
}

/// What the logprobs of a datum's trained targets add up to.
pub fn datum_score(datum: &Datum, logprobs: &[f32]) -> AnswerScore {
    let mut score = AnswerScore::default();
    if let LossInputs::Supervised { weights } = &datum.loss_inputs {
        for (weight, logprob) in weights.iter().zip(logprobs).filter(|(weight, _)| **weight != 0.0) {
            score.logprob += f64::from(*weight) * f64::from(*logprob);
            score.weight += f64::from(*weight);
        }
    }
    score
}

impl Comparisons {
    /// Checks that these are the datums of the comparisons.
    ///
    /// # Errors
    /// [`BackendError::InvalidRequest`] says what is wrong.
    pub fn check(&self, data: &[Datum]) -> Result<(), BackendError> {
        let wrong = |message: String| Err(BackendError::InvalidRequest { message });
        let mut next = 0;
        for (index, comparison) in self.list.iter().enumerate() {
            let answers = [&comparison.chosen, &comparison.rejected];
            let present = answers.iter().filter(|answer| answer.is_some()).count();
            if present == 0 || (present == 1 && !self.loss.takes_single_answers()) {
                return wrong(format!("comparison {index} lacks an answer"));
            }
            for answer in answers.into_iter().flatten() {
                if answer.data.start != next || answer.data.is_empty() {
                    return wrong(format!("comparison {index} does not begin behind the one before it"));
                }
                next = answer.data.end;
            }
        }
        if next != data.len() {
            return wrong(format!("the comparisons have {next} datums, and {} came", data.len()));
        }
        match data.iter().position(|datum| !matches!(datum.loss_inputs, LossInputs::Supervised { .. })) {
            Some(index) => wrong(format!("datum {index} of the comparisons carries no weights")),
            None => Ok(()),
        }
    }

    /// What a comparison costs, and what each of its datums' weights is multiplied by in a cross entropy that has the same
    /// gradient.
    pub fn linear(&self, comparison: &Comparison, of_datum: impl Fn(usize) -> AnswerScore) -> (f64, Vec<(usize, f64)>) {
        let [chosen, rejected] = comparison.scores(of_datum);
        let mut cost = self.loss.cost(chosen.as_ref(), rejected.as_ref());
        for WeightedLoss { loss, weight } in &self.others {
            let other = loss.cost(chosen.as_ref(), rejected.as_ref());
            cost.value += weight * other.value;
            cost.chosen += weight * other.chosen;
            cost.rejected += weight * other.rejected;
        }
        let likelihood = self.likelihood_scale * chosen.as_ref().map_or(0.0, |chosen| chosen.logprob);
        let slopes = [self.scale * cost.chosen - self.likelihood_scale, self.scale * cost.rejected];
        let answers = [&comparison.chosen, &comparison.rejected].into_iter().zip(slopes);
        let factors = answers.filter_map(|(answer, slope)| Some((answer.as_ref()?, slope)));
        let factors = factors.flat_map(|(answer, slope)| answer.data.clone().map(move |datum| (datum, -slope)));
        (self.scale * cost.value - likelihood, factors.collect())
    }

    /// The sum of what they cost, and the datums of a cross entropy that has the same gradient.
    pub fn as_cross_entropy(&self, data: &[Datum], logprobs: &[Vec<f32>]) -> (f64, Vec<Datum>) {
        let (mut sum, mut linear) = (0.0, data.to_vec());
        for comparison in &self.list {
            let (cost, factors) = self.linear(comparison, |datum| datum_score(&data[datum], &logprobs[datum]));
            sum += cost;
            for (datum, factor) in factors {
                if let LossInputs::Supervised { weights } = &mut linear[datum].loss_inputs {
                    weights.iter_mut().for_each(|weight| *weight = (f64::from(*weight) * factor) as f32);
                }
            }
        }
        (sum, linear)
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::Chunk;
    use proptest::prelude::*;

    use super::*;

    const LOSSES: [PreferenceLoss; 12] = [
        PreferenceLoss::Dpo { beta: 0.1, label_smoothing: 0.0 },
        PreferenceLoss::Dpo { beta: 0.5, label_smoothing: 0.1 },
        PreferenceLoss::Ipo { beta: 0.1 },
        PreferenceLoss::Orpo { beta: 0.25 },
        PreferenceLoss::Kto { beta: 0.1, baseline: 0.5, desirable_weight: 1.0, undesirable_weight: 1.5 },
        PreferenceLoss::Hinge { beta: 0.01 },
        PreferenceLoss::Robust { beta: 0.5, label_smoothing: 0.1 },
        PreferenceLoss::ApoZero { beta: 0.25 },
        PreferenceLoss::ApoDown { beta: 0.25 },
        PreferenceLoss::Simpo { beta: 2.0, gamma: 1.0 },
        PreferenceLoss::BradleyTerry { centering: 0.0 },
        PreferenceLoss::BradleyTerry { centering: 0.05 },
    ];

    fn score(logprob: f64, weight: f64, reference: f64) -> AnswerScore {
        AnswerScore { logprob, weight, reference }
    }

    proptest! {
        #[test]
        fn a_slope_is_the_values_derivative(
            c in -30.0f64..-0.5, r in -30.0f64..-0.5, more in 0.1f64..3.0, tokens in 1u32..9, other in 1u32..9,
        ) {
            let (chosen, rejected) = (score(c, tokens.into(), c - more), score(r, other.into(), r + more));
            for loss in LOSSES {
                let at = |d: f64, e: f64| {
                    let (chosen, rejected) =
                        (AnswerScore { logprob: c + d, ..chosen }, AnswerScore { logprob: r + e, ..rejected });
                    loss.cost(Some(&chosen), Some(&rejected))
                };
                let (cost, step) = (at(0.0, 0.0), 1e-5);
                let by_chosen = (at(step, 0.0).value - at(-step, 0.0).value) / (2.0 * step);
                let by_rejected = (at(0.0, step).value - at(0.0, -step).value) / (2.0 * step);
                prop_assert!((by_chosen - cost.chosen).abs() < 1e-5 * (1.0 + by_chosen.abs()), "{loss:?}: {by_chosen} {cost:?}");
                prop_assert!((by_rejected - cost.rejected).abs() < 1e-5 * (1.0 + by_rejected.abs()), "{loss:?}: {by_rejected} {cost:?}");
            }
        }
    }

    #[test]
    fn nothing_is_no_number_where_an_answer_is_certain_or_hopeless() {
        for loss in LOSSES {
            for (c, r) in [(0.0, 0.0), (0.0, -1e4), (-1e4, 0.0), (-1e9, -1e9), (-1e-12, -1e-12)] {
                let cost = loss.cost(Some(&score(c, 3.0, -1.0)), Some(&score(r, 2.0, -1.0)));
                assert!(
                    cost.value.is_finite() && cost.chosen.is_finite() && cost.rejected.is_finite(),
                    "{loss:?} {cost:?}"
                );
            }
        }
    }

    #[test]
    fn dpo_at_the_reference_by_hand() {
        let (loss, answer) = (PreferenceLoss::Dpo { beta: 0.1, label_smoothing: 0.0 }, score(-3.0, 3.0, -3.0));
        let cost = loss.cost(Some(&answer), Some(&answer));
        assert_eq!((cost.value, cost.chosen, cost.rejected), (std::f64::consts::LN_2, -0.05, 0.05));
        assert_eq!(loss.reward(&score(-2.0, 3.0, -3.0)), 0.1);
    }

    fn datum(weights: &[f32]) -> Datum {
        Datum {
            model_input: vec![Chunk::Tokens(vec![1; weights.len()])],
            target_tokens: vec![1; weights.len()],
            loss_inputs: LossInputs::Supervised { weights: weights.to_vec() },
        }
    }

    fn answer(data: Range<usize>) -> Option<ComparedAnswer> {
        Some(ComparedAnswer { data, reference: -2.0 })
    }

    #[test]
    fn a_cross_entropy_has_the_same_gradient() {
        let data = [datum(&[0.0, 1.0]), datum(&[1.0]), datum(&[0.0, 1.0])];
        let comparisons = Comparisons {
            loss: PreferenceLoss::Dpo { beta: 0.1, label_smoothing: 0.0 },
            others: Vec::new(),
            scale: 0.5,
            likelihood_scale: 0.0,
            list: vec![Comparison { chosen: answer(0..2), rejected: answer(2..3) }],
        };
        comparisons.check(&data).unwrap();
        // The chosen answer's two datums add up to the reference's -2, and the rejected one's is 1 above.
        let (sum, linear) = comparisons.as_cross_entropy(&data, &[vec![-9.0, -1.5], vec![-0.5], vec![-9.0, -1.0]]);
        let share = sigmoid(0.1);
        assert!((sum + 0.5 * log_sigmoid(-0.1)).abs() < 1e-12);
        let weights = |index: usize| match &linear[index].loss_inputs {
            LossInputs::Supervised { weights } => weights.clone(),
            LossInputs::SoftTargets { .. } | LossInputs::Policy { .. } => unreachable!(),
        };
        let slope = (0.5 * 0.1 * share) as f32;
        assert_eq!((weights(0), weights(1), weights(2)), (vec![0.0, slope], vec![slope], vec![0.0, -slope]));
    }

    #[test]
    fn datums_that_are_not_the_comparisons_are_refused() {
        let comparisons = |loss, chosen, rejected| {
            let list = vec![Comparison { chosen, rejected }];
            Comparisons { loss, others: Vec::new(), scale: 1.0, likelihood_scale: 0.0, list }
        };
        let data = [datum(&[1.0]), datum(&[1.0])];
        let refused = |chosen, rejected| comparisons(LOSSES[0], chosen, rejected).check(&data).unwrap_err().to_string();
        assert!(refused(answer(0..1), None).contains("comparison 0 lacks an answer"));
        assert!(refused(answer(0..1), answer(0..1)).contains("does not begin behind"));
        assert!(refused(answer(0..1), answer(1..3)).contains("have 3 datums, and 2 came"));
        comparisons(LOSSES[4], answer(0..2), None).check(&data).unwrap();
    }
}
