//! Which process trains a run.

use axum::Json;
use axum::extract::State;
use fulgurite_store::Store;
use fulgurite_types::{RunClaim, RunLease, RunOwner};
use serde::Deserialize;

use crate::conventions::input::{Body, Path};
use crate::conventions::serving::Reply;
use crate::conventions::shape::{Field, Shape, Shaped};

#[derive(Deserialize)]
struct LeaseRequest {
    owner: RunOwner,
    seconds: f64,
    #[serde(default)]
    ended_owner: Option<String>,
}

impl Shaped for LeaseRequest {
    const SHAPE: Shape = Shape::Closed(&[
        Field::required(
            "owner",
            // Whatever later trainers say of themselves.
            Shape::Record(&[
                Field::required("owner_id", Shape::Text),
                Field::required("host", Shape::Text),
                Field::required("pid", Shape::Integer(0)),
                Field::required("directory", Shape::Text),
                Field::nullable("traces", Shape::Any),
            ]),
        ),
        Field::required("seconds", Shape::Number),
        Field::nullable("ended_owner", Shape::Text),
    ]);
}

/// `POST /v1/fulgurite/runs/{run_id}/lease`: gives a run to the process that asks, unless another has it. The answer names
/// the process that has it.
pub(super) async fn claim(State(store): State<Store>, Path(run_id): Path<String>, body: Body) -> Reply<RunLease> {
    let LeaseRequest { owner, seconds, ended_owner } = body.parse()?;
    Ok(Json(store.runs().claim(RunClaim { run_id, owner, seconds, ended_owner }).await?))
}
