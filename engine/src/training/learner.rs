use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use fulgurite_backends::{
    AdamParameters, BackendError, Comparisons, ForwardBackward, GuardedStep, Learner, LossFunction, OptimizerStep,
    check_temperature,
};
use fulgurite_types::{Chunk, Datum, LossInputs, WeightsVersion};
use rayon::ThreadPool;

use crate::adapters::adapter::Adapter;
use crate::adapters::lora::LoraOptions;
use crate::adapters::policy::Policy;
use crate::checkpoints::checkpoint::{read_checkpoint, read_trained, write_checkpoint, write_weights};
use crate::checkpoints::tensor_files::{CONFIG, find_weights};
use crate::checkpoints::verification::verified;
use crate::device::open_device::OpenDevice;
use crate::error::EngineError;
use crate::model::config::ModelConfig;
use crate::model::memory::{MemoryNeed, activation_budget};
use crate::model::model_head::ModelHead;
use crate::model::pass_sizes::shard_count;
use crate::model::weights::{Model, Weights};
use crate::optimizer::{AdamState, check, gather};
use crate::passes::loss::{TokenLoss, needs_logprobs, token_losses};
use crate::sampling::published::{Published, PublishedWeights, WeightsSnapshot};
use crate::threads::thread_pool;
use crate::training::compared::Compared;
use crate::training::example::{Example, ReportedLogprobs, Scored, trained_targets};
use crate::training::shard::{Shard, deal};

/// Trains the embedded model. Calls run on blocking threads, one at a time, in the order in which they come to the
/// lock; the async runtime is never held up.
///
/// Results do not depend on the number of threads.
#[derive(Debug)]
pub struct EmbeddedLearner {
    state: Arc<Mutex<LearnerState>>,
    /// What a sampler samples from, if one belongs to it.
    published: Option<Arc<PublishedWeights>>,
}

/// Numbers that are trained from which on a step of the optimizer is worth threads.
const MIN_PARALLEL_WORK: usize = 1 << 20;

/// Everything that training changes.
#[derive(Debug)]
pub(crate) struct LearnerState {
    policy: Policy,
    /// What was kept to be held against.
    reference: Option<Policy>,
    pub(crate) adam: AdamState,
    /// At which sampled tokens were sampled.
    sampling_temperature: f32,
    shards: Vec<Shard>,
    threads: usize,
    /// The threads, once there was work for them.
    pool: Option<Arc<ThreadPool>>,
    /// Where tokenizer and chat template are copied from.
    source: PathBuf,
}

impl EmbeddedLearner {
    pub(crate) fn new(
        policy: Policy,
        threads: usize,
        source: PathBuf,
        published: Option<Arc<PublishedWeights>>,
    ) -> Self {
        let config = &policy.weights.model.config;
        let budget = activation_budget(config, policy.trained_count());
        let shards = (0..shard_count(config)).map(|_| Shard::new(budget)).collect();
        let adam = AdamState::default();
        let state = LearnerState {
            policy,
            reference: None,
            adam,
            sampling_temperature: 1.0,
            shards,
            threads,
            pool: None,
            source,
        };
        Self { state: Arc::new(Mutex::new(state)), published }
    }

    /// Trains the weights of a model directory, as [`Engine::open`](crate::Engine::open) reads it, on its own: no sampler
    /// belongs to it.
    pub(crate) fn open(directory: &Path, threads: usize, device: Option<Arc<OpenDevice>>) -> Result<Self, EngineError> {
        verified(directory, || Self::open_unverified(directory, threads, device))
    }

    fn open_unverified(directory: &Path, threads: usize, device: Option<Arc<OpenDevice>>) -> Result<Self, EngineError> {
        let config = ModelConfig::read(&directory.join(CONFIG))?;
        let model = Arc::new(Model::new(config).on(device));
        let found = find_weights(directory, &model.layout)?;
        MemoryNeed::of_matrices(&model.config, &model.layout, |place| found.precision(place)).check_training()?;
        let policy = Policy::of(Arc::new(found.read_weights(model)?));
        // Its own version, and one that is sampled from.
        policy.weights.check_device_memory(2)?;
        Ok(Self::new(policy, threads, directory.to_path_buf(), None))
    }

    /// Trains the weights that [`create_model`](crate::create_model) would write, on their own: no sampler belongs to them.
    /// Tokenizer and chat template are copied from `directory`.
    pub fn with_initial_weights(
        directory: impl Into<PathBuf>,
        config: &ModelConfig,
        seed: u64,
        threads: usize,
    ) -> Result<Self, EngineError> {
        config.check()?;
        let model = Arc::new(Model::new(config.clone()));
        let policy = Policy::of(Arc::new(Weights::initial(model, seed)));
        Ok(Self::new(policy, threads, directory.into(), None))
    }

