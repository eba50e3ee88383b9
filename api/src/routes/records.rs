//! Rollouts with all that was recorded of them, many at a time: what a trainer needs of a step.

use axum::extract::State;
use axum::response::Response;
use fulgurite_store::{Result, Store, StoreError, aside};
use fulgurite_types::{Generation, PackedGeneration, PackedRolloutRecord, RolloutRecord};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::conventions::error::{Mistake, RestError};
use crate::conventions::input::Body;
use crate::conventions::shape::{Field, Shape, Shaped};
use crate::conventions::turns::written;

/// Generations of a rollout in one answer; the others are read from the list of generations.
const GENERATIONS: u64 = 100;
/// Rollouts that may be asked for at a time.
const GREATEST_COUNT: usize = 1000;
/// Once the tokens of an answer take so many bytes, the rollouts that are left wait for the next one.
const ENOUGH_BYTES: usize = 4 << 20;

#[derive(Deserialize)]
struct Wanted {
    rollout_ids: Vec<String>,
}

impl Shaped for Wanted {
    const SHAPE: Shape = Shape::Closed(&[Field::required("rollout_ids", Shape::List(&Shape::Text))]);
}

#[derive(Serialize)]
pub(super) struct RecordsReply {
    /// Of the first rollouts that were asked for, in their order; null for one that is not there.
    items: Vec<Option<PackedRolloutRecord>>,
}

/// `POST /v1/fulgurite/rollouts/records`: of at least one of the rollouts, and of as many as fit into an answer.
pub(super) async fn read(State(store): State<Store>, body: Body) -> std::result::Result<Response, RestError> {
    let Wanted { rollout_ids } = body.parse()?;
    if rollout_ids.len() > GREATEST_COUNT {
        let message = format!("List should have at most {GREATEST_COUNT} items");
        return Err(Mistake::value(vec![json!("rollout_ids")], message, json!(rollout_ids.len())).into());
    }
    let (mut items, mut bytes) = (Vec::new(), 0);
    for rollout_id in &rollout_ids {
        let found = record(&store, rollout_id).await?;
        bytes += found.as_ref().map_or(0, |(_, bytes)| *bytes);
        items.push(found.map(|(record, _)| record));
        if bytes >= ENOUGH_BYTES {
            break;
        }
    }
    Ok(written(RecordsReply { items }))
}

/// What there is of a rollout, by its id or its session's name, and how many bytes its tokens take.
async fn record(store: &Store, name: &str) -> Result<Option<(PackedRolloutRecord, usize)>> {
    let record = match store.queries().rollout_record(name, Some(GENERATIONS)).await? {
        Some(record) => record,
        None => match store.queries().rollout_record(&store.rollouts().id_of(name).await?, Some(GENERATIONS)).await? {
            Some(record) => record,
            None => return Ok(None),
        },
    };
    let RolloutRecord { rollout, attempts, rewards, generations } = record;
    let next_offset = (generations.len() as u64 == GENERATIONS).then_some(GENERATIONS);
    let bytes = generations.iter().map(token_bytes).sum();
    let packed: std::result::Result<Vec<_>, _> =
        aside(|| generations.into_iter().map(PackedGeneration::try_from).collect());
    let unwritable = |error| StoreError::Corrupt { column: "generations".to_owned(), message: format!("{error}") };
    let generations = packed.map_err(unwritable)?;
    Ok(Some((PackedRolloutRecord { rollout, attempts, rewards, generations, next_offset }, bytes)))
}

/// Four for each token, and four more for the logprob of one that was sampled.
fn token_bytes(generation: &Generation) -> usize {
    4 * (generation.prompt_tokens.len() + 2 * generation.sampled_tokens.len())
}
