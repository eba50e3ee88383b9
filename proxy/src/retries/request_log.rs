use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::error::ProxyError;
use crate::reply::flight::{ChoiceEvent, Flight, Listener};
use crate::retries::logged_requests::{Before, Identity, LoggedRequest, LoggedRequests, Progress};

/// Requests of an attempt, or of calls that belong to none: in flight, broken off, answered, and failed.
///
/// A request joins or replays an earlier one only if it carries the same `Idempotency-Key`, or is marked as a retry and has
/// the same body, or has the same body as one whose connection broke before its last byte. All others are new samples,
/// however alike they are. Of several candidates a retry belongs to the one that was sent once less often; a retry of one
/// that failed is a new call, and no other retry makes another. `E` is the type of their flights' events.
pub(crate) struct RequestLog<E = ChoiceEvent> {
    state: Mutex<LoggedRequests<E>>,
    /// A request was prepared, or is over.
    changed: Notify,
    /// How many requests that are over are kept.
    limit: usize,
}

/// What is to be done with a request.
pub(crate) enum Claim<E = ChoiceEvent> {
    /// It is a new call.
    New(OpenRequest<E>),
    /// It is being answered.
    Join(Joined<E>),
    /// It was answered, at least in part; the answer is in the store.
    Replay(OpenRequest<E>),
}

/// A request that is being answered, and one more who listens.
pub(crate) struct Joined<E = ChoiceEvent> {
    pub(crate) request: Arc<LoggedRequest<E>>,
    pub(crate) prompt: Arc<[u32]>,
    pub(crate) listener: Listener<E>,
}

/// A request in our hands. Dropped before it is answered, a new one has failed, and one that is replayed is as it was.
pub(crate) struct OpenRequest<E = ChoiceEvent> {
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
        Arc::new(Self { state: Mutex::default(), changed: Notify::new(), limit })
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
            let progress = Progress::InFlight { flight: Arc::clone(&flight), before: Before::Unknown };
            let request = LoggedRequest::new(identity.clone(), reply_id.to_owned(), created, progress);
            state.add(&request);
            return Ok(Found::Claim(Claim::New(self.open(request, flight, listener, Before::Unknown))));
        };
        let mut progress = earlier.progress();
        let Progress::InFlight { flight, .. } = &*progress else {
            let before = if matches!(*progress, Progress::Delivered) { Before::Delivered } else { Before::Broken };
            let (flight, listener) = Flight::new();
            *progress = Progress::InFlight { flight: Arc::clone(&flight), before };
            drop(progress);
            earlier.is_sent_again(identity);
            return Ok(Found::Claim(Claim::Replay(self.open(earlier, flight, listener, before))));
        };
        // One that is not prepared yet has no answer, and one that is being written off soon will have none.
        let joined = earlier.prompt().clone().and_then(|prompt| Some((prompt, flight.listen()?)));
        drop(progress);
        Ok(joined.map_or(Found::Wait, |(prompt, listener)| {
            earlier.is_sent_again(identity);
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
        let progress = if is_broken { Progress::Broken } else { Progress::Delivered };
        let request = LoggedRequest::new(identity, reply_id, created, progress);
        let mut state = self.state();
        state.add(&request);
        state.is_over(&request, self.limit);
    }
}

impl<E> RequestLog<E> {
    /// Whether a request like this came before, of which it may be a retry.
    pub(crate) fn knows(&self, identity: &Identity) -> bool {
        self.state().nearest(identity).is_some()
    }

    /// Notes of a request of before this process that nobody knows whether its client has the answer: the next with the same
    /// body is the same request. Whether there is such a one.
    pub(crate) fn may_be_unseen(&self, digest: &str, reply_id: &str) -> bool {
        self.state().break_off(digest, reply_id)
    }

    fn state(&self) -> MutexGuard<'_, LoggedRequests<E>> {
        // The state is whole after every statement, so a poisoned lock holds nothing broken.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, request: &Arc<LoggedRequest<E>>, progress: Progress<E>) {
        self.state().end(request, progress, self.limit);
        self.changed.notify_waiters();
    }
}

impl<E> OpenRequest<E> {
    /// From now on others may join.
    pub(crate) fn prepared(&self, prompt: &Arc<[u32]>) {
        *self.request.prompt() = Some(Arc::clone(prompt));
        self.log.changed.notify_waiters();
    }

    /// Whether the whole answer was delivered before, whatever becomes of it now.
    pub(crate) fn was_delivered(&self) -> bool {
        self.before == Before::Delivered
    }

    /// The answer is in the store, with or without having been delivered.
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
    #![allow(clippy::disallowed_methods, reason = "the tests wait for their tasks")]

    use super::*;

    fn plain() -> Identity {
        Identity { digest: "d".to_owned(), ..Identity::default() }
    }

    fn retry() -> Identity {
        retried(1)
    }

