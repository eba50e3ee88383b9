//! What any model host must do, seen from the rooms above it.
//!
//! - [`Sampler`]: tokens in; sampled tokens and their logprobs out, as they are sampled.
//! - [`Learner`]: datums in; gradients, optimizer steps, checkpoints and new weights out.
//! - [`Datum`]: one row of training data, the same for every learner.

mod datum;
mod error;
mod learner;
mod sampler;

pub use datum::{Chunk, Datum, DatumError, LossInputs};
pub use error::BackendError;
pub use learner::{AdamParameters, ForwardBackward, Learner, LossFunction, OptimizerStep};
pub use sampler::{
    SampleEvent, SampleRequest, SampleStream, SampledToken, Sampler, SamplerInfo, SamplingParameters, StopReason,
    WeightsVersion,
};
