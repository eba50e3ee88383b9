use std::sync::Arc;
use std::time::{Duration, Instant};

use fulgurite_backends::{SampleRequest, SampleStream, derive_seed};

use crate::server::base::TinkerBase;
use crate::server::futures::{Claim, Fingerprint, Outcome};
use crate::server::host::HostedWeights;
use crate::server::refusals::{Refusal, failure, servers_fault};
use crate::server::sampling::prompt_report::PromptReportOptions;
use crate::server::sampling::repeated_seeds::{CountedSeed, RepeatedSeeds};
use crate::server::sampling::sample_answer::{Collected, collect};
use crate::server::sampling::sample_request::read_request;
use crate::server::state::names::new_id;
use crate::server::state::records::{SampledWeights, SamplerRecord};
use crate::server::tinker_server::TinkerServer;
use crate::wire::protobuf::SampleResponse;
use crate::wire::{
    CheckpointKind, CheckpointPath, CreateSamplingSessionRequest, CreateSamplingSessionResponse,
    FuturesRetrieveRequest, FuturesRetrieveResponse, JoinSamplingSessionResponse, RequestFailed,
    SampleRequest as WireRequest, SubmittedRequest,
};

/// How many places each copy of a sampling client has for its requests.
const PLACES_OF_A_COPY: i64 = 1_000_000_000;

impl TinkerServer {
    /// Opens a sampling session over a base model or a checkpoint.
    pub(crate) async fn create_sampling_session(
        &self,
        request: CreateSamplingSessionRequest,
    ) -> Result<CreateSamplingSessionResponse, Refusal> {
        let CreateSamplingSessionRequest { session_id, sampling_session_seq_id, base_model, model_path } = request;
        self.in_session(&session_id)?;
        let (base_model, weights) = self.sampled_weights(base_model, model_path)?;
        let sampler_id = sampler_id(&session_id, sampling_session_seq_id);
        let sampler = SamplerRecord { sampler_id: sampler_id.clone(), session_id, base_model, weights, copies: 0 };
        let known = self.registry().samplers.get(&sampler_id).cloned();
        match known {
            Some(known) if (&known.base_model, &known.weights) != (&sampler.base_model, &sampler.weights) => {
                return Err(Refusal::bad_request(format!("{sampler_id} samples from other weights already")));
            }
            Some(_) => {}
            None => {
                self.keep(&sampler).await?;
                self.registry().samplers.insert(sampler_id.clone(), sampler);
            }
        }
        Ok(CreateSamplingSessionResponse { sampling_session_id: sampler_id })
    }

    /// Counts one more copy of a sampling client, so that the places of its requests are no other's.
    pub(crate) async fn join_sampling_session(&self, id: &str) -> Result<JoinSamplingSessionResponse, Refusal> {
        let joined = {
            let mut registry = self.registry();
            let sampler = registry.samplers.get_mut(id);
            let sampler = sampler.ok_or_else(|| Refusal::not_found("sampling session", id))?;
            sampler.copies += 1;
            sampler.clone()
        };
        self.keep(&joined).await?;
        Ok(JoinSamplingSessionResponse { client_counter: joined.copies })
    }

    /// What of a copy's requests is done.
    pub(crate) async fn done_samples(&self, request: FuturesRetrieveRequest) -> FuturesRetrieveResponse {
        let FuturesRetrieveRequest { target, prev_cursor, timeout, .. } = request;
        let is_requested = |request_id: &str| {
            let place = request_id.strip_prefix(&target.sampling_session_id).and_then(|rest| rest.strip_prefix('/'));
            let place: Option<i64> = place.and_then(|place| place.parse().ok());
            place.is_some_and(|place| place / PLACES_OF_A_COPY == target.cloned_sampler_id)
        };
        let given = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let patience = given.unwrap_or(self.options.patience).min(self.options.patience);
        self.futures.done_after(is_requested, prev_cursor, patience).await
    }

