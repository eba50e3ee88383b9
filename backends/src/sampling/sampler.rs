use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use fulgurite_types::{Constraint, SamplingParameters, WeightsVersion};

use crate::{BackendError, NewWeights, PromptScores, SampleRequest, SampleStream, StopSequence};

/// Of a host that does not tell how likely a prompt is.
pub(crate) const NO_PROMPT_SCORES: &str = "this model's host tells no logprobs of a prompt";

/// Of a host that keeps its GPU.
const NO_SLEEP: &str = "this model's host does not give its GPU to a learner";

/// What a sampler can take.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplerInfo {
    /// Tokens that prompt and answer may have together.
    pub context_length: usize,
    /// Token ids are below this.
    pub vocabulary_size: usize,
    /// What else it can do.
    pub capabilities: Capabilities,
}

/// What a sampler can do that not every one can. Whoever asks for more is refused by the name of what is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// `presence_penalty` and `frequency_penalty`.
    pub penalties: bool,
    /// `logit_bias`.
    pub logit_bias: bool,
    /// Stop sequences.
    pub stop_sequences: bool,
    /// Constraints that are JSON schemas.
    pub json_schema: bool,
    /// Constraints that are Lark grammars.
    pub lark: bool,
    /// The greatest `top_logprobs`.
    pub top_logprobs: usize,
}

impl Capabilities {
    /// The first thing that is requested and missing, by the field that asks for it.
    pub fn missing(&self, sampling: &SamplingParameters, top_logprobs: usize) -> Option<&'static str> {
        let requirements = [
            ("presence_penalty", sampling.presence_penalty == 0.0 || self.penalties),
            ("frequency_penalty", sampling.frequency_penalty == 0.0 || self.penalties),
            ("logit_bias", sampling.logit_bias.is_empty() || self.logit_bias),
            (
                "constraint",
                match &sampling.constraint {
                    None => true,
                    Some(Constraint::JsonSchema(_)) => self.json_schema,
                    Some(Constraint::Lark(_)) => self.lark,
                },
            ),
            ("top_logprobs", top_logprobs <= self.top_logprobs),
        ];
        requirements.into_iter().find_map(|(field, is_met)| (!is_met).then_some(field))
    }
}

impl SamplerInfo {
    /// Refuses a request that can never succeed.
    pub fn check(&self, request: &SampleRequest) -> Result<(), BackendError> {
        let refuse = |message: String| Err(BackendError::InvalidRequest { message });
        let SamplingParameters { temperature, top_p, top_k, .. } = request.sampling;
        if request.prompt.is_empty() {
            return refuse("the prompt is empty".into());
        }
        if request.prompt.len() >= self.context_length {
            let (prompt_tokens, context_length) = (request.prompt.len(), self.context_length);
            return Err(BackendError::PromptTooLong { prompt_tokens, context_length });
        }
        if let Some(token) = request.prompt.iter().find(|&&token| token as usize >= self.vocabulary_size) {
            return refuse(format!("token {token} is not in the vocabulary of {} tokens", self.vocabulary_size));
        }
        if request.max_tokens == 0 {
            return refuse("max_tokens is 0".into());
        }
        if !(temperature.is_finite() && temperature >= 0.0) {
            return refuse(format!("temperature is {temperature}, but must be a number from 0 up"));
        }
        if !(top_p > 0.0 && top_p <= 1.0) {
            return refuse(format!("top_p is {top_p}, but must be above 0 and at most 1"));
        }
        if top_k == Some(0) {
            return refuse("top_k is 0".into());
        }
        if let Some(missing) = self.capabilities.missing(&request.sampling, request.top_logprobs) {
            return refuse(format!("{missing} is not supported by this model's host"));
        }
        if !request.stop_sequences.is_empty() && !self.capabilities.stop_sequences {
            return refuse("stop_sequences is not supported by this model's host".into());
        }
        if request.stop_sequences.iter().any(StopSequence::is_empty) {
            return refuse("a stop sequence is empty".into());
        }
        self.check_changes_of_logits(&request.sampling)
    }

    /// Refuses a prompt that cannot be scored.
    pub fn check_scored(&self, prompt: &[u32]) -> Result<(), BackendError> {
        if prompt.len() > self.context_length {
            let (prompt_tokens, context_length) = (prompt.len(), self.context_length);
            return Err(BackendError::PromptTooLong { prompt_tokens, context_length });
        }
        match prompt.iter().find(|&&token| token as usize >= self.vocabulary_size) {
            None => Ok(()),
            Some(token) => {
                let message = format!("token {token} is not in the vocabulary of {} tokens", self.vocabulary_size);
                Err(BackendError::InvalidRequest { message })
            }
        }
    }

    /// Refuses what is added to logits that are not there, or would not be numbers any more.
    fn check_changes_of_logits(&self, sampling: &SamplingParameters) -> Result<(), BackendError> {
        let refuse = |message: String| Err(BackendError::InvalidRequest { message });
        let penalties =
            [("presence_penalty", sampling.presence_penalty), ("frequency_penalty", sampling.frequency_penalty)];
        if let Some((field, value)) = penalties.iter().find(|(_, value)| !value.is_finite()) {
            return refuse(format!("{field} is {value}"));
        }
        for (&token, bias) in &sampling.logit_bias {
            if token as usize >= self.vocabulary_size {
                return refuse(format!(
                    "logit_bias: there is no token {token}; ids are below {}",
                    self.vocabulary_size
                ));
            }
            if !bias.is_finite() {
                return refuse(format!("logit_bias of token {token} is {bias}"));
            }
        }
        Ok(())
    }
}

