//! Rollouts, attempts, spans, generations and runs in SQL.
//!
//! One task writes: concurrent writes share a transaction, and each is answered after its commit, so that
//! acknowledged means durable. Reads use connections of their own.

mod attempts;
mod check;
mod checksums;
mod database;
mod error;
mod generations;
mod keys;
mod lifecycle;
mod list_pages;
mod portable;
mod prune;
mod queries;
mod recording;
mod resources;
mod rewards;
mod rollouts;
mod row_checksums;
mod runs;
mod spans;
mod store;
mod weights;
mod workers;

#[cfg(test)]
#[path = "../tests/test_store/mod.rs"]
mod testing;

// By the name under which other crates' tests have them, too.
#[cfg(test)]
extern crate self as fulgurite_store;

pub use check::{CheckEvent, RenewalMode, TableRenewal, Violation};
pub use database::aside::aside;
pub use database::location::redact_url;
pub use database::options::{StoreOptions, Synchronous};
pub use database::rollout_cache::CachedRollout;
pub use database::sql::LONGEST_ID;
pub use database::telemetry::{HISTOGRAM_BUCKETS, describe_metrics};
pub use error::{Result, StoreError};
pub use generations::continued::{RecordedAnswer, RecordedAnswers};
pub use generations::conversations::RecordedConversation;
pub use keys::admin_key::AdminKey;
pub use keys::holder::{KeyHolder, KeyRefused};
pub use keys::issued_keys::{ISSUED_KEY_SECONDS, IssuedKeys};
pub use keys::keyring::Keyring;
pub use list_pages::ListPages;
pub use portable::export::Export;
pub use prune::{PruneFilter, Pruned, Space};
pub use queries::listing::found_reward;
pub use queries::progress::{CalledModel, RunProgress};
pub use queries::sql_rows::{SqlRows, SqlValue};
pub use queries::summary::{GenerationCount, RewardSummary, RolloutCount, Summary, TableSize};
pub use recording::new_call::{ConversationHash, NewCall};
pub use rewards::annotations::{EVENT_DATA, EVENT_REQUEST_DIGEST, EVENT_SPAN, EVENT_TYPE, recorded_reward, reward_of};
pub use rewards::refused::RewardRefused;
pub use rewards::rights::{Sender, reward_annotation};
pub use rollouts::pages::RolloutPages;
pub use runs::totals::RunTotals;
pub use spans::call_details::CallDetails;
pub use spans::instant_spans::NewInstantSpan;
pub use spans::message_attributes;
pub use spans::pages::SpanPages;
pub use spans::span_message::SpanMessage;
pub use spans::traces::TracedAttempt;
pub use store::{Statistics, Store};
