use fulgurite_types::{DatumError, UntrainedCause};

/// Why something recorded cannot become training data.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AdapterError {
    /// A call must have one logprob per sampled token.
    #[error("turn {turn} has {logprobs} logprobs for {sampled} sampled tokens")]
    LogprobCount {
        /// Index of the transition in its trajectory.
        turn: usize,
        /// Sampled tokens.
        sampled: usize,
        /// Logprobs.
        logprobs: usize,
    },
    /// Without a second position nothing can be predicted.
    #[error("a datum needs at least 2 positions, one to read and one to predict; this one has {positions}")]
    TooShort {
        /// Positions of the whole sequence.
        positions: usize,
    },
    /// The last element of a sequence is only ever a label, and an image cannot be one.
    #[error("the sequence ends with image {digest}, which cannot be predicted")]
    EndsWithImage {
        /// The image.
        digest: String,
    },
    /// The mask does not mark the tokens that were sampled: a defect of this program, never of the data.
    #[error("the mask marks {actual} targets where {expected} sampled tokens are to be trained")]
    MaskCount {
        /// Sampled, unmasked tokens that are a target.
        expected: usize,
        /// Ones in the mask.
        actual: usize,
    },
    /// A supervised example must have one weight per token.
    #[error("{weights} weights for {tokens} tokens")]
    WeightCount {
        /// Tokens of the example.
        tokens: usize,
        /// Weights given.
        weights: usize,
    },
    /// A generation that must not be trained was to be.
    #[error("generation {generation_id} cannot be trained: {}", cause.as_str())]
    Untrainable {
        /// The generation.
        generation_id: String,
        /// Why not.
        cause: UntrainedCause,
    },
    /// The numbers do not make a datum.
    #[error(transparent)]
    Datum(#[from] DatumError),
}
