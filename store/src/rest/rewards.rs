use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use super::error::RestError;
use super::input::{Body, Path, parameters};
use super::shape::{Field, Shape, Shaped};
use super::{Created, Reply};
use crate::Store;
use crate::model::{Object, RecordedReward, Reward, RewardedAttempts};

/// `GET /v1/fulgurite/rollouts/{rollout_id}/attempts/{attempt_id}/rewards`: in the order in which they were given.
pub(super) async fn list(
    State(store): State<Store>,
    Path((rollout_id, attempt_id)): Path<(String, String)>,
) -> Reply<Vec<RecordedReward>> {
    Ok(Json(store.rewards(&rollout_id, attempt_id).await?))
}

/// Attempts of a part, unless told otherwise.
const DEFAULT_LIMIT: u64 = 1000;

#[derive(Deserialize)]
struct RewardedParameters {
    after: Option<u64>,
    limit: Option<u64>,
}

impl Shaped for RewardedParameters {
    const SHAPE: Shape =
        Shape::Record(&[Field::nullable("after", Shape::Integer(0)), Field::nullable("limit", Shape::Integer(1))]);
}

/// `GET /v1/fulgurite/rewarded-attempts`: in the order in which they were first rewarded as a whole.
pub(super) async fn list_attempts(
    State(store): State<Store>,
    pairs: Query<Vec<(String, String)>>,
) -> Reply<RewardedAttempts> {
    let RewardedParameters { after, limit } = parameters(pairs)?;
    Ok(Json(store.rewarded_attempts(after.unwrap_or(0), limit.unwrap_or(DEFAULT_LIMIT)).await?))
}

#[derive(Deserialize)]
struct RewardRequest {
    value: f64,
    #[serde(default)]
    name: Option<String>,
    /// Numbers by name; their order is kept.
    #[serde(default)]
    components: Object,
}

impl Shaped for RewardRequest {
    const SHAPE: Shape = Shape::Record(&[
        Field::required("value", Shape::Number),
        Field::nullable("name", Shape::Text),
        Field::optional("components", Shape::Map(&Shape::Number)),
    ]);
}

fn reward(body: Body) -> Result<Reward, RestError> {
    let request: RewardRequest = body.parse()?;
    let number = |(name, value): (String, Value)| Some((name, value.as_f64()?));
    Ok(Reward {
        value: request.value,
        name: request.name.unwrap_or_else(|| Reward::DEFAULT_NAME.to_owned()),
        components: request.components.into_iter().filter_map(number).collect(),
    })
}

pub(super) async fn add(
    State(store): State<Store>,
    Path(rollout_id): Path<String>,
    body: Body,
) -> Created<RecordedReward> {
    Ok((StatusCode::CREATED, Json(store.add_reward(&rollout_id, "latest", None, reward(body)?).await?)))
}

pub(super) async fn add_to_attempt(
    State(store): State<Store>,
    Path((rollout_id, attempt_id)): Path<(String, String)>,
    body: Body,
) -> Created<RecordedReward> {
    Ok((StatusCode::CREATED, Json(store.add_reward(&rollout_id, attempt_id, None, reward(body)?).await?)))
}

pub(super) async fn add_to_generation(
    State(store): State<Store>,
    Path((rollout_id, generation_id)): Path<(String, String)>,
    body: Body,
) -> Created<RecordedReward> {
    let recorded = store.add_generation_reward(&rollout_id, &generation_id, reward(body)?).await?;
    Ok((StatusCode::CREATED, Json(recorded)))
}