    fn sampled_weights(
        &self,
        base_model: Option<String>,
        model_path: Option<String>,
    ) -> Result<(String, SampledWeights), Refusal> {
        match (base_model, model_path) {
            (_, Some(path)) => {
                let (path, base_model) = self.sampler_checkpoint(&path)?;
                Ok((base_model, SampledWeights::Checkpoint(path)))
            }
            (Some(name), None) => {
                let base = self.base(&name).map_err(Refusal::bad_request)?;
                Ok((base.name.clone(), SampledWeights::Base))
            }
            (None, None) => Err(Refusal::bad_request("neither base_model nor model_path says what to sample from")),
        }
    }

    /// A checkpoint to sample from, and its base.
    pub(crate) fn sampler_checkpoint(&self, path: &str) -> Result<(String, String), Refusal> {
        let parsed: CheckpointPath = path.parse().map_err(|error| Refusal::bad_request(format!("{error}")))?;
        if parsed.kind == CheckpointKind::ExternalWeights {
            return Err(Refusal::bad_request(format!("`{path}` holds no weights to sample from")));
        }
        let registry = self.registry();
        let found = registry.checkpoints.get(&parsed.to_string());
        let found = found.ok_or_else(|| Refusal::not_found("checkpoint", path))?;
        Ok((found.path.clone(), found.base_model.clone()))
    }

    /// What a request samples from.
    fn sampler_of(&self, request: &WireRequest) -> Result<SamplerRecord, Refusal> {
        match &request.sampling_session_id {
            Some(id) => {
                let found = self.registry().samplers.get(id).cloned();
                let sampler = found.ok_or_else(|| Refusal::not_found("sampling session", id))?;
                self.in_session(&sampler.session_id)?;
                Ok(sampler)
            }
            // SDKs that know no sampling sessions.
            None => {
                let (base_model, weights) =
                    self.sampled_weights(request.base_model.clone(), request.model_path.clone())?;
                Ok(SamplerRecord { sampler_id: new_id(), session_id: String::new(), base_model, weights, copies: 0 })
            }
        }
    }

    async fn snapshot(&self, base: &TinkerBase, weights: &SampledWeights) -> Result<Arc<dyn HostedWeights>, Refusal> {
        let directory = match weights {
            SampledWeights::Base => return Ok(base.model.opened()),
            SampledWeights::Own(directory) => directory.clone(),
            SampledWeights::Inflight(run_id) => return self.inflight_snapshot(base, run_id).await,
            SampledWeights::Checkpoint(path) => {
                let found = self.registry().checkpoints.get(path).map(|checkpoint| checkpoint.directory.clone());
                found.ok_or_else(|| Refusal::not_found("checkpoint", path))?
            }
        };
        Ok(self.weights.get(&base.model, &self.state.resolve(&directory)).await?)
    }

    /// The weights that a run has put in flight last. They may be replaced while they are read.
    async fn inflight_snapshot(&self, base: &TinkerBase, run_id: &str) -> Result<Arc<dyn HostedWeights>, Refusal> {
        let last = || self.registry().runs.get(run_id).and_then(|run| run.inflight.clone());
        loop {
            let directory = last().ok_or_else(|| Refusal::not_found("weights in flight of", run_id))?;
            match self.weights.get(&base.model, &self.state.resolve(&directory)).await {
                Err(_) if last().is_some_and(|now| now != directory) => {}
                read => return Ok(read?),
            }
        }
    }

