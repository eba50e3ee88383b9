use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::observe::call_facts::CallFacts;
use crate::reply::call_event::CallEvent;
use crate::reply::flight::{ChoiceEvent, Listener};
use crate::reply::reply_writer::ReplyWriter;

/// A whole answer in one piece, which knows whether it was handed over.
pub(crate) struct WholeBody<E = ChoiceEvent> {
    bytes: Option<Bytes>,
    listener: Listener<E>,
}

impl<E> WholeBody<E> {
    pub(crate) fn new(bytes: Bytes, listener: Listener<E>) -> Self {
        Self { bytes: Some(bytes), listener }
    }
}

impl<E> Body for WholeBody<E> {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let bytes = self.bytes.take();
        if bytes.is_some() {
            self.listener.delivered();
        }
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

/// An answer that is written while it is sampled. Dropped before its end, it stops the sampling.
pub(crate) struct StreamedBody {
    listener: Listener,
    writer: Box<dyn ReplyWriter>,
    /// An event that was received and is still to be written.
    next_event: Option<ChoiceEvent>,
    has_started: bool,
    /// Answers that have not finished yet.
    unfinished: usize,
    /// The last piece has been handed over.
    has_ended: bool,
    quiet: Duration,
    last_written: Instant,
    keep_alive: Pin<Box<Sleep>>,
    facts: Arc<CallFacts>,
}

impl StreamedBody {
    /// A body of `choices` answers, which sends a keep-alive when nothing was sent for a time of `quiet`.
    pub(crate) fn new(
        listener: Listener,
        writer: Box<dyn ReplyWriter>,
        next_event: Option<ChoiceEvent>,
        choices: usize,
        quiet: Duration,
        facts: Arc<CallFacts>,
    ) -> Self {
        Self {
            listener,
            writer,
            next_event,
            has_started: false,
            unfinished: choices,
            has_ended: false,
            quiet,
            last_written: Instant::now(),
            keep_alive: Box::pin(tokio::time::sleep(quiet)),
            facts,
        }
    }

    /// Writes what is to be sent of an event.
    fn write(&mut self, event: &ChoiceEvent, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_started, true) {
            self.writer.begin(out);
        }
        match &event.event {
            CallEvent::Tokens(tokens) => {
                self.facts.count_delivered(tokens.len());
                tokens.iter().for_each(|sampled| self.writer.token(event.choice, sampled, out));
            }
            CallEvent::Finished(finished) => {
                self.writer.finish(event.choice, finished, out);
                self.unfinished -= 1;
                if self.unfinished == 0 {
                    self.writer.end(out);
                    self.has_ended = true;
                }
            }
            CallEvent::Failed(error) => {
                self.facts.fail();
                self.writer.fail(error, out);
                self.has_ended = true;
            }
        }
    }

    /// Writes all new events, but none that fails behind others: what ends a stream is a piece of its own, in which
    /// Google's client for JavaScript looks for it. Pending while more may come.
    fn poll_events(&mut self, context: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<()> {
        while !self.has_ended {
            let event = match self.next_event.take() {
                Some(event) => Some(event),
                None => ready!(self.listener.poll_next(context)),
            };
            match event {
                Some(event) if matches!(event.event, CallEvent::Failed(_)) && !out.is_empty() => {
                    self.next_event = Some(event);
                    break;
                }
                Some(event) => self.write(&event, out),
                None => break,
            }
        }
        Poll::Ready(())
    }

    /// Writes a keep-alive, unless something was sent since the timer was set.
    fn sign_of_life(&mut self, out: &mut Vec<u8>) {
        let is_quiet = self.last_written.elapsed() >= self.quiet;
        let since = if is_quiet { Instant::now() } else { self.last_written };
        self.keep_alive.as_mut().reset(since + self.quiet);
        if !is_quiet {
            return;
        }
        if !std::mem::replace(&mut self.has_started, true) {
            self.writer.begin(out);
        }
        self.writer.keep_alive(out);
    }
}

impl Body for StreamedBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.has_ended {
            // Being polled again means that the connection took everything before.
            if self.unfinished == 0 {
                self.listener.delivered();
            }
            return Poll::Ready(None);
        }
        let mut out = Vec::new();
        let is_over = self.poll_events(context, &mut out).is_ready();
        while out.is_empty() {
            if is_over {
                return Poll::Ready(None);
            }
            ready!(self.keep_alive.as_mut().poll(context));
            self.sign_of_life(&mut out);
        }
        self.last_written = Instant::now();
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(out)))))
    }
}
