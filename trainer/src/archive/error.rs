use std::error::Error;
use std::path::PathBuf;

/// Why checkpoints cannot be kept in an object store, or read from it.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The URL is none of a bucket.
    #[error("[trainer] checkpoint_url is {url}, but {message}")]
    Url {
        /// What was given.
        url: String,
        /// What it must be.
        message: String,
    },
    /// The object store refused, or was not reached.
    #[error("cannot {action} {place}: {message}")]
    Store {
        /// What was being done, as a verb phrase.
        action: &'static str,
        /// The object, or what stands before several.
        place: String,
        /// What is wrong, and what to look at.
        message: String,
    },
    /// A file of this machine cannot be read or written.
    #[error("{path}: {message}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        message: String,
    },
    /// An object is not what it should be.
    #[error("{place}: {message}")]
    Malformed {
        /// The object.
        place: String,
        /// What is wrong with it.
        message: String,
    },
    /// Another run has the place.
    #[error(
        "{place} holds the checkpoints of another run of that name: take another prefix ([trainer] checkpoint_url), or \
         another [run] name"
    )]
    InUse {
        /// Whose it would be.
        place: String,
    },
}

impl ArchiveError {
    pub(super) fn store(action: &'static str, place: String) -> impl FnOnce(object_store::Error) -> Self {
        move |error| {
            let described = describe(&error);
            let message = match hint(&error, &described) {
                Some(hint) => format!("{hint} ({described})"),
                None => described,
            };
            Self::Store { action, place, message }
        }
    }

    pub(super) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { path, message: error.to_string() }
    }
}

/// What to look at, where that is known.
fn hint(error: &object_store::Error, message: &str) -> Option<&'static str> {
    use object_store::Error::{NotFound, PermissionDenied, Unauthenticated};
    match error {
        PermissionDenied { .. } | Unauthenticated { .. } => Some(
            "the credentials are refused, or may not do that: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and \
             AWS_SESSION_TOKEN) hold them",
        ),
        _ if message.contains("169.254.169.254") => {
            Some("there are no credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must hold them")
        }
        NotFound { .. } => Some("is there such a bucket? AWS_REGION and AWS_ENDPOINT_URL say where it is looked for"),
        _ => None,
    }
}

/// An error with its causes, on one line.
fn describe(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        cause = error.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
