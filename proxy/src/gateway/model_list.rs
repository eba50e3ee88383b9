use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::error::GatewayError;
use super::json_body::read;
use crate::models::registered_models::RemoteModel;
use crate::proxy::Proxy;

/// `POST /api/models`: registers servers, or new versions of known ones.
pub(crate) async fn register(
    State(proxy): State<Proxy>,
    body: Bytes,
) -> Result<(StatusCode, Json<Vec<RemoteModel>>), GatewayError> {
    let models: Vec<RemoteModel> = read(&body)?;
    proxy.parts.registered_models.register(&models)?;
    Ok((StatusCode::CREATED, Json(models)))
}

/// `DELETE /api/models`: forgets every registered server. The models that are served here stay.
pub(crate) async fn clear(State(proxy): State<Proxy>) -> Json<Value> {
    proxy.parts.registered_models.clear();
    Json(json!({ "status": "ok" }))
}

/// `GET /api/models`: what is served here, which has no endpoint of its own, and what was registered.
pub(crate) async fn list(State(proxy): State<Proxy>) -> Json<Value> {
    let served = proxy.parts.models.iter().map(|model| {
        let version = model.sampled().and_then(|model| model.sampler.weights_version());
        json!({ "model": model.name(), "endpoint": null, "version": version })
    });
    let registered = proxy.parts.registered_models.servers();
    Json(served.chain(registered.iter().map(|server| json!(server))).collect())
}
