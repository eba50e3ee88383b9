use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::error::ProxyError;
use crate::reply::flight::{ChoiceEvent, Flight};

/// What distinguishes a request that is sent again from a new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Of the body, but for how the answer is to be written.
    pub(crate) digest: String,
    /// `Idempotency-Key`.
    pub(crate) idempotency_key: Option<String>,
    /// How often the client's library has sent this before, by its own count (`x-stainless-retry-count`).
    pub(crate) retries: u32,
}

/// A request that came.
pub(crate) struct LoggedRequest<E = ChoiceEvent> {
    identity: Identity,
    /// Id of the reply, which is that of its first generation.
    pub(crate) reply_id: String,
    /// Seconds since the epoch.
    pub(crate) created: u64,
    /// Rollout and attempt of its answers: known from when it is prepared.
    pub(crate) attempt: OnceLock<(String, String)>,
    /// By the count of the last client that sent it.
    retries: AtomicU32,
    /// The prompt of its answers: known while it is in flight and prepared.
    prompt: Mutex<Option<Arc<[u32]>>>,
    progress: Mutex<Progress<E>>,
}

/// How far a request has come.
pub(crate) enum Progress<E> {
    InFlight {
        flight: Arc<Flight<E>>,
        before: Before,
    },
    /// The whole answer was never delivered.
    Broken,
    /// The whole answer was delivered.
    Delivered,
    /// There is no answer; a retry is a new call.
    Failed,
}

/// How a request stood before it was in flight, and in our hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    Unknown,
    Broken,
    Delivered,
}

/// Requests by what shows which of them another one repeats.
pub(crate) struct LoggedRequests<E> {
    by_digest: HashMap<String, Alike<E>>,
    by_key: HashMap<String, Arc<LoggedRequest<E>>>,
    /// Requests that are over, the oldest first.
    over: VecDeque<Arc<LoggedRequest<E>>>,
}

/// Requests with the same body. However many there have been, a new one looks at those alone that it may repeat.
struct Alike<E> {
    /// In flight, or broken off.
    open: VecDeque<Arc<LoggedRequest<E>>>,
    /// Answered, or failed: what only a retry may repeat.
    settled: VecDeque<Arc<LoggedRequest<E>>>,
}

impl<E> Default for LoggedRequests<E> {
    fn default() -> Self {
        Self { by_digest: HashMap::new(), by_key: HashMap::new(), over: VecDeque::new() }
    }
}

impl<E> LoggedRequests<E> {
    /// Logs a request.
    pub(crate) fn add(&mut self, request: &Arc<LoggedRequest<E>>) {
        self.by_digest.entry(request.identity.digest.clone()).or_default().add(request);
        if let Some(key) = &request.identity.idempotency_key {
            self.by_key.insert(key.clone(), Arc::clone(request));
        }
    }

    /// Notes how a request ended, and forgets the oldest that are over but for so many.
    pub(crate) fn end(&mut self, request: &Arc<LoggedRequest<E>>, progress: Progress<E>, limit: usize) {
        let has_failed = matches!(progress, Progress::Failed);
        *request.progress() = progress;
        *request.prompt() = None;
        if has_failed {
            self.free_key(request);
        }
        if let Some(alike) = self.by_digest.get_mut(&request.identity.digest) {
            alike.sort(request);
        }
        self.is_over(request, limit);
    }

    /// Notes that a request is over, and forgets the oldest that are but for so many.
    pub(crate) fn is_over(&mut self, request: &Arc<LoggedRequest<E>>, limit: usize) {
        self.over.push_back(Arc::clone(request));
        while self.over.len() > limit
            && let Some(oldest) = self.over.pop_front()
        {
            let is_over_still = !matches!(*oldest.progress(), Progress::InFlight { .. });
            if is_over_still {
                self.remove(&oldest);
            }
        }
    }

    /// Notes of a request that its answer was never delivered, though that was believed; whether it was.
    pub(crate) fn break_off(&mut self, digest: &str, reply_id: &str) -> bool {
        let Some(alike) = self.by_digest.get_mut(digest) else { return false };
        let Some(request) = alike.settled.iter().find(|request| request.reply_id == reply_id).cloned() else {
            return false;
        };
        if !matches!(*request.progress(), Progress::Delivered) {
            return false;
        }
        *request.progress() = Progress::Broken;
        alike.sort(&request);
        true
    }

    fn remove(&mut self, request: &Arc<LoggedRequest<E>>) {
        let digest = &request.identity.digest;
        if let Some(alike) = self.by_digest.get_mut(digest) {
            alike.remove(request);
            if alike.open.is_empty() && alike.settled.is_empty() {
                self.by_digest.remove(digest);
            }
        }
        self.free_key(request);
    }

    /// From now on a request with this key is a new call.
    fn free_key(&mut self, request: &Arc<LoggedRequest<E>>) {
        if let Some(key) = &request.identity.idempotency_key
            && self.by_key.get(key).is_some_and(|other| Arc::ptr_eq(other, request))
        {
            self.by_key.remove(key);
        }
    }

