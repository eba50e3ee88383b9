use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use http_body::Frame;

use super::route::Route;
use crate::error::ProxyError;
use crate::observe::call_facts::CallFacts;
use crate::reply::flight::Listener;
use crate::reply::response_body::WholeBody;
use crate::state::forwarded_part::{ForwardedPart, Head};

/// The response to a listener: of a stream as soon as it begins, otherwise once it is complete.
pub(super) async fn respond(
    mut listener: Listener<ForwardedPart>,
    route: Route,
    facts: Arc<CallFacts>,
) -> Result<Response, Arc<ProxyError>> {
    let head = match listener.next().await.ok_or_else(ProxyError::broken_off)? {
        ForwardedPart::Head(head) => head,
        ForwardedPart::Failed(error) => return Err(error),
        ForwardedPart::Piece(_) | ForwardedPart::End => return Err(ProxyError::broken_off().into()),
    };
    if head.is_stream {
        return Ok(response(&head, Body::new(ForwardedBody { listener, route, facts, has_ended: false })));
    }
    let mut body = Vec::new();
    loop {
        match listener.next().await.ok_or_else(ProxyError::broken_off)? {
            ForwardedPart::Piece(bytes) => body.extend_from_slice(&bytes),
            ForwardedPart::End => return Ok(response(&head, Body::new(WholeBody::new(body.into(), listener)))),
            ForwardedPart::Failed(error) => return Err(error),
            ForwardedPart::Head(_) => {}
        }
    }
}

fn response(head: &Head, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    *response.headers_mut() = HeaderMap::clone(&head.headers);
    response
}

/// A stream that is forwarded while it comes. Dropped before its end, it cancels the upstream's request too.
struct ForwardedBody {
    listener: Listener<ForwardedPart>,
    route: Route,
    facts: Arc<CallFacts>,
    /// Nothing more will be handed over.
    has_ended: bool,
}

impl http_body::Body for ForwardedBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        loop {
            let Poll::Ready(part) = self.listener.poll_next(context) else { return Poll::Pending };
            match part {
                Some(ForwardedPart::Piece(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Some(ForwardedPart::Head(_)) => {}
                Some(ForwardedPart::Failed(error)) => {
                    self.has_ended = true;
                    self.facts.fail();
                    return Poll::Ready(Some(Ok(Frame::data(self.route.error_event(&error).into()))));
                }
                Some(ForwardedPart::End) => {
                    // Being polled again means that the connection took everything before.
                    self.listener.delivered();
                    return Poll::Ready(None);
                }
                None => return Poll::Ready(None),
            }
        }
    }
}
