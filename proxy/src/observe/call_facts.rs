use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use axum::http::HeaderValue;
use axum::response::Response;
use fulgurite_types::MendedJson;
use serde_json::{Value, json};

use crate::attribute_names::REPLACED_CHARACTERS;
use crate::observe::telemetry::{ModelMetrics, OperationMetrics, SamplingClock};

/// Headers of an answer with the rollout and attempt that it is recorded under, which can be rewarded.
const ROLLOUT_ID: &str = "x-fulgurite-rollout-id";
const ATTEMPT_ID: &str = "x-fulgurite-attempt-id";

/// Header of an answer to a request of which something was left out.
const WARNING: &str = "x-fulgurite-warning";

/// Header of an answer with the names of fields that had no effect on it.
const IGNORED: &str = "x-fulgurite-ignored";

/// Names in that header, of which a client may send as many as it likes.
const NAMED_FIELDS: usize = 32;

/// What becomes known of a request while it is answered, for metrics and logs at its end.
pub(crate) struct CallFacts {
    pub(crate) arrived: Instant,
    model: OnceLock<OfModel>,
    /// Rollout and attempt.
    pub(crate) attempt: OnceLock<(String, String)>,
    /// The same of an answer whose request named no attempt.
    pub(crate) session: OnceLock<(String, String)>,
    /// What the client should know beside its answer.
    warnings: Mutex<Vec<String>>,
    ignored_fields: Mutex<Vec<String>>,
    /// Places of the request in which halves of surrogate pairs were replaced.
    replaced: OnceLock<Vec<String>>,
    pub(crate) prompt_tokens: OnceLock<usize>,
    delivered_tokens: AtomicUsize,
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
            session: OnceLock::new(),
            warnings: Mutex::default(),
            ignored_fields: Mutex::default(),
            replaced: OnceLock::new(),
            prompt_tokens: OnceLock::new(),
            delivered_tokens: AtomicUsize::new(0),
            has_failed: AtomicBool::new(false),
        }
    }
}

impl CallFacts {
    /// The model and operation of the request.
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

    /// Tokens of an answer were delivered, which may be an answer to other requests too.
    pub(crate) fn count_delivered(&self, count: usize) {
        self.delivered_tokens.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn delivered_tokens(&self) -> usize {
        self.delivered_tokens.load(Ordering::Relaxed)
    }

    /// Tells the client something beside its answer.
    pub(crate) fn warn(&self, warning: String) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(warning);
    }

    /// Halves of surrogate pairs were replaced in the request.
    pub(crate) fn is_mended(&self, mended: MendedJson) {
        let warning = mended.warning();
        tracing::info!("a request is read with {warning}");
        self.warn(warning);
        self.replaced.get_or_init(|| mended.places);
    }

    /// The attribute that notes it in the record.
    pub(crate) fn replaced_attribute(&self) -> Option<(String, Value)> {
        self.replaced.get().map(|places| (REPLACED_CHARACTERS.to_owned(), json!(places)))
    }

    /// Tells the client that a field of its request had no effect.
    pub(crate) fn ignore(&self, field: &str) {
        let mut fields = self.ignored_fields.lock().unwrap_or_else(PoisonError::into_inner);
        if fields.len() < NAMED_FIELDS {
            // Of a name that no header can hold, what can be.
            let is_plain = |char: &char| char.is_ascii_graphic() && *char != ',';
            fields.push(field.chars().filter(is_plain).take(64).collect());
        }
    }

    /// The rollout and attempt that the answer is recorded under, once they are known.
    pub(crate) fn is_answered_in(&self, attempt: &OnceLock<(String, String)>) {
        if let Some(names) = attempt.get() {
            self.session.get_or_init(|| names.clone());
        }
    }

    /// Writes into a response's headers whose record the answer is in, and what its client should know. A session whose
    /// call was refused may never have been opened.
    pub(crate) fn describe(&self, response: &mut Response) {
        let is_answer = response.status().is_success();
        let headers = response.headers_mut();
        // An upstream may be a server like this one, whose records are its own.
        headers.remove(ROLLOUT_ID);
        headers.remove(ATTEMPT_ID);
        let mut set = |name: &'static str, text: &str| {
            // Ids that clients chose may hold what no header can.
            if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
                headers.insert(name, value);
            }
        };
        if let Some((rollout_id, attempt_id)) = self.attempt.get().or(self.session.get().filter(|_| is_answer)) {
            set(ROLLOUT_ID, rollout_id);
            set(ATTEMPT_ID, attempt_id);
        }
        let warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.is_empty() {
            set(WARNING, &warnings.join("; "));
        }
        let ignored = self.ignored_fields.lock().unwrap_or_else(PoisonError::into_inner);
        if !ignored.is_empty() {
            set(IGNORED, &ignored.join(", "));
        }
    }

    /// The answer broke off.
    pub(crate) fn fail(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }
}
