use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

/// Lets calls to one model's host, or holds them.
///
/// A held call is not refused: some clients take a refusal for the end. It waits, and a stream gives signs of life
/// meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    state: Arc<watch::Sender<GateState>>,
    heeds: Heeds,
}

/// What holds a call at a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heeds {
    /// Pauses, and that the model's own weights take no calls.
    Refusals,
    /// Pauses alone: its weights are others.
    Pauses,
}

/// Who may hold a model's calls. Each lets go for itself alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holder {
    /// The model itself was paused.
    Operator,
    /// Agent-lightning's gateway was paused.
    Gateway,
    /// The first weights after a start, which are being loaded.
    FirstWeights,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GateState {
    /// Who holds calls, and the reason that was given.
    holders: BTreeMap<Holder, Option<String>>,
    /// Why the model's own weights take no calls.
    refusal: Option<String>,
    /// Calls that the host works on.
    pub(crate) in_flight: usize,
    /// Calls that wait here.
    pub(crate) held: usize,
}

impl GateState {
    pub(crate) fn is_paused(&self) -> bool {
        !self.holders.is_empty()
    }

    /// The reason that the first holder with one gave.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.holders.values().find_map(Option::as_deref)
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self { state: Arc::new(watch::Sender::new(GateState::default())), heeds: Heeds::Refusals }
    }
}

/// A call that is inside, until it is dropped.
#[derive(Debug)]
pub(crate) struct Inside(Gate);

/// A call that waits, until it is dropped.
struct Held<'g>(&'g Gate);

impl Gate {
    pub(crate) fn state(&self) -> GateState {
        self.state.borrow().clone()
    }

    /// The same gate for calls of other weights than the model's own.
    pub(crate) fn of_other_weights(&self) -> Self {
        Self { state: Arc::clone(&self.state), heeds: Heeds::Pauses }
    }

    /// Has calls of the model's own weights refused from now on, or no longer. It holds none.
    pub(crate) fn refuse(&self, reason: Option<String>) {
        self.state.send_modify(|state| state.refusal = reason);
    }

    /// Why a call is refused here, if it is. Whoever went in asks, for it may have waited.
    pub(crate) fn refusal(&self) -> Option<String> {
        match self.heeds {
            Heeds::Refusals => self.state.borrow().refusal.clone(),
            Heeds::Pauses => None,
        }
    }

    /// Goes in, or waits as long as it is paused.
    pub(crate) async fn enter(&self) -> Inside {
        if let Some(inside) = self.try_enter() {
            return inside;
        }
        self.state.send_modify(|state| state.held += 1);
        let _held = Held(self);
        let mut changes = self.state.subscribe();
        loop {
            // The sender is in our hands, so that it cannot be gone.
            let _ = changes.wait_for(|state| !state.is_paused()).await;
            if let Some(inside) = self.try_enter() {
                return inside;
            }
        }
    }

    fn try_enter(&self) -> Option<Inside> {
        let mut entered = false;
        self.state.send_if_modified(|state| {
            entered = !state.is_paused();
            state.in_flight += usize::from(entered);
            // No task waits for more of them.
            false
        });
        entered.then(|| Inside(self.clone()))
    }

    /// Holds calls from now on. Running ones continue.
    pub(crate) fn pause(&self, holder: Holder, reason: Option<String>) {
        self.state.send_modify(|state| drop(state.holders.insert(holder, reason)));
    }

    /// Admits those that wait, unless there is another holder.
    pub(crate) fn resume(&self, holder: Holder) {
        self.state.send_modify(|state| drop(state.holders.remove(&holder)));
    }

    /// Completes when no call is inside.
    pub(crate) async fn drained(&self) {
        let _ = self.state.subscribe().wait_for(|state| state.in_flight == 0).await;
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.state.send_if_modified(|state| {
            state.in_flight -= 1;
            state.in_flight == 0
        });
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.state.send_modify(|state| state.held -= 1);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "the tests wait for their tasks")]

    use super::*;

    /// Runs other tasks until nothing changes without us.
    async fn settle() {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn who_is_inside_goes_on_and_who_comes_waits_until_it_is_resumed() {
        let gate = Gate::default();
        let inside = gate.enter().await;
        gate.pause(Holder::Operator, Some("new weights".into()));
        let waiting = tokio::spawn({
            let gate = gate.clone();
            async move { gate.enter().await }
        });
        let drained = tokio::spawn({
            let gate = gate.clone();
            async move { gate.drained().await }
        });
        settle().await;
        let holders = BTreeMap::from([(Holder::Operator, Some("new weights".into()))]);
        let state = GateState { holders, in_flight: 1, held: 1, refusal: None };
        assert_eq!((gate.state(), drained.is_finished()), (state, false));
        drop(inside);
        drained.await.unwrap();
        settle().await;
        assert!(!waiting.is_finished());
        gate.resume(Holder::Operator);
        let inside = waiting.await.unwrap();
        assert_eq!(gate.state(), GateState { in_flight: 1, ..GateState::default() });
        drop(inside);
        assert_eq!(gate.state(), GateState::default());
    }

    #[tokio::test]
    async fn who_leaves_while_it_waits_is_counted_out() {
        let gate = Gate::default();
        gate.pause(Holder::Operator, None);
        let waiting = tokio::spawn({
            let gate = gate.clone();
            async move { drop(gate.enter().await) }
        });
        settle().await;
        assert_eq!(gate.state().held, 1);
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        assert_eq!(gate.state().held, 0);
        gate.resume(Holder::Operator);
        assert_eq!(gate.state(), GateState::default());
    }

    #[tokio::test]
    async fn it_opens_once_all_who_hold_it_have_let_go_and_each_lets_go_for_itself() {
        let gate = Gate::default();
        gate.pause(Holder::FirstWeights, Some("weights".into()));
        gate.pause(Holder::Operator, None);
        gate.pause(Holder::Gateway, Some("later".into()));
        let waiting = tokio::spawn({
            let gate = gate.clone();
            async move { drop(gate.enter().await) }
        });
        for (holder, reason) in [(Holder::Gateway, Some("weights")), (Holder::FirstWeights, None)] {
            gate.resume(holder);
            gate.resume(holder);
            settle().await;
            let state = gate.state();
            assert_eq!((state.is_paused(), state.reason(), waiting.is_finished()), (true, reason, false));
        }
        gate.resume(Holder::Operator);
        waiting.await.unwrap();
        assert!(!gate.state().is_paused());
    }

    #[tokio::test]
    async fn a_refusal_concerns_the_models_own_weights_alone_and_holds_nobody() {
        let gate = Gate::default();
        let others = gate.of_other_weights();
        gate.refuse(Some("no file".into()));
        drop((gate.enter().await, others.enter().await));
        assert_eq!((gate.refusal().as_deref(), others.refusal()), (Some("no file"), None));
        gate.refuse(None);
        assert_eq!(gate.refusal(), None);
    }
}
