use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::sync::{OwnedSemaphorePermit, RwLock, Semaphore};
use tokio::time::Instant;

use super::circuit::Circuit;
use super::options::ReplicaOptions;
use crate::telemetry::{CircuitGauges, HostMetrics};
use crate::{BackendError, NewWeights, SampleEvent, SampleRequest, SampleSource, SampleStream, Sampled, Sampler};

/// The weights that every host is to have, once some were put behind the sampler. Locked for writing while others are put
/// behind all hosts, and for reading while one is given these again: so nobody puts back what is just being replaced.
pub(super) type TargetWeights = Arc<RwLock<Option<Arc<NewWeights>>>>;

/// One host among several.
pub(crate) struct Replica<H> {
    /// Where it is: tells it from the others, across restarts too.
    pub(crate) name: String,
    pub(crate) host: H,
    places: Arc<Semaphore>,
    /// Requests that run there or wait for a place.
    load: AtomicUsize,
    circuit: Mutex<Circuit>,
    /// Whether it may have other weights than those that were last put behind the sampler: then it is asked for nothing.
    lacks_weights: AtomicBool,
    metrics: HostMetrics,
}

impl<H> Replica<H> {
    pub(crate) fn new(name: String, host: H, options: &ReplicaOptions) -> Self {
        let gauges = CircuitGauges::new(&options.model, &name);
        Self {
            metrics: HostMetrics::new(&options.model, &name),
            name,
            host,
            places: Arc::new(Semaphore::new(options.max_concurrency)),
            load: AtomicUsize::new(0),
            circuit: Mutex::new(Circuit::new(options.failures_to_open, options.reopen_after, gauges)),
            lacks_weights: AtomicBool::new(false),
        }
    }

    pub(super) fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    pub(super) fn circuit(&self) -> MutexGuard<'_, Circuit> {
        // It is whole after every statement.
        self.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place, however long that takes: some agents give up at the first refusal.
    pub(crate) async fn turn(self: &Arc<Self>) -> Result<Turn<H>, BackendError> {
        let came = Instant::now();
        self.load.fetch_add(1, Ordering::Relaxed);
        self.metrics.in_flight.increment(1.0);
        let mut turn = Turn { replica: self.clone(), place: None, is_decided: true };
        let closed = |_| BackendError::Unavailable { message: format!("{} takes no more requests", self.name) };
        turn.place = Some(self.places.clone().acquire_owned().await.map_err(closed)?);
        self.metrics.queue.record(came.elapsed());
        self.circuit().begin();
        turn.is_decided = false;
        Ok(turn)
    }
}

impl Replica<Arc<dyn Sampler>> {
    pub(super) fn lacks_weights(&self) -> bool {
        self.lacks_weights.load(Ordering::Acquire)
    }

    pub(super) fn set_lacks_weights(&self, lacks_weights: bool) {
        self.lacks_weights.store(lacks_weights, Ordering::Release);
    }

    /// Puts weights behind it. Goes on to the end though nobody waits for it: a host is not to be left in the middle.
    #[expect(clippy::disallowed_methods, reason = "a host is not to be left in the middle, and this waits for it")]
    pub(super) async fn load_weights(self: &Arc<Self>, weights: Arc<NewWeights>) -> Result<(), BackendError> {
        let replica = self.clone();
        let loading = tokio::spawn(async move {
            let loaded = replica.host.load_weights(&weights).await;
            // Of what has no place that could be told, nothing has reached the host.
            if !matches!(loaded, Err(BackendError::Files { .. } | BackendError::Damaged(_))) {
                replica.set_lacks_weights(loaded.is_err());
            }
            if loaded.is_ok() {
                replica.circuit().succeeded();
            }
            loaded
        });
        loading.await.unwrap_or_else(|error| Err(BackendError::Internal { message: error.to_string() }))
    }

