//! Everything for Agent-lightning: its APIs over the store, and its tracers' spans as triplets.
//!
//! - [`routes`]: its store API (0.3) under `/v1/agl`, and the rollouts and events of its gateway (1.0) under `/api`.
//! - [`Triplet`]: one model call with its reward, in Agent-lightning's shape. [`any_triplets`] finds them among spans of
//!   any source; [`tracer_triplets`] and [`llm_proxy_triplets`] as Agent-lightning does. A [`TripletReport`] says of every
//!   other span why it is none.
//! - [`messages`]: spans to conversations, for supervised training.

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod store_api;
mod triplets;

pub use store_api::Overdue;
pub use triplets::{
    Conversation, ConversationReport, GenerationFacts, LiteralError, PassedOver, Reason, RewardMatch, Triplet,
    TripletMetadata, TripletOptions, TripletPrompt, TripletReport, TripletResponse, any_triplets, llm_proxy_triplets,
    messages, parse_python_literal, tracer_triplets,
};

use axum::Router;
use fulgurite_api::Serving;
use fulgurite_store::Store;

/// Agent-lightning's routes over the store.
pub fn routes(store: Store, serving: &Serving, overdue: Overdue) -> Router {
    let routes = Router::new().nest("/api", gateway::routes()).nest("/v1/agl", store_api::routes(&store, overdue));
    serving.serve(routes, store)
}
