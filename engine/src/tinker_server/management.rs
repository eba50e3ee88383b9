//! What there is, for people and scripts: training runs, checkpoints and sessions over REST.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use fulgurite_backends::tinker::wire::{CheckpointKind, CheckpointPath};
use serde::Deserialize;
use serde_json::{Value, json};

use super::refusals::Refusal;
use super::server::{Registry, TinkerServer, run_blocking};
use super::state_directory::{CheckpointRecord, RunRecord, iso_time};

type Server = State<Arc<TinkerServer>>;

/// Which part of a list is asked for.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default)]
struct Part {
    limit: usize,
    offset: usize,
}

impl Default for Part {
    fn default() -> Self {
        Self { limit: 20, offset: 0 }
    }
}

impl Part {
    /// The part of a list, under its name, and where it is in the whole.
    fn of(self, name: &str, all: Vec<Value>) -> Json<Value> {
        let cursor = json!({ "offset": self.offset, "limit": self.limit, "total_count": all.len() });
        let part: Vec<Value> = all.into_iter().skip(self.offset).take(self.limit).collect();
        Json(json!({ name: part, "cursor": cursor }))
    }
}

pub(super) fn routes() -> Router<Arc<TinkerServer>> {
    Router::new()
        .route("/api/v1/training_runs", get(training_runs))
        .route("/api/v1/training_runs/{run_id}", get(training_run))
        .route("/api/v1/training_runs/{run_id}/checkpoints", get(checkpoints_of_run))
        .route("/api/v1/training_runs/{run_id}/checkpoints/{kind}/{name}", delete(delete_checkpoint))
        .route("/api/v1/checkpoints", get(checkpoints))
        .route("/api/v1/sessions", get(sessions))
        .route("/api/v1/sessions/{session_id}", get(session))
        .route("/api/v1/weights_info", post(weights_info))
}

async fn training_runs(State(server): Server, Query(part): Query<Part>) -> Json<Value> {
    let registry = server.registry();
    part.of("training_runs", registry.runs.values().map(|run| shown_run(&registry, run)).collect())
}

async fn training_run(State(server): Server, Path(run_id): Path<String>) -> Result<Json<Value>, Refusal> {
    let registry = server.registry();
    let run = registry.runs.get(&run_id).ok_or_else(|| Refusal::not_found("training run", &run_id))?;
    Ok(Json(shown_run(&registry, run)))
}

async fn checkpoints_of_run(State(server): Server, Path(run_id): Path<String>) -> Result<Json<Value>, Refusal> {
    let registry = server.registry();
    if !registry.runs.contains_key(&run_id) {
        return Err(Refusal::not_found("training run", &run_id));
    }
    let shown: Vec<Value> = of_run(&registry, &run_id).map(|(path, record)| shown_checkpoint(&path, record)).collect();
    Ok(Json(json!({ "checkpoints": shown, "cursor": null })))
}

async fn checkpoints(State(server): Server, Query(part): Query<Part>) -> Json<Value> {
    let registry = server.registry();
    let all = registry.runs.keys().flat_map(|run_id| of_run(&registry, run_id));
    part.of("checkpoints", all.map(|(path, record)| shown_checkpoint(&path, record)).collect())
}

async fn delete_checkpoint(
    State(server): Server,
    Path((run, kind, name)): Path<(String, String, String)>,
) -> Result<StatusCode, Refusal> {
    let path = format!("tinker://{run}/{kind}/{name}");
    let deleted = server.registry().checkpoints.remove(&path);
    let deleted = deleted.ok_or_else(|| Refusal::not_found("checkpoint", &path))?;
    let state = server.state.clone();
    run_blocking(move || state.forget::<CheckpointRecord>(&path)).await?;
    server.delete_weights(deleted.directory).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn sessions(State(server): Server, Query(part): Query<Part>) -> Json<Value> {
    let registry = server.registry();
    let ids: Vec<&String> = registry.sessions.keys().skip(part.offset).take(part.limit).collect();
    Json(json!({ "sessions": ids }))
}

async fn session(State(server): Server, Path(session_id): Path<String>) -> Result<Json<Value>, Refusal> {
    let registry = server.registry();
    let found = registry.sessions.get(&session_id).ok_or_else(|| Refusal::not_found("session", &session_id))?;
    let runs = registry.runs.values().filter(|run| run.session_id == session_id).map(|run| &run.run_id);
    let samplers = registry.samplers.values().filter(|sampler| sampler.session_id == session_id);
    Ok(Json(json!({
        "training_run_ids": runs.collect::<Vec<_>>(),
        "sampler_ids": samplers.map(|sampler| &sampler.sampler_id).collect::<Vec<_>>(),
        "user_metadata": found.user_metadata,
        "display_name": found.display_name,
    })))
}

/// What a checkpoint is asked about.
#[derive(Deserialize)]
struct WeightsInfoRequest {
    tinker_path: String,
}

async fn weights_info(State(server): Server, body: Bytes) -> Result<Json<Value>, Refusal> {
    let WeightsInfoRequest { tinker_path } = serde_json::from_slice(&body).map_err(Refusal::unreadable)?;
    let registry = server.registry();
    let found = registry.checkpoints.get(&tinker_path);
    let found = found.ok_or_else(|| Refusal::not_found("checkpoint", &tinker_path))?;
    Ok(Json(json!({ "base_model": found.base_model, "is_lora": false, "lora_rank": 0 })))
}

/// A run's checkpoints, the oldest first.
fn of_run<'a>(
    registry: &'a Registry,
    run_id: &str,
) -> impl Iterator<Item = (CheckpointPath, &'a CheckpointRecord)> + use<'a> {
    let own = |record: &'a CheckpointRecord| {
        let path: CheckpointPath = record.path.parse().ok()?;
        (path.run == run_id).then_some((path, record))
    };
    let mut all: Vec<_> = registry.checkpoints.values().filter_map(own).collect();
    all.sort_by(|(_, left), (_, right)| left.created.total_cmp(&right.created));
    all.into_iter()
}

fn shown_run(registry: &Registry, run: &RunRecord) -> Value {
    let last = |kind: CheckpointKind| {
        let of_kind = of_run(registry, &run.run_id).filter(|(path, _)| path.kind == kind);
        of_kind.last().map(|(path, record)| shown_checkpoint(&path, record))
    };
    json!({
        "training_run_id": run.run_id,
        "base_model": run.base_model,
        "model_owner": "local",
        "is_lora": false,
        "lora_rank": null,
        "corrupted": false,
        "last_request_time": iso_time(run.last_request),
        "last_checkpoint": last(CheckpointKind::Weights),
        "last_sampler_checkpoint": last(CheckpointKind::SamplerWeights),
        "user_metadata": run.user_metadata,
    })
}

fn shown_checkpoint(path: &CheckpointPath, record: &CheckpointRecord) -> Value {
    let kind = match path.kind {
        CheckpointKind::Weights => "training",
        CheckpointKind::SamplerWeights => "sampler",
        CheckpointKind::ExternalWeights => "external",
    };
    json!({
        "checkpoint_id": format!("{}/{}", path.kind.segment(), path.name),
        "checkpoint_type": kind,
        "time": iso_time(record.created),
        "tinker_path": record.path,
        "size_bytes": record.size_bytes,
        "public": record.public,
        "user_metadata": record.user_metadata,
        "expires_at": record.expires.map(iso_time),
    })
}
