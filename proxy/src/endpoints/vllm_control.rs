//! The routes by which trainers hand vLLM new adapters: `/server_info`, `/pause`, `/resume`, `/is_paused`,
//! `/v1/load_lora_adapter` and `/v1/unload_lora_adapter`. They need the admin key, as new weights do: an adapter is named by
//! its path on the server's disk.

use std::path::PathBuf;

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use fulgurite_backends::{Notation, plain_words};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::models::gate::Holder;
use crate::models::loaded_adapters::{AdapterError, MOST_ADAPTERS, SameName};
use crate::models::served_model::{SampledModel, ServedModel};
use crate::models::served_models::ServedModels;
use crate::proxy::Proxy;

/// The greatest rank that clients are told of. Adapters of any rank are read.
const GREATEST_RANK: usize = 512;

/// The routes, each of which needs the admin key.
pub(crate) fn routes() -> Router<Proxy> {
    Router::new()
        .route("/server_info", get(server_info))
        .route("/pause", post(pause))
        .route("/resume", post(resume))
        .route("/is_paused", get(is_paused))
        .route("/v1/load_lora_adapter", post(load_adapter))
        .route("/v1/unload_lora_adapter", post(unload_adapter))
}

/// An error as vLLM writes it.
struct VllmError {
    status: StatusCode,
    kind: &'static str,
    message: String,
}

impl VllmError {
    fn invalid(message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, kind: "InvalidUserInput", message: message.into() }
    }
}

impl From<AdapterError> for VllmError {
    fn from(error: AdapterError) -> Self {
        let message = error.to_string();
        match error {
            AdapterError::AlreadyLoaded(_) => Self::invalid(message),
            AdapterError::Refused { .. } => Self { status: StatusCode::BAD_REQUEST, kind: "BadRequestError", message },
            AdapterError::NoDirectory { .. } | AdapterError::Unknown(_) => {
                Self { status: StatusCode::NOT_FOUND, kind: "NotFoundError", message }
            }
        }
    }
}

impl IntoResponse for VllmError {
    fn into_response(self) -> Response {
        let Self { status, kind, message } = self;
        let error = json!({ "message": message, "type": kind, "param": null, "code": status.as_u16() });
        (status, Json(json!({ "error": error }))).into_response()
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, VllmError> {
    let mut json = serde_json::Deserializer::from_slice(body);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        VllmError::invalid(plain_words(&error.into_inner().to_string(), &path, Notation::Json))
    })
}

#[derive(Deserialize)]
struct LoadAdapter {
    #[serde(default)]
    lora_name: String,
    #[serde(default)]
    lora_path: PathBuf,
    load_inplace: Option<bool>,
    /// Ours: which of several served models it is of.
    base_model_name: Option<String>,
}

async fn load_adapter(State(proxy): State<Proxy>, body: Bytes) -> Result<String, VllmError> {
    let LoadAdapter { lora_name: name, lora_path, load_inplace, base_model_name } = read(&body)?;
    if name.is_empty() || lora_path.as_os_str().is_empty() {
        return Err(VllmError::invalid("Both 'lora_name' and 'lora_path' must be provided."));
    }
    let models = &proxy.parts.models;
    let base = match base_model_name {
        Some(base) => models.sampled(&base).map_err(|error| VllmError::invalid(error.to_string()))?,
        None => only_base(models)?,
    };
    if models.get(&name).is_some() {
        return Err(VllmError::invalid(format!("'{name}' is the name of a served model; give the adapter another.")));
    }
    let same_name = if load_inplace == Some(true) { SameName::Replace } else { SameName::Refuse };
    models.adapters().load(base, &name, &lora_path, same_name).await?;
    Ok(format!("Success: LoRA adapter '{name}' added successfully."))
}

/// The model that an adapter is of whose request names none.
fn only_base(models: &ServedModels) -> Result<&SampledModel, VllmError> {
    models.only_sampled().map_err(|_| {
        VllmError::invalid("Several models are served here, or none; name the adapter's with 'base_model_name'.")
    })
}

