//! Which rollouts of a store a run learns from: chosen once, when it begins.

use std::path::Path;

use anyhow::{Context, Result, bail};
use fulgurite_store::Store;
use fulgurite_trainer::EVALUATION_KIND;
use fulgurite_types::{Rollout, RolloutExpression};
use serde_json::Value;

use fulgurite_lab::records::matching_rollouts::matching;

/// Name of the file in a run's directory that says which ones they were, one a line.
const CHOSEN: &str = "rollouts.txt";

/// The rollouts that the expression means, in the order in which they were made. A run that goes on has those that it began
/// with, whatever was recorded since.
pub(crate) async fn selected(
    store: &Store,
    expression: &RolloutExpression,
    run_directory: &Path,
) -> Result<Vec<String>> {
    let path = run_directory.join(CHOSEN);
    if let Ok(chosen) = std::fs::read_to_string(&path) {
        return Ok(chosen.lines().map(str::to_owned).collect());
    }
    let chosen = matching(store, expression, may_be_learnt_from).await?;
    if chosen.is_empty() {
        bail!(
            "[trainer] source.rollouts: none of the store's rollouts that are over is meant by {expression}; those of \
             `fulgurite eval` are never learnt from"
        );
    }
    let lines: String = chosen.iter().map(|rollout_id| format!("{rollout_id}\n")).collect();
    let fresh = path.with_extension("new");
    let written = std::fs::write(&fresh, lines).and_then(|()| std::fs::rename(&fresh, &path));
    written.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(chosen)
}

/// Whether nothing more will be recorded of a rollout, and it is of no evaluation by itself; of a client's session nobody
/// knows its end.
fn may_be_learnt_from(rollout: &Rollout) -> bool {
    match rollout.noted("kind").and_then(Value::as_str) {
        Some("session") => true,
        Some(EVALUATION_KIND) => false,
        _ => rollout.status.is_finished(),
    }
}
