//! Keys: who may ask for what. The admin key opens everything; the keys that are issued open one attempt's door, or model
//! calls alone, for a time. Issued keys are kept nowhere: they are known again by the server's secret.

pub(crate) mod admin_key;
pub(crate) mod holder;
pub(crate) mod issued_keys;
pub(crate) mod keyring;
pub(crate) mod secret;
