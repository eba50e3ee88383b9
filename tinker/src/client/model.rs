use std::sync::Arc;

use tokio::sync::Mutex;

use super::http::{Answer, Request};
use super::service::{NoResult, RequestKind, TinkerService};
use super::session::Session;
use crate::wire::{
    AdamParams, CheckpointKind, CheckpointPath, CreateModelRequest, LoadWeightsRequest, LoadWeightsResponse,
    LoraConfig, ModelCreated, OptimStepRequest, OptimStepResponse, OptimizerConfig, SaveWeightsForSamplerRequest,
    SaveWeightsForSamplerResponse, SaveWeightsRequest, SaveWeightsResponse, SubmittedRequest, UnloadModelRequest,
};
use fulgurite_backends::{AdamParameters, AnswerFault, BackendError};

/// A model at a service.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) id: String,
    pub(super) session: Arc<Session>,
    /// The place of its next request; making it was 0.
    pub(super) next: u64,
}

#[derive(Debug)]
enum ModelState {
    Unmade,
    Ready(Model),
    /// Its gradient or its place in the sequence is in doubt.
    InDoubt(String),
}

/// The model that is trained, whose requests go out one after another.
#[derive(Debug)]
pub(super) struct TrainedModel {
    service: Arc<TinkerService>,
    base_model: String,
    lora_config: LoraConfig,
    state: Mutex<ModelState>,
}

impl TrainedModel {
    pub(super) fn new(service: Arc<TinkerService>, base_model: String, lora_config: LoraConfig) -> Self {
        Self { service, base_model, lora_config, state: Mutex::new(ModelState::Unmade) }
    }

    /// Submits one request.
    pub(super) async fn submit_one(
        &self,
        request: impl FnOnce(&Model) -> Result<Request, BackendError>,
    ) -> Result<SubmittedRequest, BackendError> {
        let submitted = self.submit(|model| Ok(vec![request(model)?])).await?;
        submitted.into_iter().next().ok_or_else(|| BackendError::Internal { message: "nothing was submitted".into() })
    }

    /// Submits requests for the model's next places. Each is taken before the next is sent: SkyRL's server computes in
    /// the order of arrival.
    pub(super) async fn submit(
        &self,
        requests: impl FnOnce(&Model) -> Result<Vec<Request>, BackendError>,
    ) -> Result<Vec<SubmittedRequest>, BackendError> {
        let mut state = self.state.lock().await;
        let mut model = match std::mem::replace(&mut *state, ModelState::Unmade) {
            ModelState::Ready(model) => model,
            ModelState::Unmade => self.create().await?,
            ModelState::InDoubt(why) => {
                let message = format!("the gradient at the service is in doubt until a checkpoint is loaded: {why}");
                *state = ModelState::InDoubt(why);
                return Err(BackendError::Unavailable { message });
            }
        };
        let requests = match requests(&model) {
            Ok(requests) => requests,
            Err(error) => {
                *state = ModelState::Ready(model);
                return Err(error);
            }
        };
        // Holds if the caller goes away while one of them is on its way.
        *state = ModelState::InDoubt("a call was given up while it was sent".to_owned());
        let mut submitted = Vec::with_capacity(requests.len());
        for request in &requests {
            match self.service.submit(request).await {
                Ok(accepted) => submitted.push(accepted),
                Err(refusal) => {
                    let is_unchanged = submitted.is_empty() && refusal.status.is_some();
                    *state = match is_unchanged {
                        true => ModelState::Ready(model),
                        false => ModelState::InDoubt(refusal.error.to_string()),
                    };
                    return Err(refusal.error);
                }
            }
            model.next += 1;
        }
        *state = ModelState::Ready(model);
        Ok(submitted)
    }

    /// Waits for the result of a request. Without it the model is in doubt.
    pub(super) async fn result<T>(
        &self,
        submitted: &SubmittedRequest,
        kind: RequestKind,
        read: impl Fn(&Answer) -> Result<T, String>,
    ) -> Result<T, BackendError> {
        match self.wait(submitted, kind, read).await {
            Ok(result) => Ok(result),
            Err(error) => Err(self.fail(error).await),
        }
    }

    /// Leaves the model in doubt.
    pub(super) async fn fail(&self, error: BackendError) -> BackendError {
        *self.state.lock().await = ModelState::InDoubt(error.to_string());
        error
    }

    async fn wait<T>(
        &self,
        submitted: &SubmittedRequest,
        kind: RequestKind,
        read: impl Fn(&Answer) -> Result<T, String>,
    ) -> Result<T, BackendError> {
        self.service.result(submitted, kind, read).await.map_err(|no_result| match no_result {
            NoResult::Lost => self.service.lost("training"),
            NoResult::Failed(error) => error,
        })
    }

