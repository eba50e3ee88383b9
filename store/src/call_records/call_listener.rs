//! The listener for recorded model calls, and which attributes it gets.

use fulgurite_types::{Object, Span};

use crate::call_records::conversations::TOOLS;

/// Prefixes of attributes that describe a call but hold no content of its conversation.
const WITHOUT_CONTENT: [&str; 12] = [
    "error.type",
    "fulgurite.choice",
    "fulgurite.continues",
    "fulgurite.departure.generation",
    "fulgurite.departure.message_index",
    "fulgurite.departure.reason",
    "fulgurite.departure.token_index",
    "gen_ai.operation.",
    "gen_ai.provider.",
    "gen_ai.request.",
    "gen_ai.response.",
    "gen_ai.usage.",
];

/// Called with the spans of calls that this process recorded.
pub(crate) struct CallListener {
    pub with_content: bool,
    pub notify: Box<dyn Fn(Span) + Send + Sync>,
}

impl CallListener {
    /// The attributes of a span that it gets.
    pub(crate) fn visible(&self, attributes: &Object) -> Object {
        let kept = attributes.iter().filter(|(key, _)| self.with_content || !is_content(key));
        kept.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

fn is_content(attribute: &str) -> bool {
    attribute.starts_with(TOOLS) || !WITHOUT_CONTENT.iter().any(|begin| attribute.starts_with(begin))
}
