//! Rollouts, attempts, spans, generations and runs in SQL.
//!
//! One task writes: concurrent writes share a transaction, and each is answered after its commit, so that
//! acknowledged means durable. Reads use connections of their own.

mod aside;
mod attempts;
mod check;
mod checkpoints;
mod checksums;
mod conversations;
mod dialect;
mod drift;
mod error;
mod export;
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
mod moments;
mod prune;
mod raw_sql;
mod readers;
mod recorded_calls;
mod recording;
mod resources;
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
#[path = "../tests/test_store/mod.rs"]
mod testing;
mod tokens;
mod unaccounted;
mod under_way;
mod workers;
mod writer;

// By the name under which other crates' tests have them, too.
#[cfg(test)]
extern crate self as fulgurite_store;

pub use aside::aside;
pub use check::{CheckEvent, Violation};
pub use error::{Result, StoreError};
pub use export::Export;
pub use keys::{AdminKey, ISSUED_KEY_SECONDS, IssuedKeys, KeyHolder, KeyRefused, Keyring};
pub use list_pages::ListPages;
pub use listing::found_reward;
pub use location::redact_url;
pub use moments::NewMoment;
pub use prune::{PruneFilter, Pruned, Space};
pub use raw_sql::{SqlRows, SqlValue};
pub use reward_refused::RewardRefused;
pub use reward_rights::{Sender, reward_annotation};
pub use rewards::{EVENT_TYPE, recorded_reward, reward_of};
pub use rollout_pages::RolloutPages;
pub use span_pages::SpanPages;
pub use store::{Statistics, Store, StoreOptions, Synchronous};

pub use summary::{GenerationCount, RewardSummary, RolloutCount, Summary, TableSize};
pub use telemetry::{HISTOGRAM_BUCKETS, describe_metrics};
pub use under_way::UnderWay;
