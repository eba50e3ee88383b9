use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fulgurite_backends::{AdamParameters, AnswerFault, BackendError};
use fulgurite_types::Datum;

use super::finding::CheckVerdict;
use super::remains::CheckRemains;
use crate::client::datums::{self, Pass};
use crate::client::http::{Answer, Request};
use crate::client::model::TrainedModel;
use crate::client::service::{RequestKind, TinkerService};
use crate::client::wire_pass::WirePass;
use crate::wire::protobuf::ForwardBackwardOutput;
use crate::wire::{CheckpointPath, GetInfoRequest, GetInfoResponse, LoraConfig, UnloadModelRequest};

/// How long what a check has made may take to be removed.
const CLEANING: Duration = Duration::from_secs(5);
/// After how many seconds a service may delete a check's checkpoints by itself, where it keeps count.
const CHECKPOINT_SECONDS: u64 = 3600;

/// What probes have made, and where it stands with its removal.
#[derive(Debug, Default)]
struct Made {
    models: Vec<String>,
    checkpoints: Vec<CheckpointPath>,
    /// Models that were requested, and whose ids have not come.
    unnamed_models: usize,
    /// What a try to remove it has not removed.
    models_left: Vec<String>,
    checkpoints_left: Vec<CheckpointPath>,
}

/// Where probes make their models, and what is to be removed after them, also after one that was given up.
#[derive(Debug)]
pub(super) struct Workbench {
    pub(super) service: Arc<TinkerService>,
    pub(super) base_model: String,
    made: Mutex<Made>,
}

impl Workbench {
    pub(super) fn new(service: Arc<TinkerService>, base_model: String) -> Self {
        Self { service, base_model, made: Mutex::default() }
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a model.
    pub(super) async fn model(&self, lora_config: LoraConfig) -> Result<ProbeModel<'_>, BackendError> {
        let model = TrainedModel::new(self.service.clone(), self.base_model.clone(), lora_config);
        let mut id = String::new();
        let created = model.submit(|model| {
            id.clone_from(&model.id);
            Ok(Vec::new())
        });
        // A caller that goes away before the answer leaves it counted.
        self.made().unnamed_models += 1;
        let created = created.await;
        let may_exist = created.as_ref().is_err_and(|error| CheckVerdict::of(error) == CheckVerdict::Failed);
        let mut made = self.made();
        made.unnamed_models -= usize::from(!may_exist);
        created?;
        made.models.push(id.clone());
        drop(made);
        Ok(ProbeModel { bench: self, model, id })
    }

    /// Removes what was made. What stays all the same is not tried again until [`Workbench::clear_all`].
    pub(super) async fn clear(&self) {
        let (models, checkpoints) = {
            let mut made = self.made();
            let (models, checkpoints) = (std::mem::take(&mut made.models), std::mem::take(&mut made.checkpoints));
            made.models_left.extend(models.iter().cloned());
            made.checkpoints_left.extend(checkpoints.iter().cloned());
            (models, checkpoints)
        };
        let work = async {
            for model in models {
                if self.unload(&model).await {
                    self.made().models_left.retain(|left| *left != model);
                }
            }
            for checkpoint in checkpoints {
                let CheckpointPath { run, kind, name } = &checkpoint;
                let path = format!("api/v1/training_runs/{run}/checkpoints/{}/{name}", kind.segment());
                if self.service.delete(&path).await.is_ok() {
                    self.made().checkpoints_left.retain(|left| *left != checkpoint);
                }
            }
        };
        if tokio::time::timeout(CLEANING, work).await.is_err() {
            tracing::debug!("what a check has made at {} could not be removed in time", self.service.name());
        }
    }

    async fn unload(&self, model: &str) -> bool {
        match Request::post("api/v1/unload_model", &UnloadModelRequest { model_id: model.to_owned() }) {
            Ok(request) => self.service.submit(&request).await.is_ok(),
            Err(_) => false,
        }
    }

    /// Removes what was made, also what a try has left before, and reports what stays.
    pub(super) async fn clear_all(&self) -> CheckRemains {
        {
            let made = &mut *self.made();
            made.models.append(&mut made.models_left);
            made.checkpoints.append(&mut made.checkpoints_left);
        }
        self.clear().await;
        let made = self.made();
        CheckRemains {
            models: made.models_left.clone(),
            checkpoints: made.checkpoints_left.iter().map(ToString::to_string).collect(),
            unnamed_models: made.unnamed_models,
        }
    }
}

/// A model at the service, for one probe.
#[derive(Debug)]
pub(super) struct ProbeModel<'b> {
    bench: &'b Workbench,
    model: TrainedModel,
    /// The service's name for it.
    id: String,
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

    /// Its adapter's rank, if the service reports one.
    pub(super) async fn reported_rank(&self) -> Result<Option<u32>, BackendError> {
        let request = GetInfoRequest { model_id: self.id.clone() };
        let info: Result<GetInfoResponse, _> = self.bench.service.post("api/v1/get_info", &request).await;
        match info.map_err(BackendError::from) {
            Ok(info) => Ok(info.lora_rank),
            Err(error) if CheckVerdict::of(&error) == CheckVerdict::Failed => Err(error),
            // Not every service has the route, nor the same answer.
            Err(_) => Ok(None),
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
            self.bench.made().checkpoints.push(parsed);
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
        self.bench.made().models.push(id);
        Ok(())
    }
}