    /// Trains a fresh adapter over the weights of the model directory `source`, on its own: no sampler belongs to it.
    pub(crate) fn over(
        weights: Arc<Weights>,
        options: &LoraOptions,
        threads: usize,
        source: &Path,
    ) -> Result<Self, EngineError> {
        let config = &weights.model.config;
        let adapter = Adapter::begin(config, options, MemoryNeed::of(config, 0))?;
        let policy = Policy { weights, adapter: Some(Arc::new(adapter)) };
        Ok(Self::new(policy, threads, source.to_path_buf(), None))
    }

    /// As [`Learner::forward_backward`], but with the logprobs of all targets.
    pub(crate) async fn forward_backward_with_all_logprobs(
        &self,
        data: Arc<[Datum]>,
        loss: LossFunction,
    ) -> Result<ForwardBackward, BackendError> {
        self.run(move |state| state.forward_backward(&data, loss, ReportedLogprobs::All)).await
    }

    /// What a loss over datums is, without a gradient; with the logprobs of all targets.
    pub(crate) async fn forward_with_loss(
        &self,
        data: Arc<[Datum]>,
        loss: LossFunction,
    ) -> Result<ForwardBackward, BackendError> {
        self.run(move |state| state.forward_with_loss(&data, loss)).await
    }

    /// The weights as they are now.
    pub(crate) async fn snapshot(&self, version: WeightsVersion) -> Result<WeightsSnapshot, BackendError> {
        self.run(move |state| Ok(WeightsSnapshot(Arc::new(Published { version, policy: state.policy.clone() })))).await
    }

    /// Goes on from what was saved as weights with a fresh optimizer, and drops accumulated gradients.
    pub(crate) async fn load_weights(&self, directory: &Path) -> Result<(), BackendError> {
        let directory = directory.to_path_buf();
        self.run(move |state| {
            let policy = read_trained(&directory, &state.policy)?;
            state.restore(policy, AdamState::default());
            Ok(())
        })
        .await
    }

    /// Drops accumulated gradients.
    pub(crate) async fn drop_gradient(&self) -> Result<(), BackendError> {
        self.run(|state| {
            state.clear_gradient();
            Ok(())
        })
        .await
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut LearnerState) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, BackendError> {
        let state = self.state.clone();
        let result = tokio::task::spawn_blocking(move || work(&mut *lock(&state)?)).await;
        let panicked = |error: tokio::task::JoinError| EngineError::Panicked { message: error.to_string() };
        Ok(result.map_err(panicked)??)
    }
}

fn lock(state: &Mutex<LearnerState>) -> Result<MutexGuard<'_, LearnerState>, EngineError> {
    state.lock().map_err(|_| EngineError::Panicked { message: "the learner, in an earlier call".into() })
}

#[async_trait]
impl Learner for EmbeddedLearner {
    async fn forward(&self, data: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        self.run(move |state| state.forward(&data)).await
    }

    async fn entropies(&self, data: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        self.run(move |state| state.entropies(&data)).await
    }

    async fn keep_reference(&self) -> Result<(), BackendError> {
        self.run(|state| {
            state.reference = Some(state.policy.clone());
            Ok(())
        })
        .await
    }

    /// As the trait says; the logprob of a target whose weight or mask is 0 is not computed, and stands as 0.
    async fn forward_reference(&self, data: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        let none = || BackendError::Configuration { message: "no reference weights were kept".to_owned() };
        self.run(move |state| state.forward_reference(&data)).await?.ok_or_else(none)
    }

    /// As the trait says; the logprob of a target whose weight or mask is 0 is not computed, and stands as 0.
    async fn forward_backward(&self, data: Arc<[Datum]>, loss: LossFunction) -> Result<ForwardBackward, BackendError> {
        self.run(move |state| state.forward_backward(&data, loss, ReportedLogprobs::Trained)).await
    }

    async fn forward_backward_with_entropy(
        &self,
        data: Arc<[Datum]>,
        loss: LossFunction,
        entropy_weight: f32,
    ) -> Result<ForwardBackward, BackendError> {
        self.run(move |state| state.forward_backward_with_entropy(&data, loss, entropy_weight)).await
    }

