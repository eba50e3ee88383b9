//! `fulgurite drift`.

use anyhow::Result;
use fulgurite_types::{CallDrift, ListFilter};

use super::list::{TableRecord, list};
use crate::query::arguments::GenerationsArguments;
use crate::query::open_selected;

/// Lists calls, and how each stands to those before it.
pub async fn drift(mut arguments: GenerationsArguments) -> Result<()> {
    let store = open_selected(&arguments.store, &mut arguments.selection).await?;
    let filter = ListFilter { attempt_id: arguments.attempt, model: arguments.model, ..arguments.selection.filter() };
    list::<CallDrift>(&store, &filter, &arguments.list).await
}

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
