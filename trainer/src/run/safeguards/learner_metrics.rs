//! What a learner reports of an update's steps beside their norms.

use std::collections::BTreeMap;

/// How the numbers of several steps become the update's.
#[derive(Clone, Copy)]
enum Combined {
    Sum,
    Greatest,
}

/// The learner's name, the metric's, and how numbers are combined. A host's other numbers have no names of ours.
const KNOWN: [(&str, &str, Combined); 2] = [
    ("learner_peak_memory_bytes", "learner/peak_memory_bytes", Combined::Greatest),
    ("learner_shared_tokens", "learner/shared_tokens", Combined::Sum),
];

/// Metrics of an update, from those of its steps.
#[derive(Debug, Default)]
pub(crate) struct LearnerMetrics(BTreeMap<&'static str, f64>);

impl LearnerMetrics {
    /// Takes a step's.
    pub(crate) fn add(&mut self, step: &BTreeMap<String, f64>) {
        for (name, metric, combined) in KNOWN {
            let Some(&value) = step.get(name) else { continue };
            let before = self.0.entry(metric).or_insert(0.0);
            *before = match combined {
                Combined::Sum => *before + value,
                Combined::Greatest => before.max(value),
            };
        }
    }

    /// The update's, by their names.
    pub(crate) fn into_metrics(self) -> impl Iterator<Item = (&'static str, f64)> {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_updates_numbers_are_those_of_its_steps() {
        let step = |shared: f64, peak: f64| -> BTreeMap<String, f64> {
            let pairs = [("learner_shared_tokens", shared), ("learner_peak_memory_bytes", peak), ("other", 1.0)];
            pairs.map(|(name, value)| (name.to_owned(), value)).into()
        };
        let mut metrics = LearnerMetrics::default();
        metrics.add(&step(3.0, 9.0));
        metrics.add(&step(4.0, 5.0));
        let found: Vec<_> = metrics.into_metrics().collect();
        assert_eq!(found, [("learner/peak_memory_bytes", 9.0), ("learner/shared_tokens", 7.0)]);
        assert_eq!(LearnerMetrics::default().into_metrics().count(), 0);
    }
}
