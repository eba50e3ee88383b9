//! Training runs: what a trainer that is another process than the server writes and reads. What is told twice, as
//! after a lost reply, counts once.

use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use fulgurite_store::{Store, StoreError};
use fulgurite_types::{
    Checkpoint, CheckpointRecord, GenerationUse, LedgerRow, NewRun, OtherCallers, Run, Step, StepRecord,
    TeacherLogprobs, UnaccountedGeneration,
};
use serde::Deserialize;
use serde_json::Value;

use crate::conventions::error::RestError;
use crate::conventions::input::{Body, Path, parameters};
use crate::conventions::serving::{Created, Reply};
use crate::conventions::shape::{Field, Shape, Shaped};

impl Shaped for NewRun {
    const SHAPE: Shape = Shape::Closed(&[
        Field::required("run_id", Shape::Text),
        Field::required("name", Shape::Text),
        Field::required_or_null("config", Shape::Any),
        // Of 64 bits without a sign, which the type itself sees to.
        Field::required("seed", Shape::Any),
    ]);
}

/// `POST /v1/fulgurite/runs`
pub(super) async fn create(State(store): State<Store>, body: Body) -> Created<Run> {
    let new: NewRun = body.parse()?;
    let run = match store.runs().create(new.clone()).await {
        Err(conflict @ StoreError::Conflict { .. }) => match store.runs().get(&new.run_id).await? {
            Some(run) if (&run.name, &run.config, run.seed) == (&new.name, &new.config, new.seed) => run,
            _ => return Err(conflict.into()),
        },
        created => created?,
    };
    Ok((StatusCode::CREATED, Json(run)))
}

/// `GET /v1/fulgurite/runs`
pub(super) async fn list(State(store): State<Store>) -> Reply<Vec<Run>> {
    Ok(Json(store.runs().all().await?))
}

/// `GET /v1/fulgurite/runs/{run_id}`
pub(super) async fn find(State(store): State<Store>, Path(run_id): Path<String>) -> Reply<Run> {
    let run = store.runs().get(&run_id).await?;
    Ok(Json(run.ok_or_else(|| StoreError::not_found("run", &run_id))?))
}

const USES: Shape = Shape::List(&Shape::Closed(&[
    Field::required("generation_id", Shape::Text),
    Field::required("cause", Shape::Text),
    Field::required("tokens", Shape::Integer(0)),
]));

const TEACHER_LOGPROBS: Shape = Shape::List(&Shape::Closed(&[
    Field::required("generation_id", Shape::Text),
    Field::required("teacher", Shape::Text),
    Field::required("logprobs", Shape::List(&Shape::Number)),
]));

#[derive(Deserialize)]
struct StepRequest {
    step: u64,
    weights_version: u64,
    metrics: Value,
    uses: Vec<GenerationUse>,
    #[serde(default)]
    teacher_logprobs: Vec<TeacherLogprobs>,
    #[serde(default)]
    checkpoint: Option<CheckpointRecord>,
}

impl Shaped for StepRequest {
    const SHAPE: Shape = Shape::Closed(&[
        Field::required("step", Shape::Integer(0)),
        Field::required("weights_version", Shape::Integer(0)),
        Field::required("metrics", Shape::Map(&Shape::Any)),
        Field::required("uses", USES),
        Field::nullable("teacher_logprobs", TEACHER_LOGPROBS),
        Field::nullable(
            "checkpoint",
            Shape::Closed(&[Field::required("directory", Shape::Text), Field::required_or_null("state", Shape::Any)]),
        ),
    ]);
}

/// `POST /v1/fulgurite/runs/{run_id}/steps`
pub(super) async fn record_step(State(store): State<Store>, Path(run_id): Path<String>, body: Body) -> Created<Step> {
    let StepRequest { step, weights_version, metrics, uses, teacher_logprobs, checkpoint } = body.parse()?;
    let given = checkpoint.clone();
    let record = StepRecord {
        run_id: run_id.clone(),
        step,
        metrics: metrics.clone(),
        weights_version,
        uses,
        teacher_logprobs,
        checkpoint,
    };
    let conflict = match store.runs().record_step(record).await {
        Ok(()) => None,
        Err(conflict @ StoreError::Conflict { .. }) => Some(conflict),
        Err(error) => return Err(error.into()),
    };
    let found = store.runs().steps(&run_id).await?.into_iter().find(|recorded| recorded.step == step);
    let found = found.ok_or_else(|| StoreError::not_found("step", &format!("{step} of run {run_id}")))?;
    if let Some(conflict) = conflict {
        let checkpoints = store.runs().checkpoints(&run_id).await?;
        let kept = checkpoints.into_iter().find(|checkpoint| checkpoint.step == step);
        let kept = kept.map(|Checkpoint { directory, state, .. }| CheckpointRecord { directory, state });
        if (&found.metrics, found.weights_version, kept) != (&metrics, weights_version, given) {
            return Err(conflict.into());
        }
    }
    Ok((StatusCode::CREATED, Json(found)))
}

