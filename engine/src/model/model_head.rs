/// What a model computes from the last layer's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModelHead {
    /// The next token: `...ForCausalLM`.
    #[default]
    NextToken,
    /// One number, the score of the sequence up to a token: `...ForSequenceClassification` with one label.
    Score,
}

/// The name of the score's tensor, `[1, hidden_size]`.
pub(crate) const SCORE: &str = "score.weight";
