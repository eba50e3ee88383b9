//! Generations in a table.

use fulgurite_adapters::exclusion_at_own_temperature;
use fulgurite_types::{Generation, UntrainedCause, WeightsFrom};

use super::table_record::TableRecord;
use crate::table::seconds;

impl TableRecord for Generation {
    const COLUMNS: &'static [&'static str] = &[
        "rollout",
        "attempt",
        "seq",
        "generation",
        "model",
        "weights",
        "prompt",
        "sampled",
        "logprob",
        "stop",
        "seconds",
        "continues",
        "untrained",
    ];

    fn row(&self) -> Vec<String> {
        vec![
            self.rollout_id.clone(),
            self.attempt_id.clone(),
            self.sequence_id.to_string(),
            self.generation_id.clone(),
            self.model.clone(),
            weights(&self.weights_versions),
            self.prompt_tokens.len().to_string(),
            self.sampled_tokens.len().to_string(),
            logprob(self.logprobs.as_deref()),
            self.stop_reason.to_string(),
            seconds(Some(self.start_time), Some(self.end_time)),
            self.parent_id.clone().unwrap_or_default(),
            untrained(self),
        ]
    }
}

/// Why it is not trained whatever it earns: the cause, or of one that is marked the mark itself, which says more.
fn untrained(generation: &Generation) -> String {
    match (exclusion_at_own_temperature(generation), &generation.defect) {
        (None, _) => String::new(),
        (Some(UntrainedCause::Auxiliary | UntrainedCause::Defective), Some(defect)) => defect.to_string(),
        (Some(cause), _) => cause.as_str().to_owned(),
    }
}

/// The versions of weights that sampled, in turn.
pub(crate) fn weights(versions: &[WeightsFrom]) -> String {
    let versions: Vec<String> = versions.iter().map(|weights| weights.version.to_string()).collect();
    versions.join(" then ")
}

/// The logprob of all tokens together.
pub(crate) fn logprob(logprobs: Option<&[f32]>) -> String {
    logprobs.map_or("none".to_owned(), |logprobs| format!("{:.3}", logprobs.iter().sum::<f32>()))
}