    /// One step of the optimizer.
    pub(super) async fn optimizer_step(&self, parameters: AdamParameters) -> Result<OptimStepResponse, BackendError> {
        let adam_params = AdamParams {
            learning_rate: parameters.learning_rate,
            beta1: parameters.beta1,
            beta2: parameters.beta2,
            eps: parameters.epsilon,
            weight_decay: parameters.weight_decay,
            grad_clip_norm: parameters.gradient_clip_norm,
        };
        let submitted = self.submit_one(|model| {
            let body = OptimStepRequest {
                model_id: model.id.clone(),
                seq_id: Some(model.next),
                adam_params: Some(adam_params),
                optimizer_params: None,
            };
            Request::post("api/v1/optim_step", &body)
        });
        self.result(&submitted.await?, RequestKind::OptimStep, Answer::json).await
    }

    /// Has the service keep weights and optimizer, and gives their path. `name` is made of the request's place. Where the
    /// service keeps count it may delete them after `seconds`.
    pub(super) async fn save_weights(
        &self,
        name: impl FnOnce(u64) -> String,
        seconds: Option<u64>,
    ) -> Result<String, BackendError> {
        let submitted = self.submit_one(|model| {
            let body = SaveWeightsRequest {
                model_id: model.id.clone(),
                path: Some(name(model.next)),
                seq_id: Some(model.next),
                ttl_seconds: seconds.filter(|_| model.session.is_current()),
                ..SaveWeightsRequest::default()
            };
            Request::post("api/v1/save_weights", &body)
        });
        let saved: SaveWeightsResponse = self.result(&submitted.await?, RequestKind::SaveWeights, Answer::json).await?;
        self.saved_path(&saved.path, CheckpointKind::Weights)
    }

    /// Has the service keep weights to sample from, as [`TrainedModel::save_weights`] does.
    pub(super) async fn save_weights_for_sampler(
        &self,
        name: impl FnOnce(u64) -> String,
        seconds: u64,
    ) -> Result<String, BackendError> {
        let submitted = self.submit_one(|model| {
            let body = SaveWeightsForSamplerRequest {
                model_id: model.id.clone(),
                path: Some(name(model.next)),
                seq_id: Some(model.next),
                ttl_seconds: model.session.is_current().then_some(seconds),
                ..SaveWeightsForSamplerRequest::default()
            };
            Request::post("api/v1/save_weights_for_sampler", &body)
        });
        let kind = RequestKind::SaveWeightsForSampler;
        let saved: SaveWeightsForSamplerResponse = self.result(&submitted.await?, kind, Answer::json).await?;
        self.saved_path(saved.path.as_deref().unwrap_or_default(), CheckpointKind::SamplerWeights)
    }

    /// The path that the service reports for what it has saved, if it is one.
    fn saved_path(&self, path: &str, kind: CheckpointKind) -> Result<String, BackendError> {
        match CheckpointPath::of_saved(path, kind) {
            Ok(path) if path.kind == kind => Ok(path.to_string()),
            _ => {
                let message = format!("`{path}` came where the path of {} was to come", kind.segment());
                Err(self.service.broken_answer(AnswerFault::Unreadable { message }))
            }
        }
    }

    async fn create(&self) -> Result<Model, BackendError> {
        let session = self.service.session_once_it_answers().await?;
        let body = CreateModelRequest {
            session_id: session.id.clone(),
            model_seq_id: session.next_model(),
            base_model: self.base_model.clone(),
            lora_config: Some(self.lora_config),
            optimizer_config: OptimizerConfig::default(),
            user_metadata: None,
        };
        let submitted = self.service.submit(&Request::post("api/v1/create_model", &body)?).await?;
        let created: ModelCreated = self.wait(&submitted, RequestKind::CreateModel, Answer::json).await?;
        tracing::info!(host = %self.service.name(), model = %created.model_id, "made a model to train");
        Ok(Model { id: created.model_id, session, next: 1 })
    }

    /// Restores weights and optimizer into a new model. It is the model's first request, and names the model: both are
    /// what every server takes.
    pub(super) async fn load(&self, path: String) -> Result<(), BackendError> {
        let mut state = self.state.lock().await;
        let mut model = self.create().await?;
        let body = LoadWeightsRequest {
            model_id: Some(model.id.clone()),
            seq_id: Some(model.next),
            path,
            optimizer: true,
            ..LoadWeightsRequest::default()
        };
        let submitted = self.service.submit(&Request::post("api/v1/load_weights", &body)?).await?;
        model.next += 1;
        let _: LoadWeightsResponse = self.wait(&submitted, RequestKind::LoadWeights, Answer::json).await?;
        if let ModelState::Ready(before) = std::mem::replace(&mut *state, ModelState::Ready(model)) {
            self.unload(before).await;
        }
        Ok(())
    }

    /// Frees the memory of a model that is no longer needed.
    async fn unload(&self, model: Model) {
        let request = Request::post("api/v1/unload_model", &UnloadModelRequest { model_id: model.id });
        let unloaded = match request {
            Ok(request) => self.service.submit(&request).await.map_err(BackendError::from),
            Err(error) => Err(error),
        };
        if let Err(error) = unloaded {
            tracing::warn!(%error, "a model that is needed no more could not be unloaded");
        }
    }
}
