//! What our own runner says of the attempts that it runs, and what each of them drifted from.

use axum::Json;
use axum::extract::State;
use fulgurite_store::Store;
use fulgurite_types::{Attempt, DriftReport};
use serde::Deserialize;

use crate::conventions::attempt_update::attempt_update;
use crate::conventions::error::RestError;
use crate::conventions::input::{Body, Holder, Path};
use crate::conventions::serving::Reply;
use crate::conventions::shape::{Field, Shape, Shaped};

/// `POST /v1/fulgurite/rollouts/{rollout_id}/attempts/{attempt_id}/report`
pub(super) async fn report_attempt(
    State(store): State<Store>,
    Path((rollout_id, attempt_id)): Path<(String, String)>,
    holder: Holder,
    body: Body,
) -> Reply<Attempt> {
    check_attempt(&store, &holder, &rollout_id, &attempt_id).await?;
    Ok(Json(store.attempts().report(&rollout_id, &attempt_id, attempt_update(body)?).await?))
}

#[derive(Deserialize)]
struct HeartbeatRequest {
    attempts: Vec<AttemptName>,
}

#[derive(Deserialize)]
struct AttemptName {
    rollout_id: String,
    attempt_id: String,
}

impl Shaped for HeartbeatRequest {
    const SHAPE: Shape = Shape::Record(&[Field::required(
        "attempts",
        Shape::List(&Shape::Record(&[
            Field::required("rollout_id", Shape::Text),
            Field::required("attempt_id", Shape::Text),
        ])),
    )]);
}

/// Refuses a worker's key for an attempt that its workers did not take.
async fn check_attempt(store: &Store, holder: &Holder, rollout_id: &str, attempt_id: &str) -> Result<(), RestError> {
    if holder.worker().is_none() {
        return Ok(());
    }
    let attempt = store.attempts().get(rollout_id, attempt_id).await?;
    // One that is not there is told as one of others.
    holder.check_worker(attempt.and_then(|attempt| attempt.worker_id).as_deref())
}

pub(super) async fn heartbeat(State(store): State<Store>, holder: Holder, body: Body) -> Reply<Vec<Attempt>> {
    let request: HeartbeatRequest = body.parse()?;
    for AttemptName { rollout_id, attempt_id } in &request.attempts {
        check_attempt(&store, &holder, rollout_id, attempt_id).await?;
    }
    let names = request.attempts.into_iter().map(|name| (name.rollout_id, name.attempt_id)).collect();
    Ok(Json(store.attempts().heartbeat(names).await?))
}

/// `POST /v1/fulgurite/workers/{worker_id}/release`
pub(super) async fn release(
    State(store): State<Store>,
    Path(worker_id): Path<String>,
    holder: Holder,
) -> Reply<Vec<Attempt>> {
    holder.check_worker(Some(&worker_id))?;
    Ok(Json(store.workers().release(&worker_id).await?))
}

/// `GET /rollout/{rollout_id}/drift`.
pub(super) async fn drift(State(store): State<Store>, Path(rollout_id): Path<String>) -> Reply<DriftReport> {
    Ok(Json(store.queries().drift(&store.rollouts().id_of(&rollout_id).await?).await?))
}
