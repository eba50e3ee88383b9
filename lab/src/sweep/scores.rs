//! What the runs of a sweep have come to, by what stands in their files of metrics.

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};

/// Scores of what is held out, the first that a run has counts, and whether more of it is better.
const HELD_OUT: [(&str, bool); 2] = [("test/env/all/reward/total", true), ("test/nll", false)];
/// What training rollouts earned, or of runs that learn from text what it cost.
const TRAINING: [(&str, bool); 2] = [("env/all/reward/total", true), ("optim/loss:sum", false)];

/// A number by which runs are compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Score {
    /// The number.
    pub value: f64,
    /// Whether more of it is better.
    #[serde(skip)]
    pub more_is_better: bool,
}

impl Score {
    /// Greater is better, whatever is measured; what is no number is worst.
    pub fn merit(self) -> f64 {
        let merit = if self.more_is_better { self.value } else { -self.value };
        if merit.is_nan() { f64::NEG_INFINITY } else { merit }
    }
}

/// The lines of a run's file of metrics that are whole.
pub fn steps(run: &Path) -> Vec<Map<String, Value>> {
    // A run that has not begun has none.
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Updates that a run has made.
pub fn updates(steps: &[Map<String, Value>]) -> u64 {
    // A line of an update has the number of those before it; the last line of a run has no update.
    let made = |step: &Map<String, Value>| {
        let number = step.get("step")?.as_u64()?;
        Some(if step.contains_key("optim/lr") { number + 1 } else { number })
    };
    steps.iter().filter_map(made).max().unwrap_or(0)
}

/// The last score of what is held out, of those after the first update and after `until` at most.
pub fn held_out(steps: &[Map<String, Value>], until: u64) -> Option<Score> {
    let is_learnt = |step: &&Map<String, Value>| {
        step.get("step").and_then(Value::as_u64).is_some_and(|made| (1..=until).contains(&made))
    };
    let learnt: Vec<_> = steps.iter().filter(is_learnt).collect();
    HELD_OUT.iter().find_map(|(key, more_is_better)| {
        let value = learnt.iter().rev().find_map(|step| number(step, key))?;
        Some(Score { value, more_is_better: *more_is_better })
    })
}

/// The mean of what was trained on in the last quarter of the first `until` updates.
pub fn training(steps: &[Map<String, Value>], until: u64) -> Option<Score> {
    let until = until.min(updates(steps));
    let from = until - until.div_ceil(4);
    let looked_at = |step: &&Map<String, Value>| {
        (from..until).contains(&step.get("step").and_then(Value::as_u64).unwrap_or(u64::MAX))
    };
    let steps: Vec<_> = steps.iter().filter(looked_at).collect();
    TRAINING.iter().find_map(|(key, more_is_better)| {
        let values: Vec<f64> = steps.iter().filter_map(|step| number(step, key)).collect();
        let value = values.iter().sum::<f64>() / values.len() as f64;
        (!values.is_empty()).then_some(Score { value, more_is_better: *more_is_better })
    })
}

fn number(step: &Map<String, Value>, key: &str) -> Option<f64> {
    step.get(key).and_then(Value::as_f64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metrics(lines: &[Value]) -> Vec<Map<String, Value>> {
        lines.iter().map(|line| line.as_object().unwrap().clone()).collect()
    }

    #[test]
    fn runs_are_compared_at_equal_steps() {
        let step = |n: u64, reward: f64| json!({ "step": n, "optim/lr": 1e-3, "env/all/reward/total": reward });
        let mut lines: Vec<Value> = (0..8u32).map(|n| step(n.into(), f64::from(n))).collect();
        lines[0]["test/env/all/reward/total"] = json!(-1.0);
        lines[4]["test/env/all/reward/total"] = json!(0.5);
        lines.push(json!({ "step": 8, "test/env/all/reward/total": 0.75 }));
        let steps = metrics(&lines);
        assert_eq!(updates(&steps), 8);
        assert_eq!(updates(&steps[..8]), 8, "a line of an update is told after it");
        let held_out = |until| held_out(&steps, until).map(|score| score.value);
        assert_eq!((held_out(3), held_out(4), held_out(7), held_out(8)), (None, Some(0.5), Some(0.5), Some(0.75)));
        assert_eq!(training(&steps, 8).unwrap().value, 6.5);
        assert_eq!(training(&steps, 4).unwrap().value, 3.0);
        assert_eq!(training(&steps, 800), training(&steps, 8));
        assert_eq!(training(&[], 8), None);
    }

    #[test]
    fn of_text_less_is_better() {
        let steps = metrics(&[json!({ "step": 2, "test/nll": 0.5 })]);
        assert!(held_out(&steps, 9).unwrap().merit() > Score { value: 0.6, more_is_better: false }.merit());
        assert_eq!(Score { value: f64::NAN, more_is_better: true }.merit(), f64::NEG_INFINITY);
    }
}
