//! How far a run has come, by what is recorded of it.

use fulgurite_trainer::EVALUATION_KIND;
use fulgurite_types::{Run, Step};

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunProgress {
    /// More may come of it.
    #[default]
    Underway,
    /// Its stop rule ended it before its limit of updates: it reached what it was to reach.
    MetStopRule,
    /// It is over: at its limit of updates, or an evaluation that is done.
    Ended,
}

/// How far a run has come, by its config and the steps that are recorded of it.
pub fn progress(run: &Run, steps: &[Step]) -> RunProgress {
    match steps.last() {
        Some(last) if is_over(run, steps) => {
            let limit = run.config["trainer"]["max_steps"].as_u64();
            let is_below_limit = limit.is_some_and(|limit| last.weights_version < limit);
            if is_below_limit && !is_evaluation(run) { RunProgress::MetStopRule } else { RunProgress::Ended }
        }
        _ => RunProgress::Underway,
    }
}

/// Whether nothing more comes of a run.
pub(super) fn is_over(run: &Run, steps: &[Step]) -> bool {
    steps.last().is_some_and(|last| is_evaluation(run) || last.weights_version < last.step)
}

/// Whether a run only scores.
pub(super) fn is_evaluation(run: &Run) -> bool {
    run.config["kind"] == EVALUATION_KIND
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::runs::testing::{run, step};

    #[test]
    fn a_run_that_ends_below_its_limit_met_its_stop_rule() {
        let run = run(json!({ "trainer": { "max_steps": 3 } }));
        let last = |version| [step(1, 1, json!({})), step(version + 1, version, json!({}))];
        assert_eq!(progress(&run, &[]), RunProgress::Underway);
        assert_eq!(progress(&run, &last(2)[..1]), RunProgress::Underway);
        assert_eq!(progress(&run, &last(2)), RunProgress::MetStopRule);
        assert_eq!(progress(&run, &last(3)), RunProgress::Ended);
    }
}