#[derive(Deserialize)]
struct UnloadAdapter {
    #[serde(default)]
    lora_name: String,
}

async fn unload_adapter(State(proxy): State<Proxy>, body: Bytes) -> Result<String, VllmError> {
    let UnloadAdapter { lora_name: name } = read(&body)?;
    if name.is_empty() {
        return Err(VllmError::invalid("'lora_name' needs to be provided to unload a LoRA adapter."));
    }
    proxy.parts.models.adapters().unload(&name)?;
    Ok(format!("Success: LoRA adapter '{name}' removed successfully."))
}

/// What becomes of calls under way. None is cut here: they end with the weights that they began with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PauseMode {
    Abort,
    #[default]
    Wait,
    Keep,
}

#[derive(Deserialize)]
struct PauseQuery {
    mode: Option<PauseMode>,
}

/// Holds the calls of every model.
async fn pause(
    State(proxy): State<Proxy>,
    query: Result<Query<PauseQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Value>, VllmError> {
    let Query(PauseQuery { mode }) = query.map_err(|_| VllmError::invalid("mode must be 'keep' or 'wait'."))?;
    let mode = mode.unwrap_or_default();
    if mode == PauseMode::Abort {
        return Err(VllmError::invalid(
            "mode 'abort' is not supported: calls under way are others'. Use 'keep' or 'wait'.",
        ));
    }
    let models = &proxy.parts.models;
    models.gates().for_each(|gate| gate.pause(Holder::Operator, Some("paused by POST /pause".to_owned())));
    if mode == PauseMode::Wait {
        for gate in models.gates() {
            gate.drained().await;
        }
    }
    Ok(Json(json!({ "status": "paused" })))
}

/// Lets the calls of every model go on, unless somebody else holds them.
async fn resume(State(proxy): State<Proxy>) -> Json<Value> {
    proxy.parts.models.gates().for_each(|gate| gate.resume(Holder::Operator));
    Json(json!({ "status": "resumed" }))
}

async fn is_paused(State(proxy): State<Proxy>) -> Json<Value> {
    Json(json!({ "is_paused": proxy.parts.models.gates().any(|gate| gate.state().is_paused()) }))
}

/// The part of vLLM's configuration that trainers read before they hand over adapters: of the server, so that where it has
/// several models it is that of the first that takes adapters, under the names of all.
async fn server_info(State(proxy): State<Proxy>) -> Result<Json<Value>, VllmError> {
    let models = &proxy.parts.models;
    let sampled: Vec<&SampledModel> = models.iter().filter_map(ServedModel::sampled).collect();
    let model = match sampled[..] {
        [] | [_] => only_base(models)?,
        [first, ..] => sampled.iter().copied().find(|model| model.sampler.takes_adapters()).unwrap_or(first),
    };
    let names: Vec<&str> = sampled.iter().map(|model| model.name.as_str()).collect();
    // As vLLM has it, one name is no list.
    let served_name = if names.len() > 1 { json!(names) } else { json!(model.name) };
    let info = model.sampler.info().await;
    let context_length = info.ok().map(|info| info.context_length);
    let adapters = json!({
        "max_lora_rank": GREATEST_RANK,
        "max_loras": MOST_ADAPTERS,
        "max_cpu_loras": MOST_ADAPTERS,
        "fully_sharded_loras": false,
    });
    Ok(Json(json!({
        "vllm_config": {
            "model_config": {
                "model": model.name,
                "served_model_name": served_name,
                "dtype": "torch.float32",
                "max_model_len": context_length,
            },
            "lora_config": model.sampler.takes_adapters().then_some(adapters),
            "parallel_config": {
                "data_parallel_size": 1,
                "tensor_parallel_size": 1,
                "pipeline_parallel_size": 1,
                "world_size": 1,
            },
        },
        "vllm_env": {},
        "system_env": {},
    })))
}
