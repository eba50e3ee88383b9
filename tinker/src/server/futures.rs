use std::collections::HashMap;
use std::fmt::{Debug, Write};
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::wire::protobuf::{ForwardBackwardOutput, SampleResponse};
use crate::wire::{FutureCompletion, FutureState, FuturesRetrieveResponse, RequestFailed, SubmittedRequest};
use prost::Message;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::server::refusals::{Refusal, servers_fault};

/// How long a result is kept that has not been retrieved yet.
const RESULT_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// How long a retrieved result is kept: a client may be cut off in the middle of it and ask again.
const RETRIEVED_RESULT_LIFETIME: Duration = Duration::from_secs(5 * 60);

/// What a request has come to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Json(Value),
    Pass(ForwardBackwardOutput),
    Sample(Box<SampleResponse>),
    Failed(RequestFailed),
}

/// Requests that were taken, by their ids, and what they have come to.
#[derive(Debug, Default)]
pub(crate) struct Futures {
    entries: Mutex<HashMap<String, Entry>>,
    /// How many of those that are asked after together are done.
    done: watch::Sender<i64>,
}

/// What a request asks for, as far as two that are given one id must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    pub(crate) fn of(request: &impl Debug) -> Self {
        struct Hashed(DefaultHasher);
        impl Write for Hashed {
            fn write_str(&mut self, text: &str) -> std::fmt::Result {
                self.0.write(text.as_bytes());
                Ok(())
            }
        }
        let mut hashed = Hashed(DefaultHasher::new());
        // Neither a hasher nor derived text can fail.
        let _ = write!(hashed, "{request:?}");
        Self(hashed.0.finish())
    }
}

#[derive(Debug)]
struct Entry {
    acknowledgement: SubmittedRequest,
    fingerprint: Fingerprint,
    /// Whoever would send it is gone once it is there, and once it never will be.
    outcome: watch::Receiver<Option<Arc<Outcome>>>,
    /// What works at it, if that can be stopped.
    work: Option<AbortHandle>,
    /// When it was told last, or seen to be over.
    since: Option<Instant>,
    is_retrieved: bool,
    /// Its place among those that are done.
    done: Option<i64>,
}

impl Entry {
    /// Whether nobody will ask for it any more.
    fn is_expired(&mut self, now: Instant) -> bool {
        if self.outcome.has_changed().is_ok() {
            return false;
        }
        let kept = if self.is_retrieved { RETRIEVED_RESULT_LIFETIME } else { RESULT_LIFETIME };
        now.saturating_duration_since(*self.since.get_or_insert(now)) >= kept
    }
}

/// To be kept once. Dropped without an outcome, it fails the request.
#[derive(Debug)]
pub(crate) struct Promise(watch::Sender<Option<Arc<Outcome>>>);

impl Promise {
    pub(crate) fn keep(self, outcome: Outcome) {
        self.0.send_replace(Some(Arc::new(outcome)));
    }
}

/// What becomes of a request that comes in.
#[derive(Debug)]
pub(crate) enum Claim {
    /// It is new, and something is to be done.
    New(Promise),
    /// It has come before, and was answered so.
    Known(SubmittedRequest),
}

/// What is known of a result.
#[derive(Debug)]
pub(crate) enum Polled {
    Outcome(Arc<Outcome>),
    NotYet,
    /// Nobody asked for it, or it was forgotten.
    Unknown,
}

impl Futures {
    /// Takes a request, whose answer is `acknowledgement`, unless it was taken before. One that asks for something else
    /// than was taken under its id is refused.
    pub(crate) fn take(&self, acknowledgement: SubmittedRequest, fingerprint: Fingerprint) -> Result<Claim, Refusal> {
        let mut entries = self.entries();
        match entries.get(&acknowledgement.request_id) {
            Some(known) if known.fingerprint != fingerprint => {
                return Err(Refusal::is_in_use(&acknowledgement.request_id));
            }
            Some(known) => return Ok(Claim::Known(known.acknowledgement.clone())),
            None => {}
        }
        let (sender, outcome) = watch::channel(None);
        let request_id = acknowledgement.request_id.clone();
        entries.insert(
            request_id,
            Entry { acknowledgement, fingerprint, outcome, work: None, since: None, is_retrieved: false, done: None },
        );
        Ok(Claim::New(Promise(sender)))
    }

    /// Whether a request was taken.
    pub(crate) fn is_known(&self, request_id: &str) -> bool {
        self.entries().contains_key(request_id)
    }

    /// Forgets a request that was not carried out, so that it may come again.
    pub(crate) fn forget(&self, request_id: &str) {
        self.entries().remove(request_id);
    }

    /// Forgets what has expired.
    pub(crate) fn sweep(&self, now: Instant) {
        self.entries().retain(|_, entry| !entry.is_expired(now));
    }

    /// Says what works at a request, so that it can be stopped.
    pub(crate) fn work_of(&self, request_id: &str, work: AbortHandle) {
        if let Some(entry) = self.entries().get_mut(request_id) {
            entry.work = Some(work);
        }
    }

