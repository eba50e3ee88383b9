use std::sync::Arc;

use async_trait::async_trait;
use fulgurite_types::{SamplingParameters, WeightsVersion};
use tokio::sync::OnceCell;

use super::sampling::{Sampling, SamplingQuestion, Weights};
use super::service::TinkerService;
use crate::wire::{CheckpointKind, CheckpointPath, SupportedModel};
use fulgurite_backends::remote::{PROBED_TOKENS, probe, reports_certainty};
use fulgurite_backends::{
    BackendError, Capabilities, NewWeights, PromptScores, SampleRequest, SampleStream, Sampler, SamplerInfo,
    WeightsSource,
};

/// The greatest number of alternatives that is requested.
const GREATEST_TOP_LOGPROBS: usize = 20;

/// So low that the likeliest token is certain.
const LOW_TEMPERATURE: f32 = 1e-3;

/// Which model a sampler samples from, and its limits.
#[derive(Clone, Debug)]
pub struct TinkerSamplerOptions {
    /// The service's name for the base model.
    pub base_model: String,
    /// Token ids are below this.
    pub vocabulary_size: usize,
    /// Tokens of prompt and answer together, for a service that does not report them.
    pub context_length: Option<usize>,
}

/// Samples at a service that speaks the Tinker API: from the base model, until it is told of other weights there.
///
/// The wire knows no streams, so all tokens of an answer come at its end. It does not say whether logprobs are those of
/// what was sampled from where that is not the model's own distribution: before the first request that asks for another
/// temperature, or for top-p or top-k, this is tried out with a few tokens, and such requests are refused if they are not.
#[derive(Debug)]
pub struct TinkerSampler {
    sampling: Arc<Sampling>,
    options: TinkerSamplerOptions,
    context_length: OnceCell<usize>,
    /// Whether logprobs are those after the temperature was applied.
    reports_temperature: OnceCell<bool>,
    /// Whether logprobs are those after top-k and top-p were applied.
    tells_truncation: OnceCell<bool>,
}

impl TinkerSampler {
    /// Samples from the base model, as version 0. The service is not looked at yet.
    pub fn new(service: Arc<TinkerService>, options: TinkerSamplerOptions) -> Self {
        let sampling = Sampling::new(service, options.base_model.clone(), options.vocabulary_size);
        Self {
            sampling: Arc::new(sampling),
            options,
            context_length: OnceCell::new(),
            reports_temperature: OnceCell::new(),
            tells_truncation: OnceCell::new(),
        }
    }

    async fn context_length(&self) -> Result<usize, BackendError> {
        let service = &self.sampling.service;
        let look = || async {
            let base_model = &self.options.base_model;
            let capabilities = service.capabilities().await?.unwrap_or_default();
            let is_named = |model: &&SupportedModel| model.model_name.as_ref() == Some(base_model);
            let reported =
                capabilities.supported_models.iter().find(is_named).and_then(|model| model.max_context_length);
            reported.or(self.options.context_length).ok_or_else(|| BackendError::Configuration {
                message: format!(
                    "{} does not tell the context length of `{base_model}`, and config.json of the model's path has no \
                     max_position_embeddings",
                    service.name()
                ),
            })
        };
        self.context_length.get_or_try_init(look).await.copied()
    }

    /// Refuses what is sampled from a distribution whose logprobs the service does not report.
    async fn check_distribution(&self, sampling: &SamplingParameters) -> Result<(), BackendError> {
        let refuse = |what: &str| {
            let message = format!(
                "the host of `{}` tells the logprobs of the model's own distribution, which is not what is sampled \
                 from with {what}; leave it out, or ask for temperature 0",
                self.options.base_model
            );
            Err(BackendError::InvalidRequest { message })
        };
        // What is certain needs nobody to tell it.
        if sampling.temperature == 0.0 {
            return Ok(());
        }
        let low = || self.is_certain(SamplingParameters { temperature: LOW_TEMPERATURE, ..Default::default() });
        if sampling.temperature != 1.0 && !*self.reports_temperature.get_or_try_init(low).await? {
            return refuse("a temperature other than 1");
        }
        let only = || self.is_certain(SamplingParameters { top_k: Some(1), ..Default::default() });
        let is_truncated = sampling.top_p < 1.0 || sampling.top_k.is_some();
        if is_truncated && !*self.tells_truncation.get_or_try_init(only).await? {
            return refuse("top_p or top_k");
        }
        Ok(())
    }

    /// Whether the service reports that tokens were certain which had to be, sampled like this.
    async fn is_certain(&self, sampling: SamplingParameters) -> Result<bool, BackendError> {
        let is_certain = reports_certainty(self.start(probe(sampling, PROBED_TOKENS, 0)).await?).await?;
        tracing::info!(host = %self.sampling.service.name(), is_certain, "tried out which logprobs the service tells");
        Ok(is_certain)
    }

    /// Samples what has been found right.
    async fn start(&self, request: SampleRequest) -> Result<SampleStream, BackendError> {
        let submitted = self.sampling.submit(SamplingQuestion::Tokens(&request)).await?;
        let (sender, stream) = SampleStream::channel();
        #[expect(clippy::disallowed_methods, reason = "it ends when nobody listens to the stream")]
        tokio::spawn(self.sampling.clone().run(submitted, request, sender));
        Ok(stream)
    }
}

#[async_trait]
impl Sampler for TinkerSampler {
    async fn info(&self) -> Result<SamplerInfo, BackendError> {
        let is_current = self.sampling.service.session().await?.is_current();
        let top_logprobs = if is_current { GREATEST_TOP_LOGPROBS } else { 0 };
        Ok(SamplerInfo {
            context_length: self.context_length().await?,
            vocabulary_size: self.options.vocabulary_size,
            capabilities: Capabilities { top_logprobs, ..Capabilities::default() },
        })
    }

    fn weights_version(&self) -> Option<WeightsVersion> {
        Some(self.sampling.weights().version)
    }

    async fn sample(&self, request: SampleRequest) -> Result<SampleStream, BackendError> {
        let info = self.info().await?;
        info.check(&request)?;
        self.check_distribution(&request.sampling).await?;
        let room = info.context_length - request.prompt.len();
        let request = SampleRequest { max_tokens: request.max_tokens.min(room), ..request };
        self.start(request).await
    }

    async fn score_prompt(&self, prompt: &[u32], alternatives: usize) -> Result<PromptScores, BackendError> {
        self.info().await?.check_scored(prompt)?;
        self.sampling.score(prompt, alternatives).await
    }

    /// From a checkpoint that the service keeps. Answers under way stay with the weights that they began with.
    async fn load_weights(&self, weights: &NewWeights) -> Result<(), BackendError> {
        let refuse = |message: String| Err(BackendError::Configuration { message });
        let WeightsSource::Kept(path) = &weights.source else {
            return refuse(
                "a Tinker service samples from weights of its own only, tinker://RUN/sampler_weights/NAME".into(),
            );
        };
        match path.parse::<CheckpointPath>() {
            Ok(CheckpointPath { kind: CheckpointKind::SamplerWeights, .. }) => {}
            Ok(_) => return refuse(format!("`{path}` holds no weights to sample from")),
            Err(error) => return refuse(error.to_string()),
        }
        self.sampling.change(Weights { version: weights.version, checkpoint: Some(path.clone()) }).await
    }

    async fn check_health(&self) -> Result<(), BackendError> {
        self.sampling.service.check_health().await
    }
}
