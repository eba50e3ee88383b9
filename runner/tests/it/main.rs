//! The runner over a real store and real processes.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, unreachable_pub, reason = "a failed unwrap is a failed test")]

mod remote;
mod runner;
mod support;
mod warm;
mod worlds;
