use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body as AnyBody;
use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};

/// How the handing over of a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyEnd {
    pub(crate) bytes: u64,
    /// Whether all of it was taken.
    pub(crate) is_whole: bool,
}

/// A body that reports how it ended, once.
pub(crate) struct ObservedBody<F: FnOnce(BodyEnd)> {
    body: AnyBody,
    end: BodyEnd,
    tell: Option<F>,
}

impl<F: FnOnce(BodyEnd)> ObservedBody<F> {
    pub(crate) fn new(body: AnyBody, tell: F) -> Self {
        // A connection does not poll an empty body.
        let end = BodyEnd { bytes: 0, is_whole: body.is_end_stream() };
        Self { body, end, tell: Some(tell) }
    }
}

impl<F: FnOnce(BodyEnd) + Unpin> Body for ObservedBody<F> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        match &frame {
            Poll::Ready(Some(Ok(frame))) => {
                self.end.bytes += frame.data_ref().map_or(0, |data| data.remaining() as u64);
                // Nor one that reports its end.
                self.end.is_whole = self.body.is_end_stream();
            }
            Poll::Ready(None) => self.end.is_whole = true,
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<F: FnOnce(BodyEnd)> Drop for ObservedBody<F> {
    fn drop(&mut self) {
        if let Some(tell) = self.tell.take() {
            tell(self.end);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_body_is_whole_once_it_is_taken_or_says_that_it_has_ended() {
        let (sender, ends) = mpsc::channel();
        let observed = |body: AnyBody| {
            let sender = sender.clone();
            ObservedBody::new(body, move |end| sender.send((end.bytes, end.is_whole)).unwrap())
        };
        drop(observed(AnyBody::empty()));
        drop(observed("abc".into()));
        drop(observed("abc".into()).frame().await);
        observed("abc".into()).collect().await.unwrap();
        assert_eq!(ends.try_iter().collect::<Vec<_>>(), [(0, true), (0, false), (3, true), (3, true)]);
    }
}
