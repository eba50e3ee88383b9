use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::state::forwarded_part::ForwardedPart;

/// Bytes of replies that are kept.
const LIMIT: usize = 64 * 1024 * 1024;

/// Whole replies of upstreams, for retries of clients that did not get them. The oldest are dropped first, and none
/// outlives the process: then the request is forwarded again.
#[derive(Default)]
pub(crate) struct ReplyCache {
    state: Mutex<CacheState>,
}

/// A reply as it was forwarded.
pub(crate) struct CachedReply {
    /// Where it is recorded.
    pub(crate) generation_id: Option<String>,
    pub(crate) parts: Vec<ForwardedPart>,
}

#[derive(Default)]
struct CacheState {
    /// By the request's reply id.
    replies: HashMap<String, Arc<CachedReply>>,
    /// The oldest first.
    order: VecDeque<String>,
    size: usize,
}

impl ReplyCache {
    fn state(&self) -> MutexGuard<'_, CacheState> {
        // A size that is off by one reply after a panic does no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, reply_id: &str) -> Option<Arc<CachedReply>> {
        self.state().replies.get(reply_id).cloned()
    }

    pub(crate) fn keep(&self, reply_id: &str, reply: Arc<CachedReply>) {
        let mut state = self.state();
        state.size += reply.size();
        match state.replies.insert(reply_id.to_owned(), reply) {
            Some(earlier) => state.size -= earlier.size(),
            None => state.order.push_back(reply_id.to_owned()),
        }
        while state.size > LIMIT
            && let Some(oldest) = state.order.pop_front()
        {
            let forgotten = state.replies.remove(&oldest).map_or(0, |reply| reply.size());
            state.size -= forgotten;
        }
    }
}

impl CachedReply {
    fn size(&self) -> usize {
        self.parts.iter().map(ForwardedPart::size).sum()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn reply(size: usize) -> Arc<CachedReply> {
        let piece = ForwardedPart::Piece(Bytes::from(vec![0; size]));
        Arc::new(CachedReply { generation_id: None, parts: vec![piece] })
    }

    #[test]
    fn the_oldest_give_way() {
        let kept = ReplyCache::default();
        kept.keep("a", reply(LIMIT / 2));
        kept.keep("b", reply(LIMIT / 4));
        kept.keep("b", reply(LIMIT / 2));
        assert!(kept.get("a").is_some() && kept.get("b").is_some());
        kept.keep("c", reply(1));
        assert!(kept.get("a").is_none() && kept.get("b").is_some() && kept.get("c").is_some());
        kept.keep("d", reply(LIMIT + 1));
        assert!(kept.get("c").is_none() && kept.get("d").is_none());
        assert_eq!(kept.state().size, 0);
    }
}
