//! Spans in a table.

use fulgurite_types::Span;

use super::table_record::TableRecord;
use crate::table::{cell, seconds};

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
