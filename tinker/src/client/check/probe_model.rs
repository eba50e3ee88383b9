use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fulgurite_backends::{AdamParameters, AnswerFault, BackendError};
use fulgurite_types::Datum;

use crate::client::datums::{self, Pass};
use crate::client::http::{Answer, Request};
use crate::client::model::TrainedModel;
use crate::client::service::{RequestKind, TinkerService};
use crate::client::wire_pass::WirePass;
use crate::wire::protobuf::ForwardBackwardOutput;
use crate::wire::{CheckpointPath, LoraConfig, UnloadModelRequest};

/// How long what a check has made may take to be removed.
const CLEANING: Duration = Duration::from_secs(5);
/// After how many seconds a service may delete a check's checkpoints by itself, where it keeps count.
const CHECKPOINT_SECONDS: u64 = 3600;

/// Where probes make their models, and what is to be removed after them, also after one that was given up.
#[derive(Debug)]
pub(super) struct Workbench {
    pub(super) service: Arc<TinkerService>,
    pub(super) base_model: String,
    models: Mutex<Vec<String>>,
    checkpoints: Mutex<Vec<CheckpointPath>>,
}

impl Workbench {
    pub(super) fn new(service: Arc<TinkerService>, base_model: String) -> Self {
        Self { service, base_model, models: Mutex::default(), checkpoints: Mutex::default() }
    }

    /// Makes a model.
    pub(super) async fn model(&self, lora_config: LoraConfig) -> Result<ProbeModel<'_>, BackendError> {
        let model = TrainedModel::new(self.service.clone(), self.base_model.clone(), lora_config);
        let mut id = String::new();
        let created = model.submit(|model| {
            id.clone_from(&model.id);
            Ok(Vec::new())
        });
        created.await?;
        self.models.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        Ok(ProbeModel { bench: self, model })
    }

    /// Removes what was made.
    pub(super) async fn clear(&self) {
        let models = std::mem::take(&mut *self.models.lock().unwrap_or_else(PoisonError::into_inner));
        let checkpoints = std::mem::take(&mut *self.checkpoints.lock().unwrap_or_else(PoisonError::into_inner));
        let work = async {
            for model_id in models {
                if let Ok(request) = Request::post("api/v1/unload_model", &UnloadModelRequest { model_id }) {
                    let _ = self.service.submit(&request).await;
                }
            }
            for CheckpointPath { run, kind, name } in checkpoints {
                let path = format!("api/v1/training_runs/{run}/checkpoints/{}/{name}", kind.segment());
                self.service.delete(&path).await;
            }
        };
        if tokio::time::timeout(CLEANING, work).await.is_err() {
            tracing::debug!("what a check has made at {} could not be removed in time", self.service.name());
        }
    }
}

/// A model at the service, for one probe.
#[derive(Debug)]
pub(super) struct ProbeModel<'b> {
    bench: &'b Workbench,
    model: TrainedModel,
}

impl ProbeModel<'_> {
    /// The logprobs of the targets.
    pub(super) async fn forward(&self, data: &[Datum]) -> Result<Vec<Vec<f32>>, BackendError> {
        let wire = data.iter().map(|datum| datums::wire_datum(datum, Pass::Forward)).collect::<Result<_, _>>()?;
        let output = self.pass(WirePass::of(wire, Pass::Forward)).await?;
        self.logprobs(&output, data)
    }

    /// A pass, with a gradient or without.
    pub(super) async fn pass(&self, pass: WirePass) -> Result<ForwardBackwardOutput, BackendError> {
        let submitted = self.model.submit_one(|model| pass.request(model, model.next)).await?;
        self.model.result(&submitted, RequestKind::ForwardBackward, Answer::message_of).await
    }

    /// The logprobs that an output has of these datums.
    pub(super) fn logprobs(
        &self,
        output: &ForwardBackwardOutput,
        data: &[Datum],
    ) -> Result<Vec<Vec<f32>>, BackendError> {
        let logprobs = datums::logprobs(output, data).map_err(|fault| self.bench.service.broken_answer(fault))?;
        match logprobs.iter().flatten().find(|&&logprob| logprob > 1e-3) {
            None => Ok(logprobs),
            Some(above) => Err(self.broken(format!("a logprob is {above}, which is above 0"))),
        }
    }

    fn broken(&self, message: String) -> BackendError {
        self.bench.service.broken_answer(AnswerFault::Unreadable { message })
    }

    /// One step of the optimizer.
    pub(super) async fn step(&self, parameters: AdamParameters) -> Result<(), BackendError> {
        self.model.optimizer_step(parameters).await.map(drop)
    }

    /// Has the service keep weights and optimizer.
    pub(super) async fn save(&self, name: &str) -> Result<String, BackendError> {
        Ok(self.keep(self.model.save_weights(|_| name.to_owned(), Some(CHECKPOINT_SECONDS)).await?))
    }

    /// Has the service keep weights to sample from.
    pub(super) async fn save_for_sampler(&self, name: &str) -> Result<String, BackendError> {
        Ok(self.keep(self.model.save_weights_for_sampler(|_| name.to_owned(), CHECKPOINT_SECONDS).await?))
    }

    /// Notes what is to be removed.
    fn keep(&self, path: String) -> String {
        if let Ok(parsed) = path.parse() {
            self.bench.checkpoints.lock().unwrap_or_else(PoisonError::into_inner).push(parsed);
        }
        path
    }

    /// Goes on from a checkpoint, in a model that takes the place of this one.
    pub(super) async fn load(&self, path: String) -> Result<(), BackendError> {
        self.model.load(path).await?;
        let mut id = String::new();
        let found = self.model.submit(|model| {
            id.clone_from(&model.id);
            Ok(Vec::new())
        });
        found.await?;
        self.bench.models.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        Ok(())
    }
}
