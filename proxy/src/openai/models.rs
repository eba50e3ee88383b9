use serde_json::{Value, json};

use crate::Proxy;

/// `GET /v1/models`.
pub(crate) async fn model_list(proxy: &Proxy) -> Value {
    let created = proxy.shared.started as u64;
    let mut models = Vec::new();
    for model in proxy.shared.models.values() {
        // A remote host that cannot be asked now is listed all the same.
        let context_length = model.sampler.info().await.ok().map(|info| info.context_length);
        models.push(json!({
            "id": model.name,
            "object": "model",
            "created": created,
            "owned_by": "fulgurite",
            "max_model_len": context_length,
        }));
    }
    json!({ "object": "list", "data": models })
}
