use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::BackendError;

/// Which weights sampled a token: counts up by one with every update that is put behind the sampler.
/// Version 0 is the model as it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WeightsVersion(pub u64);

/// How the next token is chosen from the model's distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamplingParameters {
    /// Divides the logits. 0 takes the likeliest token, whose logprob is then 0: it was certain.
    pub temperature: f32,
    /// Keep the smallest set of tokens whose probabilities sum to at least this. 1 keeps all.
    pub top_p: f32,
    /// Keep this many of the likeliest tokens. `None` keeps all.
    pub top_k: Option<usize>,
}

impl Default for SamplingParameters {
    fn default() -> Self {
        Self { temperature: 1.0, top_p: 1.0, top_k: None }
    }
}

impl SamplingParameters {
    /// Whether a token's logprob is that of the model's own distribution, so that it can be trained on as it stands.
    pub fn is_unmodified(&self) -> bool {
        self.temperature == 1.0 && self.top_p >= 1.0 && self.top_k.is_none()
    }
}

/// One call for tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleRequest {
    /// Token ids, not empty.
    pub prompt: Vec<u32>,
    /// At most this many tokens are sampled (fewer if the context ends first).
    pub max_tokens: usize,
    /// How each token is chosen.
    pub sampling: SamplingParameters,
    /// A sampled token of this list ends the answer and is its last token.
    pub stop_tokens: Vec<u32>,
    /// Same weights, prompt, parameters and seed: same tokens.
    pub seed: u64,
    /// How many of the likeliest alternatives to report for each sampled token.
    pub top_logprobs: usize,
}

/// One sampled token as the host gave it; it is never derived again from text.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledToken {
    /// Token id.
    pub id: u32,
    /// Natural log of the token's probability in the distribution that it was really sampled from
    /// (after temperature, top-p and top-k).
    pub logprob: f32,
    /// The weights that sampled it.
    pub weights_version: WeightsVersion,
    /// The likeliest tokens at this position with their logprobs, likeliest first.
    pub top_logprobs: Vec<(u32, f32)>,
}

/// Why sampling ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// A stop token was sampled.
    StopToken,
    /// `max_tokens` or the context length was reached.
    Length,
}

/// What a sampler says while it works: tokens, then exactly one `Finished`.
#[derive(Clone, Debug, PartialEq)]
pub enum SampleEvent {
    /// The next token.
    Token(SampledToken),
    /// The end; nothing follows.
    Finished(StopReason),
}

/// The tokens of one request, in order, as they are sampled. Dropping it stops the sampling.
#[derive(Debug)]
pub struct SampleStream {
    receiver: mpsc::UnboundedReceiver<Result<SampleEvent, BackendError>>,
}

impl SampleStream {
    /// A stream and the end that feeds it. `is_closed` on the sender tells that nobody listens any more.
    /// Unbounded, because `max_tokens` bounds what a request can put into it.
    pub fn channel() -> (mpsc::UnboundedSender<Result<SampleEvent, BackendError>>, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (sender, Self { receiver })
    }

    /// Stops the sampling. What had been sampled by then can still be taken.
    pub fn stop(&mut self) {
        self.receiver.close();
    }

    /// The next event; an error if the host broke off before `Finished`.
    pub async fn next(&mut self) -> Result<SampleEvent, BackendError> {
        match self.receiver.recv().await {
            Some(event) => event,
            None => Err(BackendError::Unavailable { message: "the sampler stopped in the middle of an answer".into() }),
        }
    }
}

/// What a sampler can take.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplerInfo {
    /// Tokens that prompt and answer may have together.
    pub context_length: usize,
    /// Token ids are below this.
    pub vocabulary_size: usize,
}

/// A model host that samples: tokens in, tokens and logprobs out.
#[async_trait]
pub trait Sampler: Send + Sync + 'static {
    /// Limits of the model behind it.
    fn info(&self) -> SamplerInfo;

    /// The weights that a request arriving now is sampled from.
    fn weights_version(&self) -> WeightsVersion;

    /// Starts sampling. Fails at once for a request that can never succeed.
    async fn sample(&self, request: SampleRequest) -> Result<SampleStream, BackendError>;
}
