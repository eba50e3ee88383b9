use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::call::CallEvent;
use crate::call_facts::CallFacts;
use crate::flight::{Listener, Said};
use crate::reply_writer::ReplyWriter;

/// A whole answer in one piece, which knows whether it was handed over.
pub(crate) struct WholeBody<E = Said> {
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
    /// What was heard before the body was made.
    heard: Option<Said>,
    has_begun: bool,
    /// Answers that have not finished yet.
    unfinished: usize,
    /// The last piece has been handed over.
    has_ended: bool,
    quiet: Duration,
    last_said: Instant,
    keep_alive: Pin<Box<Sleep>>,
    facts: Arc<CallFacts>,
}

impl StreamedBody {
    /// A body of `choices` answers, which sends a sign of life when nothing was to be said for a time of `quiet`.
    pub(crate) fn new(
        listener: Listener,
        writer: Box<dyn ReplyWriter>,
        heard: Option<Said>,
        choices: usize,
        quiet: Duration,
        facts: Arc<CallFacts>,
    ) -> Self {
        Self {
            listener,
            writer,
            heard,
            has_begun: false,
            unfinished: choices,
            has_ended: false,
            quiet,
            last_said: Instant::now(),
            keep_alive: Box::pin(tokio::time::sleep(quiet)),
            facts,
        }
    }

    /// What is to be sent of what an answer said.
    fn write(&mut self, said: &Said) -> Vec<u8> {
        let mut out = Vec::new();
        if !std::mem::replace(&mut self.has_begun, true) {
            self.writer.begin(&mut out);
        }
        match &said.event {
            CallEvent::Token(taken) => {
                self.facts.hear_token();
                self.writer.token(said.choice, taken, &mut out);
            }
            CallEvent::Finished(finished) => {
                self.writer.finish(said.choice, finished, &mut out);
                self.unfinished -= 1;
                if self.unfinished == 0 {
                    self.writer.end(&mut out);
                    self.has_ended = true;
                }
            }
            CallEvent::Failed(error) => {
                self.facts.fail();
                self.writer.fail(error, &mut out);
                self.has_ended = true;
            }
        }
        out
    }

    /// A sign of life, unless something was said since the timer was set.
    fn sign_of_life(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let is_quiet = self.last_said.elapsed() >= self.quiet;
        let since = if is_quiet { Instant::now() } else { self.last_said };
        self.keep_alive.as_mut().reset(since + self.quiet);
        if !is_quiet {
            return out;
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            self.writer.begin(&mut out);
        }
        self.writer.keep_alive(&mut out);
        out
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
            // Being asked for more means that the connection took all that came before.
            if self.unfinished == 0 {
                self.listener.delivered();
            }
            return Poll::Ready(None);
        }
        loop {
            let said = match self.heard.take() {
                Some(said) => Poll::Ready(Some(said)),
                None => self.listener.receiver.poll_recv(context),
            };
            let bytes = match said {
                Poll::Ready(Some(said)) => self.write(&said),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => match self.keep_alive.as_mut().poll(context) {
                    Poll::Ready(()) => self.sign_of_life(),
                    Poll::Pending => return Poll::Pending,
                },
            };
            if !bytes.is_empty() {
                self.last_said = Instant::now();
                return Poll::Ready(Some(Ok(Frame::data(Bytes::from(bytes)))));
            }
        }
    }
}
