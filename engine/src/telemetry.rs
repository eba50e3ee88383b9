//! What the embedded engine measures, and under which names.

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

const QUEUE_SECONDS: &str = "fulgurite_engine_queue_seconds";
const PREFILL_TOKENS: &str = "fulgurite_engine_prefill_tokens_total";
const PREFIX_CACHE_BYTES: &str = "fulgurite_engine_prefix_cache_bytes";

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
    describe_counter!(
        PREFILL_TOKENS,
        Unit::Count,
        "Tokens of prompts that the embedded engine computed keys and values for, or had them cached."
    );
    describe_gauge!(
        PREFIX_CACHE_BYTES,
        Unit::Bytes,
        "Keys and values that the embedded engine keeps for prompts that begin alike."
    );
}

/// Of all engines of this process.
pub(crate) fn queue_seconds() -> Histogram {
    histogram!(QUEUE_SECONDS)
}

/// Of all engines of this process.
pub(crate) fn prefill_tokens(source: &'static str) -> Counter {
    counter!(PREFILL_TOKENS, "source" => source)
}

/// Of all engines of this process, so that each counts its own up and down.
pub(crate) fn prefix_cache_bytes() -> Gauge {
    gauge!(PREFIX_CACHE_BYTES)
}
