//! The account of sampled tokens that no step took.

use std::collections::{HashMap, HashSet};

use fulgurite_types::{GenerationUse, Rollout, TokenUse, UntrainedCause};
use serde_json::Value;

use crate::rollouts::Phase;
use crate::{Record, TrainError};

/// What no step has accounted for at the end of a run: calls that arrived after their step was over, and calls that
/// belong to no rollout of the run. `accounted` is what is about to be recorded.
pub(crate) async fn leftovers(
    record: &dyn Record,
    run_id: &str,
    accounted: &[GenerationUse],
) -> Result<Vec<GenerationUse>, TrainError> {
    // Its step is over, so a late call was made by an attempt that nobody waits for any more.
    let mut uses = account_late(record, run_id, UntrainedCause::SupersededAttempt).await?;
    let accounted: HashSet<&str> = accounted.iter().map(|one| one.generation_id.as_str()).collect();
    uses.retain(|one| !accounted.contains(one.generation_id.as_str()));
    Ok(uses)
}

/// What was sampled for a step that a crash cut short.
pub(crate) async fn undone(record: &dyn Record, run_id: &str) -> Result<Vec<GenerationUse>, TrainError> {
    account_late(record, run_id, UntrainedCause::AfterLastCheckpoint).await
}

/// Accounts for everything that is not accounted for yet; `cause` is that of the run's own training rollouts.
async fn account_late(
    record: &dyn Record,
    run_id: &str,
    cause: UntrainedCause,
) -> Result<Vec<GenerationUse>, TrainError> {
    let mut phases: HashMap<String, Option<Phase>> = HashMap::new();
    let mut uses = Vec::new();
    for late in record.unaccounted_generations(run_id).await? {
        if !phases.contains_key(&late.rollout_id) {
            let rollout = record.rollout(&late.rollout_id).await?;
            phases.insert(late.rollout_id.clone(), rollout.and_then(|rollout| phase_in_run(&rollout, run_id)));
        }
        let cause = match phases.get(&late.rollout_id).copied().flatten() {
            None => UntrainedCause::Unattributed,
            Some(Phase::Train) => cause,
            Some(Phase::HeldOut | Phase::Final) => UntrainedCause::Evaluation,
        };
        let cause = TokenUse::Untrained(cause);
        uses.push(GenerationUse { generation_id: late.generation_id, cause, tokens: late.sampled_tokens });
    }
    Ok(uses)
}

/// What the run made a rollout for; `None` if it is not the run's.
fn phase_in_run(rollout: &Rollout, run_id: &str) -> Option<Phase> {
    let text = |key: &str| rollout.noted(key).and_then(Value::as_str);
    (text("run_id") == Some(run_id)).then(|| Phase::from_name(text("phase")?)).flatten()
}
