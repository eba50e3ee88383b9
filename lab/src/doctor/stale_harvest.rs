//! What is said of rewarded rollouts that a harvest lost, since it does not learn from the weights that sampled them.

/// Rewarded rollouts that the latest steps of a harvest lost calls of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StaleCalls {
    /// Rollouts whose weights were too old.
    pub outdated: f64,
    /// Updates between the oldest of those weights and the learner's.
    pub behind: f64,
    /// Rollouts whose weights the run has not made.
    pub foreign: f64,
}

impl StaleCalls {
    /// What shows them, in the last `steps` steps.
    pub(crate) fn evidence(&self, steps: usize) -> String {
        let Self { outdated, behind, foreign } = self;
        let sampled_by = [
            (outdated, format!("{outdated} were sampled by weights up to {behind} updates behind")),
            (foreign, format!("{foreign} were sampled by weights that the run has not made")),
        ];
        let sampled_by: Vec<String> =
            sampled_by.into_iter().filter(|(rollouts, _)| **rollouts > 0.0).map(|(_, text)| text).collect();
        format!(
            "the last {steps} steps lost calls of {} rewarded rollouts (stale_weights, unknown_weights): {}",
            outdated + foreign,
            sampled_by.join(", ")
        )
    }

    /// What to do about them, if there are any.
    pub(crate) fn what_to_do(&self) -> Option<&'static str> {
        match (self.outdated > 0.0, self.foreign > 0.0) {
            (false, false) => None,
            (true, false) => Some(
                "raise [trainer] harvest.max_staleness to as many updates, or learn from a backlog in fewer and larger steps \
                 (harvest.rollouts_per_step)",
            ),
            (false, true) => Some("rollouts of another run's weights need a run that begins with those"),
            (true, true) => Some(
                "raise [trainer] harvest.max_staleness to as many updates, or learn from a backlog in fewer and larger steps \
                 (harvest.rollouts_per_step); rollouts of another run's weights need a run that begins with those",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_of_rollouts_that_were_not_lost() {
        let foreign = StaleCalls { outdated: 0.0, behind: 0.0, foreign: 2.0 };
        insta::assert_snapshot!(foreign.evidence(9), @"the last 9 steps lost calls of 2 rewarded rollouts (stale_weights, unknown_weights): 2 were sampled by weights that the run has not made");
        assert_eq!(foreign.what_to_do().map(|text| text.contains("max_staleness")), Some(false));
        let outdated = StaleCalls { outdated: 3.0, behind: 7.0, foreign: 0.0 };
        insta::assert_snapshot!(outdated.evidence(9), @"the last 9 steps lost calls of 3 rewarded rollouts (stale_weights, unknown_weights): 3 were sampled by weights up to 7 updates behind");
        assert_eq!(outdated.what_to_do().map(|text| text.contains("another run's")), Some(false));
        assert_eq!(StaleCalls { outdated: 0.0, ..outdated }.what_to_do(), None);
    }
}
