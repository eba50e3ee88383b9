//! What any model host must do, seen from the rooms above it.
//!
//! - [`Sampler`]: tokens in; sampled tokens and their logprobs out, as they are sampled.
//! - [`Learner`]: datums in; gradients, optimizer steps, checkpoints and new weights out.
//! - [`Datum`]: one row of training data, the same for every learner.
//! - [`derive_seed`]: how the seed of a request follows from what it belongs to.

mod datum;
mod error;
mod learner;
mod sampler;
mod seed;

pub use datum::{Chunk, Datum, DatumError, LossInputs};
pub use error::BackendError;
pub use learner::{AdamParameters, ForwardBackward, Learner, LossFunction, OptimizerStep};
pub use sampler::{
    Capabilities, Constraint, SampleEvent, SampleRequest, SampleStream, SampledToken, Sampler, SamplerInfo,
    SamplingParameters, StopReason, WeightsVersion,
};
pub use seed::derive_seed;
