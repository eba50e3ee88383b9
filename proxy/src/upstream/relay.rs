use std::sync::Arc;
use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use fulgurite_api::Refused;
use fulgurite_backends::{AnswerFault, UpstreamReply};
use serde_json::Value;
use tokio::time::timeout;

use super::event_stream::{Events, data};
use super::forwarded_call::ForwardedCall;
use super::forwarded_request::{response_headers, without_key};
use super::record_answer::{End, record_answer, record_failure};
use super::stream_assembly::Assembly;
use super::upstream_answer::Answer;
use crate::error::ProxyError;
use crate::record::delivery::Recorded;
use crate::reply::flight::Flight;
use crate::state::call_services::CallServices;
use crate::state::deadlines::{Deadline, Deadlines};
use crate::state::forwarded_part::{ForwardedPart, Head};
use crate::state::interruption::{Interruption, unless_interrupted};

/// More than a whole answer can need, in bytes.
pub(super) const BODY_LIMIT: usize = 256 * 1024 * 1024;

/// What is read behind the end of a stream, in bytes.
const LIMIT_AFTER_END: usize = 64 * 1024;
/// For how long that is waited for.
const TIME_AFTER_END: Duration = Duration::from_secs(5);

/// An answer, all of which was forwarded.
pub(super) struct Answered {
    pub(super) parts: Vec<ForwardedPart>,
    pub(super) recorded: Option<Recorded>,
}

/// Passes one answer on, and records it before its last byte leaves.
pub(super) struct Relay<'r> {
    services: &'r CallServices,
    call: &'r ForwardedCall,
    flight: &'r Flight<ForwardedPart>,
    parts: Vec<ForwardedPart>,
    /// While the model is paused, only that of the attempt's budget.
    deadline: Option<Deadline>,
}

impl<'r> Relay<'r> {
    pub(super) fn new(services: &'r CallServices, call: &'r ForwardedCall, flight: &'r Flight<ForwardedPart>) -> Self {
        Self { services, call, flight, parts: Vec::new(), deadline: Deadline::of_budget(&call.owner) }
    }

    /// Sends the request, once its model is not paused, and forwards the answer. Returns a whole answer, or none where it
    /// cannot be replayed.
    pub(super) async fn run(mut self) -> Option<Answered> {
        let ForwardedCall { model, gate, request, fields, .. } = self.call;
        let _inside = match self.unless_interrupted(gate.enter()).await {
            Ok(inside) => inside,
            Err(why) => return self.stopped_before_an_answer(why).await,
        };
        let deadlines = Deadlines::new(self.services.limits, self.deadline);
        // An answer in one piece is silent until its end.
        let is_streamed = fields.get("stream") == Some(&Value::Bool(true));
        self.deadline = Some(if is_streamed { deadlines.first_token } else { deadlines.whole });
        match self.unless_interrupted(model.upstream.send(request)).await {
            Err(why) => self.stopped_before_an_answer(why).await,
            Ok(Err(error)) => self.fail("upstream_unavailable", error.into()).await,
            Ok(Ok(reply)) if is_event_stream(&reply) => self.stream(reply, deadlines).await,
            Ok(Ok(reply)) => self.whole(reply).await,
        }
    }

    fn publish(&mut self, part: ForwardedPart) {
        self.parts.push(part.clone());
        self.flight.publish(part);
    }

    fn publish_head(&mut self, reply: &UpstreamReply, is_stream: bool) {
        let headers = response_headers(&reply.headers, self.key());
        self.publish(ForwardedPart::Head(Arc::new(Head { status: reply.status, headers, is_stream })));
    }

