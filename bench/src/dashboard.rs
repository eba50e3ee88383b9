//! `fulgurite-bench dashboard`: what the page costs its server: a list over a small store and over a large one, the tokens of a short
//! rollout and of a long one, and open pages that follow what is recorded.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use fulgurite_store::{Store, StoreOptions};
use fulgurite_types::{
    AttemptStatus, AttemptUpdate, NewGeneration, NewRollout, NewRun, RecordedSampling, StepRecord, StopReason,
};
use futures::StreamExt;
use reqwest::Client;
use serde_json::{Map, json};
use tokio::task::JoinSet;

use crate::output;
use crate::server::{STORE, Server, measured_program};
use crate::table::Columns;

/// The run that all rollouts are of.
const RUN: &str = "run";
/// Tokens of the short rollout; the long one has ten times as many.
const TOKENS: usize = 6_400;
/// Calls of a rollout whose tokens are opened.
const CALLS: usize = 16;
/// Requests of a turn, and turns, the servers alternating.
const REQUESTS: usize = 40;
const TURNS: usize = 3;
/// Generations that are recorded at a time.
const AT_ONCE: usize = 64;
/// Steps that are recorded while pages are open.
const STEPS: u64 = 5;

/// `fulgurite-bench dashboard`.
#[derive(Debug, Args)]
pub struct DashboardArguments {
    /// The program that is measured [default: `fulgurite` in the directory of this one]
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
    /// Generations of the large store; the small one has 10,000
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub generations: usize,
    /// Pages that are open at the same time
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub pages: usize,
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
}

/// Measures and prints.
pub async fn bench_dashboard(arguments: DashboardArguments) -> Result<()> {
    let program = measured_program(arguments.program.clone())?;
    let small = filled("small", &program, 10_000).await?;
    let large = filled("large", &program, arguments.generations).await?;
    let client = Client::new();
    let mut rows = Vec::new();
    for (what, path) in [
        ("the newest 200 rollouts", "/ui/data/rollouts".to_owned()),
        ("those of a run's step", format!("/ui/data/rollouts?run_id={RUN}&step=7")),
        ("those that an expression means", "/ui/data/rollouts?where=reward%20%3E=%200&limit=50".to_owned()),
        ("all runs", "/ui/data/runs".to_owned()),
    ] {
        let (one, other) = compared(&client, (&small.0, &path), (&large.0, &path)).await?;
        rows.push(PageRow::of(
            what,
            "10,000 generations",
            one,
            &format!("{} generations", arguments.generations),
            other,
        ));
    }
    let path = |rollout: &str| format!("/ui/data/rollouts/{rollout}/tokens");
    let (short, long) = (path(&small.1.short), path(&small.1.long));
    let (one, other) = compared(&client, (&small.0, &short), (&small.0, &long)).await?;
    rows.push(PageRow::of("tokens of a rollout", "6,400 tokens", one, "64,000 tokens", other));
    let bytes = client.get(format!("{}{long}", small.0.url)).send().await?.error_for_status()?.bytes().await?.len();
    let followed = followed(&client, &small, arguments.pages).await?;
    report(&rows, bytes as f64 / (10 * TOKENS) as f64, &followed, &arguments);
    Ok(())
}

/// Two rollouts whose tokens are opened.
struct Rollouts {
    short: String,
    long: String,
}

