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

/// Shows which state a circuit is in, until it is dropped. It counts itself in and out, so that one which comes in another's
/// place before that has gone is shown as it is.
#[derive(Debug)]
pub(crate) struct CircuitGauges {
    gauges: [(CircuitState, Gauge); 3],
    shown: Option<CircuitState>,
}

impl CircuitGauges {
    pub(crate) fn new(model: &str, host: &str) -> Self {
        let gauge = |state: CircuitState, name: &'static str| {
            (state, gauge!(CIRCUIT, "model" => model.to_owned(), "host" => shown(host), "state" => name))
        };
        let gauges = [
            gauge(CircuitState::Closed, "closed"),
            gauge(CircuitState::Open, "open"),
            gauge(CircuitState::Probing, "probing"),
        ];
        let mut gauges = Self { gauges, shown: None };
        gauges.show(Some(CircuitState::Closed));
        gauges
    }

    /// Shows that state, or none.
    pub(crate) fn show(&mut self, state: Option<CircuitState>) {
        if state == self.shown {
            return;
        }
        for (of, gauge) in &self.gauges {
            match Some(*of) {
                now if now == state => gauge.increment(1.0),
                before if before == self.shown => gauge.decrement(1.0),
                _ => {}
            }
        }
        self.shown = state;
    }
}

impl Drop for CircuitGauges {
    fn drop(&mut self) {
        self.show(None);
    }
}

/// What is counted and measured of one host.
#[derive(Debug)]
pub(crate) struct HostMetrics {
    pub(crate) in_flight: Gauge,
    pub(crate) queue: Histogram,
    pub(crate) well: Counter,
    pub(crate) failed: Counter,
    /// The caller had left before it was known.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};

    use metrics::{Key, KeyName, Metadata, Recorder, SharedString};

    use super::*;

    /// Gauges by host and state.
    #[derive(Default)]
    struct Gauges(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

    impl Gauges {
        /// Host and state of those that are not 0, and their values.
        fn shown(&self) -> Vec<(String, f64)> {
            let gauges = self.0.lock().unwrap();
            let values = gauges.iter().map(|(name, bits)| (name.clone(), f64::from_bits(bits.load(Ordering::Relaxed))));
            values.filter(|(_, value)| *value != 0.0).collect()
        }
    }

    impl Recorder for Gauges {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            Counter::noop()
        }

        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            let label = |name: &str| key.labels().find(|label| label.key() == name).unwrap().value().to_owned();
            let mut gauges = self.0.lock().unwrap();
            Gauge::from_arc(gauges.entry(format!("{} {}", label("host"), label("state"))).or_default().clone())
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[test]
    fn a_host_that_is_gone_is_in_no_state_and_one_in_its_place_in_its_own() {
        let recorder = Gauges::default();
        let circuit = |host: &str| metrics::with_local_recorder(&recorder, || CircuitGauges::new("m", host));
        let shows = |expected: &[&str]| {
            let expected: Vec<(String, f64)> = expected.iter().map(|name| (name.to_string(), 1.0)).collect();
            assert_eq!(recorder.shown(), expected);
        };
        let (mut old, other) = (circuit("a"), circuit("b"));
        old.show(Some(CircuitState::Open));
        old.show(Some(CircuitState::Open));
        shows(&["a open", "b closed"]);
        let new = circuit("a");
        shows(&["a closed", "a open", "b closed"]);
        drop(old);
        shows(&["a closed", "b closed"]);
        drop((new, other));
        shows(&[]);
    }
}