    /// In one pass each way: the logprobs of a comparison's answers are known before its gradient is computed.
    async fn forward_backward_comparisons(
        &self,
        data: Arc<[Datum]>,
        comparisons: Arc<Comparisons>,
    ) -> Result<ForwardBackward, BackendError> {
        comparisons.check(&data)?;
        self.run(move |state| state.forward_backward_comparisons(&data, &comparisons)).await
    }

    async fn set_sampling_temperature(&self, temperature: f32) -> Result<(), BackendError> {
        check_temperature(temperature)?;
        self.run(move |state| {
            state.sampling_temperature = temperature;
            Ok(())
        })
        .await
    }

    async fn optimizer_step(&self, parameters: AdamParameters) -> Result<OptimizerStep, BackendError> {
        self.run(move |state| state.optimizer_step(&parameters)).await
    }

    async fn optimizer_step_within(&self, parameters: AdamParameters, most: f64) -> Result<GuardedStep, BackendError> {
        self.run(move |state| state.optimizer_step_within(&parameters, most)).await
    }

    async fn save_checkpoint(&self, directory: &Path) -> Result<(), BackendError> {
        let directory = directory.to_path_buf();
        self.run(move |state| write_checkpoint(&directory, &state.source, &state.policy, &state.adam)).await
    }

    async fn load_checkpoint(&self, directory: &Path) -> Result<(), BackendError> {
        let directory = directory.to_path_buf();
        self.run(move |state| {
            let (policy, adam) = read_checkpoint(&directory, &state.policy)?;
            state.restore(policy, adam);
            Ok(())
        })
        .await
    }

    async fn save_weights(&self, directory: &Path) -> Result<(), BackendError> {
        let directory = directory.to_path_buf();
        self.run(move |state| write_weights(&directory, &state.source, &state.policy)).await
    }

    async fn publish_weights(&self, version: WeightsVersion) -> Result<(), BackendError> {
        let no_sampler = || BackendError::Configuration { message: "no sampler belongs to this learner".to_owned() };
        let published = self.published.clone().ok_or_else(no_sampler)?;
        self.run(move |state| {
            published.replace(version, state.policy.clone());
            Ok(())
        })
        .await
    }
}

impl LearnerState {
    fn forward(&mut self, data: &[Datum]) -> Result<Vec<Vec<f32>>, EngineError> {
        self.forward_over(data, ReportedLogprobs::All)
    }

    fn forward_over(&mut self, data: &[Datum], reported: ReportedLogprobs) -> Result<Vec<Vec<f32>>, EngineError> {
        let examples = self.examples(data, |_, datum| Ok(trained_targets(datum)))?;
        let hands = deal(examples, self.shards.len());
        let scored = self.in_shards(hands, |shard, policy, hand| shard.score(policy, hand, reported))?;
        Ok(scored.into_iter().map(|scored| scored.logprobs).collect())
    }

    fn entropies(&mut self, data: &[Datum]) -> Result<Vec<Vec<f32>>, EngineError> {
        let examples = self.examples(data, |_, datum| Ok(trained_targets(datum)))?;
        let hands = deal(examples, self.shards.len());
        let scored = self.in_shards(hands, Shard::entropies)?;
        Ok(scored.into_iter().map(|scored| scored.entropies).collect())
    }

    /// `None` if no weights were kept.
    fn forward_reference(&mut self, data: &[Datum]) -> Result<Option<Vec<Vec<f32>>>, EngineError> {
        let Some(reference) = self.reference.clone() else { return Ok(None) };
        let current = std::mem::replace(&mut self.policy, reference);
        let logprobs = self.forward_over(data, ReportedLogprobs::Trained);
        self.policy = current;
        logprobs.map(Some)
    }

    fn forward_with_loss(&mut self, data: &[Datum], loss: LossFunction) -> Result<ForwardBackward, EngineError> {
        let logprobs = self.forward(data)?;
        let mut loss_sum = 0.0;
        for (index, (datum, logprobs)) in data.iter().zip(&logprobs).enumerate() {
            let losses =
                token_losses(datum, loss, logprobs).map_err(|message| EngineError::Datum { index, message })?;
            loss_sum += losses.iter().zip(logprobs).map(|(loss, &logprob)| loss.value(logprob)).sum::<f64>();
        }
        Ok(ForwardBackward { loss_sum, logprobs, entropies: None })
    }

