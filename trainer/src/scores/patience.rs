//! Early stopping: a run whose held-out score improves no more.

use crate::options::CommonOptions;

/// Ends a run after so many evaluations without an improvement, as transformers' `EarlyStoppingCallback` does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Patience {
    /// Evaluations one after another that are no better.
    evaluations: u64,
    /// What a score must be better by.
    least_improvement: f64,
}

impl Patience {
    /// As the options say.
    pub(crate) fn of(options: &CommonOptions) -> Option<Self> {
        let evaluations = options.patience?;
        Some(Self { evaluations, least_improvement: options.least_improvement })
    }

    /// Evaluations that are waited for.
    pub(crate) fn evaluations(self) -> u64 {
        self.evaluations
    }

    /// Whether the scores, oldest first and more being better, end the run. Each is held against the best before it, whether
    /// that was an improvement or not.
    pub(crate) fn is_met(self, scores: impl IntoIterator<Item = f64>) -> bool {
        let (mut best, mut without) = (None::<f64>, 0);
        for score in scores {
            let improves = best.is_none_or(|best| score - best > self.least_improvement);
            without = if improves { 0 } else { without + 1 };
            best = Some(best.map_or(score, |best| best.max(score)));
            // An evaluation that ended a run still does once a later one is known.
            if without >= self.evaluations {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(evaluations: u64, least_improvement: f64, scores: &[f64]) -> Option<usize> {
        let rule = Patience { evaluations, least_improvement };
        (1..=scores.len()).find(|count| rule.is_met(scores[..*count].iter().copied()))
    }

    /// transformers 5.24.0: where `EarlyStoppingCallback` has ended a `Trainer` with these values of `metric_for_best_model`.
    #[test]
    fn a_run_ends_where_transformers_would() {
        let scores = [0.10, 0.30, 0.31, 0.29, 0.33, 0.32, 0.31, 0.335, 0.30, 0.30];
        assert_eq!(ends(1, 0.0, &scores), Some(4));
        assert_eq!(ends(2, 0.0, &scores), Some(7));
        assert_eq!(ends(3, 0.0, &scores), None);
        // A gain of 0.01 or less is none, but later scores are held against it.
        assert_eq!(ends(2, 0.015, &scores), Some(4));
        assert_eq!(ends(3, 0.015, &scores), Some(8));
        assert_eq!(ends(1, 0.0, &[]), None);
    }

    #[test]
    fn a_score_that_is_no_number_is_no_improvement() {
        assert_eq!(ends(1, 0.0, &[0.5, f64::NAN]), Some(2));
    }
}
