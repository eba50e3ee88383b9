use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

use crate::reply::call_event::CallEvent;

/// The answers to one request while they are sampled. Several clients may listen, each from the first event on: a client
/// that sends its request again gets the answers from their start. `E` is the type of events.
pub(crate) struct Flight<E = ChoiceEvent> {
    state: Mutex<FlightState<E>>,
    /// Listeners came or went.
    changed: Notify,
}

/// An event of one of the answers.
#[derive(Clone)]
pub(crate) struct ChoiceEvent {
    /// Of which answer, counted from 0.
    pub(crate) choice: usize,
    pub(crate) event: CallEvent,
}

struct FlightState<E> {
    history: Vec<E>,
    /// No more events will come.
    has_ended: bool,
    /// Of listeners that have received every event, and wait for more.
    waiting: Vec<Waker>,
    listening: usize,
    /// A listener received all of it.
    delivered: bool,
    /// No more listeners may join.
    closed: bool,
    /// An answer has failed: who comes now asks for another.
    failed: bool,
}

impl<E: Clone> Flight<E> {
    /// A flight with one listener.
    pub(crate) fn new() -> (Arc<Self>, Listener<E>) {
        let (history, waiting) = (Vec::new(), Vec::new());
        let state = FlightState {
            history,
            has_ended: false,
            waiting,
            listening: 1,
            delivered: false,
            closed: false,
            failed: false,
        };
        let flight = Arc::new(Self { state: Mutex::new(state), changed: Notify::new() });
        let listener = Listener { received: 0, flight: Arc::clone(&flight) };
        (flight, listener)
    }

    /// Tells all who listen, and all who will.
    pub(crate) fn publish(&self, event: E) {
        self.change(|state| state.history.push(event));
    }

    /// Listens from the first word on; `None` once the flight is closed or has failed.
    pub(crate) fn listen(self: &Arc<Self>) -> Option<Listener<E>> {
        let mut state = self.state();
        if state.closed || state.failed {
            return None;
        }
        state.listening += 1;
        Some(Listener { received: 0, flight: Arc::clone(self) })
    }
}

impl Flight {
    /// Publishes an event of one of the answers.
    pub(crate) fn publish_event(&self, choice: usize, event: CallEvent) {
        self.change(|state| {
            state.failed |= matches!(event, CallEvent::Failed(_));
            state.history.push(ChoiceEvent { choice, event });
        });
    }
}

impl<E> Flight<E> {
    fn state(&self) -> MutexGuard<'_, FlightState<E>> {
        // The state is whole after every statement, so a poisoned lock holds nothing broken.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are no listeners, in which case none may join from now on.
    pub(crate) fn close_if_abandoned(&self) -> bool {
        let mut state = self.state();
        state.closed |= state.listening == 0;
        state.closed
    }

    /// Whether there are no listeners.
    pub(crate) fn is_abandoned(&self) -> bool {
        let state = self.state();
        state.listening == 0 && !state.delivered
    }

    /// Completes when there are no listeners.
    pub(crate) async fn abandoned(&self) {
        self.until(|state| (state.listening == 0).then_some(())).await;
    }

    /// Completes when a listener has received everything (`true`), or there are none. From then on none may join: it would
    /// get an answer that is being recorded as not delivered.
    pub(crate) async fn settled(&self) -> bool {
        self.until(|state| {
            let is_abandoned = state.listening == 0 && !state.delivered;
            state.closed |= is_abandoned;
            (is_abandoned || state.delivered).then_some(state.delivered)
        })
        .await
    }

    /// No more events will come.
    pub(crate) fn end(&self) {
        self.change(|state| {
            state.closed = true;
            state.has_ended = true;
        });
    }

