//! What any model host must do, seen from the rooms above it.
//!
//! - [`Sampler`]: tokens in; sampled tokens and their logprobs out, as they are sampled, by a [`SampleStream`].
//! - [`Learner`]: datums in; gradients, optimizer steps, checkpoints and new weights out.
//! - [`VllmSampler`], [`SglangSampler`], [`LlamaCppSampler`]: remote hosts behind [`Sampler`], described by
//!   [`RemoteOptions`].
//! - [`PromptScores`]: how likely the tokens of a prompt were, and what else [`PromptQuestions`] ask of its places.
//! - [`NewWeights`]: what is put behind a sampler, and where it is. [`PublishingLearner`] puts there what it learns.
//! - [`TorchLearner`]: a learner in PyTorch, in a child process.
//! - [`PrimeRlLearner`]: prime-rl's trainer as a learner, by files.
//! - [`SharedGpu`]: one GPU for a model's hosts and its learner, by turns.
//! - [`remote`]: what remote hosts are built of.
//! - [`Replicas`]: several hosts of one model as one.
//! - [`Upstream`]: servers that take requests in their own dialect, and whose replies are forwarded as they come.
//! - [`FairShare`]: places for work whose size clients choose, which take turns. [`aside`] keeps other tasks from waiting for it.
//! - [`weights_fingerprint`]: the identity of weights by their files.
//! - [`plain_words`]: serde's errors about wrong input, in terms of the input.
//! - [`derive_seed`]: how the seed of a request follows from what it belongs to.

mod error;
mod fair_share;
mod file_digests;
mod llama_cpp;
mod plain_words;
mod prime_rl;
pub mod remote;
mod replicas;
mod sampling;
mod sglang;
mod telemetry;
mod torch;
mod training;
mod upstream;
mod vllm;
mod weights_fingerprint;

pub use error::{AnswerFault, BackendError};
pub use fair_share::{FairShare, FullQueue, Place, ShareFull, ShareLimits, aside};
pub use file_digests::{
    DIGEST_LIST, DamagedFiles, DigestingWriter, FileDamage, FileDigests, digest_list, file_digest, find_damage,
    find_listed_damage, listed_digests,
};
pub use llama_cpp::LlamaCppSampler;
pub use plain_words::{Notation, plain_words};
pub use prime_rl::learner::PrimeRlLearner;
pub use prime_rl::options::PrimeRlOptions;
pub use remote::http::event_decoder::EventDecoder;
pub use remote::http::host::RemoteOptions;
pub use remote::sampler::RemoteSampler;
pub use replicas::{ReplicaOptions, Replicas};
pub use sampling::kept_weights::{KeptModel, KeptWeights, KeptWeightsError};
pub use sampling::new_weights::{Changeover, NewWeights, WeightsSource};
pub use sampling::prompt_scores::{PromptQuestions, PromptScores};
pub use sampling::sample_event::{SampleEvent, SampledToken, SamplingEnd};
pub use sampling::sample_request::{SampleRequest, StopSequence};
pub use sampling::sample_stream::{SampleSource, SampleStream, Sampled};
pub use sampling::sampler::{Capabilities, Sampler, SamplerInfo};
pub use sampling::seed::derive_seed;
pub use sampling::weights_receiver::WeightsReceiver;
pub use sglang::SglangSampler;
pub use telemetry::{HISTOGRAM_BUCKETS, describe_metrics};
pub use torch::learner::TorchLearner;
pub use torch::options::{
    GradientCheckpointing, TorchAdapter, TorchDevice, TorchElements, TorchHead, TorchModel, TorchOptions,
};
pub use training::comparisons::{
    AnswerScore, ComparedAnswer, Comparison, ComparisonCost, Comparisons, PreferenceLoss, WeightedLoss, datum_score,
};
pub use training::learner::{AdamParameters, ForwardBackward, GuardedStep, Learner, OptimizerStep, check_temperature};
pub use training::loss_function::{LossFunction, RatioBounds};
pub use training::publishing_learner::PublishingLearner;
pub use training::shared_gpu::{GpuLearner, SharedGpu};
pub use upstream::{KeyHeader, Upstream, UpstreamDialect, UpstreamOptions, UpstreamReply, UpstreamRequest};
pub use vllm::VllmSampler;
pub use weights_fingerprint::weights_fingerprint;
