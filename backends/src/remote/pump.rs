use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::Response;
use tokio::sync::mpsc::UnboundedSender;

use crate::remote::answer::{Answer, Piece};
use crate::remote::event_decoder::EventDecoder;
use crate::remote::host::{Host, describe};
use crate::{AnswerFault, BackendError, SampleEvent, SampleStream, WeightsVersion};

/// How long what follows an answer's end is waited for, so that its connection can be used again.
const AFTER_THE_END: Duration = Duration::from_secs(1);

/// Reads one wire's events.
pub(crate) trait ReadEvent: Send + 'static {
    /// What an event's data says, given how many tokens have come before; `None` for nothing.
    fn read(&mut self, data: &str, taken: usize) -> Result<Option<Piece>, AnswerFault>;
}

/// The version of the weights that was last heard of.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastWeights(Arc<Mutex<Option<WeightsVersion>>>);

impl LastWeights {
    pub(crate) fn get(&self) -> Option<WeightsVersion> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear(&self, event: &SampleEvent) {
        let heard = match event {
            SampleEvent::Token(token) => token.weights_version,
            SampleEvent::WeightsVersions(versions) => versions.last().copied().flatten(),
            SampleEvent::Finished(_) => None,
        };
        if heard.is_some() {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = heard;
        }
    }
}

/// An answer on its way from a host.
pub(crate) struct Pump<R> {
    pub(crate) host: Arc<Host>,
    pub(crate) response: Response,
    pub(crate) reader: R,
    pub(crate) answer: Answer,
    pub(crate) last_weights: LastWeights,
}

impl<R: ReadEvent> Pump<R> {
    /// Runs until the answer's end, or until nobody listens, which ends the connection and so the host's work.
    pub(crate) fn start(mut self) -> SampleStream {
        let (sender, stream) = SampleStream::channel();
        tokio::spawn(async move {
            if let Err(fault) = self.run(&sender).await {
                // Nobody listening is no fault.
                let _ = sender.send(Err(self.host.broken_answer(fault)));
            }
        });
        stream
    }

    async fn run(&mut self, sender: &UnboundedSender<Result<SampleEvent, BackendError>>) -> Result<(), AnswerFault> {
        let mut decoder = EventDecoder::default();
        loop {
            let chunk = tokio::select! {
                biased;
                () = sender.closed() => return Ok(()),
                chunk = tokio::time::timeout(self.host.silence_limit(), self.response.chunk()) => chunk,
            };
            let bytes = match chunk {
                Err(_) => return Err(AnswerFault::Silent { seconds: self.host.silence_limit().as_secs() }),
                Ok(Err(error)) => {
                    return Err(AnswerFault::BrokenOff { message: format!(": {}", describe(error)) });
                }
                Ok(Ok(None)) => return Err(AnswerFault::BrokenOff { message: String::new() }),
                Ok(Ok(Some(bytes))) => bytes,
            };
            decoder.feed(&bytes)?;
            while let Some(data) = decoder.next_event()? {
                let Some(piece) = self.reader.read(&data, self.answer.taken())? else { continue };
                for event in self.answer.take(piece)? {
                    self.last_weights.hear(&event);
                    let is_end = matches!(event, SampleEvent::Finished(_));
                    if sender.send(Ok(event)).is_err() {
                        return Ok(());
                    }
                    if is_end {
                        self.read_to_the_end().await;
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Without it the connection would be closed, and the next request would open another.
    async fn read_to_the_end(&mut self) {
        let rest = async { while let Ok(Some(_)) = self.response.chunk().await {} };
        // What is wrong behind an answer's end is none of its faults.
        let _ = tokio::time::timeout(AFTER_THE_END, rest).await;
    }
}
