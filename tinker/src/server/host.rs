//! What the host of the models must do: more than a `Sampler` and a `Learner`, since clients have training
//! runs of their own over one model, and sample from weights as they were saved.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use fulgurite_backends::{
    BackendError, ForwardBackward, Learner, LossFunction, PromptQuestions, PromptScores, SampleRequest, SampleStream,
    Sampler,
};
use fulgurite_types::{Datum, WeightsVersion};

use crate::wire::LoraConfig;

/// What clients are told of a model, and what requests are checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFacts {
    /// Its directory, an absolute path.
    pub directory: PathBuf,
    /// What kind of model it is, as its configuration names it.
    pub architecture: String,
    /// The width of its residual stream, which is a dimension of every matrix that an adapter stands beside.
    pub hidden_size: usize,
    /// Tokens that prompt and answer may have together.
    pub context_length: usize,
    /// Token ids are below this.
    pub vocabulary_size: usize,
    /// The tokens that it ends texts with.
    pub end_tokens: Vec<u32>,
    /// Requests for samples that may wait at a time.
    pub queue_limit: usize,
}

/// How a file begins for some of its readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileBeginning {
    /// Its name.
    pub file: String,
    /// What they read first.
    pub bytes: Vec<u8>,
    /// The bytes of the file that this stands for; the others follow.
    pub replaces: u64,
}

/// A model that training runs begin with and that is sampled from.
pub trait HostedModel: Debug + Send + Sync + 'static {
    /// What it is.
    fn facts(&self) -> &ModelFacts;

    /// What agents' calls are sampled by: from the weights that were put there last.
    fn sampler(&self) -> Arc<dyn Sampler>;

    /// Its weights as they were when it was opened.
    fn opened(&self) -> Arc<dyn HostedWeights>;

    /// Weights that a training run over it has saved, or an adapter. Blocks.
    fn read_weights(&self, directory: &Path) -> Result<Arc<dyn HostedWeights>, BackendError>;

    /// How files of weights that a training run over it has saved begin for the tools of the API's clients, where that is not
    /// how they are kept. Blocks.
    fn beginnings_for_tools(&self, directory: &Path) -> Result<Vec<FileBeginning>, BackendError>;

    /// A new training run over it: an adapter beside it, or without one all of its weights. Blocks.
    fn begin_training(
        &self,
        adapter: Option<&LoraConfig>,
        threads: usize,
    ) -> Result<Box<dyn HostedLearner>, BackendError>;
}

/// Weights that can be sampled from for as long as they are kept, whatever is trained meanwhile.
#[async_trait]
pub trait HostedWeights: Debug + Send + Sync + 'static {
    /// As [`Sampler::sample`], from these.
    async fn sample(&self, request: SampleRequest) -> Result<SampleStream, BackendError>;

    /// How likely a prompt's tokens are under these. The prompt is no longer than the context. Blocks for as long as
    /// reading it takes.
    fn score_prompt(&self, prompt: &[u32], questions: PromptQuestions<'_>) -> Result<PromptScores, BackendError>;

    /// Puts these behind the model's [`HostedModel::sampler`], as `version`.
    fn publish(&self, version: WeightsVersion);
}

/// A training run that is in memory.
#[async_trait]
pub trait HostedLearner: Send + Sync + 'static {
    /// What every learner can do.
    fn learner(&self) -> &dyn Learner;

    /// As [`Learner::forward_backward`], but with the logprobs of all targets.
    async fn forward_backward_with_all_logprobs(
        &self,
        data: Arc<[Datum]>,
        loss: LossFunction,
    ) -> Result<ForwardBackward, BackendError>;

    /// What a loss over datums is, without a gradient; with the logprobs of all targets.
    async fn forward_with_loss(&self, data: Arc<[Datum]>, loss: LossFunction) -> Result<ForwardBackward, BackendError>;

    /// Drops accumulated gradients.
    async fn drop_gradient(&self) -> Result<(), BackendError>;

    /// Goes on from what was saved as weights with a fresh optimizer, and drops accumulated gradients.
    async fn load_weights(&self, directory: &Path) -> Result<(), BackendError>;

    /// Writes the weights as the tools of the API's clients read them: a model, or an adapter. The directory appears whole or
    /// not at all.
    async fn export_weights(&self, directory: &Path) -> Result<(), BackendError>;

    /// The weights as they are now.
    async fn snapshot(&self) -> Result<Arc<dyn HostedWeights>, BackendError>;
}
