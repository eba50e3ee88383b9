use std::sync::Arc;

use crate::retries::request_log::RequestLog;
use crate::state::forwarded_part::ForwardedPart;
use crate::state::reply_cache::ReplyCache;

/// The forwarded calls that are known, of all owners.
pub(crate) struct ForwardedCalls {
    pub(crate) requests: Arc<RequestLog<ForwardedPart>>,
    pub(crate) reply_cache: ReplyCache,
}

impl ForwardedCalls {
    /// Nothing is known yet; of requests that are over, so many are kept.
    pub(crate) fn new(requests_kept: usize) -> Self {
        Self { requests: RequestLog::new(requests_kept), reply_cache: ReplyCache::default() }
    }
}
