use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

/// Places for work whose size clients choose, handed out in turns: whoever waits for many waits behind who waits for
/// one. Clones share the places.
#[derive(Clone, Debug)]
pub struct FairShare {
    state: Arc<Mutex<ShareState>>,
    limits: ShareLimits,
}

/// How much of such work there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareLimits {
    /// Pieces that are worked at together.
    pub places: usize,
    /// Pieces of one owner that may wait.
    pub waiting_of_owner: usize,
    /// Pieces that may wait in all.
    pub waiting: usize,
}

/// The queue has no room for another piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{waiting} requests {queue} wait already")]
pub struct ShareFull {
    /// Pieces of work that wait in the queue.
    pub waiting: usize,
    /// The queue that is full.
    pub queue: FullQueue,
}

/// Which pieces of work fill a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullQueue {
    /// Those of the same owner.
    OfOwner,
    /// Those of all owners.
    OfAll,
}

impl fmt::Display for FullQueue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::OfOwner => "of the same caller",
            Self::OfAll => "of all callers",
        })
    }
}

#[derive(Debug)]
struct ShareState {
    free: usize,
    /// Owners who wait, whose turn is next at the front.
    owners: VecDeque<(String, VecDeque<oneshot::Sender<Place>>)>,
}

/// A place, given back when it is dropped.
#[derive(Debug)]
pub struct Place {
    share: Option<FairShare>,
}

impl FairShare {
    /// Places that nobody has taken.
    pub fn new(limits: ShareLimits) -> Self {
        let state = ShareState { free: limits.places, owners: VecDeque::new() };
        Self { state: Arc::new(Mutex::new(state)), limits }
    }

    /// Waits for a place for one of `owner`'s pieces of work. Whoever stops waiting leaves the queue.
    pub async fn enter(&self, owner: &str) -> Result<Place, ShareFull> {
        loop {
            let Some(waiting) = self.take_or_wait(owner)? else { return Ok(self.place()) };
            // The sender goes only with the queue, which is ours.
            if let Ok(place) = waiting.await {
                return Ok(place);
            }
        }
    }

    fn place(&self) -> Place {
        Place { share: Some(self.clone()) }
    }

    /// Takes a free place; else waits for the next.
    fn take_or_wait(&self, owner: &str) -> Result<Option<oneshot::Receiver<Place>>, ShareFull> {
        let mut state = self.lock();
        if state.free > 0 {
            state.free -= 1;
            return Ok(None);
        }
        state.remove_closed();
        let in_all = state.owners.iter().map(|(_, queue)| queue.len()).sum();
        let own = state.owners.iter().find(|(name, _)| name == owner).map_or(0, |(_, queue)| queue.len());
        if own >= self.limits.waiting_of_owner {
            return Err(ShareFull { waiting: own, queue: FullQueue::OfOwner });
        }
        if in_all >= self.limits.waiting {
            return Err(ShareFull { waiting: in_all, queue: FullQueue::OfAll });
        }
        let (sender, receiver) = oneshot::channel();
        match state.owners.iter_mut().find(|(name, _)| name == owner) {
            Some((_, queue)) => queue.push_back(sender),
            None => state.owners.push_back((owner.to_owned(), VecDeque::from([sender]))),
        }
        Ok(Some(receiver))
    }

    /// Hands a place on to the owner whose turn it is, who then waits for the next turn.
    fn hand_on(&self, mut place: Place) {
        let mut state = self.lock();
        while let Some((owner, mut queue)) = state.owners.pop_front() {
            let Some(next) = queue.pop_front() else { continue };
            if !queue.is_empty() {
                state.owners.push_back((owner, queue));
            }
            match next.send(place) {
                Ok(()) => return,
                Err(refused) => place = refused,
            }
        }
        state.free += 1;
        // It has been given back already.
        place.share = None;
    }

    fn lock(&self) -> MutexGuard<'_, ShareState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ShareState {
    fn remove_closed(&mut self) {
        self.owners.iter_mut().for_each(|(_, queue)| queue.retain(|sender| !sender.is_closed()));
        self.owners.retain(|(_, queue)| !queue.is_empty());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(share) = self.share.take() {
            let place = share.place();
            share.hand_on(place);
        }
    }
}

/// Works at something long without keeping other tasks from the thread: they go on on another. The thread's stack is
/// the runtime's.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // There is no other thread to go on on.
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "the tests wait for their tasks")]

    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    fn one_place(waiting_of_owner: usize, waiting: usize) -> FairShare {
        FairShare::new(ShareLimits { places: 1, waiting_of_owner, waiting })
    }

    /// Polls once.
    async fn look<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
        poll_fn(|context| match std::pin::Pin::new(&mut future).poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    #[tokio::test]
    async fn one_clients_queue_does_not_starve_anothers() {
        let share = one_place(10, 10);
        let first = share.enter("many").await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let wait = |owner: &'static str| {
            let (share, order) = (share.clone(), Arc::clone(&order));
            async move {
                let _place = share.enter(owner).await.unwrap();
                order.lock().unwrap().push(owner);
            }
        };
        let queue = ["many", "many", "many", "one", "many", "other"].map(wait);
        tokio::join!(futures_of(queue), async { drop(first) });
        assert_eq!(*order.lock().unwrap(), ["many", "one", "other", "many", "many", "many"]);
        assert_eq!(share.lock().free, 1);
    }

    /// All of them, begun in their order.
    async fn futures_of<F: Future<Output = ()>, const N: usize>(futures: [F; N]) {
        let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
        poll_fn(|context| {
            futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
            if futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    #[tokio::test]
    async fn a_full_queue_refuses_and_who_leaves_makes_room() {
        let share = one_place(1, 2);
        let inside = share.enter("a").await.unwrap();
        {
            let mut waits = pin!(share.enter("a"));
            assert!(look(waits.as_mut()).await.is_none());
            assert_eq!(share.enter("a").await.unwrap_err(), ShareFull { waiting: 1, queue: FullQueue::OfOwner });
            let mut other = pin!(share.enter("b"));
            assert!(look(other.as_mut()).await.is_none());
            assert_eq!(share.enter("c").await.unwrap_err(), ShareFull { waiting: 2, queue: FullQueue::OfAll });
        }
        let mut waits = pin!(share.enter("a"));
        assert!(look(waits.as_mut()).await.is_none(), "those who waited have left");
        drop(inside);
        assert!(look(waits.as_mut()).await.is_some());
    }

    #[tokio::test]
    async fn a_place_that_nobody_took_in_time_is_not_lost() {
        let share = one_place(5, 5);
        let inside = share.enter("a").await.unwrap();
        {
            let mut leaves = pin!(share.enter("b"));
            assert!(look(leaves.as_mut()).await.is_none());
            // Handed on, and not looked at any more.
            drop(inside);
        }
        assert_eq!(share.lock().free, 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn others_go_on_beside_long_work_on_the_only_thread() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let waited = tokio::spawn(async move { aside(|| receiver.recv()) });
        let other = tokio::spawn(async move { sender.send(()).unwrap() });
        waited.await.unwrap().unwrap();
        other.await.unwrap();
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_works_where_it_is() {
        assert_eq!(aside(|| 7), 7);
    }
}
