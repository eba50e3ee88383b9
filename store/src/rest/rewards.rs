use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::Created;
use super::error::{Mistake, RestError};
use super::input::Body;
use crate::Store;
use crate::model::{Object, RecordedReward, Reward};

#[derive(Deserialize)]
struct RewardRequest {
    value: f64,
    #[serde(default)]
    name: Option<String>,
    /// Numbers by name; their order is kept.
    #[serde(default)]
    components: Object,
}

fn reward(body: Body) -> Result<Reward, RestError> {
    let request: RewardRequest = body.parse()?;
    let components = request.components.into_iter().map(|(name, value)| match value.as_f64() {
        Some(number) => Ok((name, number)),
        None => Err(RestError::from(Mistake {
            kind: "float_type",
            location: vec![json!("components"), json!(name)],
            message: "Input should be a valid number".into(),
            input: value,
        })),
    });
    Ok(Reward {
        value: request.value,
        name: request.name.unwrap_or_else(|| Reward::DEFAULT_NAME.to_owned()),
        components: components.collect::<Result<_, _>>()?,
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
