//! When a run stops before its limit of steps.

use super::task_set::Scores;
use crate::options::StopRule;

impl StopRule {
    /// Whether the evaluations so far, oldest first, end the training.
    pub fn is_met(&self, evaluations: &[Scores]) -> bool {
        let last = evaluations.len().checked_sub(self.in_a_row.max(1)).map(|start| &evaluations[start..]);
        last.is_some_and(|last| last.iter().all(|scores| self.reaches(scores)))
    }

    fn reaches(&self, Scores { reward, components, .. }: &Scores) -> bool {
        let any = self.held_out_reward.is_some() || !self.held_out.is_empty();
        any && self.held_out_reward.is_none_or(|least| *reward >= least)
            && self.held_out.iter().all(|(name, least)| components.get(name).is_some_and(|mean| mean >= least))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_threshold_must_be_reached() {
        let scores = |reward: f64, exact: Option<f64>| Scores {
            reward,
            components: exact.map(|exact| ("exact".to_owned(), exact)).into_iter().collect(),
            ..Scores::default()
        };
        let held_out = BTreeMap::from([("exact".to_owned(), 0.9)]);
        let rule = StopRule { held_out_reward: Some(0.95), held_out, ..StopRule::default() };
        assert!(rule.is_met(&[scores(0.95, Some(0.9))]));
        assert!(!rule.is_met(&[scores(0.94, Some(0.9))]));
        assert!(!rule.is_met(&[scores(0.95, Some(0.89))]));
        assert!(!rule.is_met(&[scores(0.95, None)]), "a component that nobody reports is not reached");
        assert!(!rule.is_met(&[]));
        assert!(!StopRule::default().is_met(&[scores(1.0, None)]), "no threshold, no stop");

        let (good, bad) = (scores(1.0, Some(1.0)), scores(0.0, Some(0.0)));
        let rule = StopRule { in_a_row: 2, ..rule };
        assert!(!rule.is_met(std::slice::from_ref(&good)));
        assert!(!rule.is_met(&[good.clone(), bad.clone(), good.clone()]));
        assert!(rule.is_met(&[bad, good.clone(), good]));
    }
}
