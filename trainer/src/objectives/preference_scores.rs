//! What is told of comparisons, by the names that the field knows.

use fulgurite_backends::{AnswerScore, Comparisons, datum_score};
use fulgurite_types::Datum;

/// Sums over comparisons.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PreferenceScores {
    chosen: Mean,
    rejected: Mean,
    margin: Mean,
    accuracy: Mean,
    /// Of the chosen answers' tokens.
    nll: Mean,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Mean {
    sum: f64,
    count: f64,
}

impl Mean {
    fn add(&mut self, value: f64, count: f64) {
        self.sum += value;
        self.count += count;
    }

    fn value(self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }
}

impl PreferenceScores {
    /// Adds those of other comparisons.
    pub(crate) fn merge(&mut self, other: &Self) {
        let own = [&mut self.chosen, &mut self.rejected, &mut self.margin, &mut self.accuracy, &mut self.nll];
        let others = [other.chosen, other.rejected, other.margin, other.accuracy, other.nll];
        own.into_iter().zip(others).for_each(|(mean, other)| mean.add(other.sum, other.count));
    }

    pub(crate) fn add(&mut self, comparisons: &Comparisons, data: &[Datum], logprobs: &[Vec<f32>]) {
        for comparison in &comparisons.list {
            let [chosen, rejected] = comparison.scores(|index| datum_score(&data[index], &logprobs[index]));
            let reward = |answer: &AnswerScore| comparisons.loss.reward(answer);
            if let Some(chosen) = &chosen {
                self.chosen.add(reward(chosen), 1.0);
                self.nll.add(-chosen.logprob, chosen.weight);
            }
            if let Some(rejected) = &rejected {
                self.rejected.add(reward(rejected), 1.0);
            }
            if let (Some(chosen), Some(rejected)) = (&chosen, &rejected) {
                let margin = reward(chosen) - reward(rejected);
                self.margin.add(margin, 1.0);
                self.accuracy.add(f64::from(u8::from(margin > 0.0)), 1.0);
            }
        }
    }

    /// As an update has them.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.named(["accuracy", "margin", "chosen_reward", "rejected_reward", "chosen_nll"])
    }

    /// As an evaluation has them.
    pub(crate) fn held_out(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.named(["test/accuracy", "test/margin", "test/chosen_reward", "test/rejected_reward", "test/nll"])
    }

    fn named(&self, names: [&'static str; 5]) -> impl Iterator<Item = (&'static str, f64)> {
        let means = [self.accuracy, self.margin, self.chosen, self.rejected, self.nll];
        names.into_iter().zip(means).filter_map(|(name, mean)| Some((name, mean.value()?)))
    }
}
