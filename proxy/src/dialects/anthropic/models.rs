use serde_json::{Value, json};

use crate::models::served_model::ServedModel;
use crate::models::served_models::ServedModels;

/// What the wire calls a time that is not known.
const UNKNOWN_TIME: &str = "1970-01-01T00:00:00Z";

/// `GET /v1/models`: all of them, on one page.
pub(crate) async fn model_list(models: &ServedModels) -> Value {
    let mut entries = Vec::new();
    for served in models.iter() {
        entries.push(model(served).await);
    }
    let id = |model: Option<&Value>| model.map(|model| model["id"].clone());
    let (first_id, last_id) = (id(entries.first()), id(entries.last()));
    json!({ "data": entries, "has_more": false, "first_id": first_id, "last_id": last_id })
}

/// `GET /v1/models/{model}`: the list's entry.
pub(crate) async fn model(model: &ServedModel) -> Value {
    let context_length = model.context_length().await;
    json!({
        "type": "model",
        "id": model.name(),
        "display_name": model.name(),
        "created_at": UNKNOWN_TIME,
        "lifecycle": "active",
        "max_input_tokens": context_length,
        "max_tokens": context_length,
    })
}
