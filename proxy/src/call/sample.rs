use std::sync::Arc;

use fulgurite_api::Refused;
use fulgurite_types::Generation;
use futures::future::join_all;

use crate::attempt::notes::note;
use crate::call::call_end::End;
use crate::call::model_call::ModelCall;
use crate::call::plan::PlannedRequest;
use crate::call::record::{CallStart, record, sampled_tokens};
use crate::call::respond::AnsweredRequest;
use crate::call::sampled_answer::{SampledAnswer, WholeAnswer, ended_before};
use crate::call::sampling::Sampling;
use crate::error::ProxyError;
use crate::models::pause_state::InFlight;
use crate::parts::Parts;
use crate::record::delivery::{Recorded, mark};
use crate::reply::call_event::{CallEvent, Finished};
use crate::reply::finish_reason::FinishReason;
use crate::reply::flight::Flight;
use crate::retries::request_log::OpenRequest;
use crate::state::call_services::CallServices;
use fulgurite_types::time::now;

/// Starts the calls for a request's answers. They run until they are recorded even without listeners, but without listeners
/// sampling stops. The gateway counts the request until they are over.
pub(crate) fn sample(parts: &Parts, planned: PlannedRequest) -> AnsweredRequest {
    let PlannedRequest { open, calls, in_flight, answered } = planned;
    #[expect(
        clippy::disallowed_methods,
        reason = "a call goes on to its record, and ends when nobody listens; shutdown counts those in flight"
    )]
    tokio::spawn(run_all(Arc::clone(&parts.services), open, calls, in_flight));
    answered
}

/// Runs all calls of a request, and notes whether their answers were delivered.
async fn run_all(
    services: Arc<CallServices>,
    request: OpenRequest,
    calls: Vec<ModelCall>,
    _in_flight: Option<InFlight>,
) {
    let _under_way = services.shutdown.begin();
    let count = calls.len();
    let runs = calls.into_iter().enumerate().map(|(choice, call)| run(&services, call, choice, &request.flight));
    let recorded: Vec<Recorded> = join_all(runs).await.into_iter().flatten().collect();
    // An answer that was delivered stays so if the same request is sent again and its client leaves.
    let was_delivered = request.flight.settled().await || request.was_delivered();
    let marked = mark(&services.store, &recorded, was_delivered).await;
    // A failure is not replayed to later requests.
    if marked && recorded.len() == count {
        request.answered(was_delivered);
    }
}

/// Runs a call to its record. Gives what is recorded of it, unless it failed.
async fn run(services: &CallServices, mut call: ModelCall, choice: usize, flight: &Flight) -> Option<Recorded> {
    let start_time = now();
    let whole = call.ended_earlier();
    let earlier = call.earlier.take();
    let (mut answer, end) = sample_answer(services, &mut call, (earlier.as_ref(), whole), choice, flight).await;
    let generation_id = call.generation_id.clone();
    let finished = finished(&call, &mut answer, &end);
    let owner = Arc::clone(&call.owner);
    let (is_recorded, client_disconnected) = match whole {
        None => {
            let before = earlier.as_ref().map(|earlier| earlier.sampled_tokens.len());
            let client_disconnected = matches!(end, End::ClientDisconnected | End::ShutDown);
            (record(services, call, answer, &end, CallStart { start_time, before }).await, client_disconnected)
        }
        Some(_) => (Ok(true), earlier.is_some_and(|earlier| earlier.client_disconnected)),
    };
    if let End::Broken(error) = &end {
        let attempt = owner.attribution().map(|_| owner.names());
        note(&services.store, attempt.as_ref(), error).await;
    }
    if let Err(error) = owner.end_call(&services.store).await {
        tracing::error!(%generation_id, %error, "could not end a session");
    }
    let (event, recorded) = outcome(is_recorded, end, finished, Recorded { generation_id, client_disconnected });
    if let Some(event) = event {
        flight.publish_event(choice, event);
    }
    recorded
}

/// Samples an answer to its end, behind what was sampled of it `earlier`, unless the `whole` of it was.
async fn sample_answer(
    services: &CallServices,
    call: &mut ModelCall,
    (earlier, whole): (Option<&Generation>, Option<FinishReason>),
    choice: usize,
    flight: &Flight,
) -> (WholeAnswer, End) {
    let mut answer = SampledAnswer::new(call);
    let clock = call.clock.take();
    // Other answers are dropped and sampled again.
    let goes_on = whole.is_some() || !call.sampling.depends_on_answer();
    if let Some(earlier) = earlier.filter(|_| goes_on) {
        let tokens = answer.continue_after(sampled_tokens(earlier));
        if !tokens.is_empty() {
            flight.publish_event(choice, CallEvent::Tokens(tokens.into()));
        }
    }
    let end = match whole.or_else(|| ended_before(call, &answer)) {
        Some(reason) => End::Finished(reason),
        None => {
            let end = Sampling::new(services, &mut answer, choice, flight, clock).run(call).await;
            end.of_prompt(call.endpoint.prompt_field)
        }
    };
    let mut answer = answer.finish();
    // The part of an answer that is continued belongs to the prompt for the host alone.
    answer.cached_tokens = answer.cached_tokens.map(|cached| cached.min(call.prompt.len()));
    let end = if answer.stop_string.is_some() { end.at_stop_string() } else { end };
    (answer, end)
}

/// The events for listeners at the end of an answer that ended by itself.
fn finished(call: &ModelCall, answer: &mut WholeAnswer, end: &End) -> Finished {
    Finished {
        held_back: std::mem::take(&mut answer.held_back),
        message: answer.message.clone(),
        reason: end.reason().of_message(&answer.message),
        stop_string: answer.stop_string.clone(),
        prompt_tokens: call.prompt.len(),
        sampled_tokens: answer.tokens.len(),
        cached_tokens: answer.cached_tokens,
    }
}

/// The last event of a call, if it still has listeners, and the record of the call, unless it failed.
fn outcome(
    is_recorded: Result<bool, ProxyError>,
    end: End,
    finished: Finished,
    recorded: Recorded,
) -> (Option<CallEvent>, Option<Recorded>) {
    match (is_recorded, end) {
        // There are no listeners left; log it.
        (Err(error), End::ClientDisconnected) => {
            let generation_id = recorded.generation_id;
            tracing::error!(%generation_id, %error, "an answer that its client left could not be recorded");
            (None, None)
        }
        (Ok(is_recorded), End::ClientDisconnected) => (None, is_recorded.then_some(recorded)),
        (Ok(_), End::Finished(_)) => (Some(CallEvent::Finished(Arc::new(finished))), Some(recorded)),
        (Ok(is_recorded), End::ShutDown) => {
            let shutting_down = CallEvent::Failed(Arc::new(Refused::ShuttingDown.into()));
            (Some(shutting_down), is_recorded.then_some(recorded))
        }
        (Err(error), _) | (Ok(_), End::Broken(error)) => (Some(CallEvent::Failed(Arc::new(error))), None),
    }
}
