//! How processes end, or why nobody knows.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// Why nothing is known of how a process would have ended. Each is the end of a sentence about the program.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProcessError {
    /// The system does not start it, or breaks off what it says.
    #[error("cannot be run as {}: {error}", program.display())]
    CannotRun {
        /// The program.
        program: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// There is no supervisor for it.
    #[error("cannot be run: the process that would supervise it cannot be started: {0}")]
    NoSupervisor(io::Error),
    /// Its supervisor has died, by itself or by another's hand.
    #[error("was lost: the process that supervised it {how}")]
    SupervisorLost {
        /// How the supervisor ended.
        how: String,
    },
}

impl ProcessError {
    /// The system's answer, of this program.
    pub(crate) fn cannot_run(program: &Path, error: io::Error) -> Self {
        Self::CannotRun { program: program.to_owned(), error }
    }
}

/// How a process ended, as the end of a sentence about it.
pub(crate) fn ended_how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => format!("ended with {status}"),
    }
}
