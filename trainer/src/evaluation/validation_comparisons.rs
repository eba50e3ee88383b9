//! Scores of comparisons that are held out.

use std::sync::Arc;

use async_trait::async_trait;
use fulgurite_backends::Learner;
use serde_json::{Map, Value};

use super::evaluator::DataScores;
use crate::TrainError;
use crate::conversations::ComparedExample;
use crate::objectives::{Held, PreferenceScores, compared_data, fill_in};
use crate::options::LossTerms;
use crate::scores::VALIDATION_LOSS;

/// What a loss makes of comparisons.
#[derive(Clone)]
pub(crate) struct ComparisonScores {
    losses: LossTerms,
    length_alpha: f64,
    held: Option<Held>,
    sums: PreferenceScores,
    /// Of all comparisons.
    loss_sum: f64,
    count: usize,
}

impl ComparisonScores {
    pub(crate) fn new(losses: LossTerms, length_alpha: f64, held: Option<Held>) -> Self {
        Self { losses, length_alpha, held, sums: PreferenceScores::default(), loss_sum: 0.0, count: 0 }
    }
}

#[async_trait]
impl DataScores for ComparisonScores {
    type Item = ComparedExample;

    async fn add(&mut self, rows: Vec<ComparedExample>, learner: &dyn Learner) -> Result<(), TrainError> {
        let (data, mut list) = compared_data(&rows, self.losses.main, self.length_alpha)?;
        if let Some(held) = &self.held {
            fill_in(&mut list, &data, &held.reference.logprobs(learner, Arc::clone(&data)).await?);
        }
        let logprobs = learner.forward(Arc::clone(&data)).await?;
        let comparisons = self.losses.comparisons(1.0, list);
        self.sums.add(&comparisons, &data, &logprobs);
        self.loss_sum += comparisons.as_cross_entropy(&data, &logprobs).0;
        self.count += comparisons.list.len();
        Ok(())
    }

    fn merge(&mut self, other: Self) {
        self.sums.merge(&other.sums);
        self.loss_sum += other.loss_sum;
        self.count += other.count;
    }

    fn into_metrics(self) -> (Map<String, Value>, Vec<f64>) {
        let loss = (VALIDATION_LOSS, self.loss_sum / self.count.max(1) as f64);
        let named = self.sums.held_out().chain([loss]);
        (named.map(|(key, value)| (key.to_owned(), Value::from(value))).collect(), Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_backends::PreferenceLoss;

    use super::*;

    #[test]
    fn the_loss_of_all_sets_is_the_mean_over_their_comparisons() {
        let scores = |loss_sum, count| {
            let losses = LossTerms::from(PreferenceLoss::Ipo { beta: 0.1 });
            ComparisonScores { loss_sum, count, ..ComparisonScores::new(losses, 1.0, None) }
        };
        let mut all = scores(0.0, 0);
        all.merge(scores(3.0, 2));
        all.merge(scores(2.0, 8));
        assert_eq!(all.into_metrics().0[VALIDATION_LOSS], 0.5);
    }
}
