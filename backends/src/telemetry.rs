//! What is counted and measured of model hosts, and under which names.

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

const CIRCUIT: &str = "fulgurite_backend_circuit";
const IN_FLIGHT: &str = "fulgurite_backend_requests_in_flight";
const REQUESTS: &str = "fulgurite_backend_requests_total";
const QUEUE_SECONDS: &str = "fulgurite_backend_queue_seconds";

/// Upper bounds of the buckets of each histogram, in its unit.
pub const HISTOGRAM_BUCKETS: &[(&str, &[f64])] =
    &[(QUEUE_SECONDS, &[0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0])];

/// Tells the process's recorder of metrics what those of remote hosts are. To be called before one is made.
pub fn describe_metrics() {
    describe_gauge!(
        CIRCUIT,
        Unit::Count,
        "1 for the state that a model host is in: closed while it is well, open while it is left alone, probing while \
         one request is out to see."
    );
    describe_gauge!(IN_FLIGHT, Unit::Count, "Requests that run at a model host or wait for a place there.");
    describe_counter!(REQUESTS, Unit::Count, "Requests that a model host was sent, by how they ended.");
    describe_histogram!(QUEUE_SECONDS, Unit::Seconds, "Time that a request waited for a place at a model host.");
}

/// What a circuit may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CircuitState {
    Closed,
    Open,
    Probing,
}

/// Shows which state a circuit is in.
#[derive(Debug)]
pub(crate) struct CircuitGauges([(CircuitState, Gauge); 3]);

impl CircuitGauges {
    pub(crate) fn new(model: &str, host: &str) -> Self {
        let gauge = |state: CircuitState, name: &'static str| {
            (state, gauge!(CIRCUIT, "model" => model.to_owned(), "host" => shown(host), "state" => name))
        };
        let gauges = Self([
            gauge(CircuitState::Closed, "closed"),
            gauge(CircuitState::Open, "open"),
            gauge(CircuitState::Probing, "probing"),
        ]);
        gauges.show(CircuitState::Closed);
        gauges
    }

    pub(crate) fn show(&self, state: CircuitState) {
        self.0.iter().for_each(|(of, gauge)| gauge.set(if *of == state { 1.0 } else { 0.0 }));
    }
}

/// What is counted and measured of one host.
#[derive(Debug)]
pub(crate) struct HostMetrics {
    pub(crate) in_flight: Gauge,
    pub(crate) queue: Histogram,
    pub(crate) well: Counter,
    pub(crate) failed: Counter,
    /// Whoever asked had left before it was known.
    pub(crate) abandoned: Counter,
}

impl HostMetrics {
    pub(crate) fn new(model: &str, host: &str) -> Self {
        let (model, host) = (|| model.to_owned(), || shown(host));
        let requests = |outcome| counter!(REQUESTS, "model" => model(), "host" => host(), "outcome" => outcome);
        Self {
            in_flight: gauge!(IN_FLIGHT, "model" => model(), "host" => host()),
            queue: histogram!(QUEUE_SECONDS, "model" => model(), "host" => host()),
            well: requests("well"),
            failed: requests("failed"),
            abandoned: requests("abandoned"),
        }
    }
}

/// A host's URL, without what it may hold of keys.
fn shown(host: &str) -> String {
    host.split('?').next().unwrap_or_default().to_owned()
}
