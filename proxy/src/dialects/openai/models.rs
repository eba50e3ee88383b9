use serde_json::{Value, json};

use crate::models::loaded_adapters::LoadedAdapter;
use crate::models::served_model::ServedModel;
use crate::models::served_models::ServedModels;

/// `GET /v1/models`.
pub(crate) async fn model_list(models: &ServedModels, created: u64) -> Value {
    let mut entries = Vec::new();
    for served in models.iter() {
        entries.push(model(served, created).await);
    }
    for LoadedAdapter { model, directory } in models.adapters().all() {
        entries.push(json!({
            "id": model.name,
            "object": "model",
            "created": created,
            "owned_by": "fulgurite",
            "root": directory,
            "parent": model.base_model,
        }));
    }
    json!({ "object": "list", "data": entries })
}

/// `GET /v1/models/{model}`: the list's entry.
pub(crate) async fn model(model: &ServedModel, created: u64) -> Value {
    let context_length = model.context_length().await;
    json!({
        "id": model.name(),
        "object": "model",
        "created": created,
        "owned_by": "fulgurite",
        "max_model_len": context_length,
    })
}
