//! The same held-out tasks, answered before, in the middle of and after what a run has learnt.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use fulgurite_store::Store;
use fulgurite_types::{ListFilter, Part, Rollout, Run};
use serde::Serialize;
use serde_json::Value;

use super::transcripts::{last_message, text, transcript_of};

/// Tasks that are shown.
const SHOWN: usize = 4;

/// A held-out task, and how it was answered as the run went on.
#[derive(Serialize)]
pub(crate) struct ChangedAnswers {
    task: String,
    /// The first answer comes first.
    answers: Vec<ChangedAnswer>,
}

/// An answer to a task.
#[derive(Serialize)]
struct ChangedAnswer {
    /// Updates before it.
    step: u64,
    reward: f64,
    #[serde(rename = "said")]
    answer: String,
}

/// The first answers to some held-out tasks, each time that shows how they changed: at the first scoring, at the middle one and at the
/// last. Nothing of a run that has scored them once.
pub(crate) async fn changed_answers(store: &Store, run: &Run) -> Result<Vec<ChangedAnswers>> {
    let filter = ListFilter { run_id: Some(run.run_id.clone()), ..ListFilter::default() };
    let every = Part::Newest { limit: None, sort_by: None };
    // The first of each group by update and place: one answer to a task is enough to be read.
    let mut scored: BTreeMap<u64, BTreeMap<u64, Rollout>> = BTreeMap::new();
    for rollout in store.queries().list_rollouts(&filter, &every).await?.items {
        if rollout.noted("phase").and_then(Value::as_str) != Some("held_out") {
            continue;
        }
        let number = |key: &str| rollout.noted(key).and_then(Value::as_u64);
        if let (Some(step), Some(group)) = (number("step"), number("group")) {
            scored.entry(step).or_default().entry(group).or_insert(rollout);
        }
    }
    let steps = moments(&scored.keys().copied().collect::<Vec<_>>());
    let groups: BTreeSet<u64> = scored.values().flat_map(|groups| groups.keys().copied()).take(SHOWN).collect();
    let mut changed = Vec::new();
    if steps.len() < 2 {
        return Ok(changed);
    }
    for group in groups.into_iter().take(SHOWN) {
        let (mut task, mut answers) = (None, Vec::new());
        for step in &steps {
            let Some(rollout) = scored.get(step).and_then(|groups| groups.get(&group)) else { continue };
            let Some(transcript) = transcript_of(store, run, rollout).await? else { continue };
            task.get_or_insert_with(|| text(&rollout.input));
            answers.push(ChangedAnswer { step: *step, reward: transcript.reward, answer: last_message(&transcript) });
        }
        changed.extend(task.map(|task| ChangedAnswers { task, answers }));
    }
    Ok(changed)
}

/// The first, the middle and the last.
fn moments(steps: &[u64]) -> Vec<u64> {
    let mut moments: Vec<u64> =
        [0, steps.len() / 2, steps.len().saturating_sub(1)].iter().filter_map(|at| steps.get(*at).copied()).collect();
    moments.dedup();
    moments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_shown_at_its_beginning_its_middle_and_its_end() {
        assert_eq!(moments(&[0, 5, 10, 15, 20]), [0, 10, 20]);
        assert_eq!(moments(&[0, 5]), [0, 5]);
        assert_eq!(moments(&[7]), [7]);
        assert!(moments(&[]).is_empty());
    }
}
