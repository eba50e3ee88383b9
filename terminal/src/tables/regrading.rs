//! What another grader's rewards change, as a table and as JSON.

use std::collections::BTreeMap;

use fulgurite_lab::regrade::comparison::{Comparison, Regraded};
use fulgurite_lab::regrade::grading::GraderFault;
use fulgurite_lab::regrade::recorded::LeftOut;
use fulgurite_lab::visible::cut;
use serde_json::{Value, json};

use crate::table::Columns;

/// Rows of the table of changed rewards; the JSON has them all.
const SHOWN: usize = 20;

/// Whether the new rewards count from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewRewards {
    /// They are given to the rollouts.
    Given,
    /// They are only shown.
    Shown,
}

/// What was graded again.
#[derive(Clone, Copy)]
pub struct Regrading<'a> {
    /// The rollouts that have a new reward.
    pub regraded: &'a [Regraded],
    /// How many have none, by cause.
    pub left_out: &'a BTreeMap<LeftOut, usize>,
    /// The first failure of the grader.
    pub first_fault: Option<&'a GraderFault>,
    /// Whether the rewards were given.
    pub new_rewards: NewRewards,
}

impl Regrading<'_> {
    /// An object for each rollout, and one for all.
    pub fn json(&self) -> Vec<Value> {
        let left_out: BTreeMap<&str, usize> =
            self.left_out.iter().map(|(cause, count)| (cause.key(), *count)).collect();
        let mut summary = json!(Comparison::of(self.regraded));
        summary["left_out"] = json!(left_out);
        summary["applied"] = Value::from(self.new_rewards == NewRewards::Given);
        self.regraded.iter().map(|rollout| json!(rollout)).chain([summary]).collect()
    }

    /// The changed rewards, and what they change in all.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = changed_rewards(self.regraded);
        let Comparison {
            graded,
            changed,
            old_mean,
            new_mean,
            groups,
            reordered_groups,
            revived_groups,
            silenced_groups,
        } = Comparison::of(self.regraded);
        lines.push(format!(
            "{graded} rollouts graded, {changed} earn something else; mean {} -> {}",
            number(old_mean),
            number(new_mean)
        ));
        if groups > 0 {
            lines.push(format!(
                "{reordered_groups} of {groups} groups are ordered otherwise; {revived_groups} had nothing to learn from and have, \
                 {silenced_groups} had and have not"
            ));
        }
        lines.extend(self.left_out.iter().map(|(cause, count)| format!("{count} {}", cause.words())));
        let fault =
            |GraderFault { rollout_id, fault }: &GraderFault| format!("the grader on {rollout_id}: {}", cut(fault));
        lines.extend(self.first_fault.map(fault));
        let outcome = match (self.new_rewards, changed) {
            (NewRewards::Given, _) => Some("the new rewards are given; each one before is kept and counts no more"),
            (NewRewards::Shown, 0) => None,
            (NewRewards::Shown, _) => Some("nothing is changed: --apply gives the new rewards"),
        };
        lines.extend(outcome.map(str::to_owned));
        lines
    }
}

fn changed_rewards(regraded: &[Regraded]) -> Vec<String> {
    let changed: Vec<&Regraded> = regraded.iter().filter(|rollout| rollout.is_changed()).collect();
    if changed.is_empty() {
        return Vec::new();
    }
    let mut table = Columns::new(&["rollout", "old", "new"]);
    for rollout in changed.iter().take(SHOWN) {
        table.push(vec![rollout.rollout_id.clone(), number(rollout.old), number(Some(rollout.new))]);
    }
    let mut lines = table.lines();
    if changed.len() > SHOWN {
        lines.push(format!("... and {} more (--json has them all)", changed.len() - SHOWN));
    }
    lines
}

fn number(number: Option<f64>) -> String {
    number.map_or("-".to_owned(), |number| format!("{number:.4}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rollout(rollout_id: &str, old: Option<f64>, new: f64) -> Regraded {
        Regraded { rollout_id: rollout_id.to_owned(), group: None, old, new }
    }

    #[test]
    fn changed_rewards_are_shown_and_others_are_counted() {
        let regraded = [rollout("ro-1", Some(0.0), 1.0), rollout("ro-2", Some(0.5), 0.5)];
        let left_out = BTreeMap::from([(LeftOut::NoOutput, 3)]);
        let regrading =
            Regrading { regraded: &regraded, left_out: &left_out, first_fault: None, new_rewards: NewRewards::Shown };
        insta::assert_snapshot!(regrading.lines().join("\n"), @r"
         rollout  old     new
         ro-1     0.0000  1.0000
        2 rollouts graded, 1 earn something else; mean 0.2500 -> 0.7500
        3 have no whole output recorded
        nothing is changed: --apply gives the new rewards
        ");
        assert_eq!(regrading.json().last().unwrap()["left_out"], json!({ "no_output": 3 }));
        assert_eq!(regrading.json().last().unwrap()["applied"], json!(false));
    }

    #[test]
    fn of_many_changed_rewards_some_are_shown() {
        let regraded: Vec<Regraded> = (0..25).map(|n| rollout(&format!("ro-{n}"), None, 1.0)).collect();
        let (left_out, new_rewards) = (BTreeMap::new(), NewRewards::Given);
        let regrading = Regrading { regraded: &regraded, left_out: &left_out, first_fault: None, new_rewards };
        let lines = regrading.lines();
        assert_eq!(lines[SHOWN + 1], "... and 5 more (--json has them all)");
        assert_eq!(lines.last().unwrap(), "the new rewards are given; each one before is kept and counts no more");
    }
}
