use axum::Json;
use axum::extract::{FromRequest, FromRequestParts, Query, Request, State};
use axum::http::StatusCode;
use fulgurite_store::{Sender, Store};
use fulgurite_types::{AttemptRef, NewReward, Object, RecordedReward, Repeat, Reward, RewardGiver, RewardedAttempts};
use serde::Deserialize;
use serde_json::Value;

use crate::conventions::error::RestError;
use crate::conventions::input::{Body, Path, Repeats, parameters, sender};
use crate::conventions::serving::{Created, Reply};
use crate::conventions::shape::{Field, Shape, Shaped};

/// `GET /v1/fulgurite/rollouts/{rollout_id}/attempts/{attempt_id}/rewards`, and at the attempt's own door: in the order in
/// which they were given.
pub(super) async fn list(
    State(store): State<Store>,
    Path((rollout_id, attempt_id)): Path<(String, String)>,
) -> Reply<Vec<RecordedReward>> {
    let rollout_id = store.rollouts().id_of(&rollout_id).await?;
    Ok(Json(store.rewards().of_attempt(&rollout_id, attempt_id).await?))
}

/// Attempts of a part, unless told otherwise.
const DEFAULT_LIMIT: u64 = 1000;
/// Attempts of a part at most, whatever is asked for: `next_after` says where the next begins.
pub(super) const GREATEST_LIMIT: u64 = 10_000;

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
    let limit = limit.unwrap_or(DEFAULT_LIMIT).min(GREATEST_LIMIT);
    Ok(Json(store.rewards().rewarded_attempts(after.unwrap_or(0), limit).await?))
}

#[derive(Deserialize)]
struct RewardRequest {
    value: f64,
    #[serde(default)]
    name: Option<String>,
    /// Numbers by name; their order is kept.
    #[serde(default)]
    components: Object,
    #[serde(default)]
    giver: Option<RewardGiver>,
}

impl Shaped for RewardRequest {
    const SHAPE: Shape = Shape::Own(&[
        Field::required("value", Shape::Number),
        Field::nullable("name", Shape::Text),
        Field::optional("components", Shape::Map(&Shape::Number)),
        Field::nullable("giver", Shape::Word(RewardGiver::WORDS)),
    ]);
}

/// What all ways to give a reward have in common: who gives it, and the reward as far as the body tells it.
pub(super) struct Given {
    sender: Sender,
    repeat: Repeat,
    giver: Option<RewardGiver>,
    reward: Reward,
}

impl<S: Send + Sync> FromRequest<S> for Given {
    type Rejection = RestError;

    async fn from_request(request: Request, state: &S) -> Result<Self, RestError> {
        let (mut parts, body) = request.into_parts();
        let sender = sender(&parts.extensions);
        let Repeats(repeat) = Repeats::from_request_parts(&mut parts, state).await?;
        let body = Body::from_request(Request::from_parts(parts, body), state).await?;
        let RewardRequest { value, name, components, giver } = body.parse()?;
        let number = |(name, value): (String, Value)| Some((name, value.as_f64()?));
        let reward = Reward {
            value,
            name: name.unwrap_or_else(|| Reward::DEFAULT_NAME.to_owned()),
            components: components.into_iter().filter_map(number).collect(),
        };
        Ok(Self { sender, repeat, giver, reward })
    }
}

impl Given {
    async fn to(
        self,
        store: &Store,
        rollout_id: String,
        attempt: Option<AttemptRef>,
        generation_id: Option<String>,
    ) -> Created<RecordedReward> {
        let Self { sender, repeat, giver, reward } = self;
        let rollout_id = store.rollouts().id_of(&rollout_id).await?;
        let new = NewReward { rollout_id, attempt, generation_id, reward, giver, repeat };
        Ok((StatusCode::CREATED, Json(store.rewards().give(&sender, new).await?)))
    }
}

pub(super) async fn add(
    State(store): State<Store>,
    Path(rollout_id): Path<String>,
    given: Given,
) -> Created<RecordedReward> {
    given.to(&store, rollout_id, Some(AttemptRef::Latest), None).await
}

pub(super) async fn add_to_attempt(
    State(store): State<Store>,
    Path((rollout_id, attempt_id)): Path<(String, String)>,
    given: Given,
) -> Created<RecordedReward> {
    given.to(&store, rollout_id, Some(attempt_id.into()), None).await
}

pub(super) async fn add_to_generation(
    State(store): State<Store>,
    Path((rollout_id, generation_id)): Path<(String, String)>,
    given: Given,
) -> Created<RecordedReward> {
    given.to(&store, rollout_id, None, Some(generation_id)).await
}
