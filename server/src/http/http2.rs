//! A connection of HTTP/2, as clients of gRPC open one: requests that are answered at once, under the limits that one of
//! HTTP/1.1 is under.

use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Bytes;
use axum::{Router, http};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::http::gate::{Gate, Phase};
use crate::http::limited_stream::{ConnectionLimits, LimitedStream, Requests};
use crate::http::preface::PrefaceStream;

/// Requests of one connection that are answered at once; further ones are refused unread, as the protocol has it.
const STREAMS: u32 = 128;
/// Bytes of a response that are handed on at once, and so the most that is kept of one whose client takes nothing in.
const PIECE: usize = 16 * 1024;
/// For a connection on which nothing is answered any more to say so.
const LAST_FRAMES: Duration = Duration::from_secs(1);
/// Between two looks at what a connection does: a part of the limit, but neither busily nor seldom.
const LOOKS: (u32, Duration, Duration) = (8, Duration::from_millis(10), Duration::from_secs(5));

/// Answers the requests of one connection, of which the preface has been read.
pub(crate) async fn answer(
    stream: TcpStream,
    router: Router,
    limits: ConnectionLimits,
    gate: Gate,
    mut phase: watch::Receiver<Phase>,
) {
    // Heads are measured by the protocol; what is read here may be of any request.
    let requests = Arc::new(Requests::default());
    requests.begin(false);
    let stream = LimitedStream::new(stream, requests, limits.head_bytes, limits.write_time);
    let traffic = Arc::new(Traffic::new());
    let service = {
        let traffic = Arc::clone(&traffic);
        service_fn(move |request: http::Request<Incoming>| {
            let exchange = traffic.begin();
            let answer =
                gate.enter(&Arc::default(), request.version()).answer(request, router.clone(), limits.body_time);
            Box::pin(async move {
                let response = answer.await?;
                Ok::<_, std::convert::Infallible>(response.map(|body| PacedBody::new(body, exchange)))
            })
        })
    };
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        // Finds out that a client has gone which did not say so.
        .keep_alive_interval(limits.head_time)
        .keep_alive_timeout(limits.write_time)
        .serve_connection(TokioIo::new(PrefaceStream::with_preface(stream)), service);
    let mut connection = pin!(connection);
    let mut looks = looks(&limits);
    let mut closed = (*phase.borrow_and_update() == Phase::Closed).then(Instant::now);
    if closed.is_some() {
        connection.as_mut().graceful_shutdown();
    }
    loop {
        tokio::select! {
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::trace!(%error, "a connection of HTTP/2 ended");
                }
                return;
            }
            Ok(()) = phase.changed() => {
                let now = *phase.borrow_and_update();
                closed = (now == Phase::Closed).then(Instant::now);
                if closed.is_some() || traffic.idle_time().is_none() {
                    // What is under way is answered, and nothing more.
                    connection.as_mut().graceful_shutdown();
                }
            }
            _ = looks.tick() => {
                match traffic.verdict(&limits, closed) {
                    Verdict::GoOn => {}
                    Verdict::ShutDown => connection.as_mut().graceful_shutdown(),
                    Verdict::Drop => return,
                }
            }
        }
    }
}

/// When to look at what a connection does.
fn looks(limits: &ConnectionLimits) -> Interval {
    let (parts, shortest, longest) = LOOKS;
    let mut looks = tokio::time::interval((limits.head_time.min(limits.write_time) / parts).clamp(shortest, longest));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}

/// What becomes of a connection that was looked at.
enum Verdict {
    GoOn,
    /// It answers what is under way, and nothing more.
    ShutDown,
    /// Nobody hears it any more.
    Drop,
}

/// What is under way on one connection.
struct Traffic(Mutex<State>);

struct State {
    /// Requests that are not answered to their last byte.
    exchanges: usize,
    /// Since when there is none.
    idle_since: Instant,
    /// Since when responses wait for their client to take in what it was sent, by the numbers of their exchanges.
    waiting: HashMap<u64, Instant>,
    /// The next exchange's number.
    next: u64,
}

