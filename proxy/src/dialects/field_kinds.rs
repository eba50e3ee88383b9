//! What becomes of fields that no dialect's reader takes: some say nothing about the answer, some are wishes, and the rest
//! is unknown. What would change an answer and is not honoured is refused before, by name.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::dialects::field_checks::BINDING;
use crate::requests::request_fields::TEMPLATE_ARGUMENTS;

/// What is done with fields that are not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownFields {
    /// They are named in the answer's header `x-fulgurite-ignored`, counted, and said once in the log.
    #[default]
    Ignore,
    /// The request is refused.
    Refuse,
}

/// Fields that change nothing about an answer, in any dialect: they are the caller's own notes, or about how the dialect's
/// own servers store, cache, place and bill.
const NEUTRAL: [&str; 28] = [
    "background",
    "betas",
    "cache_control",
    "cache_salt",
    "client_metadata",
    "container",
    "enable_response_messages",
    "include",
    "include_reasoning",
    "inference_geo",
    "max_tool_calls",
    "metadata",
    "moderation",
    "parallel_tool_calls",
    "priority",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "request_id",
    "return_token_ids",
    "safety_identifier",
    "separate_reasoning",
    "service_tier",
    "speed",
    "store",
    "stream_options",
    "truncation",
    "user",
];

/// Fields of which other readers take what they know: of a part of them that is unknown nobody is told.
const READ_ELSEWHERE: [&str; 9] = [
    "mcp_servers",
    "output_config",
    "output_format",
    "reasoning",
    "reasoning_effort",
    "text",
    "thinking",
    "verbosity",
    TEMPLATE_ARGUMENTS,
];

/// Wishes that no template has a variable for.
const HINTS: [&str; 5] =
    ["context_management", "prediction", "thinking_token_budget", "web_search_options", "return_tokens_as_token_ids"];

/// The fields of a request that were left out of account.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// Wishes.
    pub(crate) hints: Vec<String>,
    /// Fields that no dialect has.
    pub(crate) unknown: Vec<String>,
}

/// Those of a body that are left when each reader has taken its own. A field that is null is none.
pub(crate) fn left_out(rest: &Map<String, Value>) -> LeftOut {
    let mut left = LeftOut::default();
    for (name, _) in rest.iter().filter(|(_, value)| !value.is_null()) {
        let name = name.as_str();
        let is_binding = BINDING.iter().any(|(binding, ..)| *binding == name);
        if HINTS.contains(&name) {
            left.hints.push(name.to_owned());
        } else if !is_binding && !NEUTRAL.contains(&name) && !READ_ELSEWHERE.contains(&name) {
            left.unknown.push(name.to_owned());
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_says_nothing_is_taken_wishes_are_told_and_the_rest_is_unknown() {
        let body = json!({
            "user": "u", "min_p": 0, "metadata": { "a": "b" }, "prediction": { "type": "content" }, "reasoning_effort": "low",
            "frobnicate": 1, "tools": [], "gone": null, "chat_template_kwargs": {},
        });
        let left = left_out(body.as_object().unwrap());
        assert_eq!(
            left,
            LeftOut {
                hints: vec!["prediction".to_owned()],
                unknown: ["frobnicate", "tools"].map(str::to_owned).to_vec()
            }
        );
    }
}
