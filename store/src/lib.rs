//! Rollouts, attempts, spans, generations and runs in SQL, and the REST API over them.
//!
//! One task writes: concurrent writes share a transaction, and each is answered after its commit, so that
//! acknowledged means durable. Reads use connections of their own.

mod attempts;
mod check;
mod checkpoints;
mod checksums;
mod conversations;
mod dialect;
mod drift;
mod error;
mod events;
mod export;
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod generation_spans;
mod generations;
mod given_rewards;
mod hidden_secrets;
mod import;
mod keys;
mod leases;
mod lifecycle;
mod list_pages;
mod listener;
mod listing;
mod location;
mod model_weights;
mod otlp;
mod plain_words;
mod prune;
mod raw_sql;
mod readers;
mod recorded_calls;
mod recording;
mod refused;
mod resources;
mod rest;
mod reward_refused;
mod reward_rights;
mod rewarded;
mod rewards;
mod rollout_pages;
mod rollout_records;
mod rollouts;
mod runs;
mod signals;
mod span_pages;
mod spans;
mod sql;
mod store;
mod summary;
mod telemetry;
#[cfg(test)]
mod testing;
mod tokens;
mod unaccounted;
mod under_way;
mod workers;
mod writer;

pub use check::{CheckEvent, Violation};
pub use error::{Result, StoreError};
pub use export::Export;
pub use keys::{AdminKey, ISSUED_KEY_SECONDS, IssuedKeys, KeyHolder, KeyRefused, Keyring};
pub use listing::found_reward;
pub use location::redact_url;
pub use otlp::{rejected_spans, spans_to_protobuf};
pub use prune::{PruneFilter, Pruned, Space};
pub use raw_sql::{SqlRows, SqlValue};
pub use refused::{BodyTooSlow, Refused};
pub use rest::{DEFAULT_BODY_LIMIT, RouteOptions, Turns, TurnsFull, refusal, routes, routes_in_turns, routes_with};
pub use reward_refused::RewardRefused;
pub use reward_rights::Sender;
pub use rewards::reward_of;
pub use span_pages::SpanPages;
pub use store::{Statistics, Store, StoreOptions, Synchronous};

pub use summary::{GenerationCount, RewardSummary, RolloutCount, Summary, TableSize};
pub use telemetry::{HISTOGRAM_BUCKETS, describe_metrics};
pub use under_way::UnderWay;
