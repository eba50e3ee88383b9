//! What the store counts and measures, and under which names.

use std::time::Duration;

use fulgurite_types::AttemptedRollout;
use metrics::{Counter, Histogram, Unit, counter, describe_counter, describe_histogram, histogram};

const COMMIT_SECONDS: &str = "fulgurite_store_commit_seconds";
const TRANSACTION_SECONDS: &str = "fulgurite_store_transaction_seconds";
const TRANSACTION_WRITES: &str = "fulgurite_store_transaction_writes";
const TRANSACTIONS_LOST: &str = "fulgurite_store_transactions_lost_total";
const ROLLOUT_QUEUE_SECONDS: &str = "fulgurite_rollout_queue_seconds";

/// From a write into a disk's cache to a busy database.
const WRITE_SECONDS: &[f64] = &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0];
/// Up to as many writes as a transaction takes.
const WRITES: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
/// From a runner that was waiting to a queue of hours.
const QUEUE_SECONDS: &[f64] = &[0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0];

/// Upper bounds of the buckets of each histogram, in its unit.
pub const HISTOGRAM_BUCKETS: &[(&str, &[f64])] = &[
    (COMMIT_SECONDS, WRITE_SECONDS),
    (TRANSACTION_SECONDS, WRITE_SECONDS),
    (TRANSACTION_WRITES, WRITES),
    (ROLLOUT_QUEUE_SECONDS, QUEUE_SECONDS),
];

/// Tells the process's recorder of metrics what the store's are. To be called before a store is opened.
pub fn describe_metrics() {
    describe_histogram!(COMMIT_SECONDS, Unit::Seconds, "Time that a COMMIT took, until it was durable.");
    describe_histogram!(
        TRANSACTION_SECONDS,
        Unit::Seconds,
        "Time that a transaction took, from its beginning to its end."
    );
    describe_histogram!(TRANSACTION_WRITES, Unit::Count, "Writes that shared a transaction.");
    describe_counter!(TRANSACTIONS_LOST, Unit::Count, "Transactions that failed; their writes were answered so.");
    describe_histogram!(
        ROLLOUT_QUEUE_SECONDS,
        Unit::Seconds,
        "Time from a rollout's creation to its first runner, of those that stood in the queue."
    );
}

/// What the writing task measures.
pub(crate) struct WriterMetrics {
    pub commit: Histogram,
    pub transaction: Histogram,
    pub writes: Histogram,
    pub lost: Counter,
}

impl WriterMetrics {
    pub(crate) fn new() -> Self {
        Self {
            commit: histogram!(COMMIT_SECONDS),
            transaction: histogram!(TRANSACTION_SECONDS),
            writes: histogram!(TRANSACTION_WRITES),
            lost: counter!(TRANSACTIONS_LOST),
        }
    }
}

/// Measures how long rollouts waited in the queue before they were taken. Of a retry it is not known when it was queued.
pub(crate) fn rollouts_were_claimed(claimed: &[AttemptedRollout]) {
    for AttemptedRollout { rollout, attempt } in claimed.iter().filter(|claimed| claimed.attempt.sequence_id == 1) {
        // A clock that was set back counts as no time.
        let waited = Duration::try_from_secs_f64(attempt.start_time - rollout.start_time).unwrap_or_default();
        histogram!(ROLLOUT_QUEUE_SECONDS).record(waited);
    }
}
