/// How likely the tokens of a prompt were, each after those before it. The first has nothing before it, so every list
/// begins with the second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptScores {
    /// The logprob of each token.
    pub logprobs: Vec<f32>,
    /// The likeliest tokens in the place of each, likeliest first.
    pub likeliest: Vec<Vec<(u32, f32)>>,
    /// The logprobs of the tokens that were named for each place.
    pub named: Vec<Vec<f32>>,
    /// Tokens that were drawn in the place of each, with their logprobs under what they were drawn from.
    pub drawn: Vec<Vec<(u32, f32)>>,
}

/// What is to be told of each place of a prompt beside the logprob of its token.
#[derive(Clone, Copy, Debug, Default)]
pub struct PromptQuestions<'a> {
    /// How many of the likeliest tokens.
    pub alternatives: usize,
    /// The logprobs of these, a row for each place or none at all.
    pub named: &'a [Vec<u32>],
    /// How many tokens, drawn independently.
    pub draws: usize,
    /// Of what they are drawn from; 0 draws the likeliest.
    pub temperature: f32,
    /// The same seed draws the same tokens.
    pub seed: u64,
}
