use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use fulgurite_backends::{AdamParameters, BackendError, ForwardBackward};
use serde::Serialize;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::encrypted_export::export_encrypted;
use super::model::{Command, Model, Save, Source, Work};
use super::training_request::TrainingRequest;
use crate::server::base::TinkerBase;
use crate::server::error::run_blocking;
use crate::server::futures::Outcome;
use crate::server::host::HostedLearner;
use crate::server::refusals::{failure, servers_fault, users_fault};
use crate::server::state::lifetimes::expiry;
use crate::server::state::names::new_id;
use crate::server::state::records::{CheckpointRecord, SampledWeights, SamplerRecord};
use crate::server::tinker_server::TinkerServer;
use crate::wire::{
    AdamParams, CheckpointKind, CheckpointPath, LoadWeightsResponse, LoraConfig, ModelCreated, OptimStepResponse,
    RequestFailed, SaveWeightsExternalResponse, SaveWeightsForSamplerResponse, SaveWeightsResponse,
};
use fulgurite_types::time::now;

/// Starts a model's worker, which waits for its first command.
pub(crate) fn start_model(
    server: &Arc<TinkerServer>,
    base: Arc<TinkerBase>,
    adapter: Option<LoraConfig>,
    session_id: String,
    id: String,
) -> Model {
    let (commands, received) = unbounded_channel();
    let next = Arc::new(AtomicU64::new(0));
    let worker = Worker {
        server: Arc::downgrade(server),
        base: base.clone(),
        adapter,
        id,
        next: next.clone(),
        learner: None,
        spoilt: None,
    };
    #[expect(clippy::disallowed_methods, reason = "it ends when nobody gives it commands any more")]
    tokio::spawn(worker.run(received));
    Model { base, adapter, session_id, commands, next }
}

/// Carries a model's commands out, one after another.
struct Worker {
    server: Weak<TinkerServer>,
    base: Arc<TinkerBase>,
    adapter: Option<LoraConfig>,
    id: String,
    next: Arc<AtomicU64>,
    /// There once the model has begun.
    learner: Option<Box<dyn HostedLearner>>,
    /// Why the gradient is not what the client takes it to be: a pass has failed since the last step.
    spoilt: Option<String>,
}

impl Worker {
    /// Commands come in any order; each waits for those before it.
    async fn run(mut self, mut received: UnboundedReceiver<Command>) {
        let (mut waiting, mut next) = (BTreeMap::new(), 0);
        while let Some(command) = received.recv().await {
            match command.place {
                None => self.carry_out(command).await,
                Some(place) if place < next => {
                    let failed = users_fault(format!("request {place} of {} was carried out long ago", self.id));
                    command.promise.keep(Outcome::Failed(failed));
                }
                Some(place) => drop(waiting.insert(place, command)),
            }
            while let Some(command) = waiting.remove(&next) {
                self.carry_out(command).await;
                next += 1;
                self.next.store(next, Ordering::Release);
            }
        }
    }

    async fn carry_out(&mut self, command: Command) {
        let Command { work, promise, .. } = command;
        let outcome = match work {
            Work::Begin(source) => self.begin(source).await,
            Work::Pass { request, forward_only } => self.pass(request, forward_only).await,
            Work::Step(parameters) => self.step(parameters).await,
            Work::SaveCheckpoint(save) => self.save(save, CheckpointKind::Weights).await,
            Work::SaveForSampler(save) => self.save(save, CheckpointKind::SamplerWeights).await,
            Work::SaveExternally(save) => self.save(save, CheckpointKind::ExternalWeights).await,
            Work::SaveForSession(sampler, directory) => self.save_for_session(sampler, directory).await,
            Work::Load(source) => self.load(source).await,
            Work::Nothing { because } => Err(users_fault(because)),
        };
        promise.keep(outcome.unwrap_or_else(Outcome::Failed));
    }

    fn learner(&self) -> Result<&dyn HostedLearner, RequestFailed> {
        self.learner.as_deref().ok_or_else(|| users_fault(format!("the model {} could not be made", self.id)))
    }

    fn server(&self) -> Result<Arc<TinkerServer>, RequestFailed> {
        self.server.upgrade().ok_or_else(|| servers_fault("the server is stopping"))
    }

    async fn begin(&mut self, source: Option<Source>) -> Result<Outcome, RequestFailed> {
        let (base, adapter, threads) = (self.base.clone(), self.adapter, self.server()?.options.threads);
        let open = move || base.model.begin_training(adapter.as_ref(), threads);
        self.learner = Some(run_blocking(open).await.map_err(failure)?);
        match source {
            None => json(&ModelCreated { model_id: self.id.clone() }),
            Some(source) => {
                let loaded = self.load(source).await;
                if loaded.is_err() {
                    self.learner = None;
                }
                loaded
            }
        }
    }

    async fn load(&mut self, source: Source) -> Result<Outcome, RequestFailed> {
        let learner = self.learner()?;
        match source.optimizer {
            true => learner.learner().load_checkpoint(&source.directory).await,
            false => learner.load_weights(&source.directory).await,
        }
        .map_err(failure)?;
        self.spoilt = None;
        json(&LoadWeightsResponse { path: Some(source.path), model_id: Some(self.id.clone()) })
    }

    async fn pass(
        &mut self,
        request: Result<TrainingRequest, String>,
        forward_only: bool,
    ) -> Result<Outcome, RequestFailed> {
        let computed = match request {
            Ok(request) => self.compute(request, forward_only).await,
            Err(error) => Err(users_fault(error)),
        };
        if let Err(failed) = &computed
            && !forward_only
        {
            self.spoilt.get_or_insert_with(|| failed.error.clone());
        }
        computed
    }

