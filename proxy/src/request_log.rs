use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::error::ProxyError;
use crate::flight::{Flight, Listener, Said};

/// What tells a request that is sent again from one that asks anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Of the body, but for how the answer is to be written.
    pub(crate) digest: String,
    /// `Idempotency-Key`.
    pub(crate) idempotency_key: Option<String>,
    /// The client's library says that it sent this before (`x-stainless-retry-count` of 1 or more).
    pub(crate) is_retry: bool,
}

/// Requests of an attempt, or of calls that belong to none: in flight, broken off, and answered.
///
/// A request joins or replays an earlier one only if it carries the same `Idempotency-Key`, or says that it is a retry
/// and has the same body, or has the same body as one whose connection broke before its last byte. All others are new
/// samples, however much they look alike. `E` is what their flights say.
pub(crate) struct RequestLog<E = Said> {
    state: Mutex<State<E>>,
    /// A request was prepared, or is over.
    changed: Notify,
    /// How many requests that are over are kept.
    limit: usize,
}

struct State<E> {
    by_digest: HashMap<String, Vec<Arc<LoggedRequest<E>>>>,
    by_key: HashMap<String, Arc<LoggedRequest<E>>>,
    /// Requests that are over, the oldest first.
    over: VecDeque<Arc<LoggedRequest<E>>>,
}

/// A request that came.
pub(crate) struct LoggedRequest<E = Said> {
    identity: Identity,
    /// Id of the reply, which is that of its first generation.
    pub(crate) reply_id: String,
    /// Seconds since the epoch.
    pub(crate) created: u64,
    /// The prompt of its answers: known while it is in flight and prepared.
    prompt: Mutex<Option<Arc<[u32]>>>,
    progress: Mutex<Progress<E>>,
}

/// How far a request has come.
enum Progress<E> {
    InFlight(Arc<Flight<E>>),
    /// Nobody got the whole answer.
    Broken,
    /// Somebody got the whole answer.
    Delivered,
    /// There is no answer; whoever sends the request again asks anew.
    Failed,
}

/// What is to be done with a request.
pub(crate) enum Claim<E = Said> {
    /// It asks anew.
    New(OpenRequest<E>),
    /// It is being answered.
    Join(Joined<E>),
    /// It was answered, at least in part; the answer is in the store.
    Replay(OpenRequest<E>),
}

/// A request that is being answered, and one more who listens.
pub(crate) struct Joined<E = Said> {
    pub(crate) request: Arc<LoggedRequest<E>>,
    pub(crate) prompt: Arc<[u32]>,
    pub(crate) listener: Listener<E>,
}

/// How a request stood before it was in our hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Unknown,
    Broken,
    Delivered,
}

/// A request in our hands. Dropped before it is answered, a new one has failed, and one that is replayed is as it was.
pub(crate) struct OpenRequest<E = Said> {
    log: Arc<RequestLog<E>>,
    pub(crate) request: Arc<LoggedRequest<E>>,
    pub(crate) flight: Arc<Flight<E>>,
    /// The client's own.
    pub(crate) listener: Option<Listener<E>>,
    before: Before,
    is_over: bool,
}

enum Found<E> {
    Claim(Claim<E>),
    Wait,
}

