use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::json;

use crate::server::base::TinkerBase;
use crate::server::futures::{Claim, Fingerprint, Outcome};
use crate::server::refusals::{Refusal, users_fault};
use crate::server::sampling::sampling_sessions::sampler_id;
use crate::server::state::names::{check_name, new_id};
use crate::server::state::records::{RunRecord, SampledWeights, SamplerRecord, UserMetadata};
use crate::server::tinker_server::TinkerServer;
use crate::server::training::adapters::{is_same_form, requested_adapter};
use crate::server::training::encrypted_export::Recipients;
use crate::server::training::model::{Command, Model, Save, Source, Work};
use crate::server::training::worker::start_model;
use crate::wire::{
    CheckpointKind, CheckpointPath, CreateModelRequest, GetInfoResponse, LoadWeightsRequest, LoraConfig, ModelData,
    ModelUnloaded, OptimStepRequest, OptimizerConfig, SamplerWeightsKind, SaveWeightsExternalRequest,
    SaveWeightsForSamplerRequest, SaveWeightsRequest, SubmittedRequest,
};
use fulgurite_types::time::now;

/// A training run that is to begin.
struct NewRun {
    session_id: String,
    model_seq_id: u64,
    user_metadata: Option<UserMetadata>,
    /// What it begins with, or why it cannot.
    beginning: Result<Beginning, String>,
}

/// What a training run begins with.
struct Beginning {
    base: Arc<TinkerBase>,
    adapter: Option<LoraConfig>,
    source: Option<Source>,
}

impl TinkerServer {
    /// Makes a model over a base.
    pub(crate) async fn create_model(
        self: &Arc<Self>,
        request: CreateModelRequest,
    ) -> Result<SubmittedRequest, Refusal> {
        let fingerprint = Fingerprint::of(&request);
        let CreateModelRequest { session_id, model_seq_id, base_model, lora_config, optimizer_config, user_metadata } =
            request;
        let beginning = || {
            check_optimizer(&optimizer_config)?;
            let base = self.base(&base_model)?;
            let adapter = requested_adapter(lora_config, base.facts().hidden_size)?;
            Ok(Beginning { base, adapter, source: None })
        };
        self.begin(NewRun { session_id, model_seq_id, user_metadata, beginning: beginning() }, fingerprint).await
    }

    /// Makes a model from a checkpoint, or loads one into a model, which SDKs of before 0.26 do.
    pub(crate) async fn load_weights(
        self: &Arc<Self>,
        request: LoadWeightsRequest,
    ) -> Result<SubmittedRequest, Refusal> {
        let (source, fingerprint) = (self.source(&request), Fingerprint::of(&request));
        let LoadWeightsRequest { model_id, seq_id, session_id, model_seq_id, optimizer_config, user_metadata, .. } =
            request;
        match (model_id, session_id, model_seq_id) {
            (Some(model_id), ..) => {
                let model = self.model(&model_id)?;
                let work = match source {
                    Ok((base, source)) if !Arc::ptr_eq(&model.base, &base) => {
                        Work::Nothing { because: format!("{} is of another base model", source.path) }
                    }
                    Ok((_, source)) if !is_same_form(model.adapter, source.adapter) => {
                        let because = format!("{} is of another LoRA configuration than {model_id}", source.path);
                        Work::Nothing { because }
                    }
                    Ok((_, source)) => Work::Load(source),
                    Err(because) => Work::Nothing { because },
                };
                self.submit(&model_id, seq_id, fingerprint, work)
            }
            (None, Some(session_id), Some(model_seq_id)) => {
                let beginning = optimizer_config.as_ref().map_or(Ok(()), check_optimizer);
                let begin =
                    |(base, source): (_, Source)| Beginning { base, adapter: source.adapter, source: Some(source) };
                let beginning = beginning.and(source.map(begin));
                self.begin(NewRun { session_id, model_seq_id, user_metadata, beginning }, fingerprint).await
            }
            _ => Err(Refusal::bad_request("neither model_id nor session_id and model_seq_id say what loads")),
        }
    }

    fn source(&self, request: &LoadWeightsRequest) -> Result<(Arc<TinkerBase>, Source), String> {
        let path: CheckpointPath = request.path.parse().map_err(|error| format!("{error}"))?;
        if path.kind != CheckpointKind::Weights {
            return Err(format!(
                "`{path}` was saved to be sampled from: training goes on from tinker://RUN/weights/NAME"
            ));
        }
        let found = self.registry().checkpoints.get(&path.to_string()).cloned();
        let found = found.ok_or_else(|| format!("there is no checkpoint `{path}`"))?;
        let base = self.base(&found.base_model)?;
        if let Some(base_name) = &request.base_model
            && !Arc::ptr_eq(&self.base(base_name)?, &base)
        {
            return Err(format!("`{path}` is of the base model `{}`", base.name));
        }
        let directory = self.state.resolve(&found.directory);
        Ok((
            base,
            Source { path: request.path.clone(), directory, adapter: found.adapter, optimizer: request.optimizer },
        ))
    }

