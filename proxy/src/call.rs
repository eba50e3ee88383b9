use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use fulgurite_backends::{
    BackendError, SampleEvent, SampleRequest, SampleStream, SampledToken, SamplingParameters, StopReason,
    WeightsVersion,
};
use fulgurite_renderers::Message;
use fulgurite_store::model::{NewGeneration, WeightsFrom};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use crate::answer::{Answer, Taken, WholeAnswer};
use crate::attribution::Owner;
use crate::error::ProxyError;
use crate::flight::{Flight, Listener};
use crate::gateway::InFlight;
use crate::message_attributes::{ANSWER, add_message};
use crate::reply_message::Delta;
use crate::{Proxy, ServedModel};

/// One model call, in no dialect: everything that is needed to sample it and to record it.
pub(crate) struct Call {
    pub(crate) owner: Arc<Owner>,
    pub(crate) model: ServedModel,
    /// Of the first answer to a request it is also the reply's id on the wire.
    pub(crate) generation_id: String,
    pub(crate) prompt: Arc<[u32]>,
    pub(crate) sampling: SamplingParameters,
    pub(crate) max_tokens: usize,
    pub(crate) top_logprobs: usize,
    pub(crate) stop_strings: Vec<String>,
    pub(crate) reading: Reading,
    pub(crate) seed: u64,
    pub(crate) request_digest: String,
    pub(crate) span_name: &'static str,
    /// Attributes of the span that come from the request.
    pub(crate) attributes: Map<String, Value>,
}

/// How what is sampled is read.
#[derive(Clone)]
pub(crate) enum Reading {
    /// As a message in the model's format, which may call these tools.
    Message { tools: Vec<Value> },
    /// As text.
    Text,
}

/// Why an answer ended, as every dialect tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FinishReason {
    /// By itself, or at a stop string.
    Stop,
    /// The same, with calls that are to be answered.
    ToolCalls,
    /// At a limit of tokens.
    Length,
}

impl FinishReason {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::ToolCalls => "tool_calls",
            FinishReason::Length => "length",
        }
    }

    /// How sampling ended, as it is told of a message.
    fn of_message(self, message: &Message) -> Self {
        match self {
            FinishReason::Stop if !message.tool_calls.is_empty() => FinishReason::ToolCalls,
            reason => reason,
        }
    }
}

/// What a call says while it runs: tokens, then exactly one `Finished` or `Failed`.
#[derive(Clone)]
pub(crate) enum CallEvent {
    /// A sampled token, and what may be shown since the last one.
    Token(Arc<Taken>),
    /// The end, durably recorded.
    Finished(Arc<Finished>),
    /// The end, with nothing to answer. What had been sampled is recorded, and will not be trained.
    Failed(Arc<ProxyError>),
}

/// The end of an answer.
pub(crate) struct Finished {
    /// What was held back until the end was known.
    pub(crate) held_back: Vec<Delta>,
    /// All that was said.
    pub(crate) message: Message,
    pub(crate) reason: FinishReason,
    /// The client's stop string that ended it.
    pub(crate) stop_string: Option<String>,
    pub(crate) prompt_tokens: usize,
    pub(crate) sampled_tokens: usize,
}

/// Seconds since the epoch.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |elapsed| elapsed.as_secs_f64())
}

/// Starts the calls for one request's answers. They run to their records whether or not anybody still listens; once
/// nobody does, sampling stops. `in_flight` is held until they are over, if somebody counts those under way.
pub(crate) fn start(proxy: &Proxy, owner: Arc<Owner>, calls: Vec<Call>, in_flight: Option<InFlight>) -> Listener {
    let (flight, listener) = Flight::new();
    tokio::spawn(fly(proxy.clone(), owner, calls, flight, in_flight));
    listener
}