    /// Takes a request for samples. A full queue refuses it, and it may come again.
    pub(crate) async fn sample(
        self: &Arc<Self>,
        request: WireRequest,
        repeated: RepeatedSeeds,
    ) -> Result<SubmittedRequest, Refusal> {
        let sampler = self.sampler_of(&request)?;
        let base = self.base(&sampler.base_model).map_err(Refusal::bad_request)?;
        // Before anything is made of its counts.
        let (sampling, prompt_report) = read_request(&request, &base)?;
        let place = request.seq_id.map_or_else(new_id, |place| place.to_string());
        let request_id = format!("{}/{place}", sampler.sampler_id);
        let sequence_ids = (0..request.num_samples).map(|index| format!("{request_id}/{index}")).collect();
        let acknowledgement = SubmittedRequest {
            request_id: request_id.clone(),
            sample_sequence_ids: Some(sequence_ids),
            ..SubmittedRequest::default()
        };
        let promise = match self.futures.take(acknowledgement.clone(), Fingerprint::of(&request))? {
            Claim::New(promise) => promise,
            Claim::Known(known) => return Ok(known),
        };
        let sampling = match (request.sampling_params.seed, repeated) {
            (Some(_), RepeatedSeeds::Derive) => {
                SampleRequest { seed: self.seed_of(&sampler, sampling.seed, &sampling.prompt), ..sampling }
            }
            _ => sampling,
        };
        match self.start_samples(&base, &sampler.weights, sampling, request.num_samples).await {
            Ok(started) => {
                self.sampled.note(&request_id, Instant::now());
                let answer = started.answer(prompt_report);
                let (server, id) = (self.clone(), request_id.clone());
                #[expect(clippy::disallowed_methods, reason = "the request holds it")]
                let work = tokio::spawn(async move {
                    let sampled = |response| Outcome::Sample(Box::new(response));
                    promise.keep(answer.await.map_or_else(Outcome::Failed, sampled));
                    server.futures.note_done(&id);
                });
                self.futures.work_of(&request_id, work.abort_handle());
                Ok(acknowledgement)
            }
            Err(refusal) => {
                self.futures.forget(&request_id);
                Err(refusal)
            }
        }
    }

    /// The seed of a call to which its client gave one that may repeat.
    fn seed_of(&self, sampler: &SamplerRecord, given: u64, prompt: &[u32]) -> u64 {
        let CountedSeed { seed, repetition } =
            self.seed_counts.count(&format!("{} {:?}", sampler.base_model, sampler.weights), given, prompt);
        if repetition == 1 && !self.seed_counts.was_warned() {
            tracing::info!(
                "a client gives the same seed again with the same prompt: such calls get seeds of their own \
                 (tinker_server.repeated_seeds = \"literal\" gives the same tokens again)"
            );
        }
        seed
    }

    async fn start_samples(
        &self,
        base: &TinkerBase,
        weights: &SampledWeights,
        request: SampleRequest,
        num_samples: usize,
    ) -> Result<Started, Refusal> {
        let weights = self.snapshot(base, weights).await?;
        let mut streams = Vec::with_capacity(num_samples);
        for index in 0..num_samples {
            let seed = match index {
                0 => request.seed,
                _ => derive_seed(request.seed, &[&index.to_string()]),
            };
            streams.push(weights.sample(SampleRequest { seed, ..request.clone() }).await?);
        }
        Ok(Started { request, weights, streams })
    }
}

/// The id of a session's sampling session.
pub(crate) fn sampler_id(session_id: &str, place: u64) -> String {
    format!("{session_id}:sample:{place}")
}

/// Samples on their way.
struct Started {
    request: SampleRequest,
    weights: Arc<dyn HostedWeights>,
    streams: Vec<SampleStream>,
}

impl Started {
    async fn answer(self, of_prompt: PromptReportOptions) -> Result<SampleResponse, RequestFailed> {
        let Self { request, weights, streams } = self;
        let mut response = SampleResponse::default();
        for (index, stream) in streams.into_iter().enumerate() {
            let Collected { sequence, cached_tokens } = collect(stream, request.top_logprobs).await.map_err(failure)?;
            // What the prompt found before this call: the other samples find what the first has just read.
            if index == 0 {
                response.prompt_cache_hit_tokens = i32::try_from(cached_tokens).unwrap_or(i32::MAX);
            }
            response.sequences.push(sequence);
        }
        if of_prompt != PromptReportOptions::default() {
            let reported = tokio::task::spawn_blocking(move || {
                of_prompt.write(&*weights, &request, &mut response).map(|()| response)
            });
            response = reported.await.map_err(|error| servers_fault(error.to_string()))?.map_err(failure)?;
        }
        Ok(response)
    }
}
