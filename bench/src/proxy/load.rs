use std::collections::{BTreeMap, HashMap};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use axum::body::Bytes;
use reqwest::Client;
use reqwest::header::CONTENT_TYPE;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// One call that is to be made.
#[derive(Clone, Debug)]
pub struct Call {
    /// Of the endpoint.
    pub url: String,
    /// JSON.
    pub body: Bytes,
    /// Whether the answer is a stream.
    pub is_streamed: bool,
    /// A number that it shares with the calls of the same agent, which makes one after the other.
    pub agent: usize,
}

/// How long a call took, from the moment at which it was to be made.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Until the first bytes of the answer, of a stream until the first that hold text that was sampled.
    pub first: Duration,
    /// Until the last byte.
    pub whole: Duration,
}

/// Makes calls at a rate, at even distances, whether or not earlier ones have been answered. A call that is made late,
/// because this process was, counts from when it should have been made; only an agent that still waits for its last
/// answer cannot make the next call, which counts from then.
pub async fn drive(client: &Client, calls: Vec<Call>, rate: f64) -> Result<Vec<Timing>> {
    let (client, runtime) = (client.clone(), Handle::current());
    let made = tokio::task::spawn_blocking(move || {
        // The runtime's own timer counts milliseconds, which is too coarse.
        let start = Instant::now();
        let mut latest = HashMap::new();
        let make = |(index, call): (usize, Call)| {
            let intended = start + Duration::from_secs_f64(index as f64 / rate);
            let (done, is_done) = oneshot::channel();
            let before = latest.insert(call.agent, is_done);
            thread::sleep(intended.saturating_duration_since(Instant::now()));
            runtime.spawn(ask_after(before, client.clone(), call, intended, done))
        };
        calls.into_iter().enumerate().map(make).collect::<Vec<_>>()
    });
    let mut timings = Vec::new();
    for call in made.await? {
        timings.push(call.await??);
    }
    Ok(timings)
}

/// Makes calls so that always the same number of them is under way, each of an agent's after its last, and each timed
/// from its own beginning.
pub async fn drive_at_once(client: &Client, calls: Vec<Call>, concurrency: usize) -> Result<Vec<Timing>> {
    let mut agents: BTreeMap<usize, Vec<Call>> = BTreeMap::new();
    calls.into_iter().for_each(|call| agents.entry(call.agent).or_default().push(call));
    let made = agents.into_values().map(|calls| one_after_the_other(client.clone(), calls));
    Ok(together(concurrency, made).await?.concat())
}

async fn one_after_the_other(client: Client, calls: Vec<Call>) -> Result<Vec<Timing>> {
    let mut timings = Vec::with_capacity(calls.len());
    for call in calls {
        timings.push(ask(client.clone(), call, Instant::now()).await?);
    }
    Ok(timings)
}

/// Does so many at a time until all are done.
pub async fn together<T: Send + 'static>(
    at_once: usize,
    mut tasks: impl Iterator<Item = impl Future<Output = Result<T>> + Send + 'static>,
) -> Result<Vec<T>> {
    let mut running = JoinSet::new();
    tasks.by_ref().take(at_once).for_each(|task| drop(running.spawn(task)));
    let mut done = Vec::new();
    while let Some(ended) = running.join_next().await {
        done.push(ended??);
        tasks.next().map(|task| running.spawn(task));
    }
    Ok(done)
}

async fn ask_after(
    before: Option<oneshot::Receiver<()>>,
    client: Client,
    call: Call,
    intended: Instant,
    done: oneshot::Sender<()>,
) -> Result<Timing> {
    let mut from = intended;
    if let Some(before) = before
        && before.await.is_ok()
    {
        from = from.max(Instant::now());
    }
    let timing = ask(client, call, from).await;
    // Most agents make one call, and nobody waits for its end.
    let _ = done.send(());
    timing
}

async fn ask(client: Client, call: Call, intended: Instant) -> Result<Timing> {
    let request = client.post(&call.url).header(CONTENT_TYPE, "application/json").bearer_auth("bench").body(call.body);
    let mut response = request.send().await.with_context(|| call.url.clone())?;
    let status = response.status();
    let (mut received, mut last, mut first) = (Vec::new(), Bytes::new(), None);
    while let Some(bytes) = response.chunk().await? {
        if first.is_none() {
            received.extend_from_slice(&bytes);
            first = (!call.is_streamed || holds_text(&received)).then(|| intended.elapsed());
        }
        last = bytes;
    }
    let whole = intended.elapsed();
    ensure!(status.is_success(), "{} answers {status}: {}", call.url, String::from_utf8_lossy(&last));
    ensure!(!call.is_streamed || last.ends_with(b"data: [DONE]\n\n"), "a stream of {} has no end", call.url);
    Ok(Timing { first: first.with_context(|| format!("{} answers nothing", call.url))?, whole })
}

/// Whether the beginning of a chat's stream holds text of the answer.
fn holds_text(received: &[u8]) -> bool {
    const TEXT: &[u8] = b"\"content\":\"";
    received.windows(TEXT.len() + 1).any(|window| window.starts_with(TEXT) && !window.ends_with(b"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_says_something_once_a_chunk_has_text() {
        assert!(!holds_text(b"data: {\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}\n\ndata: {\"delta\":{\"con"));
        assert!(holds_text(b"data: {\"delta\":{\"content\":\"\"}}\n\ndata: {\"delta\":{\"content\":\" a"));
        assert!(!holds_text(b"data: {\"delta\":{\"content\":\""));
    }
}