/// Runs all calls of a request, and notes those whose answers nobody took.
async fn fly(proxy: Proxy, owner: Arc<Owner>, calls: Vec<Call>, flight: Arc<Flight>, _in_flight: Option<InFlight>) {
    let mut runs = JoinSet::new();
    for (choice, call) in calls.into_iter().enumerate() {
        runs.spawn(run(proxy.clone(), call, choice, Arc::clone(&flight)));
    }
    let mut finished = Vec::new();
    while let Some(ended) = runs.join_next().await {
        match ended {
            Ok(generation_id) => finished.extend(generation_id),
            Err(error) => tracing::error!(%error, "a call broke"),
        }
    }
    if let Err(error) = owner.end_session(&proxy).await {
        tracing::error!(%error, "could not end a session");
    }
    let delivered = flight.settled().await;
    flight.end();
    if delivered {
        return;
    }
    for generation_id in finished {
        if let Err(error) = proxy.shared.store.mark_client_gone(&generation_id).await {
            tracing::error!(%generation_id, %error, "could not mark an answer that its client did not take");
        }
    }
}

/// How sampling ended.
enum End {
    Finished(FinishReason),
    ClientGone,
    Broken(BackendError),
}

impl End {
    /// The end where a stop string stood in what was held back to the last.
    fn at_stop_string(self) -> Self {
        match self {
            End::Finished(_) => End::Finished(FinishReason::Stop),
            other => other,
        }
    }

    /// As a message's reader is told.
    fn finish_reason(&self, message: &Message) -> &'static str {
        match self {
            End::Finished(reason) => reason.of_message(message).as_str(),
            other => other.stop_reason(),
        }
    }

    /// As the record has it.
    fn stop_reason(&self) -> &'static str {
        match self {
            End::Finished(reason) => reason.as_str(),
            End::ClientGone => "client_gone",
            End::Broken(_) => "error",
        }
    }
}

/// Runs a call to its record, and gives the generation's id if there is an answer to take.
async fn run(proxy: Proxy, call: Call, choice: usize, flight: Arc<Flight>) -> Option<String> {
    let start_time = now();
    let mut answer = Answer::new(&call);
    let end = match begin(&call).await {
        Ok(stream) => sample(&mut answer, stream, choice, &flight).await,
        Err(error) => End::Broken(error),
    };
    let mut answer = answer.finish();
    let end = if answer.stop_string.is_some() { end.at_stop_string() } else { end };

    let generation_id = call.generation_id.clone();
    let mut finished = Finished {
        held_back: std::mem::take(&mut answer.held_back),
        message: answer.message.clone(),
        reason: FinishReason::Stop,
        stop_string: answer.stop_string.clone(),
        prompt_tokens: call.prompt.len(),
        sampled_tokens: answer.tokens.len(),
    };
    let recorded = record(&proxy, call, answer, &end, start_time).await;
    let event = match (recorded, end) {
        // Nobody is left to be told; the log is.
        (Err(error), End::ClientGone) => {
            tracing::error!(%generation_id, %error, "an answer that its client left could not be recorded");
            return None;
        }
        (Ok(()), End::ClientGone) => return None,
        (Err(error), _) => CallEvent::Failed(Arc::new(error)),
        (Ok(()), End::Broken(error)) => CallEvent::Failed(Arc::new(error.into())),
        (Ok(()), End::Finished(reason)) => {
            finished.reason = reason.of_message(&finished.message);
            flight.say(choice, CallEvent::Finished(Arc::new(finished)));
            return Some(generation_id);
        }
    };
    flight.say(choice, event);
    None
}

async fn begin(call: &Call) -> Result<SampleStream, BackendError> {
    let request = SampleRequest {
        prompt: call.prompt.to_vec(),
        max_tokens: call.max_tokens,
        sampling: call.sampling.clone(),
        stop_tokens: call.model.renderer.stop_tokens().to_vec(),
        seed: call.seed,
        top_logprobs: call.top_logprobs,
        affinity: call.owner.attribution().map(|attribution| attribution.rollout_id.clone()),
    };
    call.model.sampler.sample(request).await
}

