use fulgurite_types::SamplingParameters;

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
    /// An answer that comes to hold one of these, itself and not its prompt's end, ends with the token that completes it.
    /// Not every host takes some, see [`Capabilities::stop_sequences`](crate::Capabilities::stop_sequences).
    pub stop_sequences: Vec<StopSequence>,
    /// Same weights, prompt, parameters and seed: same tokens.
    pub seed: u64,
    /// How many of the likeliest alternatives to report for each sampled token.
    pub top_logprobs: usize,
    /// How many tokens may be told together once the first has been, where nobody reads along. Hosts that cannot be asked
    /// for it tell each by itself, and so do all for 1.
    pub stream_interval: usize,
    /// Requests that share it share the beginnings of their prompts: a host of several replicas sends them to the same
    /// one, whose cache holds those. It never changes what is sampled.
    pub affinity: Option<String>,
}

impl SampleRequest {
    /// An answer of the model as it is, at temperature 1, that nothing ends but its length, and that comes token by token.
    #[must_use]
    pub fn new(prompt: Vec<u32>, max_tokens: usize, seed: u64) -> Self {
        Self {
            prompt,
            max_tokens,
            sampling: SamplingParameters::default(),
            stop_tokens: Vec::new(),
            stop_sequences: Vec::new(),
            seed,
            top_logprobs: 0,
            stream_interval: 1,
            affinity: None,
        }
    }
}

/// What ends an answer once it has been said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopSequence {
    /// These tokens, one after another.
    Tokens(Vec<u32>),
    /// This text in what the tokens spell together, control tokens by their names, wherever a token begins.
    Text(String),
}

impl StopSequence {
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            StopSequence::Tokens(tokens) => tokens.is_empty(),
            StopSequence::Text(text) => text.is_empty(),
        }
    }
}
