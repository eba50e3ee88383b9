//! Updates one after another that had nothing to learn from: said while there is time to stop.

use std::collections::BTreeMap;

use fulgurite_types::{GenerationUse, Step, TokenUse};

use crate::{SampleAnswer, TrainError, TrainEvent};

/// So many updates in a row without a gradient are told of, and each further such number.
const WARNED_AFTER: usize = 3;

/// The last steps one after another whose batches were empty.
fn in_a_row(steps: &[Step]) -> usize {
    steps.iter().rev().take_while(|step| step.metrics["optim/datums"] == 0).count()
}

/// Ends a run of which `limit` updates one after another had nothing to learn from; 0 ends none.
pub(crate) fn check(steps: &[Step], limit: u64) -> Result<(), TrainError> {
    let updates = in_a_row(steps) as u64;
    if limit == 0 || updates < limit { Ok(()) } else { Err(TrainError::WithoutGradient { updates, limit }) }
}

/// The warning that is due after a step whose batch was empty, if one is. `steps` are all that are recorded; `uses` and
/// `answers` are those of the last one.
pub(crate) fn warning(steps: &[Step], uses: &[GenerationUse], answers: Vec<SampleAnswer>) -> Option<TrainEvent> {
    let updates = in_a_row(steps);
    if updates == 0 || !updates.is_multiple_of(WARNED_AFTER) {
        return None;
    }
    let mut untrained = BTreeMap::new();
    for usage in uses.iter().filter(|usage| usage.cause != TokenUse::Trained) {
        *untrained.entry(usage.cause.to_string()).or_insert(0) += usage.tokens;
    }
    Some(TrainEvent::WithoutGradient { step: steps.last()?.weights_version, updates, untrained, answers })
}
