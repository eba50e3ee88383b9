//! Wakes tasks that wait for commits, here and at other servers on the same database.

use std::sync::OnceLock;

use tokio::sync::{Notify, watch};
use uuid::Uuid;

use crate::database::rollout_cache::Change;

/// The effects of a committed transaction that others are notified of.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Effects {
    /// Rollouts that were put into the queue.
    pub queued: usize,
    /// Whether any rollout has finished.
    pub finished: bool,
    /// Whether weights were published.
    pub published: bool,
    /// Attempts that have ended, by rollout and attempt. Other servers are not notified of them.
    pub ended: Vec<(String, String)>,
    /// Changes for the cache of rollouts. Other servers are not notified of them.
    pub rollouts: Vec<Change>,
}

impl Effects {
    /// Those of what was done after it too.
    pub(crate) fn append(&mut self, mut later: Self) {
        self.queued += later.queued;
        self.finished |= later.finished;
        self.published |= later.published;
        self.ended.append(&mut later.ended);
        self.rollouts.append(&mut later.rollouts);
    }
}

/// Called with attempts that have ended, by rollout and attempt.
type EndListener = Box<dyn Fn(&str, &str) + Send + Sync>;

/// Wakes waiting tasks.
pub(crate) struct Signals {
    /// One notification per rollout that was put into the queue.
    pub queued: Notify,
    /// Changes whenever a rollout has finished.
    pub finished: watch::Sender<()>,
    /// Changes whenever weights were published.
    pub published: watch::Sender<()>,
    /// Turns true when all waiting is to end.
    pub closing: watch::Sender<bool>,
    ends: OnceLock<EndListener>,
    /// Tells this store's own messages to others from theirs to it.
    sender: Uuid,
}

impl Default for Signals {
    fn default() -> Self {
        Self {
            queued: Notify::default(),
            finished: watch::Sender::default(),
            published: watch::Sender::default(),
            closing: watch::Sender::default(),
            ends: OnceLock::new(),
            sender: Uuid::now_v7(),
        }
    }
}

impl Signals {
    /// Wakes whom these effects concern.
    pub(crate) fn raise(&self, effects: &Effects) {
        for _ in 0..effects.queued {
            self.queued.notify_one();
        }
        if effects.finished {
            self.finished.send_replace(());
        }
        if effects.published {
            self.published.send_replace(());
        }
        if let Some(tell) = self.ends.get() {
            effects.ended.iter().for_each(|(rollout_id, attempt_id)| tell(rollout_id, attempt_id));
        }
    }

    /// Sets the listener for attempts that have ended; there can be one.
    pub(crate) fn set_end_listener(&self, tell: EndListener) {
        if self.ends.set(tell).is_err() {
            tracing::error!("the ends of attempts are told to somebody already");
        }
    }

    /// Completes when all waiting is to end.
    pub(crate) async fn closed(&self) {
        // The sender is ours, so that the wait cannot fail.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    /// Wakes everyone, for it is not known what has been committed meanwhile.
    pub(crate) fn raise_all(&self) {
        self.queued.notify_waiters();
        self.finished.send_replace(());
        self.published.send_replace(());
    }

    /// The message that notifies other servers of effects, if there are any that concern them.
    pub(crate) fn message(&self, effects: &Effects) -> Option<String> {
        let Effects { queued, finished, published, .. } = *effects;
        let concerns_others = queued > 0 || finished || published;
        let flags = (u8::from(finished), u8::from(published));
        concerns_others.then(|| format!("{} {queued} {} {}", self.sender.simple(), flags.0, flags.1))
    }

    /// Reads the message of another server; `None` of this store's own, and of what is no message.
    pub(crate) fn read(&self, message: &str) -> Option<Effects> {
        let mut words = message.split(' ');
        let sender = Uuid::try_parse(words.next()?).ok()?;
        let (queued, finished) = (words.next()?.parse().ok()?, words.next()? == "1");
        // Servers of an earlier version have no word for it.
        let published = words.next() == Some("1");
        let effects = Effects { queued, finished, published, ..Effects::default() };
        (sender != self.sender).then_some(effects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_for_others() {
        let (one, other) = (Signals::default(), Signals::default());
        for (queued, finished, published) in [(3, false, false), (0, true, false), (0, false, true)] {
            let effects = Effects { queued, finished, published, ..Effects::default() };
            let message = one.message(&effects).unwrap();
            assert_eq!(other.read(&message), Some(effects));
            assert_eq!(one.read(&message), None);
        }
        assert_eq!(one.message(&Effects::default()), None);
        assert_eq!(one.read("something else"), None);
    }
}
