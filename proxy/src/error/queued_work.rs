use std::fmt;

/// Why a request waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueuedWork {
    LargeRequest,
    SlowTemplate,
}

impl fmt::Display for QueuedWork {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::LargeRequest => "the request is large",
            Self::SlowTemplate => "the model's chat template takes long for this conversation",
        })
    }
}
