//! Retries are recognised, and answered from the same call.

pub(crate) mod logged_requests;
pub(crate) mod request_log;
