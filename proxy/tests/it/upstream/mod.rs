//! Calls that are passed on to an upstream.

mod failures;
mod passed_on;
mod sessions;
