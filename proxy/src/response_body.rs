use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::{mpsc, oneshot};

use crate::call::CallEvent;

/// Tells the call that its whole answer was handed over. Dropped unused, it tells that it was not.
pub(crate) type Delivered = oneshot::Sender<()>;

/// A whole answer in one piece.
pub(crate) struct WholeBody {
    bytes: Option<Bytes>,
    delivered: Option<Delivered>,
}

impl WholeBody {
    pub(crate) fn new(bytes: Bytes, delivered: Delivered) -> Self {
        Self { bytes: Some(bytes), delivered: Some(delivered) }
    }
}

impl Body for WholeBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = self.bytes.take().map(|bytes| Ok(Frame::data(bytes)));
        if let (Some(_), Some(delivered)) = (&frame, self.delivered.take()) {
            // The call may have stopped waiting; then nobody needs to know.
            let _ = delivered.send(());
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

/// Bytes of a streamed answer; the last ones carry the word that all of it was handed over.
pub(crate) struct Piece {
    pub(crate) bytes: Bytes,
    pub(crate) delivered: Option<Delivered>,
}

/// Writes the events of a call in some dialect's stream.
pub(crate) trait Encode: Send + Unpin + 'static {
    /// May be no bytes at all.
    fn encode(&mut self, event: CallEvent) -> Piece;
}

/// An answer that is written while it is sampled. Dropped before its end, it stops the sampling.
pub(crate) struct StreamedBody<E> {
    events: mpsc::Receiver<CallEvent>,
    encoder: E,
    delivered: Option<Delivered>,
}

impl<E: Encode> StreamedBody<E> {
    pub(crate) fn new(events: mpsc::Receiver<CallEvent>, encoder: E) -> Self {
        Self { events, encoder, delivered: None }
    }
}

impl<E: Encode> Body for StreamedBody<E> {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        // Being asked for more means that the connection took all that came before.
        if let Some(delivered) = self.delivered.take() {
            let _ = delivered.send(());
        }
        while let Some(event) = ready!(self.events.poll_recv(context)) {
            let Piece { bytes, delivered } = self.encoder.encode(event);
            self.delivered = delivered;
            if !bytes.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
        }
        Poll::Ready(None)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::error::ProxyError;

    #[tokio::test]
    async fn a_whole_body_that_is_dropped_unread_was_not_delivered() {
        let (delivered, mut answer) = oneshot::channel();
        drop(WholeBody::new(Bytes::from_static(b"x"), delivered));
        assert_eq!(answer.try_recv(), Err(oneshot::error::TryRecvError::Closed));

        let (delivered, answer) = oneshot::channel();
        let bytes = WholeBody::new(Bytes::from_static(b"x"), delivered).collect().await.unwrap().to_bytes();
        assert_eq!((&bytes[..], answer.await), (&b"x"[..], Ok(())));
    }

    struct Last(Option<Delivered>);

    impl Encode for Last {
        fn encode(&mut self, _: CallEvent) -> Piece {
            Piece { bytes: Bytes::from_static(b"last"), delivered: self.0.take() }
        }
    }

    #[tokio::test]
    async fn a_stream_is_delivered_only_when_more_is_asked_for_after_its_last_piece() {
        let (sender, events) = mpsc::channel(1);
        let (delivered, mut answer) = oneshot::channel();
        let error = ProxyError::MethodNotAllowed { method: "PUT".into() };
        assert!(sender.send(CallEvent::Failed(error)).await.is_ok());
        drop(sender);
        let mut body = StreamedBody::new(events, Last(Some(delivered)));
        body.frame().await.unwrap().unwrap();
        assert_eq!(answer.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        assert!(body.frame().await.is_none());
        assert_eq!(answer.try_recv(), Ok(()));
    }
}
