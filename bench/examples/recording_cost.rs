//! What recording a call costs: processor time by thread, commits, and what they write.
//!
//! Calls of 200 and 50 tokens come at a rate, each in a task of its own, as the proxy records them. Attempts are started
//! before and ended after, which is not counted; nor is the thread that makes the calls up.
//!
//! `cargo run --release -p fulgurite-bench --example recording_cost -- [attempts|turns|sessions|nothing] [CALLS] [RATE] [STORE]`

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fulgurite_store::{Store, StoreOptions};
use fulgurite_types::{AttemptStatus, AttemptUpdate, NewGeneration, NewRollout, Object, SessionIds, WeightsFrom};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Attempts that take their turns at the same time.
const ATTEMPTS: usize = 1000;
const TURNS: usize = 8;
const PROMPT_TOKENS: u32 = 200;
const SAMPLED_TOKENS: u32 = 50;
/// The thread that makes calls up, and the one that starts attempts.
const NOT_COUNTED: [&str; 2] = ["calls", "recording_cost"];
const FRAME_BYTES: u64 = 4096 + 24;

#[derive(Clone, Copy, PartialEq)]
enum Traffic {
    /// Attempts of one call each.
    Attempts,
    /// Attempts of several calls, each of which goes on from the one before.
    Turns,
    /// Calls of nobody.
    Sessions,
    /// Calls that are not recorded: what the tasks cost in which the others come.
    Nothing,
}

impl Traffic {
    fn turns(self) -> usize {
        if self == Self::Turns { TURNS } else { 1 }
    }
}

/// Rollout and attempt.
type Ids = (String, String);

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let traffic = match arguments.next().as_deref() {
        None | Some("attempts") => Traffic::Attempts,
        Some("turns") => Traffic::Turns,
        Some("sessions") => Traffic::Sessions,
        Some("nothing") => Traffic::Nothing,
        Some(other) => return println!("`{other}` is not `attempts`, `turns`, `sessions` or `nothing`"),
    };
    let mut number = |default: f64| arguments.next().map_or(default, |argument| argument.parse().unwrap());
    let (calls, rate) = (number(5000.0) as usize, number(1000.0));
    let directory = tempfile::tempdir().unwrap();
    let path = arguments.next().map_or_else(|| directory.path().join("store.db"), Into::into);
    let store = Store::open(path.to_str().unwrap(), StoreOptions::default()).await.unwrap();
    let mut sums = Sums::default();
    let rounds = calls.div_ceil(ATTEMPTS * traffic.turns());
    for round in 0..rounds {
        let attempts = start_attempts(&store, traffic).await;
        let before = Counters::of(&store, &path);
        let (began, runtime, recording) = (Instant::now(), Handle::current(), store.clone());
        let calls = {
            let attempts = Arc::new(attempts.clone());
            let make = move || make_calls(&runtime, &recording, traffic, &attempts, rate);
            thread::Builder::new().name(NOT_COUNTED[0].to_owned()).spawn(make).unwrap()
        };
        let latencies = tokio::task::spawn_blocking(move || calls.join().unwrap()).await.unwrap().await;
        sums.add(&before, &Counters::of(&store, &path), latencies, began.elapsed());
        end_attempts(&store, attempts).await;
        if [rounds / 10, rounds / 2, rounds - 1].contains(&round) {
            println!("{:>7} calls: {} MiB resident", sums.latencies.len(), resident() >> 20);
        }
    }
    sums.print();
    store.close().await;
}

async fn start_attempts(store: &Store, traffic: Traffic) -> Vec<Ids> {
    let start = async |_| {
        let rollout = NewRollout { input: json!({ "question": "1 + 1" }), ..NewRollout::default() };
        let started = store.rollouts().start(rollout, None).await.unwrap();
        (started.rollout.rollout_id, started.attempt.attempt_id)
    };
    let none = |_| (String::new(), String::new());
    match traffic {
        Traffic::Sessions | Traffic::Nothing => (0..ATTEMPTS).map(none).collect(),
        Traffic::Attempts | Traffic::Turns => futures::future::join_all((0..ATTEMPTS).map(start)).await,
    }
}

