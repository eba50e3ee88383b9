use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use fulgurite_backends::{BackendError, StopReason};
use fulgurite_renderers::Message;
use fulgurite_store::Refused;
use fulgurite_types::{BranchReason, Defect, Generation, SamplingParameters, StopReason as RecordedStop};
use futures::future::join_all;
use serde_json::{Map, Value};

use crate::attempt::attempt_memory::AttemptMemory;
use crate::attempt::attribution::Owner;
use crate::attempt::budget::Admission;
use crate::call::model_request::{Conversation, Endpoint};
use crate::call::sampling::Sampling;
use crate::error::ProxyError;
use crate::gateway::InFlight;
use crate::observe::telemetry::SamplingClock;
use crate::record::record_call::{Began, Recorded, mark, record, sampled_tokens};
use crate::reply::assistant_message::Delta;
use crate::reply::flight::Flight;
use crate::reply::sampled_answer::{Answer, Taken};
use crate::retries::request_log::OpenRequest;
use crate::{Proxy, SampledModel};

/// One model call, in no dialect: everything that is needed to sample it and to record it.
pub(crate) struct Call {
    pub(crate) owner: Arc<Owner>,
    /// Of the attempt, if it belongs to one.
    pub(crate) memory: Option<Arc<AttemptMemory>>,
    /// What lets it take from its attempt's budget, unless there is nothing to take.
    pub(crate) admission: Option<Arc<Admission>>,
    /// What was sampled for the same request before, whose answer nobody got or somebody asks for again.
    pub(crate) earlier: Option<Generation>,
    pub(crate) model: SampledModel,
    /// Of the first answer to a request it is also the reply's id on the wire.
    pub(crate) generation_id: String,
    pub(crate) prompt: Arc<[u32]>,
    pub(crate) sampling: SamplingParameters,
    /// Whether the answer ends behind its first call.
    pub(crate) single_call: bool,
    pub(crate) max_tokens: usize,
    pub(crate) top_logprobs: usize,
    /// How many tokens the host may tell together.
    pub(crate) stream_interval: usize,
    pub(crate) stop_strings: Vec<String>,
    pub(crate) reading: Reading,
    /// Why its prompt does not continue the latest call of its attempt, by name, if it does not.
    pub(crate) branch_reason: Option<BranchReason>,
    /// Why its answer must not be trained, by name, if it must not.
    pub(crate) defect: Option<Defect>,
    pub(crate) seed: u64,
    pub(crate) request_digest: String,
    /// Measures how it is sampled.
    pub(crate) clock: Option<SamplingClock>,
    pub(crate) endpoint: &'static Endpoint,
    /// Attributes of the span that come from the request.
    pub(crate) attributes: Map<String, Value>,
}

impl Call {
    /// How the answer ended that was recorded for the same request before, if all of it was sampled then.
    pub(crate) fn ended_earlier(&self) -> Option<FinishReason> {
        self.earlier.as_ref().and_then(|earlier| FinishReason::recorded(&earlier.stop_reason))
    }
}

/// How what is sampled is read.
#[derive(Clone)]
pub(crate) enum Reading {
    /// As a message in the model's format, which goes on with this conversation.
    Message(Arc<Conversation>),
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

impl From<StopReason> for FinishReason {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::StopToken => FinishReason::Stop,
            StopReason::Length => FinishReason::Length,
        }
    }
}

impl FinishReason {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::ToolCalls => "tool_calls",
            FinishReason::Length => "length",
        }
    }

    /// How sampling ended, from the record; `None` if it was broken off.
    pub(crate) fn recorded(stop_reason: &RecordedStop) -> Option<Self> {
        match stop_reason {
            RecordedStop::Stop => Some(FinishReason::Stop),
            RecordedStop::Length => Some(FinishReason::Length),
            RecordedStop::ClientGone | RecordedStop::Error | RecordedStop::Other(_) => None,
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
    /// Sampled tokens that came together, at least one, and what may be shown since the last.
    Tokens(Arc<[Taken]>),
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
    /// Of the prompt, as the model's host says; `None` where it does not, or where nothing was asked of it.
    pub(crate) cached_tokens: Option<usize>,
}

/// Seconds since the epoch.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |elapsed| elapsed.as_secs_f64())
}

/// What is told where no event is left, though there should be one.
pub(crate) fn broken_off() -> ProxyError {
    BackendError::Internal { message: "the call ended without an answer".to_owned() }.into()
}

/// Starts the calls for one request's answers. They run to their records whether or not anybody still listens; once
/// nobody does, sampling stops. `in_flight` is held until they are over, if somebody counts those under way.
pub(crate) fn start(proxy: &Proxy, request: OpenRequest, calls: Vec<Call>, in_flight: Option<InFlight>) {
    tokio::spawn(fly(proxy.clone(), request, calls, in_flight));
}

/// Runs all calls of a request, and notes whether somebody took their answers.
async fn fly(proxy: Proxy, request: OpenRequest, calls: Vec<Call>, _in_flight: Option<InFlight>) {
    let _under_way = proxy.shared.ending.begin();
    let count = calls.len();
    let runs = calls.into_iter().enumerate().map(|(choice, call)| run(&proxy, call, choice, &request.flight));
    let recorded: Vec<Recorded> = join_all(runs).await.into_iter().flatten().collect();
    // An answer that somebody got is not taken from them by whoever asked for it again and left.
    let was_delivered = request.flight.settled().await || request.was_delivered();
    let marked = mark(&proxy, &recorded, was_delivered).await;
    // What failed is no answer to give to somebody else.
    if marked && recorded.len() == count {
        request.answered(was_delivered);
    }
}

