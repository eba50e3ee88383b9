//! What is let in, and how far the server's end has come.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::{Router, http};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::watch;
use tower::ServiceExt;

use crate::http::limited_stream::Requests;
use crate::http::timed_body::TimedBody;

/// What is let in, and how far the end has come. Clones share it.
#[derive(Clone)]
pub(crate) struct Gate {
    phase: watch::Sender<Phase>,
    /// Requests that have been let in and are not answered to their last byte.
    inside: watch::Sender<usize>,
}

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is not in sight.
    Open,
    /// What is inside is finished. Connections that wait for a request stay, so that it can be refused.
    Draining,
    /// Connections end.
    Closed,
}

impl Gate {
    /// An open gate.
    pub(crate) fn new() -> Self {
        Self { phase: watch::Sender::new(Phase::Open), inside: watch::Sender::new(0) }
    }

    /// Lets nothing in from now on. Ends once everything that is inside has been answered.
    pub(crate) async fn drain(&self) {
        self.phase.send_replace(Phase::Draining);
        // The sender is ours, so that the wait cannot fail.
        let _ = self.inside.subscribe().wait_for(|inside| *inside == 0).await;
    }

    /// Ends every connection that has nothing more to say, and the others once they have said it.
    pub(crate) fn close(&self) {
        self.phase.send_replace(Phase::Closed);
    }

    /// Whether what comes now is let in.
    pub(crate) fn is_open(&self) -> bool {
        *self.phase.borrow() == Phase::Open
    }

    /// Tells of every phase from now on.
    pub(crate) fn phases(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// A request is inside from now on.
    pub(crate) fn enter(&self, requests: &Arc<Requests>, version: http::Version) -> Visit {
        // Nobody waits for more of them.
        self.inside.send_if_modified(|inside| {
            *inside += 1;
            false
        });
        requests.begin(version == http::Version::HTTP_11);
        Visit { inside: self.inside.clone(), requests: Arc::clone(requests) }
    }
}

/// A request that is inside; it has been answered when this is dropped.
pub(crate) struct Visit {
    inside: watch::Sender<usize>,
    /// Of its connection.
    requests: Arc<Requests>,
}

impl Visit {
    /// The router's answer to the request, whose body has to arrive within `body_time`.
    pub(crate) async fn answer(
        self,
        request: http::Request<Incoming>,
        router: Router,
        body_time: Duration,
    ) -> Result<http::Response<VisitedBody>, Infallible> {
        let requests = Arc::clone(&self.requests);
        let request = request.map(|body| Body::new(TimedBody::new(body, body_time, requests)));
        let response = router.oneshot(request).await?;
        self.requests.respond();
        Ok(response.map(|body| VisitedBody { body, _visit: self }))
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.requests.is_busy.store(false, Ordering::Release);
        self.inside.send_if_modified(|inside| {
            *inside -= 1;
            *inside == 0
        });
    }
}

/// A response's body, with which its request's visit ends.
pub(crate) struct VisitedBody {
    body: Body,
    _visit: Visit,
}

impl http_body::Body for VisitedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