    fn retried(retries: u32) -> Identity {
        Identity { retries, ..plain() }
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
    async fn of_requests_alike_a_new_one_looks_at_those_under_way_alone() {
        let log = RequestLog::new(100);
        for number in 0..50 {
            let open = new(&log, plain(), &number.to_string()).await;
            if number % 2 == 0 { open.answered(true) } else { drop(open) }
        }
        let under_way = new(&log, plain(), "under way").await;
        let looked_at = |log: &RequestLog| log.state().looked_at("d");
        assert_eq!(looked_at(&log), 1);
        under_way.answered(false);
        assert_eq!(looked_at(&log), 1);
        let Claim::Replay(replay) = claim(&log, plain(), "a").await else { panic!("no replay") };
        replay.answered(true);
        assert_eq!(looked_at(&log), 0);
        // A retry is distinguished from all of them.
        assert_eq!(outcome(&claim(&log, retry(), "b").await), ("new", "b".to_owned()));
    }

    #[tokio::test]
    async fn an_answer_that_was_taken_is_not_broken_by_one_who_asks_for_it_again_and_leaves() {
        let log = RequestLog::new(10);
        new(&log, keyed("k"), "a").await.answered(true);
        let Claim::Replay(mut replay) = claim(&log, keyed("k"), "b").await else { panic!("no replay") };
        replay.prepared(&Arc::from([1]));
        drop(replay.listener.take());
        assert!(replay.flight.is_abandoned());
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
    async fn an_answer_that_may_be_unseen_is_replayed_to_the_first_that_sends_the_same_body() {
        let log = RequestLog::new(10);
        log.restore(plain(), "a".to_owned(), 0, false);
        assert!(!log.may_be_unseen("d", "another") && !log.may_be_unseen("other", "a"));
        assert!(log.may_be_unseen("d", "a") && !log.may_be_unseen("d", "a"));
        let Claim::Replay(replay) = claim(&log, plain(), "b").await else { panic!("no replay") };
        assert_eq!(replay.request.reply_id, "a");
        assert!(!log.may_be_unseen("d", "a"), "it is under way");
        replay.answered(true);
        assert_eq!(outcome(&claim(&log, plain(), "c").await), ("new", "c".to_owned()));
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
    async fn each_of_several_that_failed_is_asked_anew_by_its_own_retry() {
        let log = RequestLog::new(10);
        new(&log, plain(), "a").await.answered(true);
        let (second, third) = (new(&log, plain(), "b").await, new(&log, plain(), "c").await);
        drop((second, third));
        let again = [new(&log, retry(), "d").await, new(&log, retry(), "e").await];
        // These two have had theirs: what is retried now is the one that was answered.
        assert_eq!(outcome(&claim(&log, retry(), "f").await), ("replay", "a".to_owned()));
        // They fail once more, and are tried once more.
        drop(again);
        let again = [new(&log, retried(2), "g").await, new(&log, retried(2), "h").await];
        assert_eq!(outcome(&claim(&log, retried(3), "i").await), ("join", "h".to_owned()));
        assert_eq!(outcome(&claim(&log, retried(3), "j").await), ("join", "g".to_owned()));
        drop(again);
    }

    #[tokio::test]
    async fn a_retry_joins_no_other_retry_of_a_request_that_is_not_known() {
        let log = RequestLog::new(10);
        // Both failed without being noted.
        let first = new(&log, retry(), "a").await;
        let _second = new(&log, retry(), "b").await;
        first.answered(true);
        let _third = new(&log, retry(), "c").await;
        assert_eq!(outcome(&claim(&log, retried(2), "d").await), ("join", "c".to_owned()));
    }

    #[tokio::test]
    async fn retries_of_several_in_flight_are_shared_out_among_them() {
        let log = RequestLog::new(10);
        let _first = new(&log, plain(), "a").await;
        let _second = new(&log, plain(), "b").await;
        let mut joined = Vec::new();
        for number in ["c", "d"] {
            joined.push(claim(&log, retry(), number).await);
        }
        assert_eq!(joined.iter().map(|claim| outcome(claim).1).collect::<Vec<_>>(), ["b", "a"]);
    }

    #[tokio::test]
    async fn a_key_that_failed_is_free_and_its_retry_asks_anew() {
        let log = RequestLog::new(10);
        new(&log, plain(), "a").await.answered(true);
        drop(new(&log, keyed("k"), "b").await);
        let again = new(&log, Identity { retries: 1, ..keyed("k") }, "c").await;
        again.answered(true);
        assert_eq!(outcome(&claim(&log, keyed("k"), "d").await), ("replay", "c".to_owned()));
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
    async fn whoever_repeats_a_request_while_it_is_noted_that_nobody_got_it_waits_for_that() {
        let log = RequestLog::new(10);
        let mut first = new(&log, plain(), "a").await;
        first.listener = None;
        assert!(!first.flight.settled().await);
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
        for has_failed in [false, true] {
            let log = RequestLog::new(2);
            for id in ["a", "b", "c"] {
                let open = new(&log, Identity { digest: id.to_owned(), ..keyed(id) }, id).await;
                if has_failed { drop(open) } else { open.answered(true) }
            }
            let keys = if has_failed { 0 } else { 2 };
            assert_eq!(log.state().kept(), (2, 2, keys));
        }
    }
}
