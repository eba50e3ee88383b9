use std::path::Path;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use fulgurite_types::{Datum, WeightsVersion};

use super::checkpoint::TinkerCheckpoint;
use super::datums::{self, Pass};
use super::http::Answer;
use super::model::TrainedModel;
use super::service::{RequestKind, TinkerService};
use super::wire_pass::WirePass;
use crate::wire::LoraConfig;
use crate::wire::protobuf::ForwardBackwardOutput;
use fulgurite_backends::{
    AdamParameters, BackendError, ForwardBackward, Learner, LossFunction, NewWeights, OptimizerStep, WeightsReceiver,
    WeightsSource,
};

/// Seconds after which the service may delete weights that were saved for sampling, where it keeps count: a run that
/// is resumed saves its own again.
const SAMPLER_WEIGHTS_SECONDS: u64 = 7 * 24 * 60 * 60;

/// What a service trains.
#[derive(Clone, Debug)]
pub struct TinkerLearnerOptions {
    /// The service's name for the base model.
    pub base_model: String,
    /// The weights that are trained beside it.
    pub lora_config: LoraConfig,
}

/// Trains at a service that speaks the Tinker API.
///
/// The model is made by the first call that needs it; [`Learner::load_checkpoint`] makes another. Calls may overlap:
/// each is submitted when the one before has been taken, and its result is waited for after that. A call that fails in
/// the middle leaves the gradient in doubt, and the service can be told of no other: from then on every call fails until
/// a checkpoint is loaded.
///
/// Gradients are clipped by the service. SkyRL's does not, and does not say so.
pub struct TinkerLearner {
    service: Arc<TinkerService>,
    options: TinkerLearnerOptions,
    receiver: Box<dyn WeightsReceiver>,
    model: TrainedModel,
    /// Made as the other was, and never trained.
    reference: OnceLock<TrainedModel>,
}

impl TinkerLearner {
    /// A model that is not made yet, and whoever samples at the same service from the weights that it learns.
    pub fn new(service: Arc<TinkerService>, options: TinkerLearnerOptions, receiver: impl WeightsReceiver) -> Self {
        let model = TrainedModel::new(service.clone(), options.base_model.clone(), options.lora_config);
        Self { service, options, receiver: Box::new(receiver), model, reference: OnceLock::new() }
    }

    /// Has the service keep the current weights for sampling, and says where any sampler there finds them.
    pub async fn save_weights_for_sampler(&self, version: WeightsVersion) -> Result<NewWeights, BackendError> {
        let name = |place| format!("v{}-{place}", version.0);
        let path = self.model.save_weights_for_sampler(name, SAMPLER_WEIGHTS_SECONDS).await?;
        Ok(NewWeights { version, source: WeightsSource::Kept(path) })
    }

    /// Computes over datums, in as many requests as the service wants.
    async fn pass(&self, model: &TrainedModel, data: &[Datum], pass: Pass) -> Result<ForwardBackward, BackendError> {
        let datums = data.iter().map(|datum| datums::wire_datum(datum, pass)).collect::<Result<Vec<_>, _>>()?;
        if datums.is_empty() {
            return Ok(ForwardBackward::default());
        }
        let mut lengths = Vec::new();
        let submitted = model
            .submit(|model| {
                let config = &model.session.config;
                let (length, bytes) = (config.fwdbwd_max_chunk_len, config.fwdbwd_max_chunk_bytes_count);
                let requests = datums::in_requests(datums, length, bytes);
                lengths = requests.iter().map(Vec::len).collect();
                requests
                    .into_iter()
                    .zip(model.next..)
                    .map(|(data, place)| WirePass::of(data, pass).request(model, place))
                    .collect()
            })
            .await?;
        let mut all = ForwardBackward::default();
        let mut rest = data;
        for (submitted, length) in submitted.iter().zip(lengths) {
            let (data, after) = rest.split_at(length);
            rest = after;
            let output: ForwardBackwardOutput =
                model.result(submitted, RequestKind::ForwardBackward, Answer::message_of).await?;
            let logprobs = match datums::logprobs(&output, data) {
                Ok(logprobs) => logprobs,
                Err(fault) => return Err(model.fail(self.service.broken_answer(fault)).await),
            };
            if let Pass::ForwardBackward(loss) = pass {
                all.loss_sum +=
                    datums::reported_loss(&output).unwrap_or_else(|| datums::loss_of(data, &logprobs, loss));
            }
            all.logprobs.extend(logprobs);
        }
        Ok(all)
    }
}

#[async_trait]
impl Learner for TinkerLearner {
    async fn forward(&self, data: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        Ok(self.pass(&self.model, &data, Pass::Forward).await?.logprobs)
    }

    /// A second model at the service, as the first was made: what a run begins with, whenever it is kept.
    async fn keep_reference(&self) -> Result<(), BackendError> {
        let TinkerLearnerOptions { base_model, lora_config } = self.options.clone();
        self.reference.get_or_init(|| TrainedModel::new(self.service.clone(), base_model, lora_config));
        Ok(())
    }

    async fn forward_reference(&self, data: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        let none = || BackendError::Configuration { message: "no reference weights were kept".to_owned() };
        let reference = self.reference.get().ok_or_else(none)?;
        Ok(self.pass(reference, &data, Pass::Forward).await?.logprobs)
    }

    async fn forward_backward(&self, data: Arc<[Datum]>, loss: LossFunction) -> Result<ForwardBackward, BackendError> {
        self.pass(&self.model, &data, Pass::ForwardBackward(loss)).await
    }

    /// The norm is NaN where the service does not report it.
    async fn optimizer_step(&self, parameters: AdamParameters) -> Result<OptimizerStep, BackendError> {
        let stepped = self.model.optimizer_step(parameters).await?;
        let metrics = stepped.metrics.unwrap_or_default();
        let is_norm = |name: &str| name == "grad_norm" || name.ends_with("/grad_norm");
        let norm = metrics.iter().find_map(|(name, &value)| is_norm(name).then_some(value));
        Ok(OptimizerStep { gradient_norm: norm.unwrap_or(f64::NAN), metrics })
    }

    /// The checkpoint stays at the service; the directory says where, and can be served by no one.
    async fn save_checkpoint(&self, directory: &Path) -> Result<(), BackendError> {
        let checkpoint = TinkerCheckpoint {
            path: self.model.save_weights(|place| checkpoint_name(directory, place), None).await?,
            base_model: self.options.base_model.clone(),
            lora_config: self.options.lora_config,
        };
        checkpoint.write(directory)
    }

    /// Into a new model, which takes the place of the one before.
    async fn load_checkpoint(&self, directory: &Path) -> Result<(), BackendError> {
        let TinkerLearnerOptions { base_model, lora_config } = &self.options;
        let checkpoint = TinkerCheckpoint::read(directory, base_model, *lora_config)?;
        self.model.load(checkpoint.path).await
    }

    /// Not possible: the weights stay at the service, where [`TinkerLearner::save_weights_for_sampler`] keeps them.
    async fn save_weights(&self, _directory: &Path) -> Result<(), BackendError> {
        let message = format!("{} keeps the weights that it trains, and gives none away", self.service.name());
        Err(BackendError::Configuration { message })
    }

    async fn publish_weights(&self, version: WeightsVersion) -> Result<(), BackendError> {
        let weights = self.save_weights_for_sampler(version).await?;
        self.receiver.load_weights(&weights).await
    }
}

/// A name that the service can have: of letters, digits and hyphens, and the model's own.
fn checkpoint_name(directory: &Path, place: u64) -> String {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("{name}-{place}")
}
