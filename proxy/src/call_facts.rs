use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::telemetry::{ModelMetrics, OperationMetrics, SamplingClock};

/// What becomes known of a request while it is answered, for those who tell of it when it is over.
pub(crate) struct CallFacts {
    pub(crate) arrived: Instant,
    model: OnceLock<OfModel>,
    /// Rollout and attempt.
    pub(crate) attempt: OnceLock<(String, String)>,
    pub(crate) prompt_tokens: OnceLock<usize>,
    heard_tokens: AtomicUsize,
    has_failed: AtomicBool,
}

/// A call of a model of ours, which is in flight as long as this lives.
struct OfModel {
    metrics: Arc<ModelMetrics>,
    operation: &'static str,
}

impl Drop for OfModel {
    fn drop(&mut self) {
        self.metrics.in_flight.decrement(1.0);
    }
}

impl Default for CallFacts {
    /// A request that arrives now.
    fn default() -> Self {
        Self {
            arrived: Instant::now(),
            model: OnceLock::new(),
            attempt: OnceLock::new(),
            prompt_tokens: OnceLock::new(),
            heard_tokens: AtomicUsize::new(0),
            has_failed: AtomicBool::new(false),
        }
    }
}

impl CallFacts {
    /// Which model is asked, and what for.
    pub(crate) fn is_of_model(&self, metrics: &Arc<ModelMetrics>, operation: &'static str) {
        self.model.get_or_init(|| {
            metrics.in_flight.increment(1.0);
            OfModel { metrics: Arc::clone(metrics), operation }
        });
    }

    pub(crate) fn model(&self) -> Option<&ModelMetrics> {
        self.model.get().map(|of| &*of.metrics)
    }

    pub(crate) fn operation(&self) -> Option<&OperationMetrics> {
        self.model.get().map(|of| of.metrics.operation(of.operation))
    }

    /// Measures how an answer to it is sampled.
    pub(crate) fn sampling_clock(&self) -> Option<SamplingClock> {
        self.model.get().map(|of| of.metrics.sampling_clock(of.operation, self.arrived))
    }

    /// The first token of an answer has come that is not sampled here.
    pub(crate) fn first_token(&self) {
        if let Some(operation) = self.operation() {
            operation.time_to_first_token.record(self.arrived.elapsed());
        }
    }

    /// Tokens of an answer were heard, which may be of an answer that others asked for.
    pub(crate) fn hear_tokens(&self, count: usize) {
        self.heard_tokens.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn heard_tokens(&self) -> usize {
        self.heard_tokens.load(Ordering::Relaxed)
    }

    /// The answer broke off.
    pub(crate) fn fail(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }
}