impl<E: Clone> RequestLog<E> {
    /// An empty log that keeps this many requests which are over.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let state = State { by_digest: HashMap::new(), by_key: HashMap::new(), over: VecDeque::new() };
        Arc::new(Self { state: Mutex::new(state), changed: Notify::new(), limit })
    }

    /// Decides what a request is, and logs it if it is new. `reply_id` is then its reply's. Waits while the request that
    /// it repeats is just being written off.
    pub(crate) async fn claim(
        self: &Arc<Self>,
        identity: Identity,
        reply_id: String,
        created: u64,
    ) -> Result<Claim<E>, ProxyError> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            match self.find(&identity, &reply_id, created)? {
                Found::Claim(claim) => return Ok(claim),
                Found::Wait => changed.await,
            }
        }
    }

    fn find(self: &Arc<Self>, identity: &Identity, reply_id: &str, created: u64) -> Result<Found<E>, ProxyError> {
        let mut state = self.state();
        let Some(earlier) = state.earlier(identity)? else {
            let (flight, listener) = Flight::new();
            let request = Arc::new(LoggedRequest {
                identity: identity.clone(),
                reply_id: reply_id.to_owned(),
                created,
                prompt: Mutex::default(),
                progress: Mutex::new(Progress::InFlight(Arc::clone(&flight))),
            });
            state.add(&request);
            return Ok(Found::Claim(Claim::New(self.open(request, flight, listener, Before::Unknown))));
        };
        let mut progress = earlier.progress();
        let Progress::InFlight(flight) = &*progress else {
            let before = if matches!(*progress, Progress::Delivered) { Before::Delivered } else { Before::Broken };
            let (flight, listener) = Flight::new();
            *progress = Progress::InFlight(Arc::clone(&flight));
            drop(progress);
            return Ok(Found::Claim(Claim::Replay(self.open(earlier, flight, listener, before))));
        };
        // One that is not prepared yet has nothing to tell, and one that is being written off soon will have.
        let joined = earlier.prompt().clone().and_then(|prompt| Some((prompt, flight.listen()?)));
        drop(progress);
        Ok(joined.map_or(Found::Wait, |(prompt, listener)| {
            Found::Claim(Claim::Join(Joined { request: earlier, prompt, listener }))
        }))
    }

    fn open(
        self: &Arc<Self>,
        request: Arc<LoggedRequest<E>>,
        flight: Arc<Flight<E>>,
        listener: Listener<E>,
        before: Before,
    ) -> OpenRequest<E> {
        OpenRequest { log: Arc::clone(self), request, flight, listener: Some(listener), before, is_over: false }
    }

    /// Logs a request of before this process.
    pub(crate) fn restore(&self, identity: Identity, reply_id: String, created: u64, is_broken: bool) {
        let progress = Mutex::new(if is_broken { Progress::Broken } else { Progress::Delivered });
        let request = Arc::new(LoggedRequest { identity, reply_id, created, prompt: Mutex::default(), progress });
        let mut state = self.state();
        state.add(&request);
        state.over.push_back(request);
        state.forget(self.limit);
    }
}

impl<E> RequestLog<E> {
    fn state(&self) -> MutexGuard<'_, State<E>> {
        // The state is whole after every statement, so a poisoned lock holds nothing broken.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, request: &Arc<LoggedRequest<E>>, progress: Progress<E>) {
        let mut state = self.state();
        let has_failed = matches!(progress, Progress::Failed);
        *request.progress() = progress;
        *request.prompt() = None;
        match has_failed {
            true => state.remove(request),
            false => state.over.push_back(Arc::clone(request)),
        }
        state.forget(self.limit);
        drop(state);
        self.changed.notify_waiters();
    }
}

impl<E> State<E> {
    fn add(&mut self, request: &Arc<LoggedRequest<E>>) {
        self.by_digest.entry(request.identity.digest.clone()).or_default().push(Arc::clone(request));
        if let Some(key) = &request.identity.idempotency_key {
            self.by_key.insert(key.clone(), Arc::clone(request));
        }
    }

    fn remove(&mut self, request: &Arc<LoggedRequest<E>>) {
        let Identity { digest, idempotency_key, .. } = &request.identity;
        if let Some(alike) = self.by_digest.get_mut(digest) {
            alike.retain(|other| !Arc::ptr_eq(other, request));
            if alike.is_empty() {
                self.by_digest.remove(digest);
            }
        }
        if let Some(key) = idempotency_key
            && self.by_key.get(key).is_some_and(|other| Arc::ptr_eq(other, request))
        {
            self.by_key.remove(key);
        }
    }

    fn forget(&mut self, limit: usize) {
        while self.over.len() > limit
            && let Some(oldest) = self.over.pop_front()
        {
            let is_over_still = !matches!(*oldest.progress(), Progress::InFlight(_));
            if is_over_still {
                self.remove(&oldest);
            }
        }
    }

