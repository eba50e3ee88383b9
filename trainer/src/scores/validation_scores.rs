//! What validation conversations cost.

use serde::Serialize;
use serde_json::{Map, Value};

/// Mean negative logprob of the validation's trained tokens, in nats.
pub(crate) const VALIDATION_NLL: &str = "test/nll";
/// What the loss makes of a validation comparison, in the mean.
pub(crate) const VALIDATION_LOSS: &str = "test/loss";
/// What a byte of their text costs, in bits.
pub(crate) const VALIDATION_BPB: &str = "test/bpb";

/// What text costs that a model has not learnt from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ValidationScores {
    /// Mean negative logprob of its trained tokens, in nats.
    pub nll: f64,
    /// Bits for a byte of it; `None` if it has none.
    pub bits_per_byte: Option<f64>,
}

impl ValidationScores {
    pub(crate) fn read(metrics: &Map<String, Value>) -> Option<Self> {
        let number = |key: &str| metrics.get(key).and_then(Value::as_f64);
        Some(Self { nll: number(VALIDATION_NLL)?, bits_per_byte: number(VALIDATION_BPB) })
    }
}