    /// Asks how it is. One that was down may have come back with the weights that it was started with, so that it is
    /// given those that are `wanted` again.
    pub(super) async fn watch(self: &Arc<Self>, wanted: &TargetWeights) {
        let is_well = self.check_health().await;
        let wanted = wanted.try_read();
        if wanted.as_ref().is_ok_and(|wanted| wanted.is_none()) {
            // Its own are as good as any.
            return self.set_lacks_weights(false);
        }
        if !self.circuit().is_closed() {
            self.set_lacks_weights(true);
        }
        // Whoever puts others behind all hosts just now gives them to this one, too.
        let Ok(wanted) = wanted else { return };
        if let Some(weights) = &*wanted
            && is_well
            && self.lacks_weights()
        {
            match self.load_weights(weights.clone()).await {
                Ok(()) => tracing::info!(host = %self.name, "a model host has the newest weights again"),
                Err(error) => {
                    tracing::warn!(host = %self.name, %error, "a model host does not take the newest weights")
                }
            }
        }
    }

    /// Whether it answers a health check.
    async fn check_health(&self) -> bool {
        let health = self.host.check_health().await;
        let (mut circuit, now) = (self.circuit(), Instant::now());
        match &health {
            Ok(()) => circuit.is_up(now),
            Err(error) => {
                if circuit.admits(now) {
                    tracing::warn!(host = %self.name, %error, "a model host does not say that it is well");
                }
                circuit.is_down(now);
            }
        }
        health.is_ok()
    }
}

/// A request's time at a host, from waiting for a place to its outcome.
pub(crate) struct Turn<H> {
    replica: Arc<Replica<H>>,
    place: Option<OwnedSemaphorePermit>,
    /// Whether the host has been told of as well or unwell, or was never asked.
    is_decided: bool,
}

impl Turn<Arc<dyn Sampler>> {
    /// Starts sampling, and waits for the first event: until then another host could do it as well. The stream keeps its
    /// place there until it ends or its receiver is dropped.
    pub(super) async fn begin(mut self, request: SampleRequest) -> Result<SampleStream, BackendError> {
        let starting = async {
            let mut stream = self.replica.host.sample(request).await?;
            stream.begin().await?;
            Ok::<_, BackendError>(stream)
        };
        match starting.await {
            Ok(stream) => Ok(SampleStream::new(TurnStream { turn: Some(self), stream })),
            Err(error) => {
                self.decide(!error.is_hosts_fault());
                Err(error)
            }
        }
    }
}

/// What a host says in a request's turn, whose outcome it shows.
struct TurnStream {
    /// Until the end, or until it is stopped.
    turn: Option<Turn<Arc<dyn Sampler>>>,
    stream: SampleStream,
}

impl SampleSource for TurnStream {
    fn poll_events(&mut self, context: &mut Context<'_>, events: &mut Vec<Sampled>) -> Poll<()> {
        ready!(self.stream.poll_events(context, events));
        let is_well = match events.last() {
            Some(Ok(SampleEvent::Finished(_))) => true,
            Some(Err(error)) => !error.is_hosts_fault(),
            Some(Ok(_)) | None => return Poll::Ready(()),
        };
        if let Some(mut turn) = self.turn.take() {
            turn.decide(is_well);
        }
        Poll::Ready(())
    }

    fn stop(&mut self) {
        self.turn = None;
        self.stream.stop();
    }
}

impl fmt::Debug for TurnStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TurnStream").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl<H> Turn<H> {
    /// Notes whether the host did what was asked of it.
    pub(crate) fn decide(&mut self, is_well: bool) {
        self.is_decided = true;
        match is_well {
            true => {
                self.replica.metrics.well.increment(1);
                self.replica.circuit().succeeded();
            }
            false => {
                self.replica.metrics.failed.increment(1);
                self.replica.circuit().failed(Instant::now());
            }
        }
    }
}

impl<H> Drop for Turn<H> {
    fn drop(&mut self) {
        self.replica.load.fetch_sub(1, Ordering::Relaxed);
        self.replica.metrics.in_flight.decrement(1.0);
        if !self.is_decided {
            self.replica.metrics.abandoned.increment(1);
            self.replica.circuit().abandoned(Instant::now());
        }
    }
}