/// A server over a store with so many generations, a hundred rollouts to a step.
async fn filled(name: &str, program: &Path, generations: usize) -> Result<(Server, Rollouts)> {
    let directory = tempfile::tempdir()?;
    let store = Store::open(&directory.path().join(STORE).display().to_string(), StoreOptions::default()).await?;
    let run = NewRun { run_id: RUN.into(), name: RUN.into(), config: json!({ "trainer": {} }), seed: 1 };
    store.runs().create(run).await?;
    record_step(&store, 1).await?;
    let bar = indicatif::ProgressBar::new(generations as u64).with_message(format!("filling the {name} store"));
    let mut under_way = futures::stream::iter(0..generations)
        .map(|number| {
            let store = store.clone();
            async move { play(&store, number, 1, 8).await.map(drop) }
        })
        .buffer_unordered(AT_ONCE);
    while let Some(played) = under_way.next().await {
        played?;
        bar.inc(1);
    }
    drop(under_way);
    bar.finish_and_clear();
    let short = play(&store, 0, CALLS, TOKENS / CALLS).await?;
    let long = play(&store, 0, CALLS, 10 * TOKENS / CALLS).await?;
    store.close().await;
    let server = Server::start(name, program, directory).await?;
    Ok((server, Rollouts { short, long }))
}

/// A rollout with so many calls, each going on from the one before with so many new tokens, half of them sampled.
async fn play(store: &Store, number: usize, calls: usize, tokens: usize) -> Result<String> {
    let metadata = json!({ "run_id": RUN, "step": number / 100, "group": number % 100 / 8 });
    let rollout = NewRollout {
        input: json!(format!("task {number}")),
        metadata: metadata.as_object().cloned(),
        ..NewRollout::default()
    };
    let started = store.rollouts().start(rollout, None).await?;
    let (rollout_id, attempt_id) = (started.rollout.rollout_id, started.attempt.attempt_id);
    let mut conversation: Vec<u32> = Vec::new();
    for call in 0..calls {
        conversation.extend((0..tokens / 2).map(|token| token as u32 % 250));
        let sampled: Vec<u32> = (0..tokens - tokens / 2).map(|token| token as u32 % 250).collect();
        let generation = NewGeneration {
            generation_id: format!("{rollout_id}-{call}"),
            rollout_id: rollout_id.clone(),
            attempt_id: attempt_id.clone(),
            name: "openai.chat.completion".to_owned(),
            trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
            span_id: format!("{call:016x}"),
            start_time: 1.0,
            end_time: 2.0,
            attributes: Map::new(),
            model: "m".to_owned(),
            prompt_tokens: conversation.clone(),
            logprobs: Some(vec![-0.5; sampled.len()]),
            sampled_tokens: sampled.clone(),
            stop_reason: StopReason::Stop,
            weights_versions: Vec::new(),
            sampling: RecordedSampling::default(),
            seed: 1,
            renderer: "chatml".to_owned(),
            tokenizer: "none".to_owned(),
            request_digest: String::new(),
            branch_reason: None,
            client_disconnected: false,
            defect: None,
        };
        store.recording().record(generation).await?;
        conversation.extend(sampled);
    }
    store.attempts().update(&rollout_id, &attempt_id, AttemptUpdate::status(AttemptStatus::Succeeded)).await?;
    Ok(rollout_id)
}

async fn record_step(store: &Store, number: u64) -> Result<()> {
    let step = json!({
        "run_id": RUN, "step": number, "metrics": { "step": number - 1, "env/all/reward/total": 0.5, "time/training": 1.0 },
        "weights_version": number, "uses": [], "checkpoint": null,
    });
    let step: StepRecord = serde_json::from_value(step)?;
    store.runs().record_step(step).await?;
    Ok(())
}

/// Processor milliseconds of a request of each kind, the turns alternating.
async fn compared(client: &Client, one: (&Server, &str), other: (&Server, &str)) -> Result<(f64, f64)> {
    let mut seconds = [0.0; 2];
    for _ in 0..TURNS {
        for ((server, path), seconds) in [one, other].iter().zip(&mut seconds) {
            let before = server.cpu_seconds()?;
            for _ in 0..REQUESTS {
                let reply = client.get(format!("{}{path}", server.url)).send().await?;
                let reply = reply.error_for_status().with_context(|| format!("GET {path}"))?;
                reply.bytes().await?;
            }
            *seconds += server.cpu_seconds()? - before;
        }
    }
    let milliseconds = |seconds: f64| 1000.0 * seconds / (TURNS * REQUESTS) as f64;
    Ok((milliseconds(seconds[0]), milliseconds(seconds[1])))
}

