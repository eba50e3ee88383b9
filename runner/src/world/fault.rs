//! Why there is no world, or none that can be looked at.

use std::io;
use std::path::PathBuf;

use tokio::task::spawn_blocking;

use super::hook::Hook;
use crate::grader::GradeFault;

/// Why there is no world, or none that can be looked at. Before the agent comes no policy brings it about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorldFault {
    /// The disk does not do what it is asked to.
    #[error("the attempt's world cannot be made or read at {}: {error}", path.display())]
    Disk {
        /// What is meant.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The image of a task, or its files, cannot be had.
    #[error("the task's image {image}: {why}")]
    Image {
        /// Its name, or the path of its Dockerfile.
        image: String,
        /// What happened.
        why: String,
    },
    /// A command failed.
    #[error("{hook} {how}{}", of_errors(errors))]
    Hook {
        /// Which.
        hook: Hook,
        /// How it ended.
        how: String,
        /// The end of what it wrote to its standard error.
        errors: String,
    },
    /// A command cannot be run.
    #[error("{hook} {why}")]
    HookNotRun {
        /// Which.
        hook: Hook,
        /// Why not, as the end of a sentence about it.
        why: String,
    },
    /// The setup wrote variables that are none.
    #[error("setup wrote to FULGURITE_WORLD_VARIABLES what is no NAME=VALUE: {line:?}")]
    Variable {
        /// The line.
        line: String,
    },
}

impl WorldFault {
    /// What attempts that fail alike have in common, where the message begins with what is this attempt's own.
    pub(crate) fn cause(&self) -> Option<&'static str> {
        match self {
            Self::Disk { .. } => Some("the attempt's world cannot be made or read"),
            Self::Image { .. } => Some("the task's image cannot be had"),
            Self::Hook { .. } | Self::HookNotRun { .. } | Self::Variable { .. } => None,
        }
    }

    /// The system's answer, of this path.
    pub(crate) fn disk(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |error| Self::Disk { path, error }
    }
}

impl From<WorldFault> for GradeFault {
    fn from(fault: WorldFault) -> Self {
        match fault {
            WorldFault::Disk { path, error } => Self::World { path, error },
            other => Self::Failed(other.to_string()),
        }
    }
}

fn of_errors(errors: &str) -> String {
    match errors.trim() {
        "" => String::new(),
        errors => format!(": {errors}"),
    }
}

/// Does on a thread of its own what waits for the disk.
pub(super) async fn on_disk<T: Send + 'static>(
    path: PathBuf,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, WorldFault> {
    let done = spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(WorldFault::disk(path))
}
