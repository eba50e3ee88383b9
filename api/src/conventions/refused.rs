//! Why a request is not let in, before anything of it is read.

use std::error::Error;

use axum::http::StatusCode;
use fulgurite_store::KeyRefused;

/// Why a request is not let in. Nothing of it has been read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Its key does not open what it asks for.
    #[error(transparent)]
    Key(#[from] KeyRefused),
    /// It is sent to a name that is none of the server's, as by a web page whose name was made to mean this machine.
    #[error("`{host}` is no name of this server; `[server] hosts` in its config lists further ones")]
    ForeignHost {
        /// The name, without a port.
        host: String,
    },
    /// A browser sends it for a web page that is not the server's.
    #[error(
        "web pages of `{origin}` may not ask this server; `[server] cors_origins` in its config lists those that may"
    )]
    ForeignOrigin {
        /// The page's origin.
        origin: String,
    },
    /// The server finishes what it has begun, and begins nothing.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// Its path names nothing that could be there.
    #[error("the path is no UTF-8 text: `{path}`")]
    PathNotText {
        /// The path, as it was sent.
        path: String,
    },
    /// Its head says that its body is over the limit.
    #[error("the request body is over the limit of {limit} bytes (server.body_limit_bytes)")]
    BodyTooLarge {
        /// The limit.
        limit: usize,
    },
}

impl Refused {
    /// 401 or 403 for a key, 403 for a foreign name or page, 503 while the server ends, 400 for a path, 413 for a body.
    pub fn status(&self) -> StatusCode {
        match self {
            // 401 if nothing is known of whoever asks, 403 if it is known and not enough.
            Self::Key(KeyRefused::Unknown | KeyRefused::Expired { .. }) => StatusCode::UNAUTHORIZED,
            Self::Key(
                KeyRefused::OtherRollout { .. }
                | KeyRefused::OtherWorker { .. }
                | KeyRefused::ReadsOnly
                | KeyRefused::AdminOnly { .. },
            ) => StatusCode::FORBIDDEN,
            Self::ForeignHost { .. } | Self::ForeignOrigin { .. } => StatusCode::FORBIDDEN,
            Self::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
            Self::PathNotText { .. } => StatusCode::BAD_REQUEST,
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        }
    }
}

/// The error of a request's body that did not arrive whole in time.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("the request body did not arrive within {seconds} seconds (server.body_seconds)")]
pub struct BodyTooSlow {
    /// How long it was waited for.
    pub seconds: f64,
}

impl BodyTooSlow {
    /// If it is what lies behind an error.
    pub fn cause_of(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut causes = std::iter::successors(Some(error), |&error| error.source());
        causes.find_map(|cause| cause.downcast_ref().copied())
    }
}
