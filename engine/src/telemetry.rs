//! What the embedded engine measures, and under which names.

use metrics::{Histogram, Unit, describe_histogram, histogram};

const QUEUE_SECONDS: &str = "fulgurite_engine_queue_seconds";

/// Upper bounds of the buckets of each histogram, in its unit.
pub const HISTOGRAM_BUCKETS: &[(&str, &[f64])] =
    &[(QUEUE_SECONDS, &[0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0])];

/// Tells the process's recorder of metrics what the engine's are. To be called before an engine is opened.
pub fn describe_metrics() {
    describe_histogram!(
        QUEUE_SECONDS,
        Unit::Seconds,
        "Time that a request waited for a place in the embedded engine's batch."
    );
}

/// Of all engines of this process.
pub(crate) fn queue_seconds() -> Histogram {
    histogram!(QUEUE_SECONDS)
}
