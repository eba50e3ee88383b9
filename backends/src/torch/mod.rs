//! A learner in PyTorch: the Python package's `fulgurite.learner`, in a child process behind [`Learner`](crate::Learner).
//!
//! - [`options`]: `[torch]` of the config, and the model that is trained.
//! - [`child`]: the process, its messages and its end. It ends with this one.
//! - [`frames`]: what goes over the socket, as `docs/how/torch-learner.md` describes it.
//! - [`datum_tensors`]: datums and logprobs as tensors.
//! - [`learner`]: the calls.

mod child;
mod datum_tensors;
mod frames;
pub(crate) mod learner;
pub(crate) mod options;
