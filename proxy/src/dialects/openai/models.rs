use serde_json::{Value, json};

use crate::dialects::listed_model::{ListedAdapter, ListedModel};

/// `GET /v1/models`. `created` is in seconds since the epoch.
pub(crate) fn model_list(models: &[ListedModel], adapters: &[ListedAdapter], created: u64) -> Value {
    let mut entries: Vec<Value> = models.iter().map(|listed| model(listed, created)).collect();
    entries.extend(adapters.iter().map(|adapter| {
        json!({
            "id": adapter.name,
            "object": "model",
            "created": created,
            "owned_by": "fulgurite",
            "root": adapter.directory,
            "parent": adapter.base_model,
        })
    }));
    json!({ "object": "list", "data": entries })
}

/// `GET /v1/models/{model}`: the list's entry.
pub(crate) fn model(model: &ListedModel, created: u64) -> Value {
    json!({
        "id": model.name,
        "object": "model",
        "created": created,
        "owned_by": "fulgurite",
        "max_model_len": model.context_length,
    })
}
