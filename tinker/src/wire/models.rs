use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Which weights are trained beside the frozen ones of the base model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoraConfig {
    /// Rank of the adapters.
    pub rank: u32,
    /// Seed of their first values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Whether the unembedding is trained.
    #[serde(default = "yes")]
    pub train_unembed: bool,
    /// Whether the feed-forward layers are.
    #[serde(default = "yes")]
    pub train_mlp: bool,
    /// Whether the attention layers are.
    #[serde(default = "yes")]
    pub train_attn: bool,
}

fn yes() -> bool {
    true
}

/// Which optimizer a model is trained by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OptimizerConfig {
    /// `adamw`, or `dimuon`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What else is said of it.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl OptimizerConfig {
    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        Self { kind: "adamw".to_owned(), other: Map::new() }
    }
}

/// `POST /api/v1/create_model`. Its result is [`ModelCreated`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "create_model")]
pub struct CreateModelRequest {
    /// The session.
    pub session_id: String,
    /// Its place among the session's models, from 0.
    pub model_seq_id: u64,
    /// What is adapted.
    pub base_model: String,
    /// Absent: all weights are trained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora_config: Option<LoraConfig>,
    /// The optimizer. What is usual is left out: servers on the types of an older SDK refuse names that it has not.
    #[serde(default, skip_serializing_if = "OptimizerConfig::is_usual")]
    pub optimizer_config: OptimizerConfig,
    /// Notes for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_metadata: Option<Map<String, Value>>,
}

/// The result of `create_model`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "create_model")]
pub struct ModelCreated {
    /// `{session_id}:train:{model_seq_id}` where a client may make a model by loading weights: SDKs then form the id
    /// themselves.
    pub model_id: String,
}

/// `POST /api/v1/get_info`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "get_info")]
pub struct GetInfoRequest {
    /// Which model.
    pub model_id: String,
}

/// The answer of `POST /api/v1/get_info`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "get_info")]
pub struct GetInfoResponse {
    /// Which model.
    pub model_id: String,
    /// What it is.
    pub model_data: ModelData,
    /// Whether adapters are trained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_lora: Option<bool>,
    /// Their rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora_rank: Option<u32>,
    /// The base model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_name: Option<String>,
    /// The optimizer.
    #[serde(default)]
    pub optimizer_config: OptimizerConfig,
}

/// What a model is. SDKs insist on `model_name`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelData {
    /// Its architecture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
    /// The base model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_name: Option<String>,
    /// Whose tokenizer it has; a path may not have exactly two slashes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer_id: Option<String>,
}

/// `POST /api/v1/load_weights`. Its result is [`LoadWeightsResponse`].
///
/// Either into a model, which names `model_id` and `seq_id`, or as a new one, which names `session_id` and
/// `model_seq_id`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "load_weights")]
pub struct LoadWeightsRequest {
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// The request's place among the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq_id: Option<u64>,
    /// The session of a model to be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Its place there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_seq_id: Option<u64>,
    /// The base model that the checkpoint must be of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_model: Option<String>,
    /// The checkpoint.
    pub path: String,
    /// Whether the optimizer's state is restored too.
    pub optimizer: bool,
    /// The optimizer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimizer_config: Option<OptimizerConfig>,
    /// Notes for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_metadata: Option<Map<String, Value>>,
    /// Opens somebody else's checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_access_token: Option<String>,
}

/// The result of `load_weights`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "load_weights")]
pub struct LoadWeightsResponse {
    /// The checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
}

/// `POST /api/v1/unload_model`. Its result is [`ModelUnloaded`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "unload_model")]
pub struct UnloadModelRequest {
    /// Which model.
    pub model_id: String,
}

/// The result of `unload_model`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "unload_model")]
pub struct ModelUnloaded {
    /// Which model.
    pub model_id: String,
}

/// `POST /api/v1/save_weights`: weights and optimizer. Its result is [`SaveWeightsResponse`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "save_weights")]
pub struct SaveWeightsRequest {
    /// The model.
    pub model_id: String,
    /// The checkpoint's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The request's place among the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq_id: Option<u64>,
    /// Seconds until it may be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
    /// Whether one of that name may be replaced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overwrite: bool,
    /// Notes for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_metadata: Option<Map<String, Value>>,
}

/// The result of `save_weights`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "save_weights")]
pub struct SaveWeightsResponse {
    /// The checkpoint.
    pub path: String,
}

/// Whether samplers keep the weights that they were made with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SamplerWeightsKind {
    /// They do.
    #[default]
    Snapshot,
    /// Later saves replace them.
    Inflight,
}

impl SamplerWeightsKind {
    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// `POST /api/v1/save_weights_for_sampler`. Its result is [`SaveWeightsForSamplerResponse`].
///
/// With `path` a named checkpoint, with `sampling_session_seq_id` a sampling session and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "save_weights_for_sampler")]
pub struct SaveWeightsForSamplerRequest {
    /// The model.
    pub model_id: String,
    /// The checkpoint's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The sampling session's place in the session, counted together with those of `create_sampling_session`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling_session_seq_id: Option<u64>,
    /// Whether samplers keep these weights.
    #[serde(default, skip_serializing_if = "SamplerWeightsKind::is_usual")]
    pub kind: SamplerWeightsKind,
    /// The request's place among the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq_id: Option<u64>,
    /// Seconds until it may be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
    /// Notes for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_metadata: Option<Map<String, Value>>,
}

/// The result of `save_weights_for_sampler`: one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "save_weights_for_sampler")]
pub struct SaveWeightsForSamplerResponse {
    /// The checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The sampling session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling_session_id: Option<String>,
}

/// The result of `save_weights_external`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "save_weights_external")]
pub struct SaveWeightsExternalResponse {
    /// The checkpoint.
    pub path: String,
}

/// `POST /api/v1/save_weights_external`. Its result is [`SaveWeightsExternalResponse`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "save_weights_external")]
pub struct SaveWeightsExternalRequest {
    /// The model.
    pub model_id: String,
    /// The checkpoint's name.
    pub path: String,
    /// The request's place among the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq_id: Option<u64>,
    /// Seconds until it may be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
    /// Who may read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_encryption_recipients: Option<Vec<String>>,
}
