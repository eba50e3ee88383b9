use std::sync::Arc;
use std::time::Duration;

use fulgurite_backends::tinker::wire::protobuf::{PromptAltTokens, SampleResponse, Tensor, TopkLogprobs};
use fulgurite_backends::tinker::wire::{
    CheckpointKind, CheckpointPath, CreateSamplingSessionRequest, CreateSamplingSessionResponse,
    FuturesRetrieveRequest, FuturesRetrieveResponse, JoinSamplingSessionResponse, RequestFailed,
    SampleRequest as WireRequest, StopSequences as AskedStops, SubmittedRequest, TensorData,
};
use fulgurite_backends::{BackendError, SampleRequest, SampleStream, StopSequence, derive_seed};
use fulgurite_types::SamplingParameters;

use super::futures::{Fingerprint, Outcome, Taken};
use super::names::{fresh_id, fresh_seed};
use super::refusals::{Refusal, failure, servers_fault};
use super::sample_answer::collect;
use super::server::{TinkerBase, TinkerServer};
use super::state_directory::{SampledWeights, SamplerRecord};
use super::training_request::text_tokens;
use crate::prompt_scores::{AskedOfPlaces, PromptScores};
use crate::published::WeightsSnapshot;

/// The greatest number of alternatives that is told for a place.
const GREATEST_ALTERNATIVES: usize = 1000;

/// How many places each copy of a sampling client has for its requests.
const PLACES_OF_A_COPY: i64 = 1_000_000_000;

/// What is to be told of a prompt beside its answers.
#[derive(Clone, Debug, Default, PartialEq)]
struct AskedOfPrompt {
    logprobs: bool,
    /// Only of so many of the last tokens.
    last: Option<usize>,
    alternatives: usize,
    named: Option<NamedTokens>,
    draws: usize,
}

/// Tokens whose logprobs are asked for: a row for each place of the prompt after the first, where -1 names none.
#[derive(Clone, Debug, PartialEq)]
struct NamedTokens {
    shape: Vec<usize>,
    rows: Vec<Vec<i64>>,
}