async fn end_attempts(store: &Store, attempts: Vec<Ids>) {
    let end = async |(rollout_id, attempt_id): Ids| {
        if !rollout_id.is_empty() {
            let ended = AttemptUpdate::status(AttemptStatus::Succeeded);
            store.attempts().update(&rollout_id, attempt_id.as_str(), ended).await.unwrap();
        }
    };
    futures::future::join_all(attempts.into_iter().map(end)).await;
}

/// Makes calls at even distances; gives how long each took, once all are recorded.
fn make_calls(
    runtime: &Handle,
    store: &Store,
    traffic: Traffic,
    attempts: &[Ids],
    rate: f64,
) -> impl Future<Output = Vec<Duration>> + use<> {
    let start = Instant::now();
    let done = Arc::new(Mutex::new(Vec::new()));
    let mut latest: HashMap<usize, JoinHandle<()>> = HashMap::new();
    for index in 0..attempts.len() * traffic.turns() {
        let attempt = index % attempts.len();
        let generation = generation(&attempts[attempt], index / attempts.len());
        let intended = start + Duration::from_secs_f64(index as f64 / rate);
        thread::sleep(intended.saturating_duration_since(Instant::now()));
        let (store, done, before) = (store.clone(), Arc::clone(&done), latest.remove(&attempt));
        let task = runtime.spawn(async move {
            // An agent has its answer before it says more.
            if let Some(before) = before {
                before.await.unwrap();
            }
            let began = Instant::now();
            match traffic {
                Traffic::Sessions => {
                    let SessionIds { rollout_id, attempt_id } = SessionIds::new();
                    let generation = NewGeneration { rollout_id, attempt_id, ..generation };
                    store.recording().record_session(generation).await.unwrap();
                }
                Traffic::Attempts | Traffic::Turns => record(&store, generation).await,
                Traffic::Nothing => drop(generation),
            }
            done.lock().unwrap().push(began.elapsed());
        });
        latest.insert(attempt, task);
    }
    async move {
        for task in latest.into_values() {
            task.await.unwrap();
        }
        std::mem::take(&mut *done.lock().unwrap())
    }
}

/// Asks whose the call is, and records it.
async fn record(store: &Store, generation: NewGeneration) {
    store.rollouts().cached(&generation.rollout_id).await.unwrap().unwrap();
    store.recording().record(generation).await.unwrap();
}

/// A call as the proxy records it: of a conversation, with all that was said before.
fn generation((rollout_id, attempt_id): &Ids, turn: usize) -> NewGeneration {
    let text = |number: usize| format!("{number} ").repeat(PROMPT_TOKENS as usize * 2);
    let mut attributes = Object::new();
    let mut attribute = |key: &str, value| drop(attributes.insert(key.to_owned(), value));
    attribute("gen_ai.operation.name", json!("chat"));
    attribute("gen_ai.request.model", json!("bench"));
    attribute("gen_ai.request.max_tokens", json!(128));
    attribute("gen_ai.request.temperature", json!(1.0));
    for message in 0..=2 * turn {
        let role = if message % 2 == 0 { "user" } else { "assistant" };
        attribute(&format!("gen_ai.prompt.{message}.role"), json!(role));
        attribute(&format!("gen_ai.prompt.{message}.content"), json!(text(message)));
    }
    attribute("gen_ai.completion.0.role", json!("assistant"));
    attribute("gen_ai.completion.0.content", json!(text(2 * turn + 1)));
    let id = uuid::Uuid::now_v7().simple().to_string();
    attribute("gen_ai.response.id", json!(id));
    attribute("gen_ai.response.model", json!("bench"));
    attribute("gen_ai.usage.output_tokens", json!(SAMPLED_TOKENS));
    attribute("gen_ai.completion.0.finish_reason", json!("stop"));
    let prompt = (PROMPT_TOKENS + SAMPLED_TOKENS) * turn as u32 + PROMPT_TOKENS;
    NewGeneration {
        generation_id: format!("chatcmpl-{id}"),
        rollout_id: rollout_id.clone(),
        attempt_id: attempt_id.clone(),
        name: "openai.chat.completion".into(),
        trace_id: uuid::Uuid::now_v7().simple().to_string(),
        span_id: uuid::Uuid::now_v7().simple().to_string().split_off(16),
        start_time: 1.5e9,
        end_time: 1.6e9,
        attributes,
        model: "bench".into(),
        prompt_tokens: (0..prompt).collect(),
        sampled_tokens: (prompt..prompt + SAMPLED_TOKENS).collect(),
        logprobs: Some(vec![-0.25; SAMPLED_TOKENS as usize]),
        stop_reason: "stop_token".into(),
        weights_versions: vec![WeightsFrom { version: 3, first_token: 0 }],
        sampling: fulgurite_types::RecordedSampling(
            json!({ "temperature": 1.0, "max_tokens": 128, "top_p": 1.0, "stop": [] }),
        ),
        seed: u64::MAX,
        renderer: "template".into(),
        tokenizer: format!("sha256:{}", "0".repeat(64)),
        request_digest: "0".repeat(64),
        branch_reason: None,
        client_disconnected: false,
        defect: None,
    }
}

