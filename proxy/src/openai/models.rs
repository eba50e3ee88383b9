use serde_json::{Value, json};

use crate::Proxy;

/// `GET /v1/models`.
pub(crate) async fn model_list(proxy: &Proxy) -> Value {
    let created = proxy.shared.started as u64;
    let mut models = Vec::new();
    for model in proxy.shared.models.values() {
        let context_length = model.context_length().await;
        models.push(json!({
            "id": model.name(),
            "object": "model",
            "created": created,
            "owned_by": "fulgurite",
            "max_model_len": context_length,
        }));
    }
    json!({ "object": "list", "data": models })
}