    /// Stops what works at a request, unless it is done. `false` if that cannot be stopped.
    pub(crate) fn stop(&self, request_id: &str) -> bool {
        match self.entries().get(request_id) {
            Some(Entry { work: None, .. }) => false,
            Some(Entry { work: Some(work), .. }) => {
                work.abort();
                true
            }
            None => true,
        }
    }

    /// Notes for those who ask after many that one is done.
    pub(crate) fn note_done(&self, request_id: &str) {
        if let Some(entry) = self.entries().get_mut(request_id) {
            self.done.send_modify(|last| {
                *last += 1;
                entry.done = Some(*last);
            });
        }
    }

    /// Those of the requests that are done and were not when `cursor` was told; waits for the first of them for as long
    /// as `patience`. A cursor of an earlier process knows of nothing.
    pub(crate) async fn done_after(
        &self,
        is_requested: impl Fn(&str) -> bool,
        cursor: i64,
        patience: Duration,
    ) -> FuturesRetrieveResponse {
        let mut done = self.done.subscribe();
        let waited_for = async {
            loop {
                let last = *done.borrow_and_update();
                let completions = self.completions(&is_requested, if cursor > last { 0 } else { cursor });
                if !completions.is_empty() || done.changed().await.is_err() {
                    return FuturesRetrieveResponse { completions, cursor: last };
                }
            }
        };
        let nothing_new = || FuturesRetrieveResponse { completions: Vec::new(), cursor };
        tokio::time::timeout(patience, waited_for).await.unwrap_or_else(|_| nothing_new())
    }

    fn completions(&self, is_requested: impl Fn(&str) -> bool, cursor: i64) -> Vec<FutureCompletion> {
        let entries = self.entries();
        let is_new = |(id, entry): &(&String, &Entry)| entry.done.is_some_and(|done| done > cursor) && is_requested(id);
        let completion = |(id, entry): (&String, &Entry)| {
            let size = match entry.outcome.borrow().as_deref() {
                Some(Outcome::Sample(response)) => Some(response.encoded_len() as u64),
                _ => None,
            };
            FutureCompletion {
                state: if size.is_some() { FutureState::Finished } else { FutureState::Failed },
                request_id: id.clone(),
                response_payload_uncompressed_size: size,
            }
        };
        entries.iter().filter(is_new).map(completion).collect()
    }

