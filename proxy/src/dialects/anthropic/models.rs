use serde_json::{Value, json};

use crate::dialects::listed_model::ListedModel;

/// The wire format's value for an unknown time.
const UNKNOWN_TIME: &str = "1970-01-01T00:00:00Z";

/// `GET /v1/models`: all of them, on one page.
pub(crate) fn model_list(models: &[ListedModel]) -> Value {
    let entries: Vec<Value> = models.iter().map(model).collect();
    let id = |model: Option<&Value>| model.map(|model| model["id"].clone());
    let (first_id, last_id) = (id(entries.first()), id(entries.last()));
    json!({ "data": entries, "has_more": false, "first_id": first_id, "last_id": last_id })
}

/// `GET /v1/models/{model}`: the list's entry.
pub(crate) fn model(model: &ListedModel) -> Value {
    json!({
        "type": "model",
        "id": model.name,
        "display_name": model.name,
        "created_at": UNKNOWN_TIME,
        "lifecycle": "active",
        "max_input_tokens": model.context_length,
        "max_tokens": model.context_length,
    })
}
