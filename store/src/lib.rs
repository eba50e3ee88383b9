//! Rollouts, attempts, spans, generations and runs in SQL.
//!
//! A [`Store`] hands out its parts, one for each subject: [`Rollouts`], [`Attempts`] and [`Workers`] are the queue and what
//! comes of it, [`Recording`] writes model calls, [`Housekeeping`] looks after the whole. All of them work over one open
//! database (`open_database`), and none of them knows the [`Store`].
//!
//! One task writes: concurrent writes share a transaction, and each is answered after its commit, so that
//! acknowledged means durable. Reads use connections of their own.

mod call_records;
mod checksums;
mod database;
mod error;
mod generations;
mod housekeeping;
mod keys;
mod lifecycle;
mod list_pages;
mod open_database;
mod queries;
mod recording;
mod resources;
mod reward_refused;
mod reward_rules;
mod rewards;
mod rollouts;
mod row_checksums;
mod runs;
mod servers;
mod spans;
mod store;
mod weights;

#[cfg(test)]
#[path = "../tests/test_store/mod.rs"]
mod testing;

// By the name under which other crates' tests have them, too.
#[cfg(test)]
extern crate self as fulgurite_store;

pub use call_records::conversations::RecordedConversation;
pub use call_records::new_call::{ConversationHash, NewCall};
pub use database::aside::aside;
pub use database::location::redact_url;
pub use database::options::{StoreOptions, Synchronous};
pub use database::rollout_cache::CachedRollout;
pub use database::sql::LONGEST_ID;
pub use database::telemetry::{HISTOGRAM_BUCKETS, describe_metrics};
pub use error::{Result, StoreError};
pub use generations::Generations;
pub use generations::continued::{RecordedAnswer, RecordedAnswers};
pub use housekeeping::Housekeeping;
pub use housekeeping::check::{CheckEvent, RenewalMode, TableRenewal, Violation};
pub use housekeeping::portable::export::Export;
pub use housekeeping::prune::{PruneFilter, Space};
pub use keys::admin_key::AdminKey;
pub use keys::holder::{KeyHolder, KeyRefused};
pub use keys::issued_keys::{ISSUED_KEY_SECONDS, IssuedKeys};
pub use keys::keyring::Keyring;
pub use list_pages::ListPages;
pub use queries::Queries;
pub use queries::listing::found_reward;
pub use queries::progress::{CalledModel, RunProgress};
pub use queries::sql_rows::{SqlRows, SqlValue};
pub use queries::statistics::Statistics;
pub use queries::summary::{GenerationCount, RewardSummary, RolloutCount, Summary, TableSize};
pub use recording::Recording;
pub use resources::Resources;
pub use reward_refused::RewardRefused;
pub use reward_rules::annotations::{
    EVENT_DATA, EVENT_REQUEST_DIGEST, EVENT_SPAN, EVENT_TYPE, recorded_reward, reward_of,
};
pub use reward_rules::rights::{Sender, reward_annotation};
pub use rewards::Rewards;
pub use rollouts::Rollouts;
pub use rollouts::attempts::Attempts;
pub use rollouts::deletion::Pruned;
pub use rollouts::gateway_rollouts::GatewayRollouts;
pub use rollouts::pages::RolloutPages;
pub use rollouts::workers::Workers;
pub use runs::Runs;
pub use runs::totals::RunTotals;
pub use servers::Servers;
pub use spans::Spans;
pub use spans::call_details::CallDetails;
pub use spans::instant_spans::NewInstantSpan;
pub use spans::message_attributes;
pub use spans::pages::SpanPages;
pub use spans::span_message::SpanMessage;
pub use spans::traces::TracedAttempt;
pub use store::Store;
pub use weights::Weights;
