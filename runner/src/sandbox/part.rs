//! What this program is on a sandbox's walls, told apart by its first word.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::forwarder::{ForwardError, forward};
use super::isolation::{ENTER, START};
use super::{inside, outside};

/// The word by which this program forwards from a container.
pub(super) const FORWARD: &str = "sandbox-forward";

/// Why a part of a sandbox does not begin.
#[derive(Debug, thiserror::Error)]
pub enum SandboxPartError {
    /// Only a runner has the words.
    #[error("it is started by a runner, with words of that runner's")]
    Usage,
    /// A control group is not to be joined.
    #[error("{} cannot be written to", path.display())]
    Cgroup {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// A program cannot be started.
    #[error("cannot start {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// A program cannot begin where it is to.
    #[error("cannot begin in {}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// The system does not take a right away.
    #[error("cannot {what}")]
    Restrict {
        /// What was to be done.
        what: &'static str,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// What is inside could get out.
    #[error("it would not hold: {0}")]
    Open(String),
    /// Nothing is forwarded.
    #[error(transparent)]
    Forward(#[from] ForwardError),
    /// The system does not do what it is asked to.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// What this program does as a part of a sandbox, if these words, all but its own name, mean one; its exit status.
/// To be called before any thread is started.
pub fn sandbox_part(words: &[OsString]) -> Option<Result<u8, SandboxPartError>> {
    let (part, words) = words.split_first()?;
    match part.to_str()? {
        ENTER => Some(outside::enter(words)),
        START => Some(inside::start(words)),
        FORWARD => Some(forward(words).map_err(SandboxPartError::from)),
        _ => None,
    }
}

/// Something as one argument.
pub(super) fn to_word(value: &impl Serialize) -> OsString {
    // No map with keys that are no text is among what is written.
    serde_json::to_string(value).unwrap_or_default().into()
}

/// Reads what [`to_word`] gave.
pub(super) fn from_word<T: DeserializeOwned>(word: &OsStr) -> Result<T, SandboxPartError> {
    serde_json::from_slice(word.as_bytes()).map_err(|_| SandboxPartError::Usage)
}
