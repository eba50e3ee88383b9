//! Weights of models: which ones a version names, which are published, and what each server samples from.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use fulgurite_store::Store;
use fulgurite_types::{NamedWeights, NewNamedWeights, Publication, ServedWeights};
use serde::Deserialize;

use crate::conventions::input::{Body, parameters};
use crate::conventions::serving::{Created, Reply};
use crate::conventions::shape::{Field, Shape, Shaped};

impl Shaped for NewNamedWeights {
    const SHAPE: Shape = Shape::Closed(&[
        Field::required("model", Shape::Text),
        Field::required("weights_id", Shape::Text),
        Field::nullable("parent_id", Shape::Text),
        Field::nullable("run_id", Shape::Text),
        Field::nullable("step", Shape::Integer(0)),
        Field::required("preferred_version", Shape::Integer(0)),
    ]);
}

/// `POST /v1/fulgurite/weights`: weights get a version, or keep the one that they have.
pub(super) async fn name(State(store): State<Store>, body: Body) -> Created<NamedWeights> {
    Ok((StatusCode::CREATED, Json(store.weights().name(body.parse()?).await?)))
}

#[derive(Deserialize)]
struct NamedWeightsParameters {
    model: String,
    run_id: Option<String>,
}

impl Shaped for NamedWeightsParameters {
    const SHAPE: Shape =
        Shape::Closed(&[Field::required("model", Shape::Text), Field::nullable("run_id", Shape::Text)]);
}

/// `GET /v1/fulgurite/weights?model=M`: all weights of a model that have a version; `&run_id=R` those of one run.
pub(super) async fn list(State(store): State<Store>, pairs: Query<Vec<(String, String)>>) -> Reply<Vec<NamedWeights>> {
    let NamedWeightsParameters { model, run_id } = parameters(pairs)?;
    Ok(Json(store.weights().named(&model, run_id.as_deref()).await?))
}

/// `GET /v1/fulgurite/publications`: the newest publication of each model.
pub(super) async fn publications(State(store): State<Store>) -> Reply<Vec<Publication>> {
    Ok(Json(store.weights().publications().await?))
}

/// `GET /v1/fulgurite/servers`: what each server samples from, as it reported last.
pub(super) async fn servers(State(store): State<Store>) -> Reply<Vec<ServedWeights>> {
    Ok(Json(store.weights().served(0.0).await?))
}