/// A model host that samples: tokens in, tokens and logprobs out.
#[async_trait]
pub trait Sampler: Send + Sync + 'static {
    /// Limits of the model behind it. A remote host is asked the first time, so it may be unavailable.
    async fn info(&self) -> Result<SamplerInfo, BackendError>;

    /// The weights that a request arriving now is sampled from, as far as is known.
    fn weights_version(&self) -> Option<WeightsVersion>;

    /// Starts sampling. Fails at once for a request that can never succeed.
    async fn sample(&self, request: SampleRequest) -> Result<SampleStream, BackendError>;

    /// How likely the tokens of a prompt are, each after those before it, in the model's own distribution; and the likeliest
    /// `alternatives` in the place of each. Nothing is sampled.
    ///
    /// # Errors
    /// [`BackendError::Configuration`] from a host that does not tell.
    async fn score_prompt(&self, _prompt: &[u32], _alternatives: usize) -> Result<PromptScores, BackendError> {
        Err(BackendError::Configuration { message: NO_PROMPT_SCORES.to_owned() })
    }

    /// Puts these weights behind requests that arrive from now on. They are there when it returns, as the host confirms;
    /// after an error they may or may not be, and the versions of tokens are as the host reports them, or unknown. An adapter
    /// is over the model that the host was started with, which is put back first if another whole model was put there.
    async fn load_weights(&self, _weights: &NewWeights) -> Result<(), BackendError> {
        let message = "this model's host takes no new weights while it runs".to_owned();
        Err(BackendError::Configuration { message })
    }

    /// Has the weights that it was started with known by this version from now on. A host that labels them itself goes on
    /// with its own label.
    fn label_weights(&self, _version: WeightsVersion) {}

    /// Whether [`with_adapter`](Self::with_adapter) is possible.
    fn takes_adapters(&self) -> bool {
        false
    }

    /// What samples from a LoRA adapter over this model's weights, read from a directory in PEFT's format. It is read whole:
    /// the directory may go.
    ///
    /// # Errors
    /// If the directory holds no adapter of this model; [`BackendError::Configuration`] from a host that takes none.
    async fn with_adapter(self: Arc<Self>, _directory: &Path) -> Result<Arc<dyn Sampler>, BackendError> {
        let message = "this model's host takes no adapters beside its weights".to_owned();
        Err(BackendError::Configuration { message })
    }

    /// Whether it can [`sleep`](Self::sleep). One that is found asleep is woken.
    ///
    /// # Errors
    /// [`BackendError::Configuration`] says what to start the host with.
    async fn prepare_sleep(&self) -> Result<(), BackendError> {
        Err(BackendError::Configuration { message: NO_SLEEP.to_owned() })
    }

    /// Waits for the answers under way, holds requests that come, and has the host give its GPU's memory to others.
    async fn sleep(&self) -> Result<(), BackendError> {
        Err(BackendError::Configuration { message: NO_SLEEP.to_owned() })
    }

    /// Ends the sleep, and lets requests go on.
    async fn wake(&self) -> Result<(), BackendError> {
        Err(BackendError::Configuration { message: NO_SLEEP.to_owned() })
    }

    /// Whether a remote host answers at all. One in this process does.
    async fn check_health(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_is_told_by_its_field() {
        let plain = SamplingParameters::default();
        let with = |change: fn(&mut SamplingParameters)| {
            let mut sampling = plain.clone();
            change(&mut sampling);
            sampling
        };
        let none = Capabilities::default();
        let all = Capabilities {
            penalties: true,
            logit_bias: true,
            stop_sequences: true,
            json_schema: true,
            lark: true,
            top_logprobs: 5,
        };
        assert_eq!((none.missing(&plain, 0), none.missing(&plain, 1)), (None, Some("top_logprobs")));
        assert_eq!((all.missing(&plain, 5), all.missing(&plain, 6)), (None, Some("top_logprobs")));
        for (sampling, field) in [
            (with(|sampling| sampling.presence_penalty = 0.5), "presence_penalty"),
            (with(|sampling| sampling.frequency_penalty = -0.5), "frequency_penalty"),
            (with(|sampling| sampling.logit_bias = [(3, 1.0)].into()), "logit_bias"),
            (with(|sampling| sampling.constraint = Some(Constraint::JsonSchema(json!({})))), "constraint"),
            (with(|sampling| sampling.constraint = Some(Constraint::Lark("start: \"a\"".into()))), "constraint"),
        ] {
            assert_eq!((none.missing(&sampling, 0), all.missing(&sampling, 0)), (Some(field), None));
            assert!(!sampling.is_unmodified(), "{field} changes what is sampled from");
        }
    }

    #[test]
    fn parameters_that_were_recorded_before_there_were_more_of_them_are_read() {
        let recorded = json!({ "temperature": 1.0, "top_p": 1.0, "top_k": null });
        let read: SamplingParameters = serde_json::from_value(recorded.clone()).unwrap();
        assert!(read.is_unmodified());
        assert_eq!(serde_json::to_value(&read).unwrap(), recorded);
    }
}
