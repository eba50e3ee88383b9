use serde_json::{Value, json};

use crate::{Proxy, ServedModel};

/// `GET /v1/models`.
pub(crate) async fn model_list(proxy: &Proxy) -> Value {
    let mut models = Vec::new();
    for served in proxy.shared.models.values() {
        models.push(model(proxy, served).await);
    }
    json!({ "object": "list", "data": models })
}

/// `GET /v1/models/{model}`: the list's entry.
pub(crate) async fn model(proxy: &Proxy, model: &ServedModel) -> Value {
    let context_length = model.context_length().await;
    json!({
        "id": model.name(),
        "object": "model",
        "created": proxy.shared.started as u64,
        "owned_by": "fulgurite",
        "max_model_len": context_length,
    })
}
