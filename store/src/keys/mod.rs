//! Keys: the admin key opens everything; issued keys open one attempt, or model calls alone, for a time. Issued keys are
//! not stored: they are verified by the server's secret.

pub(crate) mod admin_key;
pub(crate) mod holder;
pub(crate) mod issued_keys;
pub(crate) mod keyring;
pub(crate) mod secret;
