//! One rollout, read as it was recorded: it may have more spans than fit into memory.

use std::collections::HashMap;

use fulgurite_store::{SpanPages, Store, StoreError};
use fulgurite_types::{Attempt, AttemptRef, Generation, RecordedTeacherLogprobs, Span, SpanFilter};

use super::QueryError;
use super::event::RolloutEvent;

/// The id of the rollout with this id, or of the session with this name.
///
/// # Errors
/// If there is none, or more than one session of that name.
pub async fn existing_rollout(store: &Store, name: &str) -> Result<String, QueryError> {
    let id = store.rollouts().id_of(name).await?;
    match store.rollouts().get(&id).await? {
        Some(_) => Ok(id),
        None => Err(QueryError::UnknownRollout { name: name.to_owned() }),
    }
}

/// What happened in an attempt, in order, a page at a time.
pub struct EventPages<'s> {
    store: &'s Store,
    pages: SpanPages,
}

impl<'s> EventPages<'s> {
    /// Of an attempt.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn of(store: &'s Store, attempt: &Attempt) -> Result<Self, StoreError> {
        let filter = SpanFilter {
            rollout_id: attempt.rollout_id.clone(),
            attempt: Some(AttemptRef::Id(attempt.attempt_id.clone())),
            ..SpanFilter::default()
        };
        Ok(Self { store, pages: store.spans().pages(&filter).await? })
    }

    /// The next page, if there is one.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn next(&mut self) -> Result<Option<impl Iterator<Item = RolloutEvent> + use<>>, StoreError> {
        let Some(page) = self.pages.next_with_generations().await? else { return Ok(None) };
        let mut by_generation = teachers(self.store, &page).await?;
        Ok(Some(page.into_iter().map(move |(span, generation)| {
            let of_call = generation.as_ref().and_then(|call| by_generation.remove(&call.generation_id));
            RolloutEvent::new(span, generation, of_call.unwrap_or_default())
        })))
    }
}

/// What teachers made of the model calls among some spans, by generation.
async fn teachers(
    store: &Store,
    page: &[(Span, Option<Generation>)],
) -> Result<HashMap<String, Vec<RecordedTeacherLogprobs>>, StoreError> {
    let calls = page.iter().filter_map(|(_, generation)| generation.as_ref());
    let ids: Vec<&str> = calls.map(|call| call.generation_id.as_str()).collect();
    let mut by_generation: HashMap<String, Vec<RecordedTeacherLogprobs>> = HashMap::new();
    for recorded in store.runs().teacher_logprobs(&ids).await? {
        by_generation.entry(recorded.values.generation_id.clone()).or_default().push(recorded);
    }
    Ok(by_generation)
}