    async fn compute(&self, request: TrainingRequest, forward_only: bool) -> Result<Outcome, RequestFailed> {
        let learner = self.learner()?;
        let read = tokio::task::spawn_blocking(move || request.computation());
        let computation = read.await.map_err(|error| servers_fault(error.to_string()))?.map_err(users_fault)?;
        let (data, loss): (Arc<[_]>, _) = (computation.data.as_slice().into(), computation.loss);
        let computed: ForwardBackward = match forward_only {
            true => learner.forward_with_loss(data, loss).await,
            false => learner.forward_backward_with_all_logprobs(data, loss).await,
        }
        .map_err(failure)?;
        Ok(Outcome::Pass(computation.output(&computed)))
    }

    /// A gradient of which a part failed is dropped, and not half applied.
    async fn step(&mut self, parameters: AdamParams) -> Result<Outcome, RequestFailed> {
        let learner = self.learner()?;
        if let Some(why) = &self.spoilt {
            let message = format!("the gradient was dropped, because a pass has failed since the last step: {why}");
            learner.drop_gradient().await.map_err(failure)?;
            self.spoilt = None;
            return Err(users_fault(message));
        }
        let AdamParams { learning_rate, beta1, beta2, eps, weight_decay, grad_clip_norm } = parameters;
        let parameters = AdamParameters {
            learning_rate,
            beta1,
            beta2,
            epsilon: eps,
            weight_decay,
            gradient_clip_norm: grad_clip_norm,
        };
        let stepped = learner.learner().optimizer_step(parameters).await.map_err(failure)?;
        let metrics = BTreeMap::from([("grad_norm".to_owned(), stepped.gradient_norm)]);
        json(&OptimStepResponse { metrics: Some(metrics) })
    }

    async fn save(&self, save: Save, kind: CheckpointKind) -> Result<Outcome, RequestFailed> {
        let (learner, server) = (self.learner()?, self.server()?);
        let path = CheckpointPath { run: self.id.clone(), kind, name: save.name };
        let before = server.registry().checkpoints.get(&path.to_string()).cloned();
        if before.is_some() && !save.overwrite {
            return Err(users_fault(format!("there is a checkpoint {path} already; overwrite replaces it")));
        }
        let directory = server.state.place_of(&path, &new_id());
        let absolute = server.state.resolve(&directory);
        match kind {
            CheckpointKind::Weights => learner.learner().save_checkpoint(&absolute).await,
            CheckpointKind::SamplerWeights => learner.learner().save_weights(&absolute).await,
            CheckpointKind::ExternalWeights => match &save.recipients {
                None => learner.export_weights(&absolute).await,
                Some(recipients) => {
                    let plain = server.state.place_of_plaintext(&new_id());
                    export_encrypted(learner, recipients, plain, &absolute).await
                }
            },
        }
        .map_err(failure)?;
        let (state, of) = (server.state.clone(), directory.clone());
        let size_bytes = run_blocking(move || state.size_of(&of)).await.map_err(failure)?;
        let created = now();
        let record = CheckpointRecord {
            path: path.to_string(),
            base_model: self.base.name.clone(),
            adapter: self.adapter,
            directory,
            created,
            size_bytes,
            public: false,
            expires: expiry(save.ttl_seconds, created).map_err(users_fault)?,
            user_metadata: save.user_metadata,
        };
        server.keep(&record).await.map_err(failure)?;
        if kind == CheckpointKind::SamplerWeights {
            let snapshot = learner.snapshot().await.map_err(failure)?;
            server.weights.put(&absolute, snapshot).await;
        }
        server.registry().checkpoints.insert(record.path.clone(), record.clone());
        if let Some(before) = before {
            server.delete_weights(before.directory).await.map_err(failure)?;
        }
        match kind {
            CheckpointKind::SamplerWeights => {
                json(&SaveWeightsForSamplerResponse { path: Some(record.path), sampling_session_id: None })
            }
            CheckpointKind::Weights => json(&SaveWeightsResponse { path: record.path }),
            CheckpointKind::ExternalWeights => json(&SaveWeightsExternalResponse { path: record.path }),
        }
    }

    async fn save_for_session(&self, sampler: SamplerRecord, directory: PathBuf) -> Result<Outcome, RequestFailed> {
        let (learner, server) = (self.learner()?, self.server()?);
        let absolute = server.state.resolve(&directory);
        learner.learner().save_weights(&absolute).await.map_err(failure)?;
        let snapshot = learner.snapshot().await.map_err(failure)?;
        server.weights.put(&absolute, snapshot).await;
        if let SampledWeights::Inflight(run_id) = &sampler.weights {
            server.put_in_flight(run_id, directory).await.map_err(failure)?;
        }
        server.keep(&sampler).await.map_err(failure)?;
        let sampling_session_id = Some(sampler.sampler_id.clone());
        server.registry().samplers.insert(sampler.sampler_id.clone(), sampler);
        json(&SaveWeightsForSamplerResponse { path: None, sampling_session_id })
    }
}

impl TinkerServer {
    /// Has those who sample from what a run puts in flight sample from these weights from now on.
    async fn put_in_flight(&self, run_id: &str, directory: PathBuf) -> Result<(), BackendError> {
        let known = self.registry().runs.get(run_id).cloned();
        let Some(mut run) = known else { return Ok(()) };
        let before = run.inflight.replace(directory);
        self.keep(&run).await?;
        self.registry().runs.insert(run_id.to_owned(), run);
        match before {
            Some(before) => self.delete_weights(before).await,
            None => Ok(()),
        }
    }
}

fn json(result: &impl Serialize) -> Result<Outcome, RequestFailed> {
    serde_json::to_value(result).map(Outcome::Json).map_err(|error| servers_fault(error.to_string()))
}