    fn forward_backward(
        &mut self,
        data: &[Datum],
        loss: LossFunction,
        reported: ReportedLogprobs,
    ) -> Result<ForwardBackward, EngineError> {
        self.refuse_score_head()?;
        let known = if needs_logprobs(loss) { self.forward(data)? } else { Vec::new() };
        let examples = self.examples(data, |index, datum| {
            token_losses(datum, loss, known.get(index).map(Vec::as_slice).unwrap_or_default())
        })?;
        self.learn(examples, reported)
    }

    fn forward_backward_with_entropy(
        &mut self,
        data: &[Datum],
        loss: LossFunction,
        entropy_weight: f32,
    ) -> Result<ForwardBackward, EngineError> {
        self.refuse_score_head()?;
        let known = if needs_logprobs(loss) { self.forward(data)? } else { Vec::new() };
        let mut examples = self.examples(data, |index, datum| {
            token_losses(datum, loss, known.get(index).map(Vec::as_slice).unwrap_or_default())
        })?;
        examples.iter_mut().for_each(|example| example.entropy_weight = entropy_weight);
        self.learn(examples, ReportedLogprobs::Trained)
    }

    fn learn(
        &mut self,
        examples: Vec<Example<'_>>,
        reported: ReportedLogprobs,
    ) -> Result<ForwardBackward, EngineError> {
        let hands = deal(examples, self.shards.len());
        let scored = self.in_shards(hands, |shard, policy, hand| shard.score_backward(policy, hand, reported))?;
        Ok(summed(scored))
    }

    fn forward_backward_comparisons(
        &mut self,
        data: &[Datum],
        comparisons: &Comparisons,
    ) -> Result<ForwardBackward, EngineError> {
        if comparisons.loss.is_of_scores() != (self.policy.weights.model.config.head == ModelHead::Score) {
            let message =
                "a loss of scores is for a model whose head is a score, and any other for one that predicts tokens";
            return Err(EngineError::Request { message: message.to_owned() });
        }
        let compared = Compared::new(comparisons);
        let examples = self.examples(data, |_, datum| Ok(trained_targets(datum)))?;
        let hands = compared.deal(examples, self.shards.len());
        let work = |shard: &mut Shard, policy: &Policy, hand: &[Example<'_>]| {
            shard.score_backward_comparisons(policy, hand, &compared)
        };
        Ok(summed(self.in_shards(hands, work)?))
    }

    /// Refuses losses of tokens to a model that predicts none.
    fn refuse_score_head(&self) -> Result<(), EngineError> {
        match self.policy.weights.model.config.head {
            ModelHead::NextToken => Ok(()),
            ModelHead::Score => Err(EngineError::Request {
                message: "the model is a reward model: its head is a score, and losses of tokens are not for it"
                    .to_owned(),
            }),
        }
    }

    fn optimizer_step(&mut self, parameters: &AdamParameters) -> Result<OptimizerStep, EngineError> {
        match self.optimizer_step_within(parameters, f64::INFINITY)? {
            GuardedStep::Made(made) => Ok(made),
            GuardedStep::Skipped { gradient_norm } => Err(EngineError::GradientNotFinite { norm: gradient_norm }),
        }
    }

    fn optimizer_step_within(&mut self, parameters: &AdamParameters, most: f64) -> Result<GuardedStep, EngineError> {
        check(parameters)?;
        if self.threads == 1 || self.policy.trained_count() < MIN_PARALLEL_WORK {
            return Ok(self.step(parameters, most));
        }
        let pool = self.pool()?;
        Ok(pool.install(|| self.step(parameters, most)))
    }

    fn pool(&mut self) -> Result<Arc<ThreadPool>, EngineError> {
        let pool = match self.pool.take() {
            Some(pool) => pool,
            None => Arc::new(thread_pool("fulgurite-learner", self.threads)?),
        };
        Ok(Arc::clone(self.pool.insert(pool)))
    }

    /// Unless the norm is above `most`, or no finite number: the gradient is dropped then.
    fn step(&mut self, parameters: &AdamParameters, most: f64) -> GuardedStep {
        let mut gradient = std::mem::take(&mut self.shards[0].gradient);
        gradient.resize(self.policy.trained_count(), 0.0);
        let others = self.shards[1..].iter_mut().map(|shard| &mut shard.gradient[..]);
        let gradient_norm =
            gather(&mut gradient, &mut others.filter(|gradient| !gradient.is_empty()).collect::<Vec<_>>());
        if !(gradient_norm.is_finite() && gradient_norm <= most) {
            return GuardedStep::Skipped { gradient_norm };
        }
        let mut step = self.adam.begin(parameters, &mut gradient, gradient_norm);
        // A version that the sampler still holds stays as it is: then this copies.
        match &mut self.policy.adapter {
            Some(adapter) => {
                let adapter = Arc::make_mut(adapter);
                step.take(&mut adapter.values);
                adapter.pack();
            }
            None => {
                let weights = Arc::make_mut(&mut self.policy.weights);
                weights.update(|count| step.front(count), |step, numbers| step.take(numbers));
            }
        }
        self.shards[0].gradient = gradient;
        GuardedStep::Made(OptimizerStep { gradient_norm, metrics: Default::default() })
    }

