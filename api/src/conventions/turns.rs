//! Turns of bodies whose size clients choose: a large one is read aside from the threads that answer others.

use std::sync::Arc;

use axum::Json;
use axum::http::Extensions;
use axum::response::{IntoResponse, Response};
use fulgurite_store::{KeyHolder, aside};
use futures::future::BoxFuture;
use serde::Serialize;

/// Bodies up to this size are read where they arrive: less than a millisecond.
pub const SMALL: usize = 64 * 1024;

/// Places for work whose size clients choose. Those who send it take turns.
pub trait Turns: Send + Sync + 'static {
    /// Waits for a place for one of `owner`'s pieces of work. It is given back when it is dropped; whoever stops waiting
    /// leaves the queue.
    ///
    /// # Errors
    /// If too many wait already.
    fn enter(&self, owner: String) -> BoxFuture<'_, Result<Box<dyn Send>, TurnsFull>>;
}

/// Too many bodies wait to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{waiting} large bodies wait to be read already; send this one later")]
pub struct TurnsFull {
    /// How many: of the owner, or in all.
    pub waiting: usize,
}

/// Places without end, for a store that is served alone.
pub struct Endless;

impl Turns for Endless {
    fn enter(&self, _owner: String) -> BoxFuture<'_, Result<Box<dyn Send>, TurnsFull>> {
        Box::pin(async { Ok(Box::new(()) as Box<dyn Send>) })
    }
}

/// A body's turn to be worked at.
pub enum Turn {
    /// Of a small body, which takes none.
    Small,
    /// Of a large one, whose place is given back with it.
    Large(Box<dyn Send>),
}

/// Where a request's body waits for its turn, if it turns out to be large.
pub struct Queue {
    turns: Option<Arc<dyn Turns>>,
    holder: Option<KeyHolder>,
}

impl Queue {
    /// Of a request with these extensions.
    pub fn of(extensions: &Extensions) -> Self {
        Self { turns: extensions.get().cloned(), holder: extensions.get().cloned() }
    }

    /// Waits for the turn of a body of so many bytes.
    pub async fn turn(self, bytes: usize) -> Result<Turn, TurnsFull> {
        match self.turns.filter(|_| bytes > SMALL) {
            None => Ok(Turn::Small),
            Some(turns) => Ok(Turn::Large(turns.enter(owner(self.holder.as_ref())).await?)),
        }
    }
}

impl Turn {
    /// Works at the body: at a large one without keeping others from the thread.
    pub fn work<T>(&self, work: impl FnOnce() -> T) -> T {
        match self {
            Self::Small => work(),
            Self::Large(_) => aside(work),
        }
    }
}

/// Whose bodies wait behind each other: those of one key.
fn owner(holder: Option<&KeyHolder>) -> String {
    match holder {
        None | Some(KeyHolder::Admin | KeyHolder::ModelCalls | KeyHolder::Reader) => String::new(),
        Some(KeyHolder::Attempt { rollout_id, attempt_id } | KeyHolder::Grader { rollout_id, attempt_id }) => {
            format!("{rollout_id}/{attempt_id}")
        }
        Some(KeyHolder::Worker { name }) => name.clone(),
    }
}

/// An answer of any size, written without keeping others from the thread.
pub fn written<T: Serialize>(answer: T) -> Response {
    aside(|| Json(answer).into_response())
}
