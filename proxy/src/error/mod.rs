//! Why a request fails: each error with its message, status and code in one place (`proxy_error`), which every dialect
//! writes in its own form (`wire_error`).

pub(crate) mod other_base;
mod proxy_error;
pub(crate) mod queued_work;
pub(crate) mod wire_error;

pub(crate) use proxy_error::ProxyError;
