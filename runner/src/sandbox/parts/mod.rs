//! What this program is on a sandbox's walls, told apart by its first word.

mod forwarder;
#[cfg(target_os = "linux")]
mod inside;
#[cfg(target_os = "linux")]
mod outside;
mod seccomp;
mod words;

use std::ffi::OsString;

pub(super) use seccomp::filter;
pub use words::SandboxPartError;
pub(super) use words::{ENTER, EndpointInside, FORWARD, Restrictions, START, Surroundings};

/// What this program does as a part of a sandbox, if these words, all but its own name, mean one; its exit status.
/// To be called before any thread is started.
pub fn sandbox_part(words: &[OsString]) -> Option<Result<u8, SandboxPartError>> {
    let (part, words) = words.split_first()?;
    match part.to_str()? {
        #[cfg(target_os = "linux")]
        ENTER => Some(outside::enter(words)),
        #[cfg(target_os = "linux")]
        START => Some(inside::start(words)),
        #[cfg(not(target_os = "linux"))]
        ENTER | START => Some(Err(SandboxPartError::OtherSystem)),
        FORWARD => Some(forwarder::forward(words)),
        _ => None,
    }
}
