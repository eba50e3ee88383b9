use fulgurite_types::WeightsVersion;
use serde::{Deserialize, Serialize};

/// One sampled token as the host gave it; it is never derived again from text.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledToken {
    /// Token id.
    pub id: u32,
    /// Natural log of the token's probability in the distribution that it was really sampled from
    /// (after penalties, biases, the constraint's mask, temperature, top-p and top-k).
    pub logprob: f32,
    /// The weights that sampled it; `None` if the host has not said.
    pub weights_version: Option<WeightsVersion>,
    /// The likeliest tokens at this position with their logprobs, likeliest first.
    pub top_logprobs: Vec<(u32, f32)>,
}

/// How a host's sampling came to its end; what is recorded of an answer besides is `fulgurite_types::StopReason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SamplingEnd {
    /// A stop token was sampled, or a stop sequence completed.
    StopToken,
    /// `max_tokens` or the context length was reached.
    Length,
}

/// What a sampler says while it works: tokens, perhaps the weights behind them and what it had cached, then exactly one
/// `Finished`.
#[derive(Clone, Debug, PartialEq)]
pub enum SampleEvent {
    /// The next token.
    Token(SampledToken),
    /// The weights that sampled each token so far, from a host that knows them only afterwards. It counts more than
    /// what the tokens said.
    WeightsVersions(Vec<Option<WeightsVersion>>),
    /// How many of the prompt's tokens the host had in its cache and did not compute, from a host that says it.
    CachedPrompt(usize),
    /// The end; nothing follows.
    Finished(SamplingEnd),
}
