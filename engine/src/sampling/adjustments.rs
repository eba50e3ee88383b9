use std::collections::{BTreeMap, HashMap};

use fulgurite_backends::SampleRequest;

use crate::error::EngineError;
use crate::grammars::Grammar;

/// What a request changes of the model's logits before a token is chosen: biases, penalties for what its answer has
/// said, and the mask of its grammar.
///
/// The penalties are vLLM's and OpenAI's: both are taken from the logits, before the temperature, and count the sampled
/// tokens of this answer alone, not the prompt's.
#[derive(Debug)]
pub(crate) struct Adjustments {
    logit_bias: BTreeMap<u32, f32>,
    presence_penalty: f32,
    frequency_penalty: f32,
    /// How often each token has been sampled; empty where no penalty needs it.
    counts: HashMap<u32, u32>,
    grammar: Option<Grammar>,
    stop_tokens: Vec<u32>,
}

impl Adjustments {
    /// What `request` asks for.
    pub(crate) fn new(request: &SampleRequest, grammar: Option<Grammar>) -> Self {
        Self {
            logit_bias: request.sampling.logit_bias.clone(),
            presence_penalty: request.sampling.presence_penalty,
            frequency_penalty: request.sampling.frequency_penalty,
            counts: HashMap::new(),
            grammar,
            stop_tokens: request.stop_tokens.clone(),
        }
    }

    /// The logits to choose from: the model's own where nothing changes them, so that the logprob is the learner's to
    /// the bit; else those in `adjusted`.
    pub(crate) fn apply<'l>(
        &mut self,
        logits: &'l [f32],
        adjusted: &'l mut Vec<f32>,
    ) -> Result<&'l [f32], EngineError> {
        if self.logit_bias.is_empty() && self.counts.is_empty() && self.grammar.is_none() {
            return Ok(logits);
        }
        adjusted.clear();
        adjusted.extend_from_slice(logits);
        for (&token, bias) in &self.logit_bias {
            adjusted[token as usize] += bias;
        }
        for (&token, &count) in &self.counts {
            adjusted[token as usize] -= self.presence_penalty + self.frequency_penalty * count as f32;
        }
        if let Some(grammar) = &mut self.grammar {
            grammar.mask(adjusted, &self.stop_tokens)?;
        }
        Ok(adjusted)
    }

    /// Takes note of a token that was sampled and did not end the answer.
    pub(crate) fn note(&mut self, token: u32) -> Result<(), EngineError> {
        if self.presence_penalty != 0.0 || self.frequency_penalty != 0.0 {
            *self.counts.entry(token).or_default() += 1;
        }
        self.grammar.as_mut().map_or(Ok(()), |grammar| grammar.read(token))
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::SamplingParameters;

    use super::*;

    fn adjustments(sampling: SamplingParameters) -> Adjustments {
        let request = SampleRequest { sampling, ..SampleRequest::new(vec![1], 9, 0) };
        Adjustments::new(&request, None)
    }

    #[test]
    fn logits_that_nothing_changes_are_the_models_own() {
        let logits = [0.5, 1.0];
        let mut plain = adjustments(SamplingParameters::default());
        plain.note(1).unwrap();
        let mut scratch = Vec::new();
        assert!(std::ptr::eq(plain.apply(&logits, &mut scratch).unwrap(), &logits[..]));
    }

    #[test]
    fn penalties_count_what_the_answer_has_said_and_biases_are_added() {
        let logits = [0.5, 1.0, 2.0];
        let mut adjusted = adjustments(SamplingParameters {
            presence_penalty: 0.5,
            frequency_penalty: 0.25,
            logit_bias: [(0, -2.0)].into(),
            ..SamplingParameters::default()
        });
        let mut apply = |sampled: Option<u32>| {
            sampled.iter().for_each(|token| adjusted.note(*token).unwrap());
            adjusted.apply(&logits, &mut Vec::new()).unwrap().to_vec()
        };
        assert_eq!(apply(None), [-1.5, 1.0, 2.0]);
        assert_eq!(apply(Some(2)), [-1.5, 1.0, 1.25]);
        assert_eq!(apply(Some(2)), [-1.5, 1.0, 1.0]);
        assert_eq!(apply(Some(0)), [-2.25, 1.0, 1.0]);
    }
}
