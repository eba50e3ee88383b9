//! Checkpoints over REST: which there are, who may see them, how long they stay, copies of them.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::page::PageRange;
use crate::server::error::run_blocking;
use crate::server::input::{Parameters, read};
use crate::server::management::checkpoint_list::{of_run, shown};
use crate::server::refusals::Refusal;
use crate::server::state::lifetimes::expiry;
use crate::server::state::names::new_id;
use crate::server::state::records::{CheckpointRecord, RunRecord};
use crate::server::tinker_server::{Server, TinkerServer};
use crate::wire::{CheckpointPath, CopyWeightsRequest, CopyWeightsResponse, SetTtlRequest};
use fulgurite_types::time::now;

const IDEMPOTENCY_KEY: &str = "x-idempotency-key";

pub(crate) fn routes() -> Router<Arc<TinkerServer>> {
    let one = "/api/v1/training_runs/{run_id}/checkpoints/{kind}/{name}";
    Router::new()
        .route("/api/v1/checkpoints", get(all))
        .route("/api/v1/training_runs/{run_id}/checkpoints", get(of_one_run))
        .route(one, delete(delete_one))
        .route(&format!("{one}/publish"), post(publish).delete(unpublish))
        .route(&format!("{one}/ttl"), put(set_ttl))
        .route("/api/v1/weights_info", post(weights_info))
        .route("/api/v1/copy_weights", post(copy_weights))
}

/// A checkpoint as a path of the API names it.
pub(crate) type CheckpointSegments = Path<(String, String, String)>;

/// Its path.
pub(crate) fn checkpoint_path(segments: (String, String, String)) -> String {
    let (run, kind, name) = segments;
    format!("tinker://{run}/{kind}/{name}")
}

async fn all(State(server): Server, Parameters(part): Parameters<PageRange>) -> Json<Value> {
    let registry = server.registry();
    let mut all: Vec<_> = registry.runs.keys().flat_map(|run_id| of_run(&registry, run_id)).collect();
    all.sort_by(|(_, left), (_, right)| right.created.total_cmp(&left.created));
    part.of("checkpoints", all.into_iter().map(|(path, record)| shown(&path, record)).collect())
}

async fn of_one_run(State(server): Server, Path(run_id): Path<String>) -> Result<Json<Value>, Refusal> {
    let registry = server.registry();
    if !registry.runs.contains_key(&run_id) {
        return Err(Refusal::not_found("training run", &run_id));
    }
    let all: Vec<Value> = of_run(&registry, &run_id).map(|(path, record)| shown(&path, record)).collect();
    Ok(Json(json!({ "checkpoints": all, "cursor": null })))
}