impl Traffic {
    fn new() -> Self {
        Self(Mutex::new(State { exchanges: 0, idle_since: Instant::now(), waiting: HashMap::new(), next: 0 }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request begins to be answered.
    fn begin(self: &Arc<Self>) -> Exchange {
        let mut state = self.state();
        state.exchanges += 1;
        state.next += 1;
        Exchange { number: state.next, traffic: Arc::clone(self) }
    }

    /// For how long nothing has been under way, if nothing is.
    fn idle_time(&self) -> Option<Duration> {
        let state = self.state();
        (state.exchanges == 0).then(|| state.idle_since.elapsed())
    }

    /// What becomes of the connection; `closed` is since when it may begin nothing more, if that is so.
    fn verdict(&self, limits: &ConnectionLimits, closed: Option<Instant>) -> Verdict {
        if self.is_stuck(limits.write_time) {
            tracing::debug!("a client of HTTP/2 takes nothing in, and is given up");
            return Verdict::Drop;
        }
        let Some(idle) = self.idle_time() else { return Verdict::GoOn };
        let is_silent = closed.is_some_and(|since| since.elapsed().min(idle) > LAST_FRAMES);
        if is_silent || idle > limits.head_time + LAST_FRAMES {
            Verdict::Drop
        } else if idle > limits.head_time {
            Verdict::ShutDown
        } else {
            Verdict::GoOn
        }
    }

    /// Whether some response has waited for its client for longer than `limit`.
    fn is_stuck(&self, limit: Duration) -> bool {
        self.state().waiting.values().any(|since| since.elapsed() > limit)
    }
}

/// A request that is answered; it has been when this is dropped.
struct Exchange {
    number: u64,
    traffic: Arc<Traffic>,
}

impl Exchange {
    /// A part of the response waits for the client.
    fn wait(&self) {
        self.traffic.state().waiting.insert(self.number, Instant::now());
    }

    /// The client has taken it in, as far as that can be seen.
    fn go_on(&self) {
        self.traffic.state().waiting.remove(&self.number);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let mut state = self.traffic.state();
        state.waiting.remove(&self.number);
        state.exchanges -= 1;
        state.idle_since = Instant::now();
    }
}

/// A response's body in pieces, each of which is asked for when the one before it has found room: how long that takes is how
/// long the client takes nothing in.
struct PacedBody<B> {
    body: B,
    /// What has been read of the body and not been handed on.
    rest: Bytes,
    exchange: Exchange,
}

impl<B> PacedBody<B> {
    fn new(body: B, exchange: Exchange) -> Self {
        Self { body, rest: Bytes::new(), exchange }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for PacedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.exchange.go_on();
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                ended => return Poll::Ready(ended),
            }
        }
        self.exchange.wait();
        let bytes = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.rest.is_empty() {
            true => self.body.size_hint(),
            false => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::future::poll_fn;

    use axum::http::HeaderMap;

    use super::*;

    /// A body of these frames.
    struct Frames(VecDeque<Frame<Bytes>>);

    impl Body for Frames {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.pop_front().map(Ok))
        }

        fn is_end_stream(&self) -> bool {
            self.0.is_empty()
        }
    }

    #[tokio::test]
    async fn a_body_is_handed_on_in_pieces_and_waits_for_its_client_between_them() {
        let a_moment = || tokio::time::sleep(Duration::from_millis(1));
        let traffic = Arc::new(Traffic::new());
        let frames = [Frame::data(vec![7; 2 * PIECE + 1].into()), Frame::trailers(HeaderMap::new())];
        let mut body = PacedBody::new(Frames(frames.into()), traffic.begin());
        a_moment().await;
        assert!(traffic.idle_time().is_none() && !traffic.is_stuck(Duration::ZERO));
        let mut sizes = Vec::new();
        while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            let Ok(data) = frame.unwrap().into_data() else { break };
            sizes.push(data.len());
            a_moment().await;
            assert!(traffic.is_stuck(Duration::ZERO), "until the next piece is asked for");
            assert!(!traffic.is_stuck(Duration::from_secs(3600)) && !body.is_end_stream());
        }
        assert_eq!(sizes, [PIECE, PIECE, 1]);
        a_moment().await;
        assert!(!traffic.is_stuck(Duration::ZERO) && body.is_end_stream());
        drop(body);
        a_moment().await;
        assert!(traffic.idle_time().is_some_and(|time| time > Duration::ZERO));
    }
}