impl TinkerServer {
    /// Opens a sampling session over a base model or a checkpoint.
    pub(super) async fn create_sampling_session(
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
    pub(super) async fn join_sampling_session(&self, id: &str) -> Result<JoinSamplingSessionResponse, Refusal> {
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
    pub(super) async fn done_samples(&self, request: FuturesRetrieveRequest) -> FuturesRetrieveResponse {
        let FuturesRetrieveRequest { target, prev_cursor, timeout, .. } = request;
        let is_asked_for = |request_id: &str| {
            let place = request_id.strip_prefix(&target.sampling_session_id).and_then(|rest| rest.strip_prefix('/'));
            let place: Option<i64> = place.and_then(|place| place.parse().ok());
            place.is_some_and(|place| place / PLACES_OF_A_COPY == target.cloned_sampler_id)
        };
        let asked = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let patience = asked.unwrap_or(self.options.patience).min(self.options.patience);
        self.futures.done_after(is_asked_for, prev_cursor, patience).await
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
    fn sampler_checkpoint(&self, path: &str) -> Result<(String, String), Refusal> {
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
                Ok(SamplerRecord { sampler_id: fresh_id(), session_id: String::new(), base_model, weights, copies: 0 })
            }
        }
    }

    async fn snapshot(&self, base: &TinkerBase, weights: &SampledWeights) -> Result<WeightsSnapshot, Refusal> {
        let directory = match weights {
            SampledWeights::Base => return Ok(base.opened.clone()),
            SampledWeights::Own(directory) => directory.clone(),
            SampledWeights::Inflight(run_id) => return self.inflight_snapshot(base, run_id).await,
            SampledWeights::Checkpoint(path) => {
                let found = self.registry().checkpoints.get(path).map(|checkpoint| checkpoint.directory.clone());
                found.ok_or_else(|| Refusal::not_found("checkpoint", path))?
            }
        };
        Ok(self.weights.get(&base.weights, &self.state.resolve(&directory)).await?)
    }

    /// The weights that a run has put in flight last. They may be replaced while they are read.
    async fn inflight_snapshot(&self, base: &TinkerBase, run_id: &str) -> Result<WeightsSnapshot, Refusal> {
        let last = || self.registry().runs.get(run_id).and_then(|run| run.inflight.clone());
        loop {
            let directory = last().ok_or_else(|| Refusal::not_found("weights in flight of", run_id))?;
            match self.weights.get(&base.weights, &self.state.resolve(&directory)).await {
                Err(_) if last().is_some_and(|now| now != directory) => {}
                read => return Ok(read?),
            }
        }
    }

    /// Takes a request for samples. A full queue refuses it, and it may come again.
    pub(super) async fn sample(self: &Arc<Self>, request: WireRequest) -> Result<SubmittedRequest, Refusal> {
        let sampler = self.sampler_of(&request)?;
        let base = self.base(&sampler.base_model).map_err(Refusal::bad_request)?;
        // Before anything is made of its counts.
        let (asked, asked_of_prompt) = read_request(&request, &base)?;
        let place = request.seq_id.map_or_else(fresh_id, |place| place.to_string());
        let request_id = format!("{}/{place}", sampler.sampler_id);
        let sequence_ids = (0..request.num_samples).map(|index| format!("{request_id}/{index}")).collect();
        let acknowledgement = SubmittedRequest {
            request_id: request_id.clone(),
            sample_sequence_ids: Some(sequence_ids),
            ..SubmittedRequest::default()
        };
        let promise = match self.futures.take(acknowledgement.clone(), Fingerprint::of(&request))? {
            Taken::New(promise) => promise,
            Taken::Known(known) => return Ok(known),
        };
        match self.start_samples(&base, &sampler.weights, asked, request.num_samples).await {
            Ok(started) => {
                let answer = started.answer(asked_of_prompt);
                let (server, id) = (self.clone(), request_id.clone());
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

    async fn start_samples(
        &self,
        base: &TinkerBase,
        weights: &SampledWeights,
        asked: SampleRequest,
        num_samples: usize,
    ) -> Result<Started, Refusal> {
        let weights = self.snapshot(base, weights).await?;
        let mut streams = Vec::with_capacity(num_samples);
        for index in 0..num_samples {
            let seed = match index {
                0 => asked.seed,
                _ => derive_seed(asked.seed, &[&index.to_string()]),
            };
            let request = SampleRequest { seed, ..asked.clone() };
            streams.push(base.sampler.sample_from(&weights, request).await?);
        }
        Ok(Started { asked, weights, streams })
    }
}

/// The id of a session's sampling session.
pub(super) fn sampler_id(session_id: &str, place: u64) -> String {
    format!("{session_id}:sample:{place}")
}

/// What ends an answer before its limit: `ends` are the tokens that the model ends texts with, which count unless the
/// request asks for others.
fn stops(asked: Option<AskedStops>, ends: &[u32]) -> (Vec<u32>, Vec<StopSequence>) {
    let texts = match asked {
        None => return (ends.to_vec(), Vec::new()),
        Some(AskedStops::Tokens(tokens)) => return (tokens, Vec::new()),
        Some(AskedStops::Text(text)) => vec![text],
        Some(AskedStops::Texts(texts)) => texts,
    };
    (Vec::new(), texts.into_iter().filter(|text| !text.is_empty()).map(StopSequence::Text).collect())
}

/// Stop texts of a request, and bytes of one of them.
const GREATEST_STOPS: (usize, usize) = (64, 1024);
/// Stop tokens of a request.
const GREATEST_STOP_TOKENS: usize = 1024;

/// Refuses more and longer stops than a request may have.
fn check_stops(asked: Option<&AskedStops>) -> Result<(), String> {
    let (count, limit, longest) = match asked {
        None => return Ok(()),
        Some(AskedStops::Tokens(tokens)) => (tokens.len(), GREATEST_STOP_TOKENS, 0),
        Some(AskedStops::Text(text)) => (1, GREATEST_STOPS.0, text.len()),
        Some(AskedStops::Texts(texts)) => {
            (texts.len(), GREATEST_STOPS.0, texts.iter().map(String::len).max().unwrap_or(0))
        }
    };
    match (count > limit, longest > GREATEST_STOPS.1) {
        (true, _) => Err(format!("stop holds {count} stops, but may hold at most {limit}")),
        (_, true) => Err(format!("stop: a text has {longest} bytes, but at most {} may be", GREATEST_STOPS.1)),
        _ => Ok(()),
    }
}

/// Reads a request, and refuses what can never be answered.
fn read_request(request: &WireRequest, base: &TinkerBase) -> Result<(SampleRequest, AskedOfPrompt), Refusal> {
    let context_length = base.config.max_position_embeddings;
    let prompt = text_tokens(&request.prompt).map_err(Refusal::bad_request)?;
    let limit = base.sampler.queue_limit();
    if request.num_samples == 0 || request.num_samples > limit {
        let message = format!("num_samples is {}, but must be from 1 to {limit}", request.num_samples);
        return Err(Refusal::bad_request(message));
    }
    for (name, asked) in [
        ("topk_prompt_logprobs", request.topk_prompt_logprobs),
        ("topk_sample_logprobs", request.topk_sample_logprobs),
        ("prompt_alt_tokens_k", request.prompt_alt_tokens_k),
    ] {
        if asked > GREATEST_ALTERNATIVES {
            return Err(Refusal::bad_request(format!(
                "{name} is {asked}, but must be at most {GREATEST_ALTERNATIVES}"
            )));
        }
    }
    let parameters = &request.sampling_params;
    let top_k = match parameters.top_k {
        -1 => None,
        top_k => match usize::try_from(top_k) {
            Ok(top_k) => Some(top_k),
            Err(_) => return Err(Refusal::bad_request(format!("top_k is {top_k}, but must be -1 or from 1 up"))),
        },
    };
    check_stops(parameters.stop.as_ref()).map_err(Refusal::bad_request)?;
    let (stop_tokens, stop_sequences) = stops(parameters.stop.clone(), &base.ends);
    let room = context_length.saturating_sub(prompt.len()).max(1);
    let asked = SampleRequest {
        max_tokens: parameters.max_tokens.unwrap_or(room),
        sampling: SamplingParameters {
            temperature: parameters.temperature as f32,
            top_p: parameters.top_p as f32,
            top_k,
            ..SamplingParameters::default()
        },
        stop_tokens,
        stop_sequences,
        seed: parameters.seed.map_or_else(fresh_seed, |seed| seed as u64),
        top_logprobs: request.topk_sample_logprobs,
        stream_interval: 1,
        affinity: None,
        prompt,
    };
    let asked_of_prompt = AskedOfPrompt {
        logprobs: request.prompt_logprobs.unwrap_or_default(),
        last: request.prompt_logprobs_last_n,
        alternatives: request.topk_prompt_logprobs,
        draws: request.prompt_alt_tokens_k,
        named: (request.target_prompt_logprobs.as_ref())
            .map(|named| NamedTokens::read(named, asked.prompt.len(), base.config.vocab_size))
            .transpose()
            .map_err(|error| Refusal::bad_request(format!("target_prompt_logprobs: {error}")))?,
    };
    Ok((asked, asked_of_prompt))
}

/// Samples on their way.
struct Started {
    asked: SampleRequest,
    weights: WeightsSnapshot,
    streams: Vec<SampleStream>,
}

impl Started {
    async fn answer(self, of_prompt: AskedOfPrompt) -> Result<SampleResponse, RequestFailed> {
        let Self { asked, weights, streams } = self;
        let mut response = SampleResponse::default();
        for stream in streams {
            let sequence = collect(stream, asked.top_logprobs).await;
            response.sequences.push(sequence.map_err(failure)?);
        }
        if of_prompt != AskedOfPrompt::default() {
            let request = asked;
            let told = tokio::task::spawn_blocking(move || {
                of_prompt.tell(&weights, &request, &mut response).map(|()| response)
            });
            response = told.await.map_err(|error| servers_fault(error.to_string()))?.map_err(failure)?;
        }
        Ok(response)
    }
}

impl AskedOfPrompt {
    /// Puts into the response what was asked of the prompt.
    fn tell(
        &self,
        weights: &WeightsSnapshot,
        request: &SampleRequest,
        response: &mut SampleResponse,
    ) -> Result<(), BackendError> {
        let prompt = request.prompt.as_slice();
        let rows = self.named.as_ref().map(NamedTokens::tokens).unwrap_or_default();
        let asked = AskedOfPlaces {
            alternatives: self.alternatives,
            named: &rows,
            draws: self.draws,
            temperature: request.sampling.temperature,
            seed: derive_seed(request.seed, &["prompt_alt_tokens"]),
        };
        let PromptScores { logprobs, likeliest, named, drawn } = weights.score_prompt(prompt, asked)?;
        let first_told = prompt.len() - self.last.unwrap_or(prompt.len()).min(prompt.len());
        if self.logprobs {
            let told = |place: usize| match place {
                0 => f32::NAN,
                place if place < first_told => f32::NAN,
                place => logprobs[place - 1],
            };
            response.prompt_logprobs = Some((0..prompt.len()).flat_map(|place| told(place).to_le_bytes()).collect());
        }
        if self.alternatives > 0 {
            let told = |place: usize| match place {
                0 => Vec::new(),
                place if place < first_told => Vec::new(),
                place => likeliest[place - 1].clone(),
            };
            let rows: Vec<_> = (0..prompt.len()).map(told).collect();
            response.topk_prompt_logprobs = Some(TopkLogprobs::new(&rows, self.alternatives));
        }
        if let Some(asked) = &self.named {
            response.target_prompt_logprobs = Some(asked.tensor(&named));
        }
        if self.draws > 0 {
            response.prompt_alt_tokens = Some(self.alternative_tokens(&drawn));
        }
        Ok(())
    }
}

impl AskedOfPrompt {
    /// What was drawn, a row for each place of the prompt after the first.
    fn alternative_tokens(&self, drawn: &[Vec<(u32, f32)>]) -> PromptAltTokens {
        let shape = vec![drawn.len() as i64, self.draws as i64];
        let logprobs: Vec<f32> = drawn.iter().flatten().map(|&(_, logprob)| logprob).collect();
        let tokens: Vec<i64> = drawn.iter().flatten().map(|&(token, _)| token.into()).collect();
        PromptAltTokens {
            tokens: Some(Tensor { shape: shape.clone(), ..Tensor::integers(tokens.into_iter()) }),
            logprobs: Some(Tensor { shape, ..Tensor::floats(&logprobs) }),
        }
    }
}

impl NamedTokens {
    fn read(tensor: &TensorData, prompt_tokens: usize, vocabulary_size: usize) -> Result<Self, String> {
        let array = tensor.decode().map_err(|error| error.to_string())?;
        let numbers = array.numbers.into_integers().map_err(|error| error.to_string())?;
        let &[places, columns] = array.shape.as_slice() else {
            return Err(format!("its shape is {:?}, but must be that of a matrix", array.shape));
        };
        if places + 1 != prompt_tokens || columns == 0 {
            return Err(format!("it has {places} rows of {columns} for a prompt of {prompt_tokens} tokens"));
        }
        let is_known = |&number: &i64| number == -1 || usize::try_from(number).is_ok_and(|id| id < vocabulary_size);
        if let Some(number) = numbers.iter().find(|number| !is_known(number)) {
            return Err(format!("there is no token {number}"));
        }
        let rows = numbers.chunks(columns).map(<[i64]>::to_vec).collect();
        Ok(Self { shape: array.shape, rows })
    }

    /// The tokens, token 0 where none is named.
    fn tokens(&self) -> Vec<Vec<u32>> {
        let row = |row: &Vec<i64>| row.iter().map(|&number| u32::try_from(number).unwrap_or_default()).collect();
        self.rows.iter().map(row).collect()
    }

    /// The logprobs in the shape that was asked for, not a number where no token is named.
    fn tensor(&self, logprobs: &[Vec<f32>]) -> Tensor {
        let told = |(&number, &logprob): (&i64, &f32)| if number == -1 { f32::NAN } else { logprob };
        let rows = self.rows.iter().zip(logprobs);
        let values: Vec<f32> = rows.flat_map(|(row, logprobs)| row.iter().zip(logprobs).map(told)).collect();
        let list = Tensor::floats(&values);
        Tensor { shape: self.shape.iter().map(|&size| size as i64).collect(), ..list }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_names_no_stops_ends_where_the_model_does() {
        let text = |text: &str| StopSequence::Text(text.to_owned());
        assert_eq!(stops(None, &[3]), (vec![3], vec![]));
        assert_eq!(stops(Some(AskedStops::Tokens(vec![])), &[3]), (vec![], vec![]));
        assert_eq!(stops(Some(AskedStops::Text("x".into())), &[3]), (vec![], vec![text("x")]));
        let two = AskedStops::Texts(vec![String::new(), "y".into()]);
        assert_eq!(stops(Some(two), &[3]), (vec![], vec![text("y")]));
    }
}
