//! Sampling at the service: logprobs of prompts and of sampled tokens, against those of its learner.

use fulgurite_backends::{AnswerFault, BackendError, LossFunction, PromptScores};
use fulgurite_types::{Chunk, Datum, LossInputs};

use super::batch;
use super::expectation::{is_close, mean_difference};
use super::finding::{CheckFinding, CheckNumbers, CheckVerdict};
use super::probe_model::{ProbeModel, Workbench};
use super::update::wire_pass;
use crate::client::http::{Answer, Request};
use crate::client::sampling::Sampling;
use crate::client::service::{NoResult, RequestKind};
use crate::client::wire_pass::WirePass;
use crate::wire::protobuf::{ProvenanceSpan, SampleResponse, SequenceSpan, SpanOrigin};
use crate::wire::{
    CreateSamplingSessionRequest, CreateSamplingSessionResponse, JsonChunk, LoraConfig, ModelInput, SampleRequest,
    SamplingParams, StopSequences,
};

/// Tokens that are sampled.
const SAMPLED: usize = 8;

fn sampling_from_base(bench: &Workbench) -> Sampling {
    Sampling::new(bench.service.clone(), bench.base_model.clone(), usize::MAX)
}

/// Whether prompts are scored as the learner scores them.
pub(super) async fn check_prompt_logprobs(
    bench: &Workbench,
    of_learner: &[Vec<f32>],
) -> Result<CheckFinding, BackendError> {
    let sampling = sampling_from_base(bench);
    let mut of_sampler = Vec::new();
    for prompt in batch::sequences() {
        of_sampler.push(sampling.score(&prompt, 0).await?.logprobs);
    }
    Ok(agreement("prompt logprobs", mean_difference(&of_sampler, of_learner)))
}

/// Whether the likeliest tokens of a prompt's places are reported.
pub(super) async fn check_likeliest(bench: &Workbench) -> Result<CheckFinding, BackendError> {
    const CHECK: &str = "top-k prompt logprobs";
    let sampling = sampling_from_base(bench);
    let prompt = batch::sequences().swap_remove(0);
    let PromptScores { logprobs, likeliest, .. } = sampling.score(&prompt, 2).await?;
    let is_likelier = |(row, own): (&Vec<(u32, f32)>, &f32)| {
        row.iter().all(|(_, logprob)| *logprob <= 1e-3) && row.first().is_some_and(|(_, first)| *first >= own - 1e-2)
    };
    let finding = if likeliest.iter().any(Vec::is_empty) || likeliest.len() != logprobs.len() {
        CheckFinding::new(CHECK, CheckVerdict::Wrong, "places without alternatives came")
    } else if likeliest.iter().zip(&logprobs).all(is_likelier) {
        CheckFinding::new(CHECK, CheckVerdict::Ok, "two for each place")
    } else {
        CheckFinding::new(CHECK, CheckVerdict::Wrong, "the likeliest token is less likely than the prompt's own")
    };
    Ok(finding)
}

fn agreement(check: &str, difference: f64) -> CheckFinding {
    let numbers = CheckNumbers { logprob_difference: Some(difference), ..CheckNumbers::default() };
    let finding = if is_close(difference) {
        CheckFinding::new(check, CheckVerdict::Ok, format!("its sampler and its learner differ by {difference:.1e}"))
    } else {
        let message = format!("its sampler and its learner differ by {difference:.3} on average");
        CheckFinding::new(check, CheckVerdict::Wrong, message)
    };
    finding.with(numbers)
}

/// An answer that was sampled, and the name that the service gives it.
pub(super) struct Sample {
    prompt: Vec<u32>,
    tokens: Vec<u32>,
    logprobs: Vec<f32>,
    sequence_id: Option<String>,
}

/// Samples from the base model, or from a checkpoint.
pub(super) async fn sample(bench: &Workbench, checkpoint: Option<String>) -> Result<Sample, BackendError> {
    let service = &bench.service;
    let session = service.session().await?;
    let request = CreateSamplingSessionRequest {
        session_id: session.id.clone(),
        sampling_session_seq_id: session.next_sampling_session(),
        base_model: checkpoint.is_none().then(|| bench.base_model.clone()),
        model_path: checkpoint,
    };
    let created: CreateSamplingSessionResponse = service.post("api/v1/create_sampling_session", &request).await?;
    let prompt = batch::sequences().swap_remove(0);
    let sampling_params = SamplingParams {
        max_tokens: Some(SAMPLED),
        seed: Some(1),
        stop: Some(StopSequences::Tokens(Vec::new())),
        ..SamplingParams::default()
    };
    let body = SampleRequest {
        sampling_session_id: Some(created.sampling_session_id),
        seq_id: Some(0),
        num_samples: 1,
        prompt: ModelInput { chunks: vec![JsonChunk::EncodedText { tokens: prompt.clone() }] },
        sampling_params,
        record_stability_info: session.is_current().then_some(true),
        ..SampleRequest::default()
    };
    let submitted = service.submit(&Request::post("api/v1/asample", &body)?).await?;
    let result = service.result(&submitted, RequestKind::Sample, Answer::message_of).await;
    let response: SampleResponse = result.map_err(|no_result| match no_result {
        NoResult::Lost => service.lost("sample"),
        NoResult::Failed(error) => error,
    })?;
    let unreadable = |message: String| service.broken_answer(AnswerFault::Unreadable { message });
    let [sequence] = response.sequences.as_slice() else {
        return Err(unreadable(format!("{} sequences came where one was asked for", response.sequences.len())));
    };
    let ids = sequence.token_ids().map_err(|error| unreadable(error.to_string()))?;
    let logprobs = sequence.token_logprobs().map_err(|error| unreadable(error.to_string()))?.unwrap_or_default();
    if ids.is_empty() || logprobs.len() != ids.len() {
        return Err(unreadable(format!("{} tokens came with {} logprobs", ids.len(), logprobs.len())));
    }
    let tokens = ids.into_iter().map(|id| u32::try_from(id).unwrap_or_default()).collect();
    let sequence_id = submitted.sample_sequence_ids.and_then(|ids| ids.into_iter().next());
    Ok(Sample { prompt, tokens, logprobs, sequence_id })
}

