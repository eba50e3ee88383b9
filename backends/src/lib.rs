//! What any model host must do, seen from the rooms above it.
//!
//! - [`Sampler`]: tokens in; sampled tokens and their logprobs out, as they are sampled.
//! - [`Learner`]: datums in; gradients, optimizer steps, checkpoints and new weights out.
//! - [`Datum`]: one row of training data, the same for every learner.
//! - [`VllmSampler`]: a remote host behind [`Sampler`], told of by [`RemoteOptions`].
//! - [`derive_seed`]: how the seed of a request follows from what it belongs to.

mod datum;
mod error;
mod learner;
mod remote;
mod sampler;
mod seed;
mod vllm;

pub use datum::{Chunk, Datum, DatumError, LossInputs};
pub use error::{AnswerFault, BackendError};
pub use learner::{AdamParameters, ForwardBackward, Learner, LossFunction, OptimizerStep};
pub use remote::host::RemoteOptions;
pub use sampler::{
    Capabilities, Constraint, SampleEvent, SampleRequest, SampleStream, SampledToken, Sampler, SamplerInfo,
    SamplingParameters, StopReason, WeightsVersion,
};
pub use seed::derive_seed;
pub use vllm::VllmSampler;
