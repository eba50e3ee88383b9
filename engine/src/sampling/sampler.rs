use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use async_trait::async_trait;
use fulgurite_backends::{
    BackendError, Capabilities, NewWeights, PromptQuestions, PromptScores, SampleRequest, SampleStream, Sampler,
    SamplerInfo, WeightsSource,
};
use fulgurite_types::WeightsVersion;

use crate::checkpoints::checkpoint::read_policy;
use crate::engine_options::EngineOptions;
use crate::error::EngineError;
use crate::grammars::vocabulary::Vocabulary;
use crate::grammars::{Grammar, Grammars};
use crate::model::model_head::ModelHead;
use crate::model::weights::Weights;
use crate::sampling::generation::Generation;
use crate::sampling::published::{Published, PublishedWeights, WeightsSnapshot};
use crate::sampling::scheduler::Scheduler;
use crate::sampling::stop_sequences::StopSequences;
use crate::threads::thread_pool;

/// Samples from the embedded model: one thread batches all running requests, and each keeps to the end the weights
/// that were published when it arrived.
///
/// The tokens of a request depend on its weights, prompt, parameters and seed alone, not on what runs beside it.
#[derive(Debug)]
pub struct EmbeddedSampler {
    published: Arc<PublishedWeights>,
    /// The weights that the model was opened with, which published adapters are over. Whoever trains them in place keeps no
    /// second model for it.
    opened: Weak<Weights>,
    /// Taken only by drop, which ends the thread.
    queue: Option<SyncSender<Generation>>,
    queue_limit: usize,
    /// What the model's tokens spell, where it is known, and the grammars that answers can be kept to then.
    vocabulary: Option<Arc<Vocabulary>>,
    grammars: Option<Arc<Grammars>>,
    thread: Option<JoinHandle<()>>,
}

impl EmbeddedSampler {
    pub(crate) fn start(
        published: Arc<PublishedWeights>,
        vocabulary: Option<Arc<Vocabulary>>,
        options: EngineOptions,
    ) -> Result<Self, EngineError> {
        let EngineOptions { queue_limit, grammar_limits, .. } = options;
        let (queue, waiting): (_, Receiver<Generation>) = sync_channel(queue_limit);
        let pool = thread_pool("fulgurite-sampler", options.threads)?;
        let thread = std::thread::Builder::new()
            .name("fulgurite-sampler".into())
            .spawn(move || pool.install(|| Scheduler::new(options).run(waiting)))
            .map_err(EngineError::io("start", "the sampler's thread"))?;
        let opened = published.current().policy.weights.clone();
        let vocabulary_size = opened.model.config.vocab_size;
        let grammars =
            vocabulary.as_ref().map(|vocabulary| Arc::new(Grammars::new(vocabulary, vocabulary_size, grammar_limits)));
        let (opened, queue, thread) = (Arc::downgrade(&opened), Some(queue), Some(thread));
        Ok(Self { published, opened, queue, queue_limit, vocabulary, grammars, thread })
    }

    /// As many alternatives are reported as there are tokens, if requested.
    fn info_of(&self, weights: &Weights) -> SamplerInfo {
        let has_grammars = self.grammars.is_some();
        SamplerInfo {
            context_length: weights.model.config.max_position_embeddings,
            vocabulary_size: weights.model.config.vocab_size,
            capabilities: Capabilities {
                penalties: true,
                logit_bias: true,
                stop_sequences: true,
                json_schema: has_grammars,
                lark: has_grammars,
                top_logprobs: usize::MAX,
            },
        }
    }

    /// The grammar of the request's constraint, compiled aside: no other request waits for it.
    async fn grammar(&self, request: &SampleRequest) -> Result<Option<Grammar>, BackendError> {
        let (Some(constraint), Some(grammars)) = (request.sampling.constraint.clone(), self.grammars.clone()) else {
            return Ok(None);
        };
        if request.stop_tokens.is_empty() {
            let message = "a constraint needs a stop token, which ends the answer".to_owned();
            return Err(BackendError::InvalidRequest { message });
        }
        grammars.begin(constraint, request.affinity.as_deref()).await.map(Some)
    }
}

#[async_trait]
impl Sampler for EmbeddedSampler {
    async fn info(&self) -> Result<SamplerInfo, BackendError> {
        Ok(self.info_of(&self.published.current().policy.weights))
    }

    fn weights_version(&self) -> Option<WeightsVersion> {
        Some(self.published.current().version)
    }

    async fn score_prompt(&self, prompt: &[u32], alternatives: usize) -> Result<PromptScores, BackendError> {
        let snapshot = self.snapshot();
        refuse_score_head(&snapshot.0.policy.weights)?;
        self.info_of(&snapshot.0.policy.weights).check_scored(prompt)?;
        let prompt = prompt.to_vec();
        let score =
            move || snapshot.score_prompt(&prompt, PromptQuestions { alternatives, ..PromptQuestions::default() });
        let panicked = |error: tokio::task::JoinError| EngineError::Panicked { message: error.to_string() };
        tokio::task::spawn_blocking(score).await.map_err(panicked)?
    }

