use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fulgurite_types::WeightsVersion;
use serde::Deserialize;
use tokio::time::{Instant, Sleep, sleep};

use crate::remote::answer::{Answer, Piece};
use crate::remote::http::connections::ReplyBody;
use crate::remote::http::event_decoder::EventDecoder;
use crate::remote::http::host::Host;
use crate::{AnswerFault, SampleEvent, SampleSource, Sampled};

/// How long to wait for what a host sends after an answer's end.
const AFTER_END_LIMIT: Duration = Duration::from_secs(1);

/// Reads one wire's events.
pub(crate) trait ReadEvent: Send + 'static {
    /// Whether the host reports after an answer's end what it had cached.
    const SENDS_AFTER_END: bool = false;

    /// What an event's data says, given how many tokens have come before; `None` for nothing.
    fn read(&mut self, data: &str, tokens_so_far: usize) -> Result<Option<Piece>, AnswerFault>;
}

/// An event of a host that writes `[DONE]` behind its last one.
///
/// # Errors
/// Of a text that is no such event, or that comes before an answer's end.
pub(crate) fn event_of<'d, E: Deserialize<'d>>(data: &'d str) -> Result<E, AnswerFault> {
    if data == "[DONE]" {
        return Err(AnswerFault::BrokenOff { message: ": it is said to be done before it has ended".into() });
    }
    serde_json::from_str(data).map_err(|error| AnswerFault::Unreadable { message: error.to_string() })
}

/// The version of the weights that was last reported.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastWeights(Arc<Mutex<Option<WeightsVersion>>>);

impl LastWeights {
    pub(crate) fn get(&self) -> Option<WeightsVersion> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, event: &SampleEvent) {
        let version = match event {
            SampleEvent::Token(token) => token.weights_version,
            SampleEvent::WeightsVersions(versions) => versions.last().copied().flatten(),
            SampleEvent::CachedPrompt(_) | SampleEvent::Finished(_) => None,
        };
        if version.is_some() {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = version;
        }
    }
}

/// An answer on its way from a host, read whenever it is waited for.
pub(crate) struct AnswerStream<R> {
    host: Arc<Host>,
    /// Until the answer's end, or until it is stopped.
    body: Option<ReplyBody>,
    decoder: EventDecoder,
    reader: R,
    answer: Answer,
    last_weights: LastWeights,
    /// The end of an answer after which the host has yet to send something.
    end: Option<SampleEvent>,
    /// When the host last sent something.
    last_received: Instant,
    silence: Pin<Box<Sleep>>,
}

impl<R: ReadEvent> AnswerStream<R> {
    pub(crate) fn new(host: Arc<Host>, body: ReplyBody, reader: R, answer: Answer, last_weights: LastWeights) -> Self {
        let silence = Box::pin(sleep(host.silence_limit()));
        let decoder = EventDecoder::default();
        let (body, last_received) = (Some(body), Instant::now());
        Self { host, body, decoder, reader, answer, last_weights, end: None, last_received, silence }
    }

    /// Reads what has come. Ready at the answer's end, or once nothing more can be waited for.
    fn poll_read(&mut self, context: &mut Context<'_>, events: &mut Vec<Sampled>) -> Poll<Result<(), AnswerFault>> {
        let before = events.len();
        while let Some(body) = &mut self.body {
            match body.poll_data(context) {
                Poll::Ready(Some(Ok(bytes))) => {
                    self.last_received = Instant::now();
                    if self.take(&bytes, events)?
                        && let Some(body) = self.body.take()
                    {
                        body.abandon(context);
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Err(AnswerFault::BrokenOff { message: format!(": {error}") }));
                }
                Poll::Ready(None) => return Poll::Ready(Err(AnswerFault::BrokenOff { message: String::new() })),
                Poll::Pending if events.len() > before => return Poll::Ready(Ok(())),
                Poll::Pending => {
                    ready!(self.poll_silence(context));
                    return Poll::Ready(Err(AnswerFault::Silent { seconds: self.host.silence_limit().as_secs() }));
                }
            }
        }
        events.extend(self.end.take().map(Ok));
        Poll::Ready(Ok(()))
    }

    /// Whether bytes end the answer, whose events they add.
    fn take(&mut self, bytes: &[u8], events: &mut Vec<Sampled>) -> Result<bool, AnswerFault> {
        let Self { decoder, reader, answer, last_weights, end, .. } = self;
        let mut has_ended = false;
        decoder.feed(bytes, |data| {
            // What follows the end says nothing of the answer.
            if has_ended {
                return Ok(());
            }
            let read = reader.read(data, answer.tokens_so_far());
            if end.is_some() {
                match read {
                    Ok(None) => {}
                    Ok(Some(Piece { cached, .. })) => {
                        has_ended = true;
                        events.extend(answer.take(Piece { cached, ..Piece::default() })?.into_iter().map(Ok));
                    }
                    // That it is done, or what nobody can read.
                    Err(_) => has_ended = true,
                }
                return Ok(());
            }
            let Some(piece) = read? else { return Ok(()) };
            for event in answer.take(piece)? {
                last_weights.update(&event);
                match event {
                    SampleEvent::Finished(_) if R::SENDS_AFTER_END => *end = Some(event),
                    event => {
                        has_ended |= matches!(event, SampleEvent::Finished(_));
                        events.push(Ok(event));
                    }
                }
            }
            Ok(())
        })?;
        Ok(has_ended)
    }

    /// Ready once nothing has been received for too long.
    fn poll_silence(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let limit = if self.end.is_some() { AFTER_END_LIMIT } else { self.host.silence_limit() };
        let until = self.last_received + limit;
        loop {
            // It may have been set when there was more to wait for.
            if self.silence.deadline() > until {
                self.silence.as_mut().reset(until);
            }
            ready!(self.silence.as_mut().poll(context));
            if until <= Instant::now() {
                return Poll::Ready(());
            }
            self.silence.as_mut().reset(until);
        }
    }
}

impl<R: ReadEvent> SampleSource for AnswerStream<R> {
    fn poll_events(&mut self, context: &mut Context<'_>, events: &mut Vec<Sampled>) -> Poll<()> {
        if let Err(fault) = ready!(self.poll_read(context, events)) {
            self.stop();
            // Behind its end nothing can break an answer.
            let end = self.end.take();
            events.push(end.map_or_else(|| Err(self.host.broken_answer(fault)), Ok));
        }
        Poll::Ready(())
    }

    /// Ends the connection, and so the host's work.
    fn stop(&mut self) {
        self.body = None;
    }
}

impl<R> fmt::Debug for AnswerStream<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AnswerStream").field("host", &self.host.name()).finish_non_exhaustive()
    }
}