/// What is counted of a process, at one moment.
struct Counters {
    /// Processor seconds by the names of threads.
    threads: BTreeMap<String, f64>,
    commits: u64,
    log_bytes: u64,
}

impl Counters {
    fn of(store: &Store, path: &Path) -> Self {
        let mut threads = BTreeMap::new();
        for thread in fs::read_dir("/proc/self/task").unwrap() {
            let thread = thread.unwrap().path();
            let name = fs::read_to_string(thread.join("comm")).unwrap().trim_end().to_owned();
            let times = fs::read_to_string(thread.join("schedstat")).unwrap();
            let nanoseconds: f64 = times.split(' ').next().unwrap().parse().unwrap();
            if !NOT_COUNTED.contains(&name.as_str()) {
                *threads.entry(name).or_default() += nanoseconds / 1e9;
            }
        }
        Self { threads, commits: store.commits(), log_bytes: log_bytes(path) }
    }
}

/// Of SQLite's log; 0 where there is none.
fn log_bytes(path: &Path) -> u64 {
    let mut path = path.as_os_str().to_owned();
    path.push("-wal");
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

fn resident() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// What all rounds took together.
#[derive(Default)]
struct Sums {
    threads: BTreeMap<String, f64>,
    commits: u64,
    /// Of pages, by which the log has grown; it grows to its size once, and is then written over.
    frames: u64,
    latencies: Vec<Duration>,
    elapsed: Duration,
}

impl Sums {
    fn add(&mut self, before: &Counters, after: &Counters, latencies: Vec<Duration>, elapsed: Duration) {
        for (name, seconds) in &after.threads {
            *self.threads.entry(name.clone()).or_default() += seconds - before.threads.get(name).unwrap_or(&0.0);
        }
        self.commits += after.commits - before.commits;
        self.frames += after.log_bytes.saturating_sub(before.log_bytes) / FRAME_BYTES;
        self.latencies.extend(latencies);
        self.elapsed += elapsed;
    }

    fn print(&mut self) {
        self.latencies.sort_unstable();
        let calls = self.latencies.len() as f64;
        let latency = |share: f64| 1000.0 * self.latencies[(share * (calls - 1.0)) as usize].as_secs_f64();
        for (name, seconds) in &self.threads {
            println!("{name:>20} {:8.1} us/call", 1e6 * seconds / calls);
        }
        println!("{:>20} {:8.1} us/call", "all", 1e6 * self.threads.values().sum::<f64>() / calls);
        println!(
            "{calls} calls, {:.0}/s, p50 {:.2} ms, p99 {:.2} ms",
            calls / self.elapsed.as_secs_f64(),
            latency(0.5),
            latency(0.99)
        );
        println!(
            "{} commits, {:.2} calls each; {} frames of log",
            self.commits,
            calls / self.commits.max(1) as f64,
            self.frames
        );
    }
}
