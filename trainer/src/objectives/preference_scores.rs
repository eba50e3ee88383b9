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
    /// Accuracy by how far apart the rewards are, of a loss of scores.
    by_distance: [Mean; 4],
}

/// Distances of two scores from which on the later ones of [`PreferenceScores::by_distance`] are counted.
const DISTANCES: [f64; 3] = [0.5, 1.0, 2.0];

/// The accuracy of each of them, and its comparisons, as an evaluation has them.
const BY_DISTANCE: [(&str, &str); 4] = [
    ("test/accuracy_by_margin/below_0.5", "test/pairs_by_margin/below_0.5"),
    ("test/accuracy_by_margin/0.5_to_1", "test/pairs_by_margin/0.5_to_1"),
    ("test/accuracy_by_margin/1_to_2", "test/pairs_by_margin/1_to_2"),
    ("test/accuracy_by_margin/from_2", "test/pairs_by_margin/from_2"),
];

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
        let own = own.into_iter().chain(&mut self.by_distance);
        own.zip(others.into_iter().chain(other.by_distance)).for_each(|(mean, other)| mean.add(other.sum, other.count));
    }

    pub(crate) fn add(&mut self, comparisons: &Comparisons, data: &[Datum], logprobs: &[Vec<f32>]) {
        let is_of_scores = comparisons.loss.is_of_scores();
        for comparison in &comparisons.list {
            let [chosen, rejected] = comparison.scores(|index| datum_score(&data[index], &logprobs[index]));
            let reward = |answer: &AnswerScore| comparisons.loss.reward(answer);
            if let Some(chosen) = &chosen {
                self.chosen.add(reward(chosen), 1.0);
                if !is_of_scores {
                    self.nll.add(-chosen.logprob, chosen.weight);
                }
            }
            if let Some(rejected) = &rejected {
                self.rejected.add(reward(rejected), 1.0);
            }
            if let (Some(chosen), Some(rejected)) = (&chosen, &rejected) {
                let margin = reward(chosen) - reward(rejected);
                self.margin.add(margin, 1.0);
                let is_right = f64::from(u8::from(margin > 0.0));
                self.accuracy.add(is_right, 1.0);
                if is_of_scores {
                    let place = DISTANCES.iter().filter(|least| margin.abs() >= **least).count();
                    self.by_distance[place].add(is_right, 1.0);
                }
            }
        }
    }

    /// As an update has them.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.named(["accuracy", "margin", "chosen_reward", "rejected_reward", "chosen_nll"])
    }

    /// As an evaluation has them.
    pub(crate) fn held_out(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let by_distance = BY_DISTANCE.into_iter().zip(self.by_distance).filter(|(_, mean)| mean.count > 0.0);
        let by_distance = by_distance
            .flat_map(|((accuracy, pairs), mean)| [(accuracy, mean.value().unwrap_or_default()), (pairs, mean.count)]);
        self.named(["test/accuracy", "test/margin", "test/chosen_reward", "test/rejected_reward", "test/nll"])
            .chain(by_distance)
    }

    fn named(&self, names: [&'static str; 5]) -> impl Iterator<Item = (&'static str, f64)> {
        let means = [self.accuracy, self.margin, self.chosen, self.rejected, self.nll];
        names.into_iter().zip(means).filter_map(|(name, mean)| Some((name, mean.value()?)))
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_backends::{ComparedAnswer, Comparison, PreferenceLoss};

    use super::*;
    use crate::conversations::scored_datum;

    #[test]
    fn accuracy_is_counted_by_the_distance_of_two_scores() {
        let scores = [(0.25, 0.0), (0.0, 0.25), (1.0, 0.5), (0.0, 3.0), (5.0, 0.0), (9.0, 0.0)];
        let data = vec![scored_datum(vec![1, 2]); 2 * scores.len()];
        let logprobs = scores.iter().flat_map(|(chosen, rejected)| [vec![7.0, *chosen], vec![7.0, *rejected]]);
        let answer = |place: usize| Some(ComparedAnswer { data: place..place + 1, reference: 0.0 });
        let list = (0..scores.len()).map(|n| Comparison { chosen: answer(2 * n), rejected: answer(2 * n + 1) });
        let loss = PreferenceLoss::BradleyTerry { centering: 0.0 };
        let comparisons =
            Comparisons { loss, others: Vec::new(), scale: 1.0, likelihood_scale: 0.0, list: list.collect() };
        let mut sums = PreferenceScores::default();
        sums.add(&comparisons, &data, &logprobs.collect::<Vec<_>>());
        let mut twice = sums.clone();
        twice.merge(&sums);
        let found =
            |sums: &PreferenceScores, key: &str| sums.held_out().find(|(name, _)| *name == key).map(|(_, value)| value);
        for (key, once, both) in [
            ("test/accuracy_by_margin/below_0.5", Some(0.5), Some(0.5)),
            ("test/pairs_by_margin/below_0.5", Some(2.0), Some(4.0)),
            ("test/accuracy_by_margin/0.5_to_1", Some(1.0), Some(1.0)),
            ("test/accuracy_by_margin/1_to_2", None, None),
            ("test/pairs_by_margin/from_2", Some(3.0), Some(6.0)),
            ("test/nll", None, None),
        ] {
            assert_eq!((found(&sums, key), found(&twice, key)), (once, both), "{key}");
        }
        assert!((found(&sums, "test/accuracy_by_margin/from_2").unwrap() - 2.0 / 3.0).abs() < 1e-12);
        assert!((found(&sums, "test/accuracy").unwrap() - 4.0 / 6.0).abs() < 1e-12);
    }
}
