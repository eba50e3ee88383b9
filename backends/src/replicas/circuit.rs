use std::time::Duration;

use tokio::time::Instant;

use crate::telemetry::{CircuitGauges, CircuitState};

/// Whether a host is worth asking: open after failures one after another, tried once after a while, closed by success.
#[derive(Debug)]
pub(super) struct Circuit {
    state: CircuitPhase,
    failures_to_open: u32,
    reopen_after: Duration,
    gauges: CircuitGauges,
}

#[derive(Debug, PartialEq)]
enum CircuitPhase {
    Closed {
        failures: u32,
    },
    Open {
        since: Instant,
    },
    /// One request is out to see.
    Probing,
}

impl Circuit {
    pub(super) fn new(failures_to_open: u32, reopen_after: Duration, gauges: CircuitGauges) -> Self {
        Self { state: CircuitPhase::Closed { failures: 0 }, failures_to_open, reopen_after, gauges }
    }

    fn enter(&mut self, state: CircuitPhase) {
        self.gauges.show(Some(match state {
            CircuitPhase::Closed { .. } => CircuitState::Closed,
            CircuitPhase::Open { .. } => CircuitState::Open,
            CircuitPhase::Probing => CircuitState::Probing,
        }));
        self.state = state;
    }

    /// Whether a request may go there now.
    pub(super) fn admits(&self, now: Instant) -> bool {
        match self.state {
            CircuitPhase::Closed { .. } => true,
            CircuitPhase::Open { since } => now.duration_since(since) >= self.reopen_after,
            CircuitPhase::Probing => false,
        }
    }

    /// Whether nothing is wrong there, as far as is known.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, CircuitPhase::Closed { .. })
    }

    /// A request goes there, whether or not it is admitted: the last resort may be a host that is given up.
    pub(super) fn begin(&mut self) {
        if let CircuitPhase::Open { .. } = self.state {
            self.enter(CircuitPhase::Probing);
        }
    }

    pub(super) fn succeeded(&mut self) {
        self.enter(CircuitPhase::Closed { failures: 0 });
    }

    pub(super) fn failed(&mut self, now: Instant) {
        self.enter(match self.state {
            CircuitPhase::Closed { failures } if failures + 1 < self.failures_to_open => {
                CircuitPhase::Closed { failures: failures + 1 }
            }
            _ => CircuitPhase::Open { since: now },
        });
    }

    /// A request's outcome is unknown: the caller has left.
    pub(super) fn abandoned(&mut self, now: Instant) {
        if self.state == CircuitPhase::Probing {
            // Another may see at once.
            self.enter(CircuitPhase::Open { since: now.checked_sub(self.reopen_after).unwrap_or(now) });
        }
    }

    /// The host does not answer health checks.
    pub(super) fn is_down(&mut self, now: Instant) {
        self.enter(CircuitPhase::Open { since: now });
    }

    /// The host answers health checks: what was given up may be tried at once.
    pub(super) fn is_up(&mut self, now: Instant) {
        if let CircuitPhase::Open { .. } = self.state {
            self.enter(CircuitPhase::Open { since: now.checked_sub(self.reopen_after).unwrap_or(now) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(5);

    fn circuit(failures_to_open: u32) -> Circuit {
        Circuit::new(failures_to_open, WAIT, CircuitGauges::new("m", "h"))
    }

    #[test]
    fn failures_one_after_another_open_it_and_one_probe_decides() {
        let start = Instant::now() + WAIT;
        let mut circuit = circuit(3);
        circuit.failed(start);
        circuit.failed(start);
        circuit.succeeded();
        circuit.failed(start);
        circuit.failed(start);
        assert!(circuit.admits(start), "two after another are not three");
        circuit.failed(start);
        assert!(!circuit.admits(start + WAIT / 2));
        assert!(circuit.admits(start + WAIT));
        circuit.begin();
        assert!(!circuit.admits(start + WAIT), "one probe at a time");
        circuit.failed(start + WAIT);
        assert!(!circuit.admits(start + WAIT + WAIT / 2));
        assert!(circuit.admits(start + WAIT * 2));
        circuit.begin();
        circuit.succeeded();
        assert!(circuit.admits(start + WAIT * 2));
    }

    #[test]
    fn a_probe_that_is_abandoned_leaves_its_place_to_the_next() {
        let now = Instant::now() + WAIT;
        let mut circuit = circuit(1);
        circuit.failed(now);
        circuit.begin();
        circuit.abandoned(now);
        assert!(circuit.admits(now));
    }

    #[test]
    fn health_gives_a_host_up_at_once_and_lets_it_be_tried_again() {
        let now = Instant::now() + WAIT;
        let mut circuit = circuit(3);
        circuit.is_up(now);
        assert!(circuit.admits(now));
        circuit.is_down(now);
        assert!(!circuit.admits(now));
        circuit.is_up(now);
        assert!(circuit.admits(now));
    }
}
