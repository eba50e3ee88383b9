use serde_json::{Value, json};

use crate::models::served_model::ServedModel;
use crate::models::served_models::ServedModels;

/// `GET /v1beta/models`: all of them, on one page.
pub(crate) async fn model_list(models: &ServedModels) -> Value {
    let mut entries = Vec::new();
    for served in models.iter() {
        entries.push(model(served).await);
    }
    json!({ "models": entries })
}

/// `GET /v1beta/models/{model}`: the list's entry. Models whose calls are forwarded have no methods in this dialect.
pub(crate) async fn model(model: &ServedModel) -> Value {
    let methods: &[&str] = match model.sampled() {
        Some(_) => &["generateContent", "countTokens"],
        None => &[],
    };
    let mut entry = json!({
        "name": format!("models/{}", model.name()),
        "displayName": model.name(),
        "supportedGenerationMethods": methods,
    });
    if let Some(context_length) = model.context_length().await {
        entry["inputTokenLimit"] = context_length.into();
        entry["outputTokenLimit"] = context_length.into();
    }
    entry
}
