//! What a recorded call costs as one statement (`call_records::at_once`) and statement by statement (`one_by_one`). It is
//! measured in one process, in turns:
//!
//!     cargo test --config 'profile.dev.package.fulgurite-store.opt-level=3' -p fulgurite-store \
//!         recording::cost_tests -- --ignored --nocapture
//!
//! The figures at the head of `call_records::at_once` are of a run with `sqlx`, `sqlx-core`, `sqlx-sqlite` and `tokio` at
//! that level, too.

use std::fs::read_to_string;
use std::time::{Duration, Instant};

use fulgurite_types::{AttemptedRollout, NewGeneration};
use serde_json::json;
use tokio::task::JoinSet;

use crate::Store;
use crate::call_records::call_record::CallRecord;
use crate::recording::one_by_one::record_one_by_one;
use crate::testing::{TestStore, generation};

/// Calls of an attempt, which continue each other.
const TURNS: usize = 4;
/// Calls that are recorded in each turn.
const CALLS: usize = 1024;
const ROUNDS: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    AtOnce,
    OneByOne,
}

/// The call of a turn: 150 new tokens of prompt, 50 sampled, three messages more.
fn call(attempted: &AttemptedRollout, turn: usize) -> NewGeneration {
    let tokens: Vec<u32> = (0..(200 * turn + 150) as u32).collect();
    let sampled: Vec<u32> = (0..50).map(|token| (200 * turn + 150) as u32 + token).collect();
    let mut attributes = json!({
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "tiny", "gen_ai.response.model": "tiny",
        "gen_ai.usage.input_tokens": tokens.len(), "gen_ai.usage.output_tokens": sampled.len(),
        "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": format!("Said in turn {turn}."),
        "gen_ai.completion.0.finish_reason": "stop",
    });
    for number in 0..=2 * turn {
        let (role, content) = match number % 2 {
            0 => ("user", format!("Asked in turn {}: {}", number / 2, "and so on ".repeat(20))),
            _ => ("assistant", format!("Said in turn {}.", number / 2)),
        };
        attributes[format!("gen_ai.prompt.{number}.role")] = json!(role);
        attributes[format!("gen_ai.prompt.{number}.content")] = json!(content);
    }
    let id = format!("{}-{turn}", attempted.attempt.attempt_id);
    NewGeneration {
        attributes: attributes.as_object().cloned().unwrap(),
        ..generation(&id, attempted, &tokens, &sampled)
    }
}

async fn record(store: &Store, path: Path, call: NewGeneration) {
    match path {
        Path::AtOnce => store.recording().record(call).await.unwrap(),
        Path::OneByOne => {
            let call = CallRecord::new(call, &[]).unwrap();
            let work =
                store.database().write(move |write| Box::pin(async move { record_one_by_one(write, &call).await }));
            work.await.unwrap();
        }
    }
}

/// Seconds of processor time that this process has taken.
fn processor_seconds() -> f64 {
    let stat = read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // User and system time, in hundredths.
    fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
}

/// Records calls of as many attempts at a time; the time and the processor time that it took.
async fn round(store: &Store, path: Path, writers: usize) -> (Duration, f64) {
    let new = (0..CALLS / TURNS).map(|_| Default::default()).collect();
    store.rollouts().enqueue(new).await.unwrap();
    let attempts = store.rollouts().dequeue(CALLS / TURNS, None, Duration::ZERO).await.unwrap();
    let calls: Vec<Vec<NewGeneration>> =
        attempts.iter().map(|attempted| (0..TURNS).map(|turn| call(attempted, turn)).collect()).collect();
    let mut shares: Vec<Vec<NewGeneration>> = vec![Vec::new(); writers];
    calls.into_iter().enumerate().for_each(|(index, calls)| shares[index % writers].extend(calls));
    let (began, processor) = (Instant::now(), processor_seconds());
    let mut tasks = JoinSet::new();
    for share in shares {
        let store = store.clone();
        tasks.spawn(async move {
            for call in share {
                record(&store, path, call).await;
            }
        });
    }
    tasks.join_all().await;
    (began.elapsed(), processor_seconds() - processor)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn calls_as_one_statement_and_one_by_one() {
    for writers in [1, 8, 64] {
        let stores = [(TestStore::new().await, Path::AtOnce), (TestStore::new().await, Path::OneByOne)];
        let mut measured = [(Vec::new(), 0.0), (Vec::new(), 0.0)];
        for _ in 0..ROUNDS {
            for ((store, path), (times, processor)) in stores.iter().zip(&mut measured) {
                let (time, seconds) = round(store, *path, writers).await;
                times.push(time);
                *processor += seconds;
            }
        }
        let [(at_once, at_once_processor), (one_by_one, one_by_one_processor)] =
            measured.map(|(mut times, processor)| {
                times.sort();
                (CALLS as f64 / times[ROUNDS / 2].as_secs_f64(), 1000.0 * processor / (CALLS * ROUNDS) as f64)
            });
        println!(
            "{writers} writers: {at_once:.0} calls a second and {at_once_processor:.3} ms of processor time each at once, \
             {one_by_one:.0} and {one_by_one_processor:.3} one by one: {:.2} times, {:.3} ms",
            at_once / one_by_one,
            one_by_one_processor - at_once_processor,
        );
    }
}