/// Takes tokens until the end, passing each on with what it makes certain.
async fn sample(answer: &mut Answer, mut stream: SampleStream, choice: usize, flight: &Flight) -> End {
    loop {
        let event = tokio::select! {
            biased;
            () = flight.abandoned() => match flight.close_if_abandoned() {
                true => return client_gone(answer, stream).await,
                false => continue,
            },
            event = stream.next() => event,
        };
        let token = match event {
            Ok(SampleEvent::Token(token)) => token,
            Ok(SampleEvent::WeightsVersions(versions)) => {
                answer.set_weights_versions(versions);
                continue;
            }
            Ok(SampleEvent::Finished(StopReason::StopToken)) => return End::Finished(FinishReason::Stop),
            Ok(SampleEvent::Finished(StopReason::Length)) => return End::Finished(FinishReason::Length),
            Err(error) => return End::Broken(error),
        };
        flight.say(choice, CallEvent::Token(Arc::new(answer.take(token))));
        if answer.has_ended() {
            return End::Finished(FinishReason::Stop);
        }
    }
}

/// Stops the sampling, and keeps what had been sampled by then.
async fn client_gone(answer: &mut Answer, mut stream: SampleStream) -> End {
    stream.stop();
    loop {
        match stream.next().await {
            Ok(SampleEvent::Token(token)) => drop(answer.take(token)),
            Ok(SampleEvent::WeightsVersions(versions)) => answer.set_weights_versions(versions),
            Ok(SampleEvent::Finished(_)) | Err(_) => return End::ClientGone,
        }
    }
}

/// Writes span and generation in one transaction; durable on return.
async fn record(proxy: &Proxy, call: Call, answer: WholeAnswer, end: &End, start_time: f64) -> Result<(), ProxyError> {
    if answer.tokens.is_empty() && !matches!(end, End::Finished(_)) {
        return Ok(());
    }
    let mut attributes = call.attributes;
    for (key, value) in [
        ("gen_ai.response.id", json!(call.generation_id)),
        ("gen_ai.response.model", json!(call.model.name)),
        ("gen_ai.usage.input_tokens", json!(call.prompt.len())),
        ("gen_ai.usage.output_tokens", json!(answer.tokens.len())),
        ("gen_ai.completion.0.finish_reason", json!(end.finish_reason(&answer.message))),
    ] {
        attributes.insert(key.to_owned(), value);
    }
    add_message(&mut attributes, ANSWER, &answer.message);
    let weights_versions = weights_by_run_length(&answer.tokens);
    let trace = uuid::Uuid::now_v7().simple().to_string();
    // The random half of a version 7 UUID; its first half is the time.
    let span = uuid::Uuid::now_v7().simple().to_string().split_off(16);
    let (rollout_id, attempt_id) = call.owner.ids(proxy).await?;
    let generation = NewGeneration {
        generation_id: call.generation_id,
        rollout_id,
        attempt_id,
        name: call.span_name.to_owned(),
        trace_id: trace,
        span_id: span,
        start_time,
        end_time: now(),
        attributes,
        model: call.model.name,
        prompt_tokens: call.prompt.to_vec(),
        sampled_tokens: answer.tokens.iter().map(|token| token.id).collect(),
        logprobs: Some(answer.tokens.iter().map(|token| token.logprob).collect()),
        stop_reason: end.stop_reason().to_owned(),
        weights_versions,
        sampling: json!(call.sampling),
        seed: call.seed,
        renderer: call.model.renderer.name().to_owned(),
        tokenizer: call.model.renderer.tokenizer().fingerprint().to_owned(),
        request_digest: call.request_digest,
        branch_reason: None,
        client_gone: matches!(end, End::ClientGone),
    };
    proxy.shared.store.record_generation(generation).await?;
    Ok(())
}

/// Which weights sampled which tokens: an entry where they change. None at all if they are not known of every token.
fn weights_by_run_length(tokens: &[SampledToken]) -> Vec<WeightsFrom> {
    let mut weights: Vec<WeightsFrom> = Vec::new();
    for (first_token, token) in tokens.iter().enumerate() {
        let Some(WeightsVersion(version)) = token.weights_version else { return Vec::new() };
        if weights.last().is_none_or(|last| last.version != version) {
            weights.push(WeightsFrom { version, first_token });
        }
    }
    weights
}
