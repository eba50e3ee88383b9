/// A conversation as the tokens of one training sequence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WeightedTokens {
    /// Token ids.
    pub tokens: Vec<u32>,
    /// One weight per token: 1 where the token is to be learned, else 0.
    pub weights: Vec<f32>,
}

impl WeightedTokens {
    /// Tokens that follow each other and share a weight, with that weight.
    pub fn runs(&self) -> impl Iterator<Item = (f32, &[u32])> {
        let mut start = 0;
        self.weights.chunk_by(|left, right| left == right).map(move |weights| {
            let tokens = &self.tokens[start..start + weights.len()];
            start += weights.len();
            (weights[0], tokens)
        })
    }

    /// Adds tokens that share a weight.
    pub(crate) fn extend(&mut self, tokens: &[u32], weight: f32) {
        self.tokens.extend_from_slice(tokens);
        self.weights.resize(self.tokens.len(), weight);
    }
}
