use std::sync::Arc;

use fulgurite_api::Refused;
use futures::future::join_all;

use crate::call::call_end::End;
use crate::call::call_services::CallServices;
use crate::call::model_call::Call;
use crate::call::sampled_answer::SampledAnswer;
use crate::call::sampling::Sampling;
use crate::clock::now;
use crate::gateway::pause_state::InFlight;
use crate::record::delivery::{Recorded, mark};
use crate::record::record_call::{CallStart, record, sampled_tokens};
use crate::reply::call_event::{CallEvent, Finished};
use crate::reply::finish_reason::FinishReason;
use crate::reply::flight::Flight;
use crate::retries::request_log::OpenRequest;

/// Starts the calls for one request's answers. They run to their records whether or not anybody still listens; once
/// nobody does, sampling stops. `in_flight` is held until they are over, if somebody counts those under way.
pub(crate) fn start(services: &Arc<CallServices>, request: OpenRequest, calls: Vec<Call>, in_flight: Option<InFlight>) {
    tokio::spawn(fly(Arc::clone(services), request, calls, in_flight));
}

/// Runs all calls of a request, and notes whether somebody took their answers.
async fn fly(services: Arc<CallServices>, request: OpenRequest, calls: Vec<Call>, _in_flight: Option<InFlight>) {
    let _under_way = services.shutdown.begin();
    let count = calls.len();
    let runs = calls.into_iter().enumerate().map(|(choice, call)| run(&services, call, choice, &request.flight));
    let recorded: Vec<Recorded> = join_all(runs).await.into_iter().flatten().collect();
    // An answer that somebody got is not taken from them by whoever asked for it again and left.
    let was_delivered = request.flight.settled().await || request.was_delivered();
    let marked = mark(&services.store, &recorded, was_delivered).await;
    // What failed is no answer to give to somebody else.
    if marked && recorded.len() == count {
        request.answered(was_delivered);
    }
}

/// Runs a call to its record. Gives what is recorded of it, unless it failed.
async fn run(services: &CallServices, mut call: Call, choice: usize, flight: &Flight) -> Option<Recorded> {
    let start_time = now();
    let mut answer = SampledAnswer::new(&call);
    let whole = call.ended_earlier();
    let earlier = call.earlier.take();
    let clock = call.clock.take();
    // What was sampled of other answers is left, and they begin anew.
    let goes_on = whole.is_some() || !call.sampling.depends_on_answer();
    if let Some(earlier) = earlier.as_ref().filter(|_| goes_on) {
        let tokens = answer.go_on_behind(sampled_tokens(earlier));
        if !tokens.is_empty() {
            flight.publish_event(choice, CallEvent::Tokens(tokens.into()));
        }
    }
    let is_new = whole.is_none();
    let end = match whole.or_else(|| ended_before(&call, &answer)) {
        Some(reason) => End::Finished(reason),
        None => {
            let end = Sampling::new(services, &mut answer, choice, flight, clock).run(&call).await;
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
                services,
                call,
                answer,
                &end,
                CallStart { start_time, before: earlier.as_ref().map(|earlier| earlier.sampled_tokens.len()) },
            )
            .await
        }
        false => Ok(true),
    };
    if let Err(error) = owner.end_call(&services.store).await {
        tracing::error!(%generation_id, %error, "could not end a session");
    }
    let client_gone = if is_new { matches!(end, End::ClientGone | End::ShutDown) } else { was_gone };
    let recorded = || Some(Recorded { generation_id: generation_id.clone(), client_gone });
    let error = match (is_recorded, end) {
        // Nobody is left to be told; the log is.
        (Err(error), End::ClientGone) => {
            tracing::error!(%generation_id, %error, "an answer that its client left could not be recorded");
            return None;
        }
        (Ok(is_recorded), End::ClientGone) => return recorded().filter(|_| is_recorded),
        (Ok(_), End::Finished(_)) => {
            flight.publish_event(choice, CallEvent::Finished(Arc::new(finished)));
            return recorded();
        }
        (Ok(is_recorded), End::ShutDown) => {
            flight.publish_event(choice, CallEvent::Failed(Arc::new(Refused::ShuttingDown.into())));
            return recorded().filter(|_| is_recorded);
        }
        (Err(error), _) => error,
        (Ok(_), End::Broken(error)) => error,
    };
    flight.publish_event(choice, CallEvent::Failed(Arc::new(error)));
    None
}

/// Why there is no more to sample of an answer that was broken off: its client had gone just then, or nothing is left
/// of its attempt's budget.
fn ended_before(call: &Call, answer: &SampledAnswer) -> Option<FinishReason> {
    let at_stop_token = answer.tokens().last().is_some_and(|last| call.model.renderer.stop_tokens().contains(&last.id));
    if at_stop_token || answer.has_ended() {
        return Some(FinishReason::Stop);
    }
    (answer.tokens().len() >= call.max_tokens).then_some(FinishReason::Length)
}