/// How sampling ended.
pub(crate) enum End {
    Finished(FinishReason),
    ClientGone,
    /// The server ends before it does.
    Cut,
    Broken(ProxyError),
}

impl End {
    /// Why an answer ended that did; of any other, that it stopped.
    fn reason(&self) -> FinishReason {
        match self {
            End::Finished(reason) => *reason,
            End::ClientGone | End::Cut | End::Broken(_) => FinishReason::Stop,
        }
    }

    /// The end, at which a failure about the prompt names the request's field that holds it.
    fn of_prompt(self, parameter: &'static str) -> Self {
        match self {
            End::Broken(error) => End::Broken(error.about_prompt(parameter)),
            other => other,
        }
    }

    /// The end where a stop string stood in what was held back to the last.
    fn at_stop_string(self) -> Self {
        match self {
            End::Finished(_) => End::Finished(FinishReason::Stop),
            other => other,
        }
    }

    /// As a message's reader is told.
    pub(crate) fn finish_reason(&self, message: &Message) -> &'static str {
        match self {
            End::Finished(reason) => reason.of_message(message).as_str(),
            End::ClientGone | End::Cut => RecordedStop::CLIENT_GONE,
            End::Broken(_) => RecordedStop::ERROR,
        }
    }

    /// As the record has it.
    pub(crate) fn stop_reason(&self) -> RecordedStop {
        match self {
            End::Finished(FinishReason::Length) => RecordedStop::Length,
            End::Finished(FinishReason::Stop | FinishReason::ToolCalls) => RecordedStop::Stop,
            End::ClientGone | End::Cut => RecordedStop::ClientGone,
            End::Broken(_) => RecordedStop::Error,
        }
    }
}

/// Runs a call to its record. Gives what is recorded of it, unless it failed.
async fn run(proxy: &Proxy, mut call: Call, choice: usize, flight: &Flight) -> Option<Recorded> {
    let start_time = now();
    let mut answer = Answer::new(&call);
    let whole = call.ended_earlier();
    let earlier = call.earlier.take();
    let clock = call.clock.take();
    // What was sampled of other answers is left, and they begin anew.
    let goes_on = whole.is_some() || !call.sampling.depends_on_answer();
    if let Some(earlier) = earlier.as_ref().filter(|_| goes_on) {
        let tokens = answer.go_on_behind(sampled_tokens(earlier));
        if !tokens.is_empty() {
            flight.say(choice, CallEvent::Tokens(tokens.into()));
        }
    }
    let is_new = whole.is_none();
    let end = match whole.or_else(|| ended_before(&call, &answer)) {
        Some(reason) => End::Finished(reason),
        None => {
            let end = Sampling::new(proxy, &mut answer, choice, flight, clock).run(&call).await;
            end.of_prompt(call.endpoint.prompt_field)
        }
    };
    let mut answer = answer.finish();
    // What an answer goes on from is part of the prompt for the host alone.
    answer.cached_tokens = answer.cached_tokens.map(|cached| cached.min(call.prompt.len()));
    let end = if answer.stop_string.is_some() { end.at_stop_string() } else { end };

    let generation_id = call.generation_id.clone();
    let finished = Finished {
        held_back: std::mem::take(&mut answer.held_back),
        message: answer.message.clone(),
        reason: end.reason().of_message(&answer.message),
        stop_string: answer.stop_string.clone(),
        prompt_tokens: call.prompt.len(),
        sampled_tokens: answer.tokens.len(),
        cached_tokens: answer.cached_tokens,
    };
    let owner = Arc::clone(&call.owner);
    let was_gone = earlier.as_ref().is_some_and(|earlier| earlier.client_gone);
    let is_recorded = match is_new {
        true => {
            record(
                proxy,
                call,
                answer,
                &end,
                Began { start_time, before: earlier.as_ref().map(|earlier| earlier.sampled_tokens.len()) },
            )
            .await
        }
        false => Ok(true),
    };
    if let Err(error) = owner.end_call(proxy).await {
        tracing::error!(%generation_id, %error, "could not end a session");
    }
    let client_gone = if is_new { matches!(end, End::ClientGone | End::Cut) } else { was_gone };
    let recorded = || Some(Recorded { generation_id: generation_id.clone(), client_gone });
    let error = match (is_recorded, end) {
        // Nobody is left to be told; the log is.
        (Err(error), End::ClientGone) => {
            tracing::error!(%generation_id, %error, "an answer that its client left could not be recorded");
            return None;
        }
        (Ok(is_recorded), End::ClientGone) => return recorded().filter(|_| is_recorded),
        (Ok(_), End::Finished(_)) => {
            flight.say(choice, CallEvent::Finished(Arc::new(finished)));
            return recorded();
        }
        (Ok(is_recorded), End::Cut) => {
            flight.say(choice, CallEvent::Failed(Arc::new(Refused::ShuttingDown.into())));
            return recorded().filter(|_| is_recorded);
        }
        (Err(error), _) => error,
        (Ok(_), End::Broken(error)) => error,
    };
    flight.say(choice, CallEvent::Failed(Arc::new(error)));
    None
}

/// Why there is no more to sample of an answer that was broken off: its client had gone just then, or nothing is left
/// of its attempt's budget.
fn ended_before(call: &Call, answer: &Answer) -> Option<FinishReason> {
    let at_stop_token = answer.tokens().last().is_some_and(|last| call.model.renderer.stop_tokens().contains(&last.id));
    if at_stop_token || answer.has_ended() {
        return Some(FinishReason::Stop);
    }
    (answer.tokens().len() >= call.max_tokens).then_some(FinishReason::Length)
}