    /// The request that this one repeats.
    fn earlier(&self, identity: &Identity) -> Result<Option<Arc<LoggedRequest<E>>>, ProxyError> {
        if let Some(earlier) = identity.idempotency_key.as_ref().and_then(|key| self.by_key.get(key)) {
            if earlier.identity.digest != identity.digest {
                let message = "Idempotency-Key: the same key came with another body before".to_owned();
                let code = Some("idempotency_key_reused");
                return Err(ProxyError::InvalidRequest { message, parameter: None, code });
            }
            return Ok(Some(Arc::clone(earlier)));
        }
        // Another key says that it is another request; no key says nothing.
        let may_repeat = |earlier: &&Arc<LoggedRequest<E>>| {
            identity.idempotency_key.is_none() || earlier.identity.idempotency_key.is_none()
        };
        let alike = self.by_digest.get(&identity.digest).map(Vec::as_slice).unwrap_or_default();
        let latest = |holds: fn(&LoggedRequest<E>) -> bool| {
            alike.iter().rev().filter(may_repeat).find(|earlier| holds(earlier)).map(Arc::clone)
        };
        let retried = || identity.is_retry.then(|| latest(LoggedRequest::is_in_flight).or_else(|| latest(|_| true)));
        Ok(latest(LoggedRequest::is_broken).or_else(|| retried().flatten()))
    }
}

impl<E> LoggedRequest<E> {
    fn progress(&self) -> MutexGuard<'_, Progress<E>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn prompt(&self) -> MutexGuard<'_, Option<Arc<[u32]>>> {
        self.prompt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn idempotency_key(&self) -> Option<&str> {
        self.identity.idempotency_key.as_deref()
    }

    /// Whether nobody got the whole answer, and nobody is waiting for it.
    fn is_broken(&self) -> bool {
        match &*self.progress() {
            Progress::Broken => true,
            Progress::InFlight(flight) => flight.is_abandoned(),
            Progress::Delivered | Progress::Failed => false,
        }
    }

    fn is_in_flight(&self) -> bool {
        matches!(*self.progress(), Progress::InFlight(_))
    }
}

impl<E> OpenRequest<E> {
    /// From now on others may join.
    pub(crate) fn prepared(&self, prompt: &Arc<[u32]>) {
        *self.request.prompt() = Some(Arc::clone(prompt));
        self.log.changed.notify_waiters();
    }

    /// Whether somebody got the whole answer before, whatever becomes of it now.
    pub(crate) fn was_delivered(&self) -> bool {
        self.before == Before::Delivered
    }