    /// Changes the state, and wakes the listeners.
    fn change(&self, change: impl FnOnce(&mut FlightState<E>)) {
        let waiting = {
            let mut state = self.state();
            change(&mut state);
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// What a state comes to, once it comes to something.
    async fn until<T>(&self, reached: impl Fn(&mut FlightState<E>) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            if let Some(reached) = reached(&mut self.state()) {
                return reached;
            }
            changed.await;
        }
    }
}

/// A listener. Dropping the last one stops the sampling.
pub(crate) struct Listener<E = ChoiceEvent> {
    /// How many of the events.
    received: usize,
    flight: Arc<Flight<E>>,
}

impl<E: Clone> Listener<E> {
    /// The next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<E> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// As [`Listener::next`].
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<E>> {
        let mut state = self.flight.state();
        if let Some(event) = state.history.get(self.received) {
            self.received += 1;
            return Poll::Ready(Some(event.clone()));
        }
        if state.has_ended {
            return Poll::Ready(None);
        }
        if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            state.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }
}

impl<E> Listener<E> {
    /// Tells that all of it was handed over.
    pub(crate) fn delivered(&self) {
        self.flight.state().delivered = true;
        self.flight.changed.notify_waiters();
    }

    /// Tells that all of it was received and is of no use: who asks again gets another answer.
    pub(crate) fn refused(&self) {
        self.flight.state().closed = true;
        self.delivered();
    }
}

impl<E> Drop for Listener<E> {
    fn drop(&mut self) {
        self.flight.state().listening -= 1;
        self.flight.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "the tests wait for their tasks")]

    use futures::FutureExt;

    use super::*;
    use crate::error::ProxyError;

    fn word() -> CallEvent {
        CallEvent::Tokens(Vec::new().into())
    }

    #[test]
    fn who_tries_again_does_not_hear_of_the_failure_again() {
        let (flight, mut first) = Flight::new();
        flight.publish_event(0, CallEvent::Failed(Arc::new(ProxyError::MethodNotAllowed { method: "PUT".into() })));
        assert!(flight.listen().is_none(), "the call is not over, but has no answer to be had");
        assert_eq!(received(&mut first), [0]);
    }

    fn received(listener: &mut Listener) -> Vec<usize> {
        std::iter::from_fn(|| listener.next().now_or_never().flatten()).map(|event| event.choice).collect()
    }

    #[tokio::test]
    async fn whoever_joins_later_hears_all_of_it_too() {
        let (flight, mut first) = Flight::new();
        flight.publish_event(0, word());
        flight.publish_event(1, word());
        let mut second = flight.listen().unwrap();
        flight.publish_event(2, word());
        assert_eq!((received(&mut first), received(&mut second)), (vec![0, 1, 2], vec![0, 1, 2]));
        flight.end();
        assert!(first.next().await.is_none());
        assert!(flight.listen().is_none());
    }

    #[tokio::test]
    async fn who_waits_is_woken_by_the_next_word_and_by_the_end() {
        let (flight, mut first) = Flight::new();
        let mut second = flight.listen().unwrap();
        let received = tokio::spawn(async move { (first.next().await.is_some(), first.next().await.is_none()) });
        let also = tokio::spawn(async move { (second.next().await.is_some(), second.next().await.is_none()) });
        for step in 0..2 {
            // Until both wait.
            while flight.state().waiting.len() < 2 {
                tokio::task::yield_now().await;
            }
            if step == 0 { flight.publish_event(0, word()) } else { flight.end() }
        }
        assert_eq!((received.await.unwrap(), also.await.unwrap()), ((true, true), (true, true)));
    }

    #[tokio::test]
    async fn it_is_abandoned_when_the_last_listener_goes_and_then_nobody_may_join() {
        let (flight, first) = Flight::<ChoiceEvent>::new();
        let second = flight.listen().unwrap();
        drop(first);
        assert!(!flight.close_if_abandoned());
        let waiting = tokio::spawn({
            let flight = Arc::clone(&flight);
            async move { flight.settled().await }
        });
        drop(second);
        flight.abandoned().await;
        assert!(!waiting.await.unwrap());
        assert!(flight.close_if_abandoned());
        assert!(flight.listen().is_none());
    }

    #[tokio::test]
    async fn it_is_delivered_once_one_of_them_got_it() {
        let (flight, first) = Flight::<ChoiceEvent>::new();
        let second = flight.listen().unwrap();
        first.delivered();
        assert!(flight.settled().await);
        drop((first, second));
        assert!(flight.settled().await);
        assert!(flight.listen().is_some(), "all of it is there to be heard");
    }

    #[tokio::test]
    async fn nobody_joins_once_it_is_settled_that_nobody_got_it() {
        let (flight, listener) = Flight::<ChoiceEvent>::new();
        drop(listener);
        assert!(!flight.settled().await);
        assert!(flight.listen().is_none());
    }
}