impl Sample {
    /// The answer's tokens as what is trained.
    fn datum(&self, inputs: impl FnOnce(Vec<f32>) -> LossInputs) -> Datum {
        let whole: Vec<u32> = self.prompt.iter().chain(&self.tokens).copied().collect();
        let (input, targets) = (whole[..whole.len() - 1].to_vec(), whole[1..].to_vec());
        let mask = (1..whole.len()).map(|place| if place < self.prompt.len() { 0.0 } else { 1.0 }).collect();
        Datum { model_input: vec![Chunk::Tokens(input)], target_tokens: targets, loss_inputs: inputs(mask) }
    }

    /// Mean distance of its logprobs from those that a model's learner has of its tokens.
    pub(super) async fn difference_from(&self, model: &ProbeModel<'_>) -> Result<f64, BackendError> {
        let datum = self.datum(|weights| LossInputs::Supervised { weights });
        let logprobs = model.forward(&[datum]).await?;
        let of_learner = logprobs.first().and_then(|row| row.get(self.prompt.len() - 1..)).unwrap_or_default();
        Ok(mean_difference(std::slice::from_ref(&self.logprobs), &[of_learner.to_vec()]))
    }
}

/// Whether tokens are sampled with the logprobs that the learner has of them.
pub(super) async fn check_sampling(bench: &Workbench, lora: LoraConfig) -> Result<CheckFinding, BackendError> {
    let sample = sample(bench, None).await?;
    let model = bench.model(lora).await?;
    Ok(agreement("sampled logprobs", sample.difference_from(&model).await?))
}

/// A pass over tokens that the service has sampled, which says where they are from; none where sampled sequences have no ids.
async fn pass_with_provenance(bench: &Workbench) -> Result<Option<WirePass>, BackendError> {
    let sample = sample(bench, None).await?;
    let Some(sequence_id) = sample.sequence_id.clone() else { return Ok(None) };
    let (prompt, sampled) = (sample.prompt.len(), sample.tokens.len());
    let datum = sample.datum(|mask| {
        let logprobs = [vec![0.0; prompt - 1], sample.logprobs.clone()].concat();
        LossInputs::Policy { logprobs, advantages: mask.clone(), mask }
    });
    let mut pass = wire_pass(&[datum], LossFunction::ImportanceSampling)?;
    let span = |origin: fn(SequenceSpan) -> SpanOrigin, offset: usize, length: usize| {
        let (offset, length) = (offset as i64, length as i64);
        ProvenanceSpan { span: Some(origin(SequenceSpan { sequence_id: sequence_id.clone(), offset, length })) }
    };
    if let Some(datum) = pass.data.first_mut() {
        let of_sampled = |length| span(SpanOrigin::SampledTokens, 0, length);
        datum.model_input_spans = vec![span(SpanOrigin::PromptTokens, 0, prompt), of_sampled(sampled - 1)];
        datum.loss_fn_input_spans = vec![span(SpanOrigin::PromptTokens, 1, prompt - 1), of_sampled(sampled)];
    }
    Ok(Some(pass))
}

fn no_sequence_ids(check: &str) -> CheckFinding {
    let message = "sampled sequences have no ids (sample_sequence_ids), which SDKs from 0.26 insist on";
    CheckFinding::new(check, CheckVerdict::Refused, message)
}

/// Whether it can be said where trained tokens were sampled.
pub(super) async fn check_provenance(bench: &Workbench, lora: LoraConfig) -> Result<CheckFinding, BackendError> {
    const CHECK: &str = "provenance";
    let Some(pass) = pass_with_provenance(bench).await? else { return Ok(no_sequence_ids(CHECK)) };
    let model = bench.model(lora).await?;
    model.pass(pass).await?;
    Ok(CheckFinding::new(CHECK, CheckVerdict::Ok, "sequences have ids, and spans of them are taken"))
}

/// A loss that needs provenance, and whose formula is not public: whether it is taken.
pub(super) async fn check_stable_reinforce(bench: &Workbench, lora: LoraConfig) -> Result<CheckFinding, BackendError> {
    const CHECK: &str = "loss stable_reinforce";
    let Some(pass) = pass_with_provenance(bench).await? else { return Ok(no_sequence_ids(CHECK)) };
    let model = bench.model(lora).await?;
    model.pass(WirePass { loss: "stable_reinforce".to_owned(), ..pass }).await?;
    Ok(CheckFinding::new(CHECK, CheckVerdict::Ok, "taken; its formula is not public, and was not looked at"))
}
