use std::collections::VecDeque;
use std::fmt::Debug;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use tokio::sync::mpsc;

use crate::{BackendError, SampleEvent};

/// What a stream gives next: an event, or why there are no more.
pub type Sampled = Result<SampleEvent, BackendError>;

/// Where a stream's events come from. Dropping it stops the sampling.
pub trait SampleSource: Debug + Send {
    /// Adds all that has come, in order: at least one event, or none if nothing will come any more. While it is pending
    /// it adds nothing.
    fn poll_events(&mut self, context: &mut Context<'_>, events: &mut Vec<Sampled>) -> Poll<()>;

    /// Stops the sampling. What had come by then can still be taken.
    fn stop(&mut self);
}

/// The tokens of one request, in order, as they are sampled. Dropping it stops the sampling.
#[derive(Debug)]
pub struct SampleStream {
    source: Box<dyn SampleSource>,
    /// What has come and was not taken yet.
    arrived: VecDeque<Sampled>,
    /// Dropped with the stream, whatever they are.
    _kept: Vec<Guard>,
}

type Guard = Box<dyn Debug + Send + Sync>;

impl SampleStream {
    /// A stream of what a source gives whenever it is waited for.
    pub fn new(source: impl SampleSource + 'static) -> Self {
        Self { source: Box::new(source), arrived: VecDeque::new(), _kept: Vec::new() }
    }

    /// A stream and the end that feeds it. `is_closed` on the sender tells that nobody listens any more.
    /// Unbounded, because `max_tokens` bounds what a request can put into it.
    pub fn channel() -> (mpsc::UnboundedSender<Sampled>, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (sender, Self::new(receiver))
    }

    /// Keeps something for as long as the stream is there: a place in a queue, say.
    pub fn keeping(mut self, kept: impl Debug + Send + Sync + 'static) -> Self {
        self._kept.push(Box::new(kept));
        self
    }

    /// Stops the sampling. What had been sampled by then can still be taken.
    pub fn stop(&mut self) {
        self.source.stop();
    }

    /// The next event; an error if the host broke off before `Finished`.
    pub async fn next(&mut self) -> Sampled {
        if self.arrived.is_empty() {
            self.arrived = self.next_events().await.into();
        }
        self.arrived.pop_front().unwrap_or_else(broken_off)
    }

    /// All events that have come since the last, at least one; an error, after which nothing comes, if the host broke off
    /// before `Finished`.
    pub async fn next_events(&mut self) -> Vec<Sampled> {
        let mut events = Vec::new();
        poll_fn(|context| self.poll_events(context, &mut events)).await;
        events
    }

    /// Waits until something has come, and leaves it there unless it is an error.
    pub(crate) async fn begin(&mut self) -> Result<(), BackendError> {
        let first = self.next().await?;
        self.arrived.push_front(Ok(first));
        Ok(())
    }

    /// As [`SampleStream::next_events`].
    pub(crate) fn poll_events(&mut self, context: &mut Context<'_>, events: &mut Vec<Sampled>) -> Poll<()> {
        match self.arrived.is_empty() {
            true => ready!(self.source.poll_events(context, events)),
            false => events.extend(self.arrived.drain(..)),
        }
        if events.is_empty() {
            events.push(broken_off());
        }
        Poll::Ready(())
    }
}

fn broken_off() -> Sampled {
    Err(BackendError::Unavailable { message: "the sampler stopped in the middle of an answer".into() })
}

impl SampleSource for mpsc::UnboundedReceiver<Sampled> {
    fn poll_events(&mut self, context: &mut Context<'_>, events: &mut Vec<Sampled>) -> Poll<()> {
        // Whatever is left behind that many comes the next time.
        self.poll_recv_many(context, events, 1024).map(drop)
    }

    fn stop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SampledToken, SamplingEnd};

    fn token(id: u32) -> SampleEvent {
        SampleEvent::Token(SampledToken { id, logprob: -1.0, weights_version: None, top_logprobs: Vec::new() })
    }

    async fn came(stream: &mut SampleStream) -> Vec<SampleEvent> {
        stream.next_events().await.into_iter().map(Result::unwrap).collect()
    }

    #[tokio::test]
    async fn what_has_come_comes_together_and_one_by_one_in_the_same_order() {
        let (sender, mut stream) = SampleStream::channel();
        for event in [token(1), token(2), token(3), SampleEvent::Finished(SamplingEnd::Length)] {
            sender.send(Ok(event)).unwrap();
        }
        stream.begin().await.unwrap();
        assert_eq!(stream.next().await.unwrap(), token(1));
        let rest = [token(2), token(3), SampleEvent::Finished(SamplingEnd::Length)];
        assert_eq!(came(&mut stream).await, rest);
    }

    #[tokio::test]
    async fn what_had_come_when_it_was_stopped_can_be_taken_and_then_it_has_broken_off() {
        let (sender, mut stream) = SampleStream::channel();
        sender.send(Ok(token(1))).unwrap();
        stream.stop();
        assert!(sender.send(Ok(token(2))).is_err());
        assert_eq!(came(&mut stream).await, [token(1)]);
        assert!(matches!(stream.next().await, Err(BackendError::Unavailable { .. })));
    }
}