    /// The answer is in the store, and somebody got all of it or nobody did.
    pub(crate) fn answered(mut self, was_delivered: bool) {
        self.is_over = true;
        let progress = if was_delivered { Progress::Delivered } else { Progress::Broken };
        self.log.end(&self.request, progress);
    }
}

impl<E> Drop for OpenRequest<E> {
    fn drop(&mut self) {
        self.flight.end();
        if !self.is_over {
            let progress = match self.before {
                Before::Unknown => Progress::Failed,
                Before::Broken => Progress::Broken,
                Before::Delivered => Progress::Delivered,
            };
            self.log.end(&self.request, progress);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Identity {
        Identity { digest: "d".to_owned(), ..Identity::default() }
    }

    fn retry() -> Identity {
        Identity { is_retry: true, ..plain() }
    }

    fn keyed(key: &str) -> Identity {
        Identity { idempotency_key: Some(key.to_owned()), ..plain() }
    }

    async fn claim(log: &Arc<RequestLog>, identity: Identity, reply_id: &str) -> Claim {
        log.claim(identity, reply_id.to_owned(), 0).await.unwrap_or_else(|error| panic!("{error}"))
    }

    async fn new(log: &Arc<RequestLog>, identity: Identity, reply_id: &str) -> OpenRequest {
        match claim(log, identity, reply_id).await {
            Claim::New(open) => {
                open.prepared(&Arc::from([1]));
                open
            }
            Claim::Join(joined) => panic!("joined {}", joined.request.reply_id),
            Claim::Replay(open) => panic!("replayed {}", open.request.reply_id),
        }
    }

    /// What a claim came to, and with which reply.
    fn outcome(claim: &Claim) -> (&'static str, String) {
        match claim {
            Claim::New(open) => ("new", open.request.reply_id.clone()),
            Claim::Join(joined) => ("join", joined.request.reply_id.clone()),
            Claim::Replay(open) => ("replay", open.request.reply_id.clone()),
        }
    }

    #[tokio::test]
    async fn identical_requests_are_new_samples_while_their_connections_live_and_after_a_whole_answer() {
        let log = RequestLog::new(10);
        let first = new(&log, plain(), "a").await;
        let second = new(&log, plain(), "b").await;
        first.answered(true);
        second.answered(true);
        assert_eq!(outcome(&claim(&log, plain(), "c").await), ("new", "c".to_owned()));
    }

    #[tokio::test]
    async fn the_same_body_after_a_broken_connection_is_the_same_request_once() {
        let log = RequestLog::new(10);
        new(&log, plain(), "a").await.answered(false);
        let Claim::Replay(replay) = claim(&log, plain(), "b").await else { panic!("no replay") };
        assert_eq!(replay.request.reply_id, "a");
        // Its connection lives, so another is new.
        assert_eq!(outcome(&claim(&log, plain(), "c").await), ("new", "c".to_owned()));
        replay.answered(true);
        assert_eq!(outcome(&claim(&log, plain(), "d").await), ("new", "d".to_owned()));
    }

    #[tokio::test]
    async fn a_retry_joins_what_is_in_flight_and_replays_what_was_answered() {
        let log = RequestLog::new(10);
        let first = new(&log, plain(), "a").await;
        assert_eq!(outcome(&claim(&log, retry(), "b").await), ("join", "a".to_owned()));
        first.answered(true);
        assert_eq!(outcome(&claim(&log, retry(), "c").await), ("replay", "a".to_owned()));
    }

    #[tokio::test]
    async fn a_retry_of_what_was_never_answered_is_new() {
        let log = RequestLog::new(10);
        drop(new(&log, plain(), "a").await);
        assert_eq!(outcome(&claim(&log, retry(), "b").await), ("new", "b".to_owned()));
    }

    #[tokio::test]
    async fn a_replay_that_is_left_before_it_is_planned_is_replayed_for_the_next() {
        for was_delivered in [false, true] {
            let log = RequestLog::new(10);
            new(&log, plain(), "a").await.answered(was_delivered);
            let Claim::Replay(replay) = claim(&log, retry(), "b").await else { panic!("no replay") };
            assert_eq!(replay.was_delivered(), was_delivered);
            drop(replay);
            assert_eq!(outcome(&claim(&log, retry(), "c").await), ("replay", "a".to_owned()));
        }
    }

    #[tokio::test]
    async fn a_key_is_one_request_and_another_key_another() {
        let log = RequestLog::new(10);
        let first = new(&log, keyed("k"), "a").await;
        assert_eq!(outcome(&claim(&log, keyed("k"), "b").await), ("join", "a".to_owned()));
        first.answered(false);
        assert_eq!(outcome(&claim(&log, keyed("other"), "c").await), ("new", "c".to_owned()));
        let replay = claim(&log, keyed("k"), "d").await;
        assert_eq!(outcome(&replay), ("replay", "a".to_owned()));
        let other = Identity { digest: "other".to_owned(), ..keyed("k") };
        assert!(log.claim(other, "e".to_owned(), 0).await.is_err());
    }

    #[tokio::test]
    async fn whoever_repeats_a_request_that_is_being_written_off_waits_for_it() {
        let log = RequestLog::new(10);
        let mut first = new(&log, plain(), "a").await;
        first.listener = None;
        assert!(first.flight.close_if_abandoned());
        let waiting = tokio::spawn({
            let log = Arc::clone(&log);
            async move { outcome(&claim(&log, plain(), "b").await) }
        });
        tokio::task::yield_now().await;
        first.answered(false);
        assert_eq!(waiting.await.unwrap(), ("replay", "a".to_owned()));
    }

    #[tokio::test]
    async fn no_more_are_kept_than_the_limit() {
        let log = RequestLog::new(2);
        for id in ["a", "b", "c"] {
            new(&log, Identity { digest: id.to_owned(), ..keyed(id) }, id).await.answered(true);
        }
        let state = log.state();
        assert_eq!((state.over.len(), state.by_digest.len(), state.by_key.len()), (2, 2, 2));
    }
}
