use serde::{Deserialize, Serialize};

/// Coefficients that a run has adapted; part of a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct AdaptedCoefficients {
    /// Of the distance to the reference, for the next update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kl: Option<f64>,
    /// Of the entropy, before the next update has measured it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) entropy: Option<f64>,
}

impl AdaptedCoefficients {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
