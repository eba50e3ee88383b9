//! What calls share: rules, limits, and what is under way.
//!
//! - [`planning_rules`], [`auxiliary_rules`]: what is decided of all requests alike.
//! - [`deadlines`], [`interruption`], [`shutdown`]: how long a host is waited for, and what ends it.
//! - [`call_services`]: what calls are sampled or forwarded and recorded with.
//! - [`forwarded_calls`], [`forwarded_part`], [`reply_cache`]: forwarded calls that are known, and their replies.

pub(crate) mod auxiliary_rules;
pub(crate) mod call_services;
pub(crate) mod deadlines;
pub(crate) mod forwarded_calls;
pub(crate) mod forwarded_part;
pub(crate) mod interruption;
pub(crate) mod planning_rules;
pub(crate) mod reply_cache;
pub(crate) mod shutdown;
