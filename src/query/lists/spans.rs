//! `fulgurite spans`.

use anyhow::Result;
use fulgurite_terminal::table::{cell, seconds};
use fulgurite_types::{ListFilter, Span};

use super::list::{TableRecord, list};
use crate::query::arguments::SpansArguments;
use crate::query::open_selected;

/// Lists spans.
pub async fn spans(mut arguments: SpansArguments) -> Result<()> {
    let store = open_selected(&arguments.store, &mut arguments.selection).await?;
    let filter = ListFilter { attempt_id: arguments.attempt, name: arguments.name, ..arguments.selection.filter() };
    list::<Span>(&store, &filter, &arguments.list).await
}

impl TableRecord for Span {
    const COLUMNS: &'static [&'static str] = &["rollout", "attempt", "seq", "name", "seconds", "what"];

    fn row(&self) -> Vec<String> {
        let attribute = |key: &str| self.attributes.get(key);
        let what = attribute("gen_ai.completion.0.content").or_else(|| attribute("agentlightning.reward.0.value"));
        vec![
            self.rollout_id.clone(),
            self.attempt_id.clone(),
            self.sequence_id.to_string(),
            self.name.clone(),
            seconds(self.start_time, self.end_time),
            cell(what),
        ]
    }
}
