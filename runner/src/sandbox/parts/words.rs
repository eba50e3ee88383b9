//! What a runner says to this program where that is a part of a sandbox, and why such a part does not begin.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The word by which this program enters a sandbox from outside.
pub(crate) const ENTER: &str = "sandbox-enter";
/// The word by which this program starts what runs inside.
pub(crate) const START: &str = "sandbox-inside";
/// The word by which this program forwards from a container.
pub(crate) const FORWARD: &str = "sandbox-forward";

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
    /// The port cannot be listened on.
    #[error("port {port} of the sandbox's loopback cannot be listened on")]
    Listen {
        /// The port.
        port: u16,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// The system does not do what it is asked to.
    #[error(transparent)]
    System(#[from] io::Error),
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
