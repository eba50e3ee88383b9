use serde_json::{Value, json};

use crate::dialects::listed_model::{AnswerSource, ListedModel};

/// `GET /v1beta/models`: all of them, on one page.
pub(crate) fn model_list(models: &[ListedModel]) -> Value {
    json!({ "models": models.iter().map(model).collect::<Vec<_>>() })
}

/// `GET /v1beta/models/{model}`: the list's entry. Models whose calls are forwarded have no methods in this dialect.
pub(crate) fn model(model: &ListedModel) -> Value {
    let methods: &[&str] = match model.source {
        AnswerSource::Sampled => &["generateContent", "countTokens"],
        AnswerSource::Upstream => &[],
    };
    let mut entry = json!({
        "name": format!("models/{}", model.name),
        "displayName": model.name,
        "supportedGenerationMethods": methods,
    });
    if let Some(context_length) = model.context_length {
        entry["inputTokenLimit"] = context_length.into();
        entry["outputTokenLimit"] = context_length.into();
    }
    entry
}
