//! What becomes of fields that no dialect's reader takes: some say nothing about the answer, some are wishes, and the rest
//! is unknown. What would change an answer and is not honoured is refused before, by name.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::dialects::field_checks::{BINDING, Neutral};
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
pub(super) const NEUTRAL: [&str; 39] = [
    "access_programs",
    "background",
    "background_options",
    "betas",
    "billing_policy",
    "cache_control",
    "cache_salt",
    "client_metadata",
    "enable_response_messages",
    "fallback_credit_token",
    "fallbacks",
    "include",
    "inference_geo",
    "max_tool_calls",
    "metadata",
    "mm_payload",
    "moderation",
    "parallel_tool_calls",
    "priority",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "request_id",
    "return_mm_kwargs",
    "return_token_ids",
    "return_token_offsets",
    "routed_experts_prompt_start",
    "safety_identifier",
    "service_tier",
    "session_id",
    "speed",
    "store",
    "stream_interval",
    "stream_options",
    "truncation",
    "truncation_side",
    "user",
    "user_profile_id",
    "workspace_id",
];

/// Fields of which other readers take what they know: of a part of them that is unknown nobody is told.
pub(super) const READ_ELSEWHERE: [&str; 9] = [
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

/// Wishes that no template has a variable for and that no answer is written by, with the values that wish for nothing.
pub(super) const HINTS: [(&str, &[Neutral]); 14] = [
    ("container", &[]),
    ("context_management", &[]),
    ("diagnostics", &[]),
    ("ec_transfer_params", &[Neutral::Empty]),
    ("image", &[]),
    ("include_reasoning", &[Neutral::True]),
    ("kv_transfer_params", &[Neutral::Empty]),
    ("prediction", &[]),
    ("return_prompt_text", &[Neutral::False]),
    ("return_tokens_as_token_ids", &[Neutral::False]),
    ("return_weight_versions", &[Neutral::False]),
    ("separate_reasoning", &[Neutral::True]),
    ("thinking_token_budget", &[Neutral::Number(-1.0)]),
    ("web_search_options", &[]),
];

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
    for (name, value) in rest.iter().filter(|(_, value)| !value.is_null()) {
        let name = name.as_str();
        let is_binding = BINDING.iter().any(|(binding, ..)| *binding == name);
        if let Some((_, neutral)) = HINTS.iter().find(|(hint, _)| *hint == name) {
            if !neutral.iter().any(|neutral| neutral.is(value)) {
                left.hints.push(name.to_owned());
            }
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
            "frobnicate": 1, "tools": [], "gone": null, "chat_template_kwargs": {}, "include_reasoning": true,
            "separate_reasoning": false,
        });
        let left = left_out(body.as_object().unwrap());
        assert_eq!(
            left,
            LeftOut {
                hints: ["prediction", "separate_reasoning"].map(str::to_owned).to_vec(),
                unknown: ["frobnicate", "tools"].map(str::to_owned).to_vec()
            }
        );
    }
}
