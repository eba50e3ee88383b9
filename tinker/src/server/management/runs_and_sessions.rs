//! What there is, for people and scripts: training runs and sessions over REST.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode, Uri};
use axum::routing::{any, get, post, put};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use super::page::PageRange;
use crate::server::input::{Parameters, read};
use crate::server::management::checkpoint_list::{of_run, shown};
use crate::server::management::session_search::search;
use crate::server::refusals::Refusal;
use crate::server::registry::Registry;
use crate::server::state::records::{OWNER, RunRecord};
use crate::server::tinker_server::{Server, TinkerServer};
use crate::wire::{AssignProjectRequest, CheckpointKind, SessionSearchRequest};
use fulgurite_types::time::rfc3339;

/// Which training runs are requested.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OfProject {
    project_id: Option<String>,
}

pub(crate) fn routes() -> Router<Arc<TinkerServer>> {
    Router::new()
        .route("/api/v1/training_runs", get(training_runs))
        .route("/api/v1/training_runs/{run_id}", get(training_run))
        .route("/api/v1/sessions", get(sessions))
        .route("/api/v1/sessions/search", post(search_sessions))
        .route("/api/v1/sessions/{session_id}", get(session))
        .route("/api/v1/sessions/{session_id}/project", put(assign_project))
        .route("/api/v1/sessions/{session_id}/trace_export", get(export_trace))
        .route("/api/v1/audit", get(async || Json(json!({ "entries": [] }))))
        .route("/api/v1/billing/usage/events", get(async || Json(no_usage())))
        .route("/api/v1/billing/usage/checkpoints/current", get(async || Json(no_storage())))
        .route("/api/v1/{*path}", any(unknown_route))
}

/// Usage that is billed: there is none, and no day has prices.
fn no_usage() -> Value {
    json!({ "data": [], "sessions": {}, "cost_data_through": null })
}

/// Storage that is billed: there is none, and it has no rate.
fn no_storage() -> Value {
    json!({ "data": [], "effective_rate_usd_per_gigabyte_month": null })
}

/// What this server does not have, in the API's words: it must not look like a fault that passes.
async fn unknown_route(method: Method, uri: Uri) -> Refusal {
    Refusal { status: StatusCode::NOT_FOUND, detail: format!("this server has no {method} {}", uri.path()) }
}

async fn training_runs(
    State(server): Server,
    Parameters(part): Parameters<PageRange>,
    Parameters(OfProject { project_id }): Parameters<OfProject>,
) -> Json<Value> {
    let registry = server.registry();
    let is_requested = |run: &&RunRecord| project_id.is_none() || registry.project_of(run) == project_id.as_deref();
    let mut runs: Vec<&RunRecord> = registry.runs.values().filter(is_requested).collect();
    runs.sort_by(|left, right| right.last_request.total_cmp(&left.last_request));
    part.of("training_runs", runs.into_iter().map(|run| shown_run(&registry, run)).collect())
}

async fn training_run(State(server): Server, Path(run_id): Path<String>) -> Result<Json<Value>, Refusal> {
    let registry = server.registry();
    let run = registry.runs.get(&run_id).ok_or_else(|| Refusal::not_found("training run", &run_id))?;
    Ok(Json(shown_run(&registry, run)))
}

fn shown_run(registry: &Registry, run: &RunRecord) -> Value {
    let last = |kind: CheckpointKind| {
        let mut of_kind = of_run(registry, &run.run_id).filter(|(path, _)| path.kind == kind);
        of_kind.next_back().map(|(path, record)| shown(&path, record))
    };
    json!({
        "training_run_id": run.run_id,
        "base_model": run.base_model,
        "model_owner": OWNER,
        "is_lora": run.adapter.is_some(),
        "lora_rank": run.adapter.map(|adapter| adapter.rank),
        "corrupted": false,
        "last_request_time": rfc3339(run.last_request),
        "last_checkpoint": last(CheckpointKind::Weights),
        "last_sampler_checkpoint": last(CheckpointKind::SamplerWeights),
        "user_metadata": run.user_metadata,
    })
}

/// The newest first.
async fn sessions(State(server): Server, Parameters(part): Parameters<PageRange>) -> Json<Value> {
    let registry = server.registry();
    // Ids begin with the time.
    let ids: Vec<&String> = registry.sessions.keys().rev().skip(part.offset).take(part.limit).collect();
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

async fn search_sessions(State(server): Server, body: Bytes) -> Result<Json<Value>, Refusal> {
    let request: SessionSearchRequest = read(&body)?;
    search(&server.registry(), &request).map(Json).map_err(Refusal::bad_request)
}

/// Projects are labels: there is nothing to belong to.
async fn assign_project(
    State(server): Server,
    Path(session_id): Path<String>,
    body: Bytes,
) -> Result<StatusCode, Refusal> {
    let AssignProjectRequest { project_id } = read(&body)?;
    let found = server.registry().sessions.get(&session_id).cloned();
    let mut session = found.ok_or_else(|| Refusal::not_found("session", &session_id))?;
    session.project_id = Some(project_id);
    server.keep(&session).await?;
    server.registry().sessions.insert(session_id, session);
    Ok(StatusCode::NO_CONTENT)
}

async fn export_trace(State(server): Server, Path(session_id): Path<String>) -> Result<Json<Value>, Refusal> {
    match server.registry().sessions.contains_key(&session_id) {
        true => Ok(Json(json!({ "status": "failed", "error": "this server keeps no traces of sessions" }))),
        false => Err(Refusal::not_found("session", &session_id)),
    }
}