/// `GET /v1/fulgurite/runs/{run_id}/steps`
pub(super) async fn steps(State(store): State<Store>, Path(run_id): Path<String>) -> Reply<Vec<Step>> {
    Ok(Json(store.runs().steps(&run_id).await?))
}

/// `GET /v1/fulgurite/runs/{run_id}/checkpoints`
pub(super) async fn checkpoints(State(store): State<Store>, Path(run_id): Path<String>) -> Reply<Vec<Checkpoint>> {
    Ok(Json(store.runs().checkpoints(&run_id).await?))
}

/// `GET /v1/fulgurite/runs/{run_id}/ledger`
pub(super) async fn ledger(State(store): State<Store>, Path(run_id): Path<String>) -> Reply<Vec<LedgerRow>> {
    Ok(Json(store.runs().token_ledger(&run_id).await?))
}

/// `GET /v1/fulgurite/runs/{run_id}/unaccounted`
pub(super) async fn unaccounted(
    State(store): State<Store>,
    Path(run_id): Path<String>,
) -> Reply<Vec<UnaccountedGeneration>> {
    Ok(Json(store.runs().unaccounted_generations(&run_id).await?))
}

#[derive(Deserialize)]
struct UsesRequest {
    uses: Vec<GenerationUse>,
}

impl Shaped for UsesRequest {
    const SHAPE: Shape = Shape::Closed(&[Field::required("uses", USES)]);
}

/// `POST /v1/fulgurite/runs/{run_id}/uses`
pub(super) async fn record_uses(
    State(store): State<Store>,
    Path(run_id): Path<String>,
    body: Body,
) -> Result<StatusCode, RestError> {
    let UsesRequest { uses } = body.parse()?;
    store.runs().record_uses(&run_id, uses).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
struct GenerationsRequest {
    generation_ids: Vec<String>,
}

impl Shaped for GenerationsRequest {
    const SHAPE: Shape = Shape::Closed(&[Field::required("generation_ids", Shape::List(&Shape::Text))]);
}

/// `POST /v1/fulgurite/runs/{run_id}/trained-elsewhere`: those of some generations that another run has trained.
pub(super) async fn trained_elsewhere(
    State(store): State<Store>,
    Path(run_id): Path<String>,
    body: Body,
) -> Reply<Vec<String>> {
    let GenerationsRequest { generation_ids } = body.parse()?;
    Ok(Json(store.runs().trained_elsewhere(&run_id, &generation_ids).await?))
}

#[derive(Deserialize)]
struct AllowedStepsRequest {
    steps: Option<u64>,
}

impl Shaped for AllowedStepsRequest {
    const SHAPE: Shape = Shape::Closed(&[Field::required_or_null("steps", Shape::Integer(0))]);
}

/// `POST /v1/fulgurite/runs/{run_id}/allowed-steps`
pub(super) async fn allow_steps(
    State(store): State<Store>,
    Path(run_id): Path<String>,
    body: Body,
) -> Result<StatusCode, RestError> {
    let AllowedStepsRequest { steps } = body.parse()?;
    store.runs().allow_steps(&run_id, steps).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
struct RewindRequest {
    to_step: u64,
}

impl Shaped for RewindRequest {
    const SHAPE: Shape = Shape::Closed(&[Field::required("to_step", Shape::Integer(0))]);
}

/// `POST /v1/fulgurite/runs/{run_id}/rewind`
pub(super) async fn rewind(
    State(store): State<Store>,
    Path(run_id): Path<String>,
    body: Body,
) -> Result<StatusCode, RestError> {
    let RewindRequest { to_step } = body.parse()?;
    store.runs().rewind(&run_id, to_step).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
struct OtherCallersParameters {
    model: String,
    seconds: u64,
}

impl Shaped for OtherCallersParameters {
    const SHAPE: Shape =
        Shape::Closed(&[Field::required("model", Shape::Text), Field::required("seconds", Shape::Integer(0))]);
}

/// `GET /v1/fulgurite/runs/{run_id}/other-callers?model=M&seconds=N`: who called a model in the last N seconds, or is about
/// to, besides the rollouts of this run.
pub(super) async fn other_callers(
    State(store): State<Store>,
    Path(run_id): Path<String>,
    pairs: Query<Vec<(String, String)>>,
) -> Reply<OtherCallers> {
    let OtherCallersParameters { model, seconds } = parameters(pairs)?;
    let seconds = Duration::from_secs(seconds).as_secs_f64();
    Ok(Json(store.runs().other_callers(&run_id, &model, seconds).await?))
}
