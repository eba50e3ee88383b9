use std::path::PathBuf;

use fulgurite_backends::{BackendError, DamagedFiles};
use fulgurite_cuda::DeviceError;
use fulgurite_types::DatumError;

use crate::device_name::Device;

/// Why the engine could not do what was requested.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A file or directory could not be read or written.
    #[error("{path}: cannot {action}: {source}")]
    Io {
        /// What was being done, as a verb phrase.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file is not what it should be.
    #[error("{path}: {message}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// Weights that were written here are not what was written.
    #[error(transparent)]
    Damaged(DamagedFiles),
    /// The model is of a kind that this engine does not run.
    #[error("{path}: this engine runs Qwen3ForCausalLM, Qwen2ForCausalLM and LlamaForCausalLM; {field} is {value}")]
    Unsupported {
        /// The configuration file.
        path: PathBuf,
        /// The field that asks for something else.
        field: &'static str,
        /// What it asks for.
        value: String,
    },
    /// The model does not fit into this machine's memory.
    #[error("to be {what} the model needs {needed} of memory more, and {available} are available: {parts}")]
    Memory {
        /// What is to be done with it.
        what: &'static str,
        /// The sum.
        needed: String,
        /// What the machine has left.
        available: String,
        /// What the sum is of.
        parts: String,
    },
    /// The device that was requested cannot be used.
    #[error("no product can be computed on {device}: {source}")]
    Device {
        /// Which one.
        device: Device,
        /// Why not.
        source: DeviceError,
    },
    /// The model's matrices do not fit into the device's memory.
    #[error("on {device} the model needs {needed} of memory more, and {available} are available: {parts}")]
    DeviceMemory {
        /// Which one.
        device: Device,
        /// The sum.
        needed: String,
        /// What the device has left.
        available: String,
        /// What the sum is of.
        parts: String,
    },
    /// A model's dimensions do not fit together.
    #[error("the model configuration cannot be built: {message}")]
    Dimensions {
        /// Which dimensions, and why.
        message: String,
    },
    /// A tensor is missing, unknown, or has another shape or element type than the configuration asks for.
    #[error("{path}: tensor {name}: {message}")]
    Tensor {
        /// The weights file.
        path: PathBuf,
        /// The tensor's name.
        name: String,
        /// What is wrong with it.
        message: String,
    },
    /// An adapter cannot be trained or put over this model.
    #[error("the adapter cannot be used: {message}")]
    Adapter {
        /// What is wrong with it.
        message: String,
    },
    /// Parts that are to be trained otherwise than the others are not there.
    #[error("{message}")]
    TrainedParts {
        /// The key, and what is wrong with it.
        message: String,
    },
    /// A datum cannot be trained on.
    #[error("datum {index}: {message}")]
    Datum {
        /// Its place in the call.
        index: usize,
        /// What is wrong with it.
        message: String,
    },
    /// A datum's lists do not fit together.
    #[error("datum {index}: {source}")]
    DatumLists {
        /// Its place in the call.
        index: usize,
        /// What is wrong with it.
        source: DatumError,
    },
    /// A request cannot be sampled from.
    #[error("{message}")]
    Request {
        /// What is wrong with it.
        message: String,
    },
    /// An answer cannot be kept to what it must look like.
    #[error("the answer's schema or grammar cannot be used: {message}")]
    Constraint {
        /// The grammar compiler's message.
        message: String,
    },
    /// A number given to the optimizer makes no sense.
    #[error("optimizer: {name} is {value}")]
    Optimizer {
        /// Which number.
        name: &'static str,
        /// What was given.
        value: f64,
    },
    /// The accumulated gradient holds an infinity or a NaN. Nothing was changed, and the gradient was dropped.
    #[error("the gradient is not finite (its norm is {norm}); the weights are unchanged and the gradient is dropped")]
    GradientNotFinite {
        /// The norm that was found.
        norm: f64,
    },
    /// A thread of the engine has panicked.
    #[error("a thread of the engine has panicked: {message}")]
    Panicked {
        /// Which one.
        message: String,
    },
}

impl EngineError {
    pub(crate) fn constraint(message: String) -> Self {
        Self::Constraint { message }
    }

    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| EngineError::Io { action, path, source }
    }
}

impl From<EngineError> for BackendError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Io { action, path, source } => {
                BackendError::Files { path, message: format!("cannot {action}: {source}") }
            }
            EngineError::Damaged(damaged) => BackendError::Damaged(damaged),
            EngineError::Malformed { path, message } => BackendError::Files { path, message },
            EngineError::Tensor { path, name, message } => {
                BackendError::Files { path, message: format!("tensor {name}: {message}") }
            }
            EngineError::Unsupported { .. }
            | EngineError::Memory { .. }
            | EngineError::DeviceMemory { .. }
            | EngineError::Dimensions { .. }
            | EngineError::Adapter { .. }
            | EngineError::TrainedParts { .. }
            | EngineError::Datum { .. }
            | EngineError::DatumLists { .. }
            | EngineError::Request { .. }
            | EngineError::Constraint { .. }
            | EngineError::Optimizer { .. } => BackendError::InvalidRequest { message: error.to_string() },
            EngineError::Device { .. } | EngineError::GradientNotFinite { .. } | EngineError::Panicked { .. } => {
                BackendError::Internal { message: error.to_string() }
            }
        }
    }
}
