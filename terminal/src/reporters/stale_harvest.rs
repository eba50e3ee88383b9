//! What is said of rewarded rollouts that a harvest lost because of the weights that sampled them.

use fulgurite_trainer::StaleRollouts;
use serde_json::{Value, json};

/// For people.
pub(super) fn text(step: u64, stale: StaleRollouts, max_staleness: u64) -> String {
    let StaleRollouts { outdated, behind, foreign } = stale;
    let mut causes = Vec::new();
    if outdated > 0 {
        causes.push(format!(
            "{outdated} by weights up to {behind} updates behind, of which [trainer] harvest.max_staleness = {max_staleness} \
             takes none: {behind} takes them all"
        ));
    }
    if foreign > 0 {
        causes.push(format!("{foreign} by weights that this run has not made, and may not be learnt from"));
    }
    let (rollouts, causes) = (outdated + foreign, causes.join("; "));
    format!(
        "warning: step {step} lost calls of {rollouts} rewarded rollouts (stale_weights, unknown_weights), sampled {causes}"
    )
}

/// For programs.
pub(super) fn json(step: u64, stale: StaleRollouts, max_staleness: u64) -> Value {
    let StaleRollouts { outdated, behind, foreign } = stale;
    json!({
        "event": "stale_harvest", "step": step, "outdated": outdated, "behind": behind, "foreign": foreign,
        "max_staleness": max_staleness,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_that_would_take_them_is_named_with_its_value() {
        let stale = StaleRollouts { outdated: 98, behind: 7, foreign: 2 };
        insta::assert_snapshot!(text(9, stale, 4), @"warning: step 9 lost calls of 100 rewarded rollouts (stale_weights, unknown_weights), sampled 98 by weights up to 7 updates behind, of which [trainer] harvest.max_staleness = 4 takes none: 7 takes them all; 2 by weights that this run has not made, and may not be learnt from");
    }
}
