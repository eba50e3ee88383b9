use serde_json::{Value, json};

use crate::{Proxy, ServedModel};

/// What the wire calls a time that is not known.
const UNKNOWN_TIME: &str = "1970-01-01T00:00:00Z";

/// `GET /v1/models`: all of them, on one page.
pub(crate) async fn model_list(proxy: &Proxy) -> Value {
    let mut models = Vec::new();
    for served in proxy.shared.models.values() {
        models.push(model(served).await);
    }
    let id = |model: Option<&Value>| model.map(|model| model["id"].clone());
    let (first_id, last_id) = (id(models.first()), id(models.last()));
    json!({ "data": models, "has_more": false, "first_id": first_id, "last_id": last_id })
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
