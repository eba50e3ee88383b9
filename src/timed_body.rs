//! How long a request's body may take.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use fulgurite_store::BodyTooSlow;
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep};

/// A middleware that breaks a request's body off which has not arrived whole in time. Whoever reads it says so in the
/// dialect of the route.
pub async fn time_bodies(State(limit): State<Duration>, request: Request, next: Next) -> Response {
    next.run(request.map(|body| Body::new(TimedBody { body, limit, time: None }))).await
}

struct TimedBody {
    body: Body,
    limit: Duration,
    /// Runs once a part of the body was not there when it was asked for.
    time: Option<Pin<Box<Sleep>>>,
}

impl http_body::Body for TimedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Self { body, limit, time } = &mut *self;
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(context) {
            return Poll::Ready(frame);
        }
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
