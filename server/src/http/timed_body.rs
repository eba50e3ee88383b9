//! How long a request's body may take.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use fulgurite_api::BodyTooSlow;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Sleep, sleep};

use crate::http::limited_stream::Requests;

/// A request's body, which is broken off if it has not arrived whole in time. Whoever reads it says so in the dialect of
/// the route.
pub(crate) struct TimedBody {
    body: Incoming,
    limit: Duration,
    /// Of its connection.
    requests: Arc<Requests>,
    /// Runs once a part of the body was not there when it was asked for.
    time: Option<Pin<Box<Sleep>>>,
}

impl TimedBody {
    /// Gives a body so much time, once it is waited for.
    pub(crate) fn new(body: Incoming, limit: Duration, requests: Arc<Requests>) -> Self {
        let body = Self { body, limit, requests, time: None };
        body.look_for_end();
        body
    }

    fn look_for_end(&self) {
        if self.body.is_end_stream() {
            self.requests.arrive();
        }
    }
}

impl Body for TimedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.look_for_end();
            return Poll::Ready(frame.map(|frame| frame.map_err(axum::Error::new)));
        }
        let Self { limit, time, .. } = &mut *self;
        let time = time.get_or_insert_with(|| Box::pin(sleep(*limit)));
        let slow = BodyTooSlow { seconds: limit.as_secs_f64() };
        time.as_mut().poll(context).map(|()| Some(Err(axum::Error::new(slow))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