/// What open pages cost.
struct Followed {
    /// Processor milliseconds for each step that is recorded, and for what is done beside it within two seconds.
    without: f64,
    with: f64,
    /// Pages that were told of every step.
    reached: usize,
}

/// Has steps recorded, without a page and with many that follow.
async fn followed(client: &Client, (server, _): &(Server, Rollouts), pages: usize) -> Result<Followed> {
    let mut next = 2;
    let without = steps(client, server, &mut next).await?;
    let mut readers = JoinSet::new();
    for _ in 0..pages {
        let request = client.get(format!("{}/ui/data/events", server.url)).send().await?.error_for_status()?;
        readers.spawn(async move {
            let (mut bytes, mut heard) = (request.bytes_stream(), String::new());
            while heard.matches("event: step").count() < STEPS as usize {
                match bytes.next().await {
                    Some(Ok(more)) => heard.push_str(&String::from_utf8_lossy(&more)),
                    _ => return false,
                }
            }
            true
        });
    }
    let with = steps(client, server, &mut next).await?;
    let mut reached = 0;
    while let Some(heard) = readers.join_next().await {
        reached += usize::from(heard?);
    }
    Ok(Followed { without, with, reached })
}

async fn steps(client: &Client, server: &Server, next: &mut u64) -> Result<f64> {
    let before = server.cpu_seconds()?;
    for _ in 0..STEPS {
        let step = json!({
            "step": *next, "metrics": { "step": *next - 1, "env/all/reward/total": 0.5, "time/training": 1.0 },
            "weights_version": *next, "uses": [],
        });
        let began = Instant::now();
        let reply = client.post(format!("{}/v1/fulgurite/runs/{RUN}/steps", server.url)).json(&step).send().await?;
        reply.error_for_status().context("POST .../steps")?;
        *next += 1;
        tokio::time::sleep(Duration::from_secs(2).saturating_sub(began.elapsed())).await;
    }
    Ok(1000.0 * (server.cpu_seconds()? - before) / STEPS as f64)
}

struct PageRow {
    what: String,
    sizes: [String; 2],
    milliseconds: [f64; 2],
}

impl PageRow {
    fn of(what: &str, one: &str, cost: f64, other: &str, cost_of_other: f64) -> Self {
        let sizes = [one, other].map(str::to_owned);
        Self { what: what.to_owned(), sizes, milliseconds: [cost, cost_of_other] }
    }

    fn ratio(&self) -> f64 {
        self.milliseconds[1] / self.milliseconds[0].max(1e-3)
    }
}

fn report(rows: &[PageRow], bytes: f64, followed: &Followed, arguments: &DashboardArguments) {
    let Followed { without, with, reached } = followed;
    if arguments.json {
        for row in rows {
            output::line(
                json!({ "event": "request", "what": row.what, "sizes": row.sizes, "cpu_ms": row.milliseconds, "ratio": row.ratio() }),
            );
        }
        output::line(json!({ "event": "tokens", "bytes_a_token": bytes }));
        output::line(json!({
            "event": "pages", "pages": arguments.pages, "told": reached, "cpu_ms_a_step_without": without, "cpu_ms_a_step": with,
        }));
        return;
    }
    let mut table = Columns::new(&["request", "over", "cpu ms", "over", "cpu ms", "ratio"]);
    for row in rows {
        let cost = |index: usize| format!("{:.2}", row.milliseconds[index]);
        table.push(vec![
            row.what.clone(),
            row.sizes[0].clone(),
            cost(0),
            row.sizes[1].clone(),
            cost(1),
            format!("{:.2}x", row.ratio()),
        ]);
    }
    table.print();
    output::line(format!("{bytes:.1} bytes a token"));
    output::line(format!(
        "{} open pages, {reached} of them told of all {STEPS} steps: {with:.1} ms of processor time a step, {without:.1} without them",
        arguments.pages
    ));
}
