//! Prints what a call takes of the processor between its request and its record, without sockets and with a host that
//! answers at once: microseconds by thread.
//!
//! `cargo run --release -p fulgurite-bench --example call_cost -- [CALLS] [AT_ONCE] [streamed]`
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::http::{Request, header};
use fulgurite_api::RouteNeeds;
use fulgurite_backends::{
    BackendError, Capabilities, NewWeights, SampleEvent, SampleRequest, SampleStream, SampledToken, Sampler,
    SamplerInfo, SamplingEnd,
};
use fulgurite_proxy::{Proxy, ProxyOptions, SampledModel, ServedModel};
use fulgurite_renderers::{open_renderer, train_byte_level_tokenizer, write_tokenizer_directory};
use fulgurite_store::{Store, StoreOptions};
use fulgurite_types::{AttemptStatus, AttemptUpdate, NewRollout, WeightsVersion};
use http_body_util::BodyExt;
use serde_json::json;
use tokio::task::JoinSet;
use tower::ServiceExt;

/// As the command has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Calls that fill caches, and are not counted; also of a round, whose attempts are begun and ended outside of the count.
const ROUND: usize = 500;
const SAMPLED_TOKENS: usize = 50;
const TEXT: &str = "The carriage stood before the house, and nobody knew for how long it had been waiting there. ";

type Failure = Box<dyn Error + Send + Sync>;

/// Answers every request with the same tokens.
#[derive(Debug)]
struct SameAnswer {
    tokens: Vec<u32>,
    vocabulary_size: usize,
}

#[async_trait]
impl Sampler for SameAnswer {
    async fn info(&self) -> Result<SamplerInfo, BackendError> {
        let capabilities = Capabilities::default();
        Ok(SamplerInfo { context_length: 32_768, vocabulary_size: self.vocabulary_size, capabilities })
    }

    fn weights_version(&self) -> Option<WeightsVersion> {
        Some(WeightsVersion(0))
    }

    async fn load_weights(&self, _: &NewWeights) -> Result<(), BackendError> {
        Ok(())
    }

    async fn sample(&self, _: SampleRequest) -> Result<SampleStream, BackendError> {
        let (sender, stream) = SampleStream::channel();
        let token = |id: &u32| {
            SampleEvent::Token(SampledToken {
                id: *id,
                logprob: -0.25,
                weights_version: self.weights_version(),
                top_logprobs: Vec::new(),
            })
        };
        let end = SampleEvent::Finished(SamplingEnd::StopToken);
        for event in self.tokens.iter().map(token).chain([end]) {
            // The stream is in our hands.
            let _ = sender.send(Ok(event));
        }
        Ok(stream)
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, default| arguments.get(place).map_or(Ok(default), |number| number.parse::<usize>());
    let (calls, at_once) = (number(0, 5000)?, number(1, 8)?);
    let is_streamed = arguments.get(2).is_some_and(|how| how == "streamed");
    let directory = tempfile::tempdir()?;
    let (store, router) = open(directory.path()).await?;
    round(&store, &router, at_once, is_streamed).await?;
    let mut spent = BTreeMap::new();
    let rounds = calls.div_ceil(ROUND);
    for _ in 0..rounds {
        for (thread, microseconds) in round(&store, &router, at_once, is_streamed).await? {
            *spent.entry(thread).or_insert(0) += microseconds;
        }
    }
    let per_call = |microseconds: u64| microseconds as f64 / (rounds * ROUND) as f64;
    for (thread, microseconds) in &spent {
        println!("{thread:<20} {:>8.1} us a call", per_call(*microseconds));
    }
    println!("{:<20} {:>8.1} us a call", "all", per_call(spent.values().sum()));
    Ok(())
}

/// A store in `directory`, and the routes of a proxy over it.
async fn open(directory: &Path) -> Result<(Store, Router), Failure> {
    let url = format!("sqlite://{}", directory.join("cost.db").display());
    let store = Store::open(&url, StoreOptions::default()).await?;
    let tokenizer = train_byte_level_tokenizer([TEXT; 3], 320, &[])?;
    write_tokenizer_directory(directory, &tokenizer)?;
    let renderer = open_renderer(directory, "chatml")?;
    let tokenizer = renderer.tokenizer();
    let mut tokens = tokenizer.encode_ordinary(&TEXT.repeat(10))?;
    tokens.truncate(SAMPLED_TOKENS - 1);
    tokens.extend(renderer.stop_tokens().first());
    let sampler = Arc::new(SameAnswer { tokens, vocabulary_size: tokenizer.vocabulary_size() });
    let model = ServedModel::Sampled(SampledModel { name: "tiny".to_owned(), renderer, sampler });
    let proxy = Proxy::new(store.clone(), vec![model], ProxyOptions::default())?;
    Ok((store, fulgurite_proxy::routes(proxy, &mut RouteNeeds::default())))
}

/// Makes calls, each of an attempt of its own; gives the microseconds that each kind of thread spent on them.
async fn round(
    store: &Store,
    router: &Router,
    at_once: usize,
    is_streamed: bool,
) -> Result<BTreeMap<String, u64>, Failure> {
    let mut attempts = Vec::with_capacity(ROUND);
    for _ in 0..ROUND {
        let started = store.rollouts().start(NewRollout::default(), None).await?;
        attempts.push((started.rollout.rollout_id, started.attempt.attempt_id));
    }
    let before = spent_by_threads()?;
    let mut paths = attempts.iter().map(|(rollout, attempt)| format!("/rollout/{rollout}/attempt/{attempt}"));
    let mut running = JoinSet::new();
    for path in paths.by_ref().take(at_once) {
        running.spawn(call(router.clone(), path, is_streamed));
    }
    while let Some(ended) = running.join_next().await {
        ended??;
        if let Some(path) = paths.next() {
            running.spawn(call(router.clone(), path, is_streamed));
        }
    }
    let mut spent = spent_by_threads()?;
    for (thread, microseconds) in before {
        spent.entry(thread).and_modify(|after| *after -= microseconds);
    }
    for (rollout, attempt) in &attempts {
        store.attempts().update(rollout, attempt, AttemptUpdate::status(AttemptStatus::Succeeded)).await?;
    }
    Ok(spent)
}

async fn call(router: Router, path: String, is_streamed: bool) -> Result<(), Failure> {
    let body = json!({
        "model": "tiny", "temperature": 1.0, "max_tokens": 128, "stream": is_streamed,
        "messages": [
            { "role": "system", "content": "Say what comes next." }, { "role": "user", "content": TEXT.repeat(5) },
        ],
    });
    let request = Request::post(format!("{path}/v1/chat/completions"));
    let request = request.header(header::CONTENT_TYPE, "application/json").body(Body::from(body.to_string()))?;
    let response = router.oneshot(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    match status.is_success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&body).into()),
    }
}

/// Microseconds that the threads of this process have spent on a processor, by name. The system tells hundredths of a
/// second.
fn spent_by_threads() -> Result<BTreeMap<String, u64>, Failure> {
    let mut spent = BTreeMap::new();
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        let name = std::fs::read_to_string(task.join("comm"))?;
        let stat = std::fs::read_to_string(task.join("stat"))?;
        // The name, in brackets, may hold anything; user and system time are fields 14 and 15 of the line.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        let ticks = fields.skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
        *spent.entry(name.trim().to_owned()).or_default() += 10_000 * ticks;
    }
    Ok(spent)
}