    /// Reads a model directory, or an adapter over the weights that the model was opened with. Requests under way keep the
    /// weights that they began with. The learner's stay as they are.
    async fn load_weights(&self, new: &NewWeights) -> Result<(), BackendError> {
        let (published, version, source) = (self.published.clone(), new.version, new.source.clone());
        let opened = self.opened.clone();
        let read = move || -> Result<(), EngineError> {
            let base = match &source {
                // Whole weights that were put there since are no adapter's base.
                WeightsSource::Adapter(_) => opened.upgrade().ok_or_else(opened_was_removed)?,
                WeightsSource::Model(_) | WeightsSource::Kept(_) => published.current().policy.weights.clone(),
            };
            let policy = read_policy(&source, &base)?;
            published.replace(version, policy);
            Ok(())
        };
        let panicked = |error: tokio::task::JoinError| EngineError::Panicked { message: error.to_string() };
        Ok(tokio::task::spawn_blocking(read).await.map_err(panicked)??)
    }

    fn label_weights(&self, version: WeightsVersion) {
        self.publish(&self.snapshot(), version);
    }

    fn takes_adapters(&self) -> bool {
        true
    }

    async fn with_adapter(self: Arc<Self>, directory: &Path) -> Result<Arc<dyn Sampler>, BackendError> {
        let (base, source) = (self.published.current(), WeightsSource::Adapter(directory.to_path_buf()));
        let read = move || read_policy(&source, &base.policy.weights);
        let panicked = |error: tokio::task::JoinError| EngineError::Panicked { message: error.to_string() };
        let policy = tokio::task::spawn_blocking(read).await.map_err(panicked)??;
        let snapshot = WeightsSnapshot(Arc::new(Published { version: WeightsVersion::default(), policy }));
        Ok(Arc::new(AdapterSampler { sampler: self, snapshot }))
    }

    /// As the trait says. At temperature 0 the alternatives are reported under the distribution that the likeliest
    /// token was taken from.
    async fn sample(&self, request: SampleRequest) -> Result<SampleStream, BackendError> {
        self.start_sampling(self.published.current(), request).await
    }
}

impl EmbeddedSampler {
    /// The weights that requests which arrive now are sampled from.
    pub(crate) fn snapshot(&self) -> WeightsSnapshot {
        WeightsSnapshot(self.published.current())
    }

    /// Gives requests that arrive from now on these weights, as `version`.
    pub(crate) fn publish(&self, weights: &WeightsSnapshot, version: WeightsVersion) {
        self.published.replace(version, weights.0.policy.clone());
    }

    /// As [`Sampler::sample`], from these weights, in one batch with what is sampled from others.
    pub(crate) async fn sample_from(
        &self,
        weights: &WeightsSnapshot,
        request: SampleRequest,
    ) -> Result<SampleStream, BackendError> {
        self.start_sampling(weights.0.clone(), request).await
    }

    /// Requests that may wait for a place in the batch.
    pub(crate) fn queue_limit(&self) -> usize {
        self.queue_limit
    }

    async fn start_sampling(
        &self,
        published: Arc<Published>,
        request: SampleRequest,
    ) -> Result<SampleStream, BackendError> {
        refuse_score_head(&published.policy.weights)?;
        self.info_of(&published.policy.weights).check(&request)?;
        let stops = StopSequences::new(&request.stop_sequences, self.vocabulary.as_ref())?;
        let grammar = self.grammar(&request).await?;
        let (sender, stream) = SampleStream::channel();
        let stopped = || BackendError::Unavailable { message: "the sampler's thread has stopped".into() };
        let queue = self.queue.as_ref().ok_or_else(stopped)?;
        match queue.try_send(Generation::new(request, grammar, stops, published, sender)) {
            Ok(()) => Ok(stream),
            Err(TrySendError::Full(_)) => Err(BackendError::Overloaded { limit: self.queue_limit }),
            Err(TrySendError::Disconnected(_)) => Err(stopped()),
        }
    }
}

impl Drop for EmbeddedSampler {
    /// Ends the thread after the step it is in; requests under way break off.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the sampler's thread had panicked");
        }
    }
}

/// Refuses a model that predicts no token.
fn refuse_score_head(weights: &Weights) -> Result<(), BackendError> {
    match weights.model.config.head {
        ModelHead::NextToken => Ok(()),
        ModelHead::Score => Err(BackendError::InvalidRequest {
            message: "the model is a reward model: its head is a score, and it predicts no token".to_owned(),
        }),
    }
}

fn opened_was_removed() -> EngineError {
    let message = "the weights that the model was opened with are trained and no longer in memory, and adapters are over \
                   those";
    EngineError::Request { message: message.to_owned() }
}

/// Samples from an adapter over an embedded model, in one batch with the model's own requests.
struct AdapterSampler {
    sampler: Arc<EmbeddedSampler>,
    snapshot: WeightsSnapshot,
}

#[async_trait]
impl Sampler for AdapterSampler {
    async fn info(&self) -> Result<SamplerInfo, BackendError> {
        self.sampler.info().await
    }

    fn weights_version(&self) -> Option<WeightsVersion> {
        Some(self.snapshot.0.version)
    }

    async fn sample(&self, request: SampleRequest) -> Result<SampleStream, BackendError> {
        self.sampler.sample_from(&self.snapshot, request).await
    }

    async fn score_prompt(&self, prompt: &[u32], alternatives: usize) -> Result<PromptScores, BackendError> {
        self.info().await?.check_scored(prompt)?;
        let (snapshot, prompt) = (self.snapshot.clone(), prompt.to_vec());
        let score =
            move || snapshot.score_prompt(&prompt, PromptQuestions { alternatives, ..PromptQuestions::default() });
        let panicked = |error: tokio::task::JoinError| EngineError::Panicked { message: error.to_string() };
        tokio::task::spawn_blocking(score).await.map_err(panicked)?
    }
}
