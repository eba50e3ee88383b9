use std::sync::Arc;

use super::kept_replies::KeptReplies;
use super::passed_part::PassedPart;
use crate::retries::request_log::RequestLog;

/// What is known of calls that were passed on, whosever they are.
pub(crate) struct PassedCalls {
    pub(crate) requests: Arc<RequestLog<PassedPart>>,
    pub(super) kept_replies: KeptReplies,
}

impl PassedCalls {
    /// Nothing is known yet; of requests that are over, so many are kept.
    pub(crate) fn new(requests_kept: usize) -> Self {
        Self { requests: RequestLog::new(requests_kept), kept_replies: KeptReplies::default() }
    }
}