    /// Takes a new run; one that cannot begin has an error for a result.
    async fn begin(self: &Arc<Self>, run: NewRun, fingerprint: Fingerprint) -> Result<SubmittedRequest, Refusal> {
        self.in_session(&run.session_id)?;
        let id = format!("{}:train:{}", run.session_id, run.model_seq_id);
        let submitted =
            SubmittedRequest { request_id: format!("{id}/0"), model_id: Some(id.clone()), sample_sequence_ids: None };
        let promise = match self.futures.take(submitted.clone(), fingerprint)? {
            Claim::New(promise) => promise,
            Claim::Known(known) => return Ok(known),
        };
        let Beginning { base, adapter, source } = match run.beginning {
            Ok(beginning) => beginning,
            Err(message) => {
                promise.keep(Outcome::Failed(users_fault(message)));
                return Ok(submitted);
            }
        };
        let record = RunRecord {
            run_id: id.clone(),
            session_id: run.session_id.clone(),
            project_id: None,
            base_model: base.name.clone(),
            adapter,
            last_request: now(),
            user_metadata: run.user_metadata,
            inflight: None,
        };
        if let Err(error) = self.keep(&record).await {
            self.futures.forget(&submitted.request_id);
            return Err(error.into());
        }
        let model = start_model(self, base, adapter, run.session_id, id.clone());
        // Its worker has just begun to wait.
        drop(model.commands.send(Command { place: Some(0), work: Work::Begin(source), promise }));
        let mut registry = self.registry();
        registry.runs.insert(id.clone(), record);
        registry.models.insert(id, model);
        Ok(submitted)
    }

    /// What a model is.
    pub(crate) fn model_info(&self, id: &str) -> Result<GetInfoResponse, Refusal> {
        let Model { base, adapter, .. } = self.model(id)?;
        let model_data = ModelData {
            arch: Some(base.facts().architecture.clone()),
            model_name: Some(base.name.clone()),
            tokenizer_id: Some(base.facts().directory.display().to_string()),
        };
        Ok(GetInfoResponse {
            model_id: id.to_owned(),
            model_data,
            is_lora: Some(adapter.is_some()),
            lora_rank: Some(adapter.map_or(0, |adapter| adapter.rank)),
            model_name: Some(base.name.clone()),
            optimizer_config: OptimizerConfig::default(),
        })
    }

    /// Frees a model. What it was asked to do before is given up.
    pub(crate) fn unload_model(&self, id: &str) -> Result<SubmittedRequest, Refusal> {
        let request_id = format!("{id}/unload");
        let submitted = SubmittedRequest { request_id, model_id: Some(id.to_owned()), sample_sequence_ids: None };
        match self.futures.take(submitted.clone(), Fingerprint::of(&id))? {
            Claim::Known(known) => Ok(known),
            Claim::New(promise) => {
                if self.registry().models.remove(id).is_none() {
                    self.futures.forget(&submitted.request_id);
                    return Err(Refusal::not_found("model", id));
                }
                promise.keep(Outcome::Json(json!(ModelUnloaded { model_id: id.to_owned() })));
                Ok(submitted)
            }
        }
    }

    /// Takes a step of the optimizer.
    pub(crate) fn step(&self, request: OptimStepRequest) -> Result<SubmittedRequest, Refusal> {
        let fingerprint = Fingerprint::of(&request);
        let OptimStepRequest { model_id, seq_id, adam_params, optimizer_params } = request;
        let work = match (adam_params, optimizer_params) {
            (Some(parameters), None) => Work::Step(parameters),
            (_, Some(other)) => {
                let kind = other.get("type").and_then(|kind| kind.as_str()).unwrap_or_default();
                Work::Nothing { because: format!("the optimizer `{kind}` is not available: use adam_params") }
            }
            (None, None) => Work::Nothing { because: "adam_params is missing".to_owned() },
        };
        self.submit(&model_id, seq_id, fingerprint, work)
    }

    /// Takes a checkpoint to train on from.
    pub(crate) fn save_weights(&self, request: SaveWeightsRequest) -> Result<SubmittedRequest, Refusal> {
        let fingerprint = Fingerprint::of(&request);
        let SaveWeightsRequest { model_id, path, seq_id, ttl_seconds, overwrite, user_metadata } = request;
        let save = |name| Work::SaveCheckpoint(Save { name, overwrite, ttl_seconds, user_metadata, recipients: None });
        self.submit(&model_id, seq_id, fingerprint, named(path, save))
    }