    fn publish_piece(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.publish(ForwardedPart::Piece(bytes.into()));
        }
    }

    fn key(&self) -> Option<&'r str> {
        self.call.model.upstream.api_key()
    }

    /// The result of some work, unless it is interrupted.
    async fn unless_interrupted<T>(&self, work: impl Future<Output = T>) -> Result<T, Interruption> {
        unless_interrupted(work, self.flight, &mut self.services.shutdown.cut(), self.deadline).await
    }

    /// An answer in one piece: it is sent once it is complete and recorded.
    async fn whole(mut self, mut reply: UpstreamReply) -> Option<Answered> {
        let body = match self.unless_interrupted(reply.body(BODY_LIMIT)).await {
            Err(why) => return self.stopped_before_an_answer(why).await,
            Ok(Err(error)) => return self.fail("upstream_broken", error.into()).await,
            Ok(Ok(body)) => body,
        };
        let body = without_key(body, self.key());
        let recorded = match self.record_whole(&reply, &body).await {
            Ok(recorded) => recorded,
            Err(error) => return self.fail_unrecorded(error),
        };
        self.publish_head(&reply, false);
        self.publish(ForwardedPart::Piece(body));
        self.publish(ForwardedPart::End);
        reply.status.is_success().then_some(Answered { parts: self.parts, recorded })
    }

    async fn record_whole(&self, reply: &UpstreamReply, body: &[u8]) -> Result<Option<Recorded>, ProxyError> {
        let (store, call) = (&self.services.store, self.call);
        let read = || Answer::parse(call.route, body);
        let recorded = match reply.status.is_success().then(read).flatten() {
            Some(answer) => record_answer(store, call, &reply.url, answer, End::Whole).await?,
            None => {
                let status = reply.status.as_str();
                record_failure(store, call, status, &String::from_utf8_lossy(body)).await?;
                None
            }
        };
        call.owner.end_call(store).await?;
        Ok(recorded)
    }

    /// An answer while it comes. The event that ends it leaves once it is recorded.
    async fn stream(mut self, mut reply: UpstreamReply, deadlines: Deadlines) -> Option<Answered> {
        self.publish_head(&reply, true);
        let mut events = Events::new(BODY_LIMIT);
        let mut assembly = Assembly::new(self.call.route);
        let mut held = loop {
            let came = match self.unless_interrupted(reply.chunk()).await {
                Err(Interruption::Abandoned | Interruption::ShutDown) => {
                    return self.client_left(&reply, assembly).await;
                }
                Err(Interruption::OutOfTime(deadline)) => return self.broken(&reply, assembly, deadline.error()).await,
                Ok(came) => came,
            };
            let fault = match came {
                Ok(Some(bytes)) => match events.feed(&bytes) {
                    Ok(ended) => match self.forward_events(&mut assembly, ended) {
                        Some(held) => break held,
                        None => {
                            if assembly.has_started() {
                                self.deadline = Some(deadlines.next_token());
                            }
                            continue;
                        }
                    },
                    Err(fault) => reply.broken(fault),
                },
                // Some servers end their streams without saying so.
                Ok(None) if assembly.is_answered() => break Vec::new(),
                Ok(None) => reply.broken(AnswerFault::BrokenOff { message: String::new() }),
                Err(error) => error,
            };
            return self.broken(&reply, assembly, fault.into()).await;
        };
        held.extend_from_slice(&without_key(events.finish(), self.key()));
        let end = if assembly.error().is_some() { End::Broken } else { End::Whole };
        let recorded = match self.record_partly(&reply, assembly, end).await {
            Ok(recorded) => recorded,
            Err(error) => return self.fail_unrecorded(error),
        };
        self.publish_piece(held);
        self.publish(ForwardedPart::End);
        // Only a connection that was read to its end can be used again; one with more to come is closed.
        #[expect(clippy::disallowed_methods, reason = "it ends with its time limit")]
        tokio::spawn(async move { timeout(TIME_AFTER_END, reply.body(LIMIT_AFTER_END)).await.map(drop) });
        (end == End::Whole).then_some(Answered { parts: self.parts, recorded })
    }

    /// Passes events on up to the one that ends the stream: what is held back begins with that.
    fn forward_events(&mut self, assembly: &mut Assembly, events: Vec<Vec<u8>>) -> Option<Vec<u8>> {
        let mut pending = Vec::new();
        let mut held = None;
        for event in events {
            let event = without_key(event, self.key());
            let data = data(&event);
            if held.is_none() && !data.is_empty() {
                let had_started = assembly.has_started();
                assembly.take(&data);
                if assembly.has_started() && !had_started {
                    self.call.facts.first_token();
                }
            }
            let has_ended = assembly.has_ended().then(|| held.get_or_insert_default());
            has_ended.unwrap_or(&mut pending).extend_from_slice(&event);
        }
        self.publish_piece(pending);
        held
    }

    async fn stopped_before_an_answer(mut self, why: Interruption) -> Option<Answered> {
        if let Interruption::OutOfTime(deadline) = why {
            let error = deadline.error();
            let kind = match error {
                ProxyError::SamplerTimeout { .. } => "sampler_timeout",
                _ => "budget_exceeded",
            };
            return self.fail(kind, error).await;
        }
        if let Err(error) = record_failure(&self.services.store, self.call, "client_gone", CLIENT_LEFT).await {
            // There are no listeners left; log it.
            tracing::error!(%error, "a call that its client left could not be recorded");
        }
        self.publish_end();
        None
    }

    async fn client_left(mut self, reply: &UpstreamReply, assembly: Assembly) -> Option<Answered> {
        if let Err(error) = self.record_partly(reply, assembly, End::ClientDisconnected).await {
            // There are no listeners left; log it.
            tracing::error!(%error, "an answer that its client left could not be recorded");
        }
        self.publish_end();
        None
    }

    /// If an answer that is broken off still has listeners, the server is shutting down.
    fn publish_end(&mut self) {
        self.publish(ForwardedPart::Failed(Arc::new(Refused::ShuttingDown.into())));
    }

    /// Records the part of an answer that has arrived.
    async fn record_partly(
        &self,
        reply: &UpstreamReply,
        assembly: Assembly,
        end: End,
    ) -> Result<Option<Recorded>, ProxyError> {
        let (store, call) = (&self.services.store, self.call);
        let error = assembly.error().map(str::to_owned);
        let recorded = match (Answer::read(call.route, &assembly.into_reply()), end) {
            (Some(answer), end) => record_answer(store, call, &reply.url, answer, end).await?,
            (None, End::ClientDisconnected) => {
                record_failure(store, call, "client_gone", CLIENT_LEFT).await?;
                None
            }
            (None, End::Whole | End::Broken) => {
                let message = error.as_deref().unwrap_or("the upstream's stream says nothing that can be read");
                record_failure(store, call, "upstream_broken", message).await?;
                None
            }
        };
        call.owner.end_call(store).await?;
        Ok(recorded)
    }

    async fn broken(mut self, reply: &UpstreamReply, assembly: Assembly, error: ProxyError) -> Option<Answered> {
        let recorded = self.record_partly(reply, assembly, End::Broken).await;
        self.publish(ForwardedPart::Failed(Arc::new(recorded.err().unwrap_or(error))));
        None
    }

    /// Tells and records that there is no answer.
    async fn fail(mut self, kind: &str, error: ProxyError) -> Option<Answered> {
        let recorded = record_failure(&self.services.store, self.call, kind, &error.to_string()).await;
        self.publish(ForwardedPart::Failed(Arc::new(recorded.err().unwrap_or(error))));
        None
    }

    /// What could not be recorded does not leave.
    fn fail_unrecorded(mut self, error: ProxyError) -> Option<Answered> {
        self.publish(ForwardedPart::Failed(Arc::new(error)));
        None
    }
}

const CLIENT_LEFT: &str = "the client hung up before anything was answered";

fn is_event_stream(reply: &UpstreamReply) -> bool {
    let content_type = reply.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    reply.status.is_success() && content_type.is_some_and(|kind| kind.starts_with("text/event-stream"))
}
