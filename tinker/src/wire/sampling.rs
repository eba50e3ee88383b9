use serde::{Deserialize, Serialize};

use super::{ModelInput, TensorData};

/// `POST /api/v1/create_sampling_session`: of a base model or of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "create_sampling_session")]
pub struct CreateSamplingSessionRequest {
    /// The session.
    pub session_id: String,
    /// Its place among the session's sampling sessions, from 0.
    pub sampling_session_seq_id: u64,
    /// The base model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_model: Option<String>,
    /// The checkpoint, `tinker://RUN/sampler_weights/NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_path: Option<String>,
}

/// The answer of `POST /api/v1/create_sampling_session`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "create_sampling_session")]
pub struct CreateSamplingSessionResponse {
    /// The sampling session.
    pub sampling_session_id: String,
}

/// The answer of `GET /api/v1/samplers/{sampling_session_id}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GetSamplerResponse {
    /// The sampling session.
    pub sampler_id: String,
    /// The base model.
    pub base_model: String,
    /// The checkpoint, if it is one.
    #[serde(default)]
    pub model_path: Option<String>,
}

/// `POST /api/v1/join_sampling_session`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "join_sampling_session")]
pub struct JoinSamplingSessionRequest {
    /// The sampling session.
    pub sampling_session_id: String,
}

/// The answer of `POST /api/v1/join_sampling_session`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "join_sampling_session")]
pub struct JoinSamplingSessionResponse {
    /// Which copy the client is: its requests count from 1e9 times this.
    pub client_counter: u64,
}

/// What ends a sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum StopSequences {
    /// One text.
    Text(String),
    /// Tokens. None: the sequence goes on to its limit.
    Tokens(Vec<u32>),
    /// Texts.
    Texts(Vec<String>),
}

/// How tokens are drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamplingParams {
    /// Tokens at most; absent: as many as fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<usize>,
    /// The same seed gives the same tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// What ends a sequence; absent: the model's own end of a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopSequences>,
    /// Divides the logits; 0 takes the likeliest token.
    #[serde(default = "one")]
    pub temperature: f64,
    /// Keeps this many of the likeliest tokens; -1 keeps all.
    #[serde(default = "all")]
    pub top_k: i64,
    /// Keeps the smallest set of tokens whose probabilities sum to this.
    #[serde(default = "one")]
    pub top_p: f64,
}

fn one() -> f64 {
    1.0
}

fn all() -> i64 {
    -1
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self { max_tokens: None, seed: None, stop: None, temperature: 1.0, top_k: -1, top_p: 1.0 }
    }
}

/// Header of a request for samples whose seed is its own: one that comes again is that request, lost on its way.
pub const OWN_SEED: &str = "x-fulgurite-own-seed";

/// `POST /api/v1/asample`. Its result is [`super::protobuf::SampleResponse`], or [`JsonSampleResponse`] for old SDKs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "sample")]
pub struct SampleRequest {
    /// The sampling session; SDKs before there were any name a model instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling_session_id: Option<String>,
    /// The base model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_model: Option<String>,
    /// The checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_path: Option<String>,
    /// Its place among the sampling session's requests, from 0: a request that comes twice is answered once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq_id: Option<u64>,
    /// How many sequences.
    #[serde(default = "single")]
    pub num_samples: usize,
    /// What they follow.
    pub prompt: ModelInput,
    /// How their tokens are drawn.
    pub sampling_params: SamplingParams,
    /// Whether the prompt's own logprobs are requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_logprobs: Option<bool>,
    /// How many of the likeliest tokens at each position of the prompt.
    #[serde(default, skip_serializing_if = "is_none")]
    pub topk_prompt_logprobs: usize,
    /// How many of the likeliest tokens at each sampled position.
    #[serde(default, skip_serializing_if = "is_none")]
    pub topk_sample_logprobs: usize,
    /// Tokens at each position of the prompt whose logprobs are requested; -1 is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_prompt_logprobs: Option<TensorData>,
    /// How many tokens that might have stood at each position of the prompt.
    #[serde(default, skip_serializing_if = "is_none")]
    pub prompt_alt_tokens_k: usize,
    /// The logprobs of how many of the prompt's last tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_logprobs_last_n: Option<usize>,
    /// Whether the server keeps what the loss `stable_reinforce` needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_stability_info: Option<bool>,
}

/// Servers on the types of an older SDK refuse names that it has not, so that numbers of nothing are left out.
fn is_none(number: &usize) -> bool {
    *number == 0
}

fn single() -> usize {
    1
}

/// The result of `asample` in JSON, which SDKs before 0.18 need.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "sample")]
pub struct JsonSampleResponse {
    /// One for each sample that was requested.
    pub sequences: Vec<JsonSampledSequence>,
    /// Of each prompt token; null at the first.
    #[serde(default)]
    pub prompt_logprobs: Option<Vec<Option<f32>>>,
}

/// A sampled sequence in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JsonSampledSequence {
    /// `stop` or `length`.
    pub stop_reason: String,
    /// Its tokens, the stop token included.
    pub tokens: Vec<u32>,
    /// One for each token.
    #[serde(default)]
    pub logprobs: Option<Vec<f32>>,
}