    /// Waits for a result for as long as `patience`.
    pub(crate) async fn poll(&self, request_id: &str, patience: Duration) -> Polled {
        let Some(mut outcome) = self.entries().get(request_id).map(|entry| entry.outcome.clone()) else {
            return Polled::Unknown;
        };
        let Ok(ended) = tokio::time::timeout(patience, outcome.wait_for(Option::is_some)).await else {
            return Polled::NotYet;
        };
        let ended = ended.ok().and_then(|outcome| outcome.clone());
        if let Some(entry) = self.entries().get_mut(request_id) {
            (entry.since, entry.is_retrieved) = (Some(Instant::now()), true);
        }
        Polled::Outcome(ended.unwrap_or_else(|| {
            let why = "the request was given up: it was cancelled, or its model or session has ended";
            Arc::new(Outcome::Failed(servers_fault(why)))
        }))
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "the tests wait for their tasks")]

    use axum::http::StatusCode;
    use serde_json::json;

    use super::*;

    fn request(id: &str) -> SubmittedRequest {
        SubmittedRequest { request_id: id.to_owned(), ..SubmittedRequest::default() }
    }

    const FINGERPRINT: Fingerprint = Fingerprint(1);

    fn new(claim: Result<Claim, Refusal>) -> Promise {
        let Ok(Claim::New(promise)) = claim else { panic!("{claim:?}") };
        promise
    }

    #[tokio::test]
    async fn a_request_is_taken_once_and_its_result_is_told_as_often_as_it_is_asked_for() {
        let futures = Futures::default();
        let promise = new(futures.take(request("a/1"), FINGERPRINT));
        assert!(
            matches!(futures.take(request("a/1"), FINGERPRINT), Ok(Claim::Known(known)) if known.request_id == "a/1")
        );
        let other = futures.take(request("a/1"), Fingerprint(2)).unwrap_err();
        assert_eq!(other.status, StatusCode::UNPROCESSABLE_ENTITY, "{other:?}");
        assert!(matches!(futures.poll("a/1", Duration::ZERO).await, Polled::NotYet));
        assert!(matches!(futures.poll("a/2", Duration::ZERO).await, Polled::Unknown));
        let waiting = futures.poll("a/1", RESULT_LIFETIME);
        let (waited, ()) = tokio::join!(waiting, async { promise.keep(Outcome::Json(json!(7))) });
        for polled in [waited, futures.poll("a/1", Duration::ZERO).await] {
            let Polled::Outcome(outcome) = polled else { panic!("{polled:?}") };
            assert!(matches!(&*outcome, Outcome::Json(value) if value == 7));
        }
    }

    #[tokio::test]
    async fn a_result_is_kept_for_a_while_from_when_it_is_there_and_for_less_once_it_was_told() {
        let futures = Futures::default();
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let slow = new(futures.take(request("slow"), FINGERPRINT));
        new(futures.take(request("told"), FINGERPRINT)).keep(Outcome::Json(json!(1)));
        drop(new(futures.take(request("given up"), FINGERPRINT)));
        futures.poll("told", RESULT_LIFETIME).await;
        let retrieved = Instant::now();
        futures.sweep(begin);
        futures.sweep(begin + RETRIEVED_RESULT_LIFETIME - second);
        assert!(futures.is_known("told"));
        futures.sweep(retrieved + RETRIEVED_RESULT_LIFETIME);
        assert!(!futures.is_known("told") && futures.is_known("given up"));
        futures.sweep(begin + RESULT_LIFETIME);
        assert!(!futures.is_known("given up"));
        // What took longer than results are kept is there from then on.
        slow.keep(Outcome::Json(json!(2)));
        futures.sweep(begin + RESULT_LIFETIME + second);
        futures.sweep(begin + RESULT_LIFETIME + RESULT_LIFETIME);
        assert!(futures.is_known("slow"));
        futures.sweep(begin + RESULT_LIFETIME + RESULT_LIFETIME + second);
        assert!(!futures.is_known("slow"));
    }

    #[tokio::test]
    async fn those_who_ask_after_many_are_told_what_is_new_of_theirs() {
        let futures = Futures::default();
        for id in ["a/1", "a/2", "b/1"] {
            new(futures.take(request(id), FINGERPRINT)).keep(Outcome::Sample(Box::default()));
        }
        drop(new(futures.take(request("a/3"), FINGERPRINT)));
        let of_a = |id: &str| id.starts_with("a/");
        let nothing = futures.done_after(of_a, 0, Duration::ZERO).await;
        assert_eq!((nothing.completions, nothing.cursor), (vec![], 0));
        futures.note_done("b/1");
        let waiting = futures.done_after(of_a, 0, RESULT_LIFETIME);
        let (response, ()) = tokio::join!(waiting, async { futures.note_done("a/2") });
        let ids = |response: &FuturesRetrieveResponse| {
            response.completions.iter().map(|done| (done.request_id.clone(), done.state)).collect::<Vec<_>>()
        };
        assert_eq!(ids(&response), [("a/2".to_owned(), FutureState::Finished)]);
        futures.note_done("a/3");
        let failed = futures.done_after(of_a, response.cursor, Duration::ZERO).await;
        assert_eq!(ids(&failed), [("a/3".to_owned(), FutureState::Failed)]);
        assert_eq!(futures.done_after(of_a, failed.cursor, Duration::ZERO).await.completions, []);
        assert_eq!(futures.done_after(of_a, 1_000_000, Duration::ZERO).await.completions.len(), 2);
    }

    #[tokio::test]
    async fn a_promise_that_nobody_keeps_fails_and_one_that_was_forgotten_is_new() {
        let futures = Futures::default();
        drop(new(futures.take(request("a/1"), FINGERPRINT)));
        let polled = futures.poll("a/1", RESULT_LIFETIME).await;
        let Polled::Outcome(outcome) = polled else { panic!("{polled:?}") };
        assert!(matches!(&*outcome, Outcome::Failed(failed) if failed.error.contains("given up")));
        assert!(!futures.stop("a/1"), "nobody has said what works at it");
        futures.forget("a/1");
        assert!(matches!(futures.poll("a/1", Duration::ZERO).await, Polled::Unknown));
        new(futures.take(request("a/1"), FINGERPRINT));
    }

    #[tokio::test]
    async fn a_request_that_is_stopped_fails_and_one_that_is_done_stays_so() {
        let futures = Futures::default();
        let promise = new(futures.take(request("a/1"), FINGERPRINT));
        let endless = tokio::spawn(async move {
            std::future::pending::<()>().await;
            promise.keep(Outcome::Json(json!(7)));
        });
        futures.work_of("a/1", endless.abort_handle());
        assert!(futures.stop("a/1"));
        let Polled::Outcome(outcome) = futures.poll("a/1", RESULT_LIFETIME).await else { panic!("it still goes on") };
        assert!(matches!(&*outcome, Outcome::Failed(failed) if failed.error.contains("cancelled")));
        let promise = new(futures.take(request("a/2"), FINGERPRINT));
        let done = tokio::spawn(async move { promise.keep(Outcome::Json(json!(8))) });
        futures.work_of("a/2", done.abort_handle());
        done.await.unwrap();
        assert!(futures.stop("a/2") && futures.stop("a/3"));
        let Polled::Outcome(outcome) = futures.poll("a/2", RESULT_LIFETIME).await else { panic!("it was forgotten") };
        assert!(matches!(&*outcome, Outcome::Json(value) if value == 8));
    }
}
