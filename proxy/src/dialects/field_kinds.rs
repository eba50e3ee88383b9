//! What becomes of fields that no dialect's reader takes: some say nothing about the answer, some are wishes, and the rest
//! is unknown. What would change an answer and is not honoured is refused before, by name.

use serde_json::{Map, Value};

use crate::dialects::field_checks::{BINDING, Neutral};
use crate::request_fields::TEMPLATE_ARGUMENTS;
use crate::requests::left_out::LeftOut;

/// Fields that change nothing about an answer, in any dialect: they are the caller's own notes, or about how the dialect's
/// own servers store, cache, place and bill.
pub(super) const NEUTRAL: [&str; 37] = [
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
    "truncation",
    "truncation_side",
    "user",
    "user_profile_id",
    "workspace_id",
];

/// What is done with a field inside of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Inside {
    /// A reader takes it, or it changes nothing.
    Accepted,
    /// A wish that nothing follows, with the values that wish for nothing.
    Hint(&'static [Neutral]),
    /// It is an object of these fields.
    Object(Known),
}

/// The known fields of an object.
pub(crate) type Known = &'static [(&'static str, Inside)];

/// Objects of requests, whose fields are looked into.
pub(crate) type Objects = &'static [(&'static str, Known)];

/// Who takes a field that is read apart from the others.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReadElsewhere {
    /// The model's template, in every dialect.
    ByTemplate,
    /// The same of these fields of it, unless the dialect has more of them.
    InPart(Known),
    /// The dialect that has it. In others it is unknown.
    ByItsDialect,
}

/// Fields of which other readers take what they know.
pub(super) const READ_ELSEWHERE: [(&str, ReadElsewhere); 11] = [
    ("include", ReadElsewhere::ByItsDialect),
    ("mcp_servers", ReadElsewhere::ByItsDialect),
    ("output_config", ReadElsewhere::InPart(&[("effort", Inside::Accepted)])),
    ("output_format", ReadElsewhere::ByItsDialect),
    ("reasoning", ReadElsewhere::InPart(&[("effort", Inside::Accepted)])),
    ("reasoning_effort", ReadElsewhere::ByTemplate),
    ("stream_options", ReadElsewhere::ByItsDialect),
    ("text", ReadElsewhere::InPart(&[("verbosity", Inside::Accepted)])),
    ("thinking", ReadElsewhere::InPart(&[("type", Inside::Accepted), ("budget_tokens", Inside::Accepted)])),
    ("verbosity", ReadElsewhere::ByTemplate),
    (TEMPLATE_ARGUMENTS, ReadElsewhere::ByTemplate),
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

impl LeftOut {
    /// Adds the fields inside of an object that no reader takes, by their paths. A field that is null is none.
    pub(crate) fn look_into(&mut self, place: &str, object: Option<&Value>, known: Known) {
        let fields = object.and_then(Value::as_object).into_iter().flatten();
        for (name, value) in fields.filter(|(_, value)| !value.is_null()) {
            let place = format!("{place}.{name}");
            match known.iter().find(|(field, _)| *field == name.as_str()) {
                Some((_, Inside::Accepted)) => {}
                Some((_, Inside::Hint(neutral))) if neutral.iter().any(|neutral| neutral.is(value)) => {}
                Some((_, Inside::Hint(_))) => self.hints.push(place),
                Some((_, Inside::Object(of_it))) => self.look_into(&place, Some(value), of_it),
                None => self.unknown.push(place),
            }
        }
    }
}

/// Those of a body that are left when each reader has taken its own, and inside of `objects`, which the dialect has. A
/// field that is null is none.
pub(crate) fn left_out(rest: &Map<String, Value>, objects: Objects) -> LeftOut {
    let mut left = LeftOut::default();
    for (name, value) in rest.iter().filter(|(_, value)| !value.is_null()) {
        let name = name.as_str();
        let is_binding = BINDING.iter().any(|(binding, ..)| *binding == name);
        if let Some((_, neutral)) = HINTS.iter().find(|(hint, _)| *hint == name) {
            if !neutral.iter().any(|neutral| neutral.is(value)) {
                left.hints.push(name.to_owned());
            }
            continue;
        }
        if is_binding || NEUTRAL.contains(&name) {
            continue;
        }
        let of_dialect = objects.iter().find(|(object, _)| *object == name).map(|(_, known)| *known);
        let elsewhere = READ_ELSEWHERE.iter().find(|(field, _)| *field == name).map(|(_, read)| *read);
        match (of_dialect, elsewhere) {
            (Some(known), _) => left.look_into(name, Some(value), known),
            (None, Some(ReadElsewhere::ByTemplate)) => {}
            (None, Some(ReadElsewhere::InPart(known))) if value.is_object() => {
                left.look_into(name, Some(value), known);
            }
            (None, _) => left.unknown.push(name.to_owned()),
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
        let left = left_out(body.as_object().unwrap(), &[]);
        assert_eq!(
            left,
            LeftOut {
                hints: ["prediction", "separate_reasoning"].map(str::to_owned).to_vec(),
                unknown: ["frobnicate", "tools"].map(str::to_owned).to_vec()
            }
        );
    }

    #[test]
    fn fields_inside_of_objects_are_told_by_their_paths() {
        const OF_DIALECT: Objects = &[(
            "reasoning",
            &[
                ("effort", Inside::Accepted),
                ("context", Inside::Hint(&[Neutral::Word("auto")])),
                ("mode", Inside::Hint(&[])),
                ("format", Inside::Object(&[("type", Inside::Accepted)])),
            ],
        )];
        let body = json!({
            "reasoning": {
                "effort": "low", "context": "auto", "mode": "pro", "gone": null, "format": { "type": "x", "odd": 1 },
                "odd": 2,
            },
            "thinking": { "type": "enabled", "odd": 1 }, "text": "short", "output_format": { "type": "text" },
        });
        let left = left_out(body.as_object().unwrap(), OF_DIALECT);
        let unknown = ["reasoning.format.odd", "reasoning.odd", "thinking.odd", "text", "output_format"];
        let unknown = unknown.map(str::to_owned).to_vec();
        assert_eq!(left, LeftOut { hints: vec!["reasoning.mode".to_owned()], unknown });
        let others = left_out(json!({ "reasoning": { "effort": "low", "mode": "pro" } }).as_object().unwrap(), &[]);
        assert_eq!(others, LeftOut { hints: Vec::new(), unknown: vec!["reasoning.mode".to_owned()] });
    }
}
