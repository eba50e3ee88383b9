//! How much a caller wants the model to reason, in each dialect's words, and the variables that templates have for it.

use serde_json::{Map, Value, json};

/// A wish, which a model follows whose template knows one of its variables, and any other model ignores.
#[derive(Debug, PartialEq)]
pub(crate) struct CallerPreference {
    /// The request's field.
    pub(crate) field: &'static str,
    /// Values for variables of a template.
    pub(crate) variables: Map<String, Value>,
}

/// The wishes in a request's fields of any dialect, in which `null` is none.
pub(crate) fn preferences_of(fields: &Map<String, Value>) -> Vec<CallerPreference> {
    let at = |path: [&str; 2]| fields.get(path[0])?.get(path[1]).filter(|value| !value.is_null());
    let alone = |name: &str| fields.get(name).filter(|value| !value.is_null());
    [
        alone("reasoning_effort").map(|effort| effort_preference("reasoning_effort", effort)),
        at(["reasoning", "effort"]).map(|effort| effort_preference("reasoning.effort", effort)),
        at(["output_config", "effort"]).map(|effort| effort_preference("output_config.effort", effort)),
        at(["thinking", "type"])
            .map(|kind| CallerPreference { field: "thinking.type", variables: thinking(*kind != "disabled") }),
        at(["thinking", "budget_tokens"])
            .map(|budget| plain_preference("thinking.budget_tokens", "thinking_budget", budget)),
        alone("verbosity").map(|verbosity| plain_preference("verbosity", "verbosity", verbosity)),
        at(["text", "verbosity"]).map(|verbosity| plain_preference("text.verbosity", "verbosity", verbosity)),
        at(["thinkingConfig", "thinkingLevel"]).map(googles_level),
        at(["thinkingConfig", "thinkingBudget"]).map(googles_budget),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn effort_preference(field: &'static str, effort: &Value) -> CallerPreference {
    let is_none = *effort == "none";
    let mut variables = thinking(!is_none);
    if !is_none {
        variables.insert("reasoning_effort".to_owned(), effort.clone());
    }
    CallerPreference { field, variables }
}

/// Google's level, which other dialects write in lower case.
fn googles_level(level: &Value) -> CallerPreference {
    let level = level.as_str().unwrap_or_default().to_ascii_lowercase();
    effort_preference("generationConfig.thinkingConfig.thinkingLevel", &level.into())
}

/// Google's budget: 0 is not to think, and -1 as much as the model likes.
fn googles_budget(budget: &Value) -> CallerPreference {
    let mut variables = thinking(budget.as_i64() != Some(0));
    if budget.as_i64().is_some_and(|tokens| tokens > 0) {
        variables.insert("thinking_budget".to_owned(), budget.clone());
    }
    CallerPreference { field: "generationConfig.thinkingConfig.thinkingBudget", variables }
}

fn plain_preference(field: &'static str, variable: &str, value: &Value) -> CallerPreference {
    CallerPreference { field, variables: Map::from_iter([(variable.to_owned(), value.clone())]) }
}

/// The names that templates have for whether to reason at all: Qwen's and DeepSeek's.
fn thinking(enabled: bool) -> Map<String, Value> {
    ["enable_thinking", "thinking"].map(|name| (name.to_owned(), json!(enabled))).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialects_wishes_are_variables_of_templates() {
        let low = json!({ "enable_thinking": true, "thinking": true, "reasoning_effort": "low" });
        let off = json!({ "enable_thinking": false, "thinking": false });
        let (low_level, no_budget) = (low.clone(), off.clone());
        let budget = json!({ "enable_thinking": true, "thinking": true, "thinking_budget": 64 });
        for (fields, expected) in [
            (json!({ "reasoning_effort": "low" }), vec![("reasoning_effort", low.clone())]),
            (json!({ "reasoning_effort": "none" }), vec![("reasoning_effort", off.clone())]),
            (json!({ "reasoning": { "effort": "low", "summary": "auto" } }), vec![("reasoning.effort", low)]),
            (json!({ "thinking": { "type": "disabled" } }), vec![("thinking.type", off)]),
            (json!({ "text": { "verbosity": "high" } }), vec![("text.verbosity", json!({ "verbosity": "high" }))]),
            (
                json!({ "thinkingConfig": { "thinkingLevel": "LOW" } }),
                vec![("generationConfig.thinkingConfig.thinkingLevel", low_level)],
            ),
            (
                json!({ "thinkingConfig": { "thinkingBudget": 0 } }),
                vec![("generationConfig.thinkingConfig.thinkingBudget", no_budget)],
            ),
            (
                json!({ "thinkingConfig": { "thinkingBudget": 64 } }),
                vec![("generationConfig.thinkingConfig.thinkingBudget", budget)],
            ),
            (json!({ "reasoning": { "effort": null }, "reasoning_effort": null, "text": {} }), vec![]),
        ] {
            let found = preferences_of(fields.as_object().unwrap());
            let found: Vec<_> = found.into_iter().map(|wish| (wish.field, Value::from(wish.variables))).collect();
            assert_eq!(found, expected, "{fields}");
        }
    }
}
