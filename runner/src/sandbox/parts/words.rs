//! What a runner says to this program where that is a part of a sandbox, and why such a part does not begin.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The word by which this program enters a sandbox from outside.
pub(crate) const ENTER: &str = "sandbox-enter";
/// The word by which this program starts what runs inside.
pub(crate) const START: &str = "sandbox-inside";
/// The word by which this program forwards from a container.
pub(crate) const FORWARD: &str = "sandbox-forward";

/// What surrounds a sandbox.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Surroundings {
    /// Directories of the control groups that it is to be in.
    pub cgroups: Vec<PathBuf>,
    /// Whether its system calls are filtered.
    pub is_filtered: bool,
}

impl Surroundings {
    /// As one argument of this program.
    pub(crate) fn to_word(&self) -> OsString {
        to_word(self)
    }
}

/// What is taken from a program before it starts.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Restrictions {
    /// Who it is to be, if it is root.
    pub user: Option<u32>,
    /// Where it begins.
    pub directory: Option<PathBuf>,
    /// Whether its system calls are filtered.
    pub is_filtered: bool,
    /// Bytes of a file.
    pub file_bytes: Option<u64>,
    /// Bytes of each process's own memory.
    pub data_bytes: Option<u64>,
    /// Processes of its user.
    pub processes: Option<u64>,
    /// What it reaches the server through.
    pub endpoint: Option<EndpointInside>,
}

impl Restrictions {
    /// As one argument of this program.
    pub(crate) fn to_word(&self) -> OsString {
        to_word(self)
    }
}

/// The endpoint of a sandbox, as it is inside.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EndpointInside {
    /// The socket.
    pub socket: PathBuf,
    /// The port of the loopback that stands for the server.
    pub port: u16,
}

/// Why a part of a sandbox does not begin.
#[derive(Debug, thiserror::Error)]
pub enum SandboxPartError {
    /// Only a runner has the words.
    #[error("it is started by a runner, with words of that runner's")]
    Usage,
    /// This system is another.
    #[error("only Linux has what a sandbox is made of")]
    OtherSystem,
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
fn to_word(value: &impl Serialize) -> OsString {
    // No map with keys that are no text is among what is written.
    serde_json::to_string(value).unwrap_or_default().into()
}

/// Reads what `to_word` gave.
#[cfg(target_os = "linux")]
pub(super) fn from_word<T: serde::de::DeserializeOwned>(word: &std::ffi::OsStr) -> Result<T, SandboxPartError> {
    serde_json::from_slice(std::os::unix::ffi::OsStrExt::as_bytes(word)).map_err(|_| SandboxPartError::Usage)
}
