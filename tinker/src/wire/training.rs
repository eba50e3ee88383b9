use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Array, Numbers, WireError};

/// An input in pieces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelInput {
    /// The pieces.
    pub chunks: Vec<JsonChunk>,
}

/// A piece of an input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum JsonChunk {
    /// Tokens.
    EncodedText {
        /// Their ids.
        tokens: Vec<u32>,
    },
    /// An image.
    Image {
        /// The file in base64.
        data: String,
        /// `png` or `jpeg`.
        format: String,
        /// Positions that the client takes it to need.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_tokens: Option<usize>,
    },
    /// An image that the server fetches.
    ImageAssetPointer {
        /// Where.
        location: String,
        /// `png` or `jpeg`.
        format: String,
        /// Positions that the client takes it to need.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_tokens: Option<usize>,
    },
    /// Sound.
    Dmel {
        /// The file in base64.
        dmel: String,
    },
}

/// A type of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TensorDtype {
    /// Integers.
    Int64,
    /// Floats.
    Float32,
}

/// An array; a sparse matrix where it has rows and columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorData {
    /// Its numbers.
    pub data: Vec<serde_json::Number>,
    /// Their type.
    pub dtype: TensorDtype,
    /// Its dimensions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Vec<i64>>,
    /// Where each row of a sparse matrix begins in `data`, and where the last ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sparse_crow_indices: Option<Vec<i64>>,
    /// The column of each number of a sparse matrix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sparse_col_indices: Option<Vec<i64>>,
}

impl TensorData {
    /// Its numbers, with the cells that a sparse one leaves out as 0.
    pub fn decode(&self) -> Result<Array, WireError> {
        let not_integers = WireError::WrongType { actual: "floats", expected: "integers" };
        let numbers = match self.dtype {
            TensorDtype::Float32 => {
                Numbers::Floats(self.data.iter().map(|number| number.as_f64().unwrap_or(f64::NAN) as f32).collect())
            }
            TensorDtype::Int64 => {
                let integers = self.data.iter().map(serde_json::Number::as_i64).collect::<Option<_>>();
                Numbers::Integers(integers.ok_or(not_integers)?)
            }
        };
        let shape = self.shape.as_deref().unwrap_or_default();
        match (&self.sparse_crow_indices, &self.sparse_col_indices) {
            (None, None) => Array::dense(numbers, shape),
            (crow, col) => {
                Array::sparse(numbers, crow.as_deref().unwrap_or_default(), col.as_deref().unwrap_or_default(), shape)
            }
        }
    }
}

/// One row of training data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JsonDatum {
    /// The input.
    pub model_input: ModelInput,
    /// What the loss needs, by name, one entry for each position of the input.
    pub loss_fn_inputs: BTreeMap<String, TensorData>,
}

/// Datums, and the loss to compute over them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForwardBackwardInput {
    /// The datums.
    pub data: Vec<JsonDatum>,
    /// The loss's name.
    pub loss_fn: String,
    /// Its configuration, numbers and texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_fn_config: Option<Map<String, Value>>,
}

/// `POST /api/v1/forward_backward` as SDKs before 0.25 send it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JsonForwardBackwardRequest {
    /// The model.
    pub model_id: String,
    /// The request's place among the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq_id: Option<u64>,
    /// What to compute.
    pub forward_backward_input: ForwardBackwardInput,
}

/// `POST /api/v1/forward`, which SDKs before 0.25 have for passes without a gradient.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JsonForwardRequest {
    /// The model.
    pub model_id: String,
    /// The request's place among the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq_id: Option<u64>,
    /// What to compute.
    pub forward_input: ForwardBackwardInput,
}

/// The result of a pass in JSON, which SDKs before 0.18 need.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JsonForwardBackwardOutput {
    /// A name; what stands after its last colon counts.
    pub loss_fn_output_type: String,
    /// By name, for each datum.
    pub loss_fn_outputs: Vec<BTreeMap<String, TensorData>>,
    /// By `NAME:HOW`.
    pub metrics: BTreeMap<String, f64>,
}

/// AdamW with decoupled weight decay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdamParams {
    /// Step size.
    pub learning_rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// Greatest L2 norm of the whole gradient; 0 does not clip.
    pub grad_clip_norm: f64,
}

impl Default for AdamParams {
    fn default() -> Self {
        Self { learning_rate: 1e-4, beta1: 0.9, beta2: 0.95, eps: 1e-12, weight_decay: 0.0, grad_clip_norm: 0.0 }
    }
}

/// `POST /api/v1/optim_step`. Its result is [`OptimStepResponse`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "optim_step")]
pub struct OptimStepRequest {
    /// The model.
    pub model_id: String,
    /// The request's place among the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq_id: Option<u64>,
    /// The step, where the optimizer is Adam.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adam_params: Option<AdamParams>,
    /// The step, where it is another, which its `type` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimizer_params: Option<Map<String, Value>>,
}

/// The result of `optim_step`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OptimStepResponse {
    /// By name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<BTreeMap<String, f64>>,
}