    /// The request that this one repeats. One that failed is forgotten with its retry, which is new.
    pub(crate) fn earlier(&mut self, identity: &Identity) -> Result<Option<Arc<LoggedRequest<E>>>, ProxyError> {
        let Some(earlier) = self.nearest(identity) else { return Ok(None) };
        if earlier.identity.digest != identity.digest {
            let message = "Idempotency-Key: the same key came with another body before".to_owned();
            let code = Some("idempotency_key_reused");
            return Err(ProxyError::InvalidRequest { message, parameter: None, code });
        }
        let has_failed = matches!(*earlier.progress(), Progress::Failed);
        if has_failed {
            self.remove(&earlier);
            return Ok(None);
        }
        Ok(Some(earlier))
    }

    /// The request that carries the same key, or else the one that this one repeats, though it may have failed.
    pub(crate) fn nearest(&self, identity: &Identity) -> Option<Arc<LoggedRequest<E>>> {
        if let Some(earlier) = identity.idempotency_key.as_ref().and_then(|key| self.by_key.get(key)) {
            return Some(Arc::clone(earlier));
        }
        // Another key means another request; no key means nothing.
        let may_repeat = |earlier: &&Arc<LoggedRequest<E>>| {
            let keys = (&identity.idempotency_key, &earlier.identity.idempotency_key);
            keys.0.is_none() || keys.1.is_none() || keys.0 == keys.1
        };
        let alike = self.by_digest.get(&identity.digest)?;
        if let Some(broken) = alike.open.iter().filter(may_repeat).rfind(|earlier| earlier.is_broken()) {
            return Some(Arc::clone(broken));
        }
        if identity.retries == 0 {
            return None;
        }
        // One that came as a retry itself is another's, unless it had been sent less often.
        let all = alike.settled.iter().chain(&alike.open).filter(may_repeat);
        let before = all.filter(|earlier| earlier.identity.retries < identity.retries);
        before.max_by_key(|earlier| earlier.nearness_to(identity)).map(Arc::clone)
    }
}

impl<E> Default for Alike<E> {
    fn default() -> Self {
        Self { open: VecDeque::new(), settled: VecDeque::new() }
    }
}

impl<E> Alike<E> {
    fn add(&mut self, request: &Arc<LoggedRequest<E>>) {
        let list = if request.is_settled() { &mut self.settled } else { &mut self.open };
        list.push_back(Arc::clone(request));
    }

    /// Whether it was there.
    fn remove(&mut self, request: &Arc<LoggedRequest<E>>) -> bool {
        // The oldest are forgotten first, so it is found soon.
        [&mut self.open, &mut self.settled].into_iter().any(|list| {
            let place = list.iter().position(|other| Arc::ptr_eq(other, request));
            place.and_then(|place| list.remove(place)).is_some()
        })
    }

    /// Puts a request where it belongs now, if it is still kept.
    fn sort(&mut self, request: &Arc<LoggedRequest<E>>) {
        if self.remove(request) {
            self.add(request);
        }
    }
}

impl<E> LoggedRequest<E> {
    /// A request in this state.
    pub(crate) fn new(identity: Identity, reply_id: String, created: u64, progress: Progress<E>) -> Arc<Self> {
        let retries = AtomicU32::new(identity.retries);
        let (prompt, progress) = (Mutex::default(), Mutex::new(progress));
        Arc::new(Self { identity, reply_id, created, attempt: OnceLock::new(), retries, prompt, progress })
    }

    /// Notes that it came once more.
    pub(crate) fn is_sent_again(&self, identity: &Identity) {
        self.retries.store(identity.retries, Ordering::Relaxed);
    }

    /// How likely a retry is one of it: by whether it would be the next, then by what reason its client has to send it.
    fn nearness_to(&self, retry: &Identity) -> (bool, u8) {
        let is_next = retry.retries.checked_sub(1) == Some(self.retries.load(Ordering::Relaxed));
        let reason = match *self.progress() {
            Progress::Failed => 2,
            Progress::InFlight { .. } => 1,
            Progress::Broken | Progress::Delivered => 0,
        };
        (is_next, reason)
    }

    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress<E>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn prompt(&self) -> MutexGuard<'_, Option<Arc<[u32]>>> {
        self.prompt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn idempotency_key(&self) -> Option<&str> {
        self.identity.idempotency_key.as_deref()
    }

    /// Whether it is answered, or will not be.
    fn is_settled(&self) -> bool {
        matches!(*self.progress(), Progress::Delivered | Progress::Failed)
    }

    /// Whether the whole answer was never delivered, and no client waits for it.
    fn is_broken(&self) -> bool {
        match &*self.progress() {
            Progress::Broken => true,
            Progress::InFlight { flight, before } => *before != Before::Delivered && flight.is_abandoned(),
            Progress::Delivered | Progress::Failed => false,
        }
    }
}

#[cfg(test)]
impl<E> LoggedRequests<E> {
    /// How many requests with this body a new one is compared with.
    pub(crate) fn looked_at(&self, digest: &str) -> usize {
        self.by_digest[digest].open.len()
    }

    /// Requests that are over, bodies and keys that are kept.
    pub(crate) fn kept(&self) -> (usize, usize, usize) {
        (self.over.len(), self.by_digest.len(), self.by_key.len())
    }
}