    /// Takes weights to be taken away.
    pub(crate) fn save_weights_external(
        &self,
        request: SaveWeightsExternalRequest,
    ) -> Result<SubmittedRequest, Refusal> {
        let fingerprint = Fingerprint::of(&request);
        let SaveWeightsExternalRequest { model_id, path, seq_id, ttl_seconds, age_encryption_recipients } = request;
        let recipients = match Recipients::read(&age_encryption_recipients.unwrap_or_default()) {
            Ok(recipients) => recipients,
            Err(detail) => {
                // It has its place all the same, and those after it do not wait for it.
                self.submit(&model_id, seq_id, fingerprint, Work::Nothing { because: detail.clone() })?;
                return Err(Refusal { status: StatusCode::UNPROCESSABLE_ENTITY, detail });
            }
        };
        let save =
            |name| Work::SaveExternally(Save { name, overwrite: false, ttl_seconds, user_metadata: None, recipients });
        self.submit(&model_id, seq_id, fingerprint, named(Some(path), save))
    }

    /// Takes weights to sample from: under a name, or for a sampling session of their own.
    pub(crate) fn save_weights_for_sampler(
        &self,
        request: SaveWeightsForSamplerRequest,
    ) -> Result<SubmittedRequest, Refusal> {
        let fingerprint = Fingerprint::of(&request);
        let SaveWeightsForSamplerRequest {
            model_id,
            path,
            sampling_session_seq_id,
            kind,
            seq_id,
            ttl_seconds,
            user_metadata,
        } = request;
        let is_inflight = kind == SamplerWeightsKind::Inflight;
        let work = match (path, sampling_session_seq_id) {
            (None, Some(place)) => {
                let model = self.model(&model_id)?;
                let sampler_id = sampler_id(&model.session_id, place);
                let directory = self.state.place_of_sampler(&sampler_id);
                let sampler = SamplerRecord {
                    sampler_id,
                    session_id: model.session_id,
                    base_model: model.base.name.clone(),
                    weights: match is_inflight {
                        true => SampledWeights::Inflight(model_id.clone()),
                        false => SampledWeights::Own(directory.clone()),
                    },
                    copies: 0,
                };
                Work::SaveForSession(sampler, directory)
            }
            _ if is_inflight => {
                let because = "weights of kind `inflight` have no name: leave path out, and say which sampling session";
                Work::Nothing { because: because.to_owned() }
            }
            (path, _) => {
                let save = |name| {
                    Work::SaveForSampler(Save { name, overwrite: false, ttl_seconds, user_metadata, recipients: None })
                };
                named(path, save)
            }
        };
        self.submit(&model_id, seq_id, fingerprint, work)
    }

    /// Takes a model's request for its place, unless it was taken before. Clients never use a place twice: what cannot be
    /// done is taken, too, and has an error for a result.
    pub(crate) fn submit(
        &self,
        model_id: &str,
        place: Option<u64>,
        fingerprint: Fingerprint,
        work: Work,
    ) -> Result<SubmittedRequest, Refusal> {
        let model = self.model(model_id)?;
        let place_name = place.map_or_else(new_id, |place| place.to_string());
        let submitted = SubmittedRequest {
            request_id: format!("{model_id}/{place_name}"),
            model_id: Some(model_id.to_owned()),
            sample_sequence_ids: None,
        };
        let is_full = place.is_some_and(|place| model.is_full_for(place, self.options.requests_ahead));
        if is_full && !self.futures.is_known(&submitted.request_id) {
            let detail = format!("{model_id} is busy with requests that came before: send this one later");
            return Err(Refusal { status: StatusCode::TOO_MANY_REQUESTS, detail });
        }
        let promise = match self.futures.take(submitted.clone(), fingerprint)? {
            Claim::New(promise) => promise,
            Claim::Known(known) => return Ok(known),
        };
        if let Some(run) = self.registry().runs.get_mut(model_id) {
            run.last_request = now();
        }
        match model.commands.send(Command { place, work, promise }) {
            Ok(()) => Ok(submitted),
            Err(_) => Err(Refusal::not_found("model", model_id)),
        }
    }
}

fn check_optimizer(config: &OptimizerConfig) -> Result<(), String> {
    match config.kind.as_str() {
        "adamw" | "adam" => Ok(()),
        other => Err(format!("the optimizer `{other}` is not available: use adamw")),
    }
}

/// What is done under a name, if a checkpoint can be called so.
fn named(name: Option<String>, work: impl FnOnce(String) -> Work) -> Work {
    let name = name.unwrap_or_else(new_id);
    match check_name(&name) {
        Ok(()) => work(name),
        Err(because) => Work::Nothing { because },
    }
}
