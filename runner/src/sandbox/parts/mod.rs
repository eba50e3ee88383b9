//! What this program is on a sandbox's walls, told apart by its first word.

mod forwarder;
mod inside;
mod outside;
mod seccomp;
mod words;

use std::ffi::OsString;

pub(super) use inside::{EndpointInside, Restrictions};
pub(super) use outside::Surroundings;
pub(super) use seccomp::filter;
pub use words::SandboxPartError;
pub(super) use words::{ENTER, FORWARD, START};

/// What this program does as a part of a sandbox, if these words, all but its own name, mean one; its exit status.
/// To be called before any thread is started.
pub fn sandbox_part(words: &[OsString]) -> Option<Result<u8, SandboxPartError>> {
    let (part, words) = words.split_first()?;
    match part.to_str()? {
        ENTER => Some(outside::enter(words)),
        START => Some(inside::start(words)),
        FORWARD => Some(forwarder::forward(words)),
        _ => None,
    }
}
