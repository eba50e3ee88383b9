use axum::extract::{Query, State};
use axum::response::Response;
use fulgurite_store::{Store, StoreError, aside};
use fulgurite_types::{GenerationFilter, PackedGeneration};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::conventions::error::{Mistake, RestError};
use crate::conventions::input::parameters;
use crate::conventions::shape::{Field, Shape, Shaped};
use crate::conventions::turns::written;

/// Generations of a page, unless told otherwise.
const DEFAULT_LIMIT: u64 = 100;
/// Generations of a page at most: each comes with its whole prompt.
const GREATEST_LIMIT: u64 = 1000;

#[derive(Deserialize)]
struct Search {
    generation_id: Option<String>,
    rollout_id: Option<String>,
    attempt_id: Option<String>,
    run_id: Option<String>,
    limit: Option<u64>,
    offset: Option<u64>,
}

impl Shaped for Search {
    const SHAPE: Shape = Shape::Record(&[
        Field::nullable("generation_id", Shape::Text),
        Field::nullable("rollout_id", Shape::Text),
        Field::nullable("attempt_id", Shape::Text),
        Field::nullable("run_id", Shape::Text),
        Field::nullable("limit", Shape::Integer(1)),
        Field::nullable("offset", Shape::Integer(0)),
    ]);
}

#[derive(Serialize)]
pub(super) struct GenerationsReply {
    items: Vec<PackedGeneration>,
    /// Where the next page begins; null after the last.
    next_offset: Option<u64>,
}

/// `GET /v1/fulgurite/generations`: in the order of recording, with token ids and logprobs to the bit.
pub(super) async fn list(
    State(store): State<Store>,
    pairs: Query<Vec<(String, String)>>,
) -> std::result::Result<Response, RestError> {
    let search: Search = parameters(pairs)?;
    let limit = search.limit.unwrap_or(DEFAULT_LIMIT);
    if limit > GREATEST_LIMIT {
        let message = format!("Input should be less than or equal to {GREATEST_LIMIT}");
        let mistake = Mistake::value(vec![json!("limit")], message, json!(limit));
        return Err(RestError::Schema { source: "query", mistakes: vec![mistake] });
    }
    let offset = search.offset.unwrap_or(0);
    let rollout_id = match search.rollout_id {
        Some(name) => Some(store.rollouts().id_of(&name).await?),
        None => None,
    };
    let filter = GenerationFilter {
        generation_id: search.generation_id,
        rollout_id,
        attempt_id: search.attempt_id,
        run_id: search.run_id,
        limit: Some(limit),
        offset,
        ..GenerationFilter::default()
    };
    let generations = store.generations().matching(&filter).await?;
    let next_offset = (generations.len() as u64 == limit).then_some(offset + limit);
    let packed: Result<Vec<_>, _> = aside(|| generations.into_iter().map(PackedGeneration::try_from).collect());
    let unwritable = |error| StoreError::Corrupt { column: "generations".to_owned(), message: format!("{error}") };
    Ok(written(GenerationsReply { items: packed.map_err(unwritable)?, next_offset }))
}
