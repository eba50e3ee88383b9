use serde::{Deserialize, Serialize};

use crate::{BranchReason, Defect, Object, RecordedSampling, StopReason};

/// Which weights sampled the tokens from `first_token` on, up to the next entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightsFrom {
    /// The weights' version.
    pub version: u64,
    /// Index into the sampled tokens.
    pub first_token: usize,
}

/// One answered model call, as it is given to the store: the span that readers see and the tokens behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct NewGeneration {
    /// Unique in the store; it is also the response id that the client saw.
    pub generation_id: String,
    /// Whose call it was.
    pub rollout_id: String,
    /// During which attempt.
    pub attempt_id: String,
    /// Name of the span, such as `openai.chat.completion`.
    pub name: String,
    /// 32 hexadecimal digits.
    pub trace_id: String,
    /// 16 hexadecimal digits, unique within the attempt.
    pub span_id: String,
    /// When the call arrived.
    pub start_time: f64,
    /// When the last token was there.
    pub end_time: f64,
    /// Attributes of the span. Token ids and logprobs do not belong here: readers get them rebuilt from the generation.
    /// Messages (`gen_ai.prompt.N.*`, `gen_ai.completion.0.*`) do, all of them; only new ones are stored.
    pub attributes: Object,
    /// The model's name, as the client knows it.
    pub model: String,
    /// The whole prompt; only what its parent does not hold is stored.
    pub prompt_tokens: Vec<u32>,
    /// What was sampled.
    pub sampled_tokens: Vec<u32>,
    /// The sampler's logprob of each sampled token; `None` if it gave none.
    pub logprobs: Option<Vec<f32>>,
    /// Why sampling ended.
    pub stop_reason: StopReason,
    /// Which weights sampled which tokens, by run length: empty if not known, else the first entry starts at 0 and
    /// `first_token` increases.
    pub weights_versions: Vec<WeightsFrom>,
    /// Sampling parameters.
    pub sampling: RecordedSampling,
    /// The seed that was used.
    pub seed: u64,
    /// Name of the renderer that made the prompt.
    pub renderer: String,
    /// Fingerprint of the tokenizer.
    pub tokenizer: String,
    /// Digest of the client's request, by which a retry is recognised.
    pub request_digest: String,
    /// Why the prompt does not continue the conversation's previous generation, if it does not.
    pub branch_reason: Option<BranchReason>,
    /// Whether the client hung up before it had the whole answer.
    pub client_disconnected: bool,
    /// Why it must not be trained, if whoever records it knows of a reason.
    pub defect: Option<Defect>,
}

/// One answered model call, with its prompt rebuilt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Generation {
    /// Its id.
    pub generation_id: String,
    /// Whose call it was.
    pub rollout_id: String,
    /// During which attempt.
    pub attempt_id: String,
    /// Its span.
    pub span_id: String,
    /// The trace of its span.
    pub trace_id: String,
    /// Name of its span.
    pub name: String,
    /// The sequence id of its span.
    pub sequence_id: u64,
    /// The generation of the same attempt that its prompt continues token by token.
    pub parent_id: Option<String>,
    /// Why it does not continue the conversation's previous generation, if it does not.
    pub branch_reason: Option<BranchReason>,
    /// When the call arrived.
    pub start_time: f64,
    /// When the last token was there.
    pub end_time: f64,
    /// The model's name, as the client knows it.
    pub model: String,
    /// The whole prompt.
    pub prompt_tokens: Vec<u32>,
    /// What was sampled.
    pub sampled_tokens: Vec<u32>,
    /// The sampler's logprob of each sampled token.
    pub logprobs: Option<Vec<f32>>,
    /// Why sampling ended.
    pub stop_reason: StopReason,
    /// Which weights sampled which tokens.
    pub weights_versions: Vec<WeightsFrom>,
    /// Sampling parameters.
    pub sampling: RecordedSampling,
    /// The seed that was used.
    pub seed: u64,
    /// Name of the renderer that made the prompt.
    pub renderer: String,
    /// Fingerprint of the tokenizer.
    pub tokenizer: String,
    /// Digest of the client's request.
    pub request_digest: String,
    /// Whether the client hung up before it had the whole answer.
    #[serde(rename = "client_gone")]
    pub client_disconnected: bool,
    /// Why it must not be trained, if it must not.
    pub defect: Option<Defect>,
}