async fn delete_one(State(server): Server, Path(segments): CheckpointSegments) -> Result<StatusCode, Refusal> {
    server.delete_checkpoint(&checkpoint_path(segments)).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn publish(State(server): Server, Path(segments): CheckpointSegments) -> Result<StatusCode, Refusal> {
    server.change_checkpoint(&checkpoint_path(segments), |checkpoint| checkpoint.public = true).await
}

async fn unpublish(State(server): Server, Path(segments): CheckpointSegments) -> Result<StatusCode, Refusal> {
    server.change_checkpoint(&checkpoint_path(segments), |checkpoint| checkpoint.public = false).await
}

async fn set_ttl(
    State(server): Server,
    Path(segments): CheckpointSegments,
    body: Bytes,
) -> Result<StatusCode, Refusal> {
    let SetTtlRequest { ttl_seconds } = read(&body)?;
    let expires = expiry(ttl_seconds, now()).map_err(Refusal::bad_request)?;
    server.change_checkpoint(&checkpoint_path(segments), |checkpoint| checkpoint.expires = expires).await
}

/// A checkpoint that a request names.
#[derive(Deserialize)]
struct WeightsInfoRequest {
    tinker_path: String,
}

async fn weights_info(State(server): Server, body: Bytes) -> Result<Json<Value>, Refusal> {
    let WeightsInfoRequest { tinker_path } = read(&body)?;
    let registry = server.registry();
    let found = registry.checkpoints.get(&tinker_path);
    let found = found.ok_or_else(|| Refusal::not_found("checkpoint", &tinker_path))?;
    Ok(Json(json!({
        "base_model": found.base_model,
        "is_lora": found.adapter.is_some(),
        "lora_rank": found.adapter.map_or(0, |adapter| adapter.rank),
        "train_unembed": found.adapter.map(|adapter| adapter.train_unembed),
        "train_mlp": found.adapter.map(|adapter| adapter.train_mlp),
        "train_attn": found.adapter.map(|adapter| adapter.train_attn),
    })))
}

async fn copy_weights(
    State(server): Server,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<CopyWeightsResponse>, Refusal> {
    let request: CopyWeightsRequest = read(&body)?;
    let key = headers.get(IDEMPOTENCY_KEY).and_then(|key| key.to_str().ok()).and_then(|key| key.parse().ok());
    Ok(Json(CopyWeightsResponse { tinker_path: server.copy_weights(request, key).await? }))
}

impl TinkerServer {
    /// Deletes a checkpoint and its weights.
    pub(crate) async fn delete_checkpoint(&self, path: &str) -> Result<(), Refusal> {
        let deleted = self.registry().checkpoints.remove(path);
        let deleted = deleted.ok_or_else(|| Refusal::not_found("checkpoint", path))?;
        let (state, id) = (self.state.clone(), path.to_owned());
        run_blocking(move || state.delete_record::<CheckpointRecord>(&id)).await?;
        Ok(self.delete_weights(deleted.directory).await?)
    }

    async fn change_checkpoint(
        &self,
        path: &str,
        change: impl FnOnce(&mut CheckpointRecord),
    ) -> Result<StatusCode, Refusal> {
        let found = self.registry().checkpoints.get(path).cloned();
        let mut changed = found.ok_or_else(|| Refusal::not_found("checkpoint", path))?;
        change(&mut changed);
        self.keep(&changed).await?;
        self.registry().checkpoints.insert(path.to_owned(), changed);
        Ok(StatusCode::NO_CONTENT)
    }

    /// The checkpoints whose time has come.
    pub(crate) fn expired_checkpoints(&self, now: f64) -> Vec<String> {
        let registry = self.registry();
        let is_over = |checkpoint: &&CheckpointRecord| checkpoint.expires.is_some_and(|expires| expires <= now);
        registry.checkpoints.values().filter(is_over).map(|checkpoint| checkpoint.path.clone()).collect()
    }

    /// Makes a training run that is nothing but a copy of a checkpoint, and gives the copy's path. Requests of one key
    /// make one copy.
    async fn copy_weights(&self, request: CopyWeightsRequest, key: Option<Uuid>) -> Result<String, Refusal> {
        let CopyWeightsRequest { session_id, model_seq_id, destination_project_id, source_path, ttl_seconds, .. } =
            request;
        let created = now();
        let expires = expiry(ttl_seconds, created).map_err(Refusal::bad_request)?;
        let source = self.registry().checkpoints.get(&source_path).cloned();
        let source = source.ok_or_else(|| Refusal::not_found("checkpoint", &source_path))?;
        let run_id = match (&session_id, model_seq_id, &destination_project_id) {
            (Some(session_id), Some(place), None) => {
                self.in_session(session_id)?;
                format!("{session_id}:train:{place}")
            }
            (None, None, Some(_)) => format!("{}:train:0", key.map_or_else(new_id, |key| key.to_string())),
            _ => {
                let message = "either destination_project_id or session_id and model_seq_id say where the copy goes";
                return Err(Refusal::bad_request(message));
            }
        };
        let path: CheckpointPath = source_path.parse().map_err(|error| Refusal::bad_request(format!("{error}")))?;
        let path = CheckpointPath { run: run_id.clone(), ..path };
        let known = self.registry().checkpoints.contains_key(&path.to_string());
        if known {
            return Ok(path.to_string());
        }
        if self.registry().runs.contains_key(&run_id) {
            return Err(Refusal::bad_request(format!("there is a training run {run_id} already")));
        }
        let run = RunRecord {
            run_id: run_id.clone(),
            session_id: session_id.unwrap_or_default(),
            project_id: destination_project_id,
            base_model: source.base_model.clone(),
            adapter: source.adapter,
            last_request: created,
            user_metadata: None,
            inflight: None,
        };
        let directory = self.state.place_of(&path, &new_id());
        let copy = CheckpointRecord { path: path.to_string(), directory, created, public: false, expires, ..source };
        let (state, from, to) = (self.state.clone(), source.directory, copy.directory.clone());
        run_blocking(move || state.copy_weights(&from, &to)).await?;
        self.keep(&copy).await?;
        self.keep(&run).await?;
        let mut registry = self.registry();
        registry.checkpoints.insert(copy.path.clone(), copy);
        registry.runs.insert(run_id, run);
        Ok(path.to_string())
    }
}