    /// Goes on from other numbers in the place of those that are trained.
    fn restore(&mut self, policy: Policy, adam: AdamState) {
        self.policy = policy;
        self.adam = adam;
        self.clear_gradient();
    }

    fn clear_gradient(&mut self) {
        for shard in &mut self.shards {
            shard.gradient.fill(0.0);
        }
    }

    /// Checks every datum before anything is computed, so that a refused call changes nothing.
    fn examples<'a>(
        &self,
        data: &'a [Datum],
        losses: impl Fn(usize, &Datum) -> Result<Vec<TokenLoss>, String>,
    ) -> Result<Vec<Example<'a>>, EngineError> {
        let example = |(index, datum): (usize, &'a Datum)| {
            let refuse = |message| EngineError::Datum { index, message };
            datum.validate().map_err(|source| EngineError::DatumLists { index, source })?;
            self.check(datum).map_err(refuse)?;
            let example = Example::new(index, datum, losses(index, datum).map_err(refuse)?);
            Ok(match &datum.loss_inputs {
                LossInputs::Policy { .. } => example.at_temperature(self.sampling_temperature),
                LossInputs::Supervised { .. } | LossInputs::SoftTargets { .. } => example,
            })
        };
        data.iter().enumerate().map(example).collect()
    }

    fn check(&self, datum: &Datum) -> Result<(), String> {
        let config = &self.policy.weights.model.config;
        let (positions, context) = (datum.positions(), config.max_position_embeddings);
        if positions == 0 {
            return Err("it has no positions".into());
        }
        if positions > context {
            return Err(format!("it has {positions} positions, but the model's context length is {context}"));
        }
        let known = |tokens: &[u32]| match tokens.iter().find(|&&token| token as usize >= config.vocab_size) {
            None => Ok(()),
            Some(token) => Err(format!("token {token} is not in the vocabulary of {} tokens", config.vocab_size)),
        };
        for chunk in &datum.model_input {
            match chunk {
                Chunk::Tokens(tokens) => known(tokens)?,
                Chunk::Image { digest, .. } => {
                    return Err(format!("it holds the image {digest}, but the model sees no images"));
                }
            }
        }
        known(&datum.target_tokens)?;
        known(datum.targets())
    }

    /// Runs `work` on every shard with its hand, and puts the results into the order of the datums.
    fn in_shards(
        &mut self,
        hands: Vec<Vec<Example<'_>>>,
        work: impl Fn(&mut Shard, &Policy, &[Example<'_>]) -> Vec<Scored> + Sync,
    ) -> Result<Vec<Scored>, EngineError> {
        let mut scored = Vec::new();
        let pool = if self.shards.len() == 1 { Some(self.pool()?) } else { None };
        let (work, policy) = (&work, &self.policy);
        if let (Some(pool), [shard], [hand]) = (pool, &mut self.shards[..], &hands[..]) {
            scored = pool.install(|| work(shard, policy, hand));
        } else if self.threads == 1 {
            for (shard, hand) in self.shards.iter_mut().zip(&hands) {
                scored.extend(work(shard, policy, hand));
            }
        } else {
            std::thread::scope(|scope| {
                let running: Vec<_> = (self.shards.iter_mut().zip(&hands))
                    .map(|(shard, hand)| scope.spawn(move || work(shard, policy, hand)))
                    .collect();
                for shard in running {
                    let panicked = |_| EngineError::Panicked { message: "a shard of the learner".into() };
                    scored.extend(shard.join().map_err(panicked)?);
                }
                Ok::<(), EngineError>(())
            })?;
        }
        scored.sort_by_key(|scored| scored.index);
        Ok(scored)
    }
}

/// What a pass with a gradient tells of all its datums.
fn summed(scored: Vec<Scored>) -> ForwardBackward {
    let loss_sum = scored.iter().map(|scored| scored.loss).sum();
    let (logprobs, entropies) = scored.into_iter().map(|scored| (scored.logprobs, scored.entropies)).unzip();
    ForwardBackward { loss_sum, logprobs, entropies: Some(entropies) }
}
