//! How calls stand to those before them, in a table.

use fulgurite_types::CallDrift;

use super::table_record::TableRecord;

impl TableRecord for CallDrift {
    const COLUMNS: &'static [&'static str] = &[
        "rollout",
        "seq",
        "generation",
        "prompt",
        "kept",
        "new",
        "sampled",
        "continues",
        "reason",
        "first difference",
    ];

    fn row(&self) -> Vec<String> {
        vec![
            self.rollout_id.clone(),
            self.sequence_id.to_string(),
            self.generation_id.clone(),
            self.prompt_tokens.to_string(),
            self.kept_tokens.to_string(),
            self.prompt_tokens.saturating_sub(self.kept_tokens).to_string(),
            self.sampled_tokens.to_string(),
            self.continues.clone().unwrap_or_default(),
            self.reason.as_ref().map(ToString::to_string).unwrap_or_default(),
            first_difference(self),
        ]
    }
}

/// Where a call leaves what was recorded.
fn first_difference(call: &CallDrift) -> String {
    let places = [("message", call.message_index), ("token", call.token_index)];
    let mut parts: Vec<String> =
        places.into_iter().filter_map(|(what, index)| Some(format!("{what} {}", index?))).collect();
    parts.extend(call.nearest.as_ref().filter(|_| !parts.is_empty()).map(|nearest| format!("of {nearest}")));
    parts.extend(call.detail.clone());
    parts.join(" ")
}
