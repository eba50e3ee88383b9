use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, mpsc};

use crate::call::CallEvent;

/// The answers to one request while they are sampled. Several may listen, each from the first word on: a client that
/// sends its request again listens to the answers that it was already given a part of. `E` is what is said.
pub(crate) struct Flight<E = Said> {
    state: Mutex<State<E>>,
    /// Listeners came or went.
    changed: Notify,
}

/// What one of the answers said.
#[derive(Clone)]
pub(crate) struct Said {
    /// Of which answer, counted from 0.
    pub(crate) choice: usize,
    pub(crate) event: CallEvent,
}

struct State<E> {
    history: Vec<E>,
    listeners: Vec<mpsc::UnboundedSender<E>>,
    listening: usize,
    /// Somebody got all of it.
    delivered: bool,
    /// Nobody may join any more.
    closed: bool,
}

impl<E: Clone> Flight<E> {
    /// A flight with one listener.
    pub(crate) fn new() -> (Arc<Self>, Listener<E>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let (history, delivered, closed) = (Vec::new(), false, false);
        let state = State { history, listeners: vec![sender], listening: 1, delivered, closed };
        let flight = Arc::new(Self { state: Mutex::new(state), changed: Notify::new() });
        let listener = Listener { receiver, flight: Arc::clone(&flight) };
        (flight, listener)
    }

    /// Tells all who listen, and all who will.
    pub(crate) fn tell(&self, said: E) {
        let mut state = self.state();
        for listener in &state.listeners {
            // One that has gone is counted out by itself.
            let _ = listener.send(said.clone());
        }
        state.history.push(said);
    }

    /// Listens from the first word on; `None` once the flight is closed.
    pub(crate) fn listen(self: &Arc<Self>) -> Option<Listener<E>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.state();
        if state.closed {
            return None;
        }
        for said in &state.history {
            // The receiver is in our hands.
            let _ = sender.send(said.clone());
        }
        state.listeners.push(sender);
        state.listening += 1;
        Some(Listener { receiver, flight: Arc::clone(self) })
    }
}

impl Flight {
    /// Tells what one of the answers says.
    pub(crate) fn say(&self, choice: usize, event: CallEvent) {
        self.tell(Said { choice, event });
    }
}

impl<E> Flight<E> {
    fn state(&self) -> MutexGuard<'_, State<E>> {
        // The state is whole after every statement, so a poisoned lock holds nothing broken.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody listens, and nobody may join from now on.
    pub(crate) fn close_if_abandoned(&self) -> bool {
        let mut state = self.state();
        state.closed |= state.listening == 0;
        state.closed
    }

    /// Whether nobody listens.
    pub(crate) fn is_abandoned(&self) -> bool {
        let state = self.state();
        state.listening == 0 && !state.delivered
    }

    /// Ends once nobody listens.
    pub(crate) async fn abandoned(&self) {
        self.until(|state| state.listening == 0).await;
    }

    /// Ends once somebody has got all of it, which is told, or nobody listens.
    pub(crate) async fn settled(&self) -> bool {
        self.until(|state| state.delivered || state.listening == 0).await;
        self.state().delivered
    }

    /// Nothing more will be said.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.closed = true;
        state.listeners.clear();
    }

    async fn until(&self, holds: impl Fn(&State<E>) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            if holds(&self.state()) {
                return;
            }
            changed.await;
        }
    }
}

/// One who listens. Whoever is the last to drop it stops the sampling.
pub(crate) struct Listener<E = Said> {
    pub(crate) receiver: mpsc::UnboundedReceiver<E>,
    flight: Arc<Flight<E>>,
}

impl<E> Listener<E> {
    /// Tells that all of it was handed over.
    pub(crate) fn delivered(&self) {
        self.flight.state().delivered = true;
        self.flight.changed.notify_waiters();
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
    use super::*;
    use crate::error::ProxyError;

    fn word() -> CallEvent {
        CallEvent::Failed(Arc::new(ProxyError::MethodNotAllowed { method: "PUT".into() }))
    }

    fn heard(listener: &mut Listener) -> Vec<usize> {
        std::iter::from_fn(|| listener.receiver.try_recv().ok()).map(|said| said.choice).collect()
    }

    #[tokio::test]
    async fn whoever_joins_later_hears_all_of_it_too() {
        let (flight, mut first) = Flight::new();
        flight.say(0, word());
        flight.say(1, word());
        let mut second = flight.listen().unwrap();
        flight.say(2, word());
        assert_eq!((heard(&mut first), heard(&mut second)), (vec![0, 1, 2], vec![0, 1, 2]));
        flight.end();
        assert!(first.receiver.recv().await.is_none());
        assert!(flight.listen().is_none());
    }

    #[tokio::test]
    async fn it_is_abandoned_when_the_last_listener_goes_and_then_nobody_may_join() {
        let (flight, first) = Flight::<Said>::new();
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
        let (flight, first) = Flight::<Said>::new();
        let _second = flight.listen().unwrap();
        first.delivered();
        assert!(flight.settled().await);
    }
}
