use fulgurite_backends::BackendError;
use serde::Serialize;

/// How a service took one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckVerdict {
    /// It takes it, and its numbers are right as far as they can be known.
    Ok,
    /// It refuses it, and says so.
    Refused,
    /// It takes it, and does not do it.
    Ignored,
    /// What it answers cannot be right.
    Wrong,
    /// It failed, or did not answer in time.
    Failed,
    /// It was not asked.
    Skipped,
}

impl CheckVerdict {
    /// As tables have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Refused => "refused",
            Self::Ignored => "ignored",
            Self::Wrong => "wrong",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }

    /// Whether something is amiss with the service itself, and not only missing.
    pub fn is_fault(self) -> bool {
        matches!(self, Self::Wrong | Self::Failed)
    }

    /// What an error says of a service.
    pub(super) fn of(error: &BackendError) -> Self {
        match error {
            BackendError::InvalidRequest { .. }
            | BackendError::PromptTooLong { .. }
            | BackendError::Configuration { .. }
            | BackendError::KeyRefused { .. }
            | BackendError::Unread { .. } => Self::Refused,
            BackendError::BrokenAnswer { .. } => Self::Wrong,
            BackendError::Overloaded { .. }
            | BackendError::Unavailable { .. }
            | BackendError::Files { .. }
            | BackendError::Damaged(_)
            | BackendError::Superseded { .. }
            | BackendError::Internal { .. } => Self::Failed,
        }
    }
}

/// What was measured; absent where there was nothing to measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CheckNumbers {
    /// The loss that the service reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// The loss by its formula, over the logprobs that the service reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_loss: Option<f64>,
    /// The loss that the embedded engine computes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_loss: Option<f64>,
    /// Mean distance of the logprobs from those that they were compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprob_difference: Option<f64>,
    /// How much one update lowers the loss, to first order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain: Option<f64>,
    /// Cosine between the changes of logprobs that one update makes, and those by cross entropy whose weights are the loss's
    /// slopes: they have one gradient.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slope_cosine: Option<f64>,
    /// Cosine between the changes of logprobs that one update makes at the service and in the embedded engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_cosine: Option<f64>,
}

/// What one probe found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckFinding {
    /// What was tried.
    pub check: String,
    /// How it went.
    pub verdict: CheckVerdict,
    /// What was seen, for people.
    pub message: String,
    /// What was measured.
    #[serde(flatten)]
    pub numbers: CheckNumbers,
}

impl CheckFinding {
    pub(super) fn new(check: impl Into<String>, verdict: CheckVerdict, message: impl Into<String>) -> Self {
        Self { check: check.into(), verdict, message: message.into(), numbers: CheckNumbers::default() }
    }

    pub(super) fn of_error(check: impl Into<String>, error: &BackendError) -> Self {
        Self::new(check, CheckVerdict::of(error), error.to_string())
    }

    pub(super) fn with(self, numbers: CheckNumbers) -> Self {
        Self { numbers, ..self }
    }
}
