//! Why a request fails: each failure with its words, its status and its code in one place (`proxy_error`), which every
//! dialect only writes down (`wire_error`).

mod proxy_error;
pub(crate) mod wire_error;

pub(crate) use proxy_error::ProxyError;
