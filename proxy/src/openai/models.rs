use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::Proxy;

/// `GET /v1/models`.
pub(crate) async fn list_models(State(proxy): State<Proxy>) -> Json<Value> {
    let created = proxy.shared.started as u64;
    let models: Vec<Value> = proxy
        .shared
        .models
        .values()
        .map(|model| {
            json!({
                "id": model.name,
                "object": "model",
                "created": created,
                "owned_by": "fulgurite",
                "max_model_len": model.sampler.info().context_length,
            })
        })
        .collect();
    Json(json!({ "object": "list", "data": models }))
}
