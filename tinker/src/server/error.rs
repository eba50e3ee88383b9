use std::path::PathBuf;

use fulgurite_backends::BackendError;

/// Why the server cannot read or keep what outlives it.
#[derive(Debug, thiserror::Error)]
pub enum TinkerServerError {
    /// A file or directory could not be read or written.
    #[error("{path}: cannot {action}: {source}")]
    Io {
        /// What was being done, as a verb phrase.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A record is not what it should be.
    #[error("{path}: {message}")]
    Malformed {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The system gives no random numbers, of which a secret would be made.
    #[error("the system gives no random numbers: {message}")]
    NoRandomness {
        /// Its message.
        message: String,
    },
}

impl TinkerServerError {
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}

impl From<TinkerServerError> for BackendError {
    fn from(error: TinkerServerError) -> Self {
        match error {
            TinkerServerError::Io { action, path, source } => {
                BackendError::Files { path, message: format!("cannot {action}: {source}") }
            }
            TinkerServerError::Malformed { path, message } => BackendError::Files { path, message },
            TinkerServerError::NoRandomness { .. } => BackendError::Internal { message: error.to_string() },
        }
    }
}

/// Runs what reads or writes files aside from the async threads.
pub(crate) async fn run_blocking<T: Send + 'static, E: Into<BackendError> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, BackendError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(Into::into),
        Err(error) => Err(BackendError::Internal { message: format!("a thread has panicked: {error}") }),
    }
}
