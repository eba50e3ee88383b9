//! Requests that are sent again are told from new ones, and answered from the same call.

pub(crate) mod logged_requests;
pub(crate) mod request_log;
