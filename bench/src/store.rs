//! `fulgurite-bench store`: processor time and latency of the store's API, over a small store and over a large one, and
//! beside another server if one is given.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use fulgurite_store::{Store, StoreOptions};
use fulgurite_types::{IncomingSpan, NewRollout, Span, SpanStatus, StatusCode};
use reqwest::Client;
use serde_json::{Map, Value, json};

use crate::output;
use crate::server::{STORE, Server, measured_program};
use crate::table::Columns;
use crate::workload::{Operation, Target};

/// Each operation is measured in so many turns, the servers alternating, so that a noisy moment hits all alike.
const TURNS: usize = 3;
/// Spans of one rollout in a store that is filled beforehand.
const SPANS_PER_ROLLOUT: usize = 100;

/// `fulgurite-bench store`.
#[derive(Debug, Args)]
pub struct StoreArguments {
    /// The program that is measured [default: `fulgurite` in the directory of this one]
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
    /// Requests of each cheap operation and server; dear ones get a quarter
    #[arg(long, value_name = "N", default_value_t = 6000)]
    pub requests: usize,
    /// Spans that the filled store holds beforehand; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub spans: usize,
    /// Another server to ask the same of, beside ours
    #[arg(long, value_name = "URL", requires = "against_pid")]
    pub against: Option<String>,
    /// That server's process
    #[arg(long, value_name = "PID", requires = "against")]
    pub against_pid: Option<u32>,
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
}

/// Measures and prints.
pub async fn bench_store(arguments: StoreArguments) -> Result<()> {
    let program = measured_program(arguments.program.clone())?;
    let mut servers = vec![Server::start("empty", &program, tempfile::tempdir()?).await?];
    if arguments.spans > 0 {
        let directory = tempfile::tempdir()?;
        fill(&directory.path().join(STORE).display().to_string(), arguments.spans).await?;
        servers.push(Server::start("filled", &program, directory).await?);
    }
    if let (Some(url), Some(pid)) = (&arguments.against, arguments.against_pid) {
        servers.push(Server::running("against", url, pid));
    }
    let client = Client::new();
    let before = rows(&client, &servers).await?;
    let mut measured = Vec::new();
    for operation in Operation::ALL {
        measured.extend(measure(&client, &servers, operation, arguments.requests).await?);
    }
    let after = rows(&client, &servers).await?;
    report(&servers, &measured, &before, &after, arguments.json);
    Ok(())
}

/// What one operation cost on one server.
struct Measured {
    operation: Operation,
    /// Which server.
    server: usize,
    requests: usize,
    cpu_seconds: f64,
    /// Of every request, shortest first.
    latencies: Vec<Duration>,
}

impl Measured {
    fn cpu_milliseconds(&self) -> f64 {
        1000.0 * self.cpu_seconds / self.requests as f64
    }

    /// Milliseconds that this share of the requests did not exceed.
    fn latency(&self, share: f64) -> f64 {
        let place = (share * (self.latencies.len() - 1) as f64).round() as usize;
        self.latencies.get(place).map_or(0.0, |latency| 1000.0 * latency.as_secs_f64())
    }
}

async fn measure(client: &Client, servers: &[Server], operation: Operation, requests: usize) -> Result<Vec<Measured>> {
    let per_turn = operation.share_of(requests).div_ceil(TURNS);
    let mut measured: Vec<Measured> = (0..servers.len())
        .map(|server| Measured { operation, server, requests: 0, cpu_seconds: 0.0, latencies: Vec::new() })
        .collect();
    for _ in 0..TURNS {
        for (server, measured) in servers.iter().zip(&mut measured) {
            let mut targets = Vec::new();
            for _ in 0..operation.connections() {
                let target = Target::start(client, &server.url).await?;
                if operation == Operation::Query {
                    target.fill().await?;
                }
                targets.push(target);
            }
            let before = server.cpu_seconds()?;
            measured.latencies.extend(drive(targets, operation, per_turn).await?);
            measured.cpu_seconds += server.cpu_seconds()? - before;
            measured.requests += per_turn;
        }
    }
    for measured in &mut measured {
        measured.latencies.sort_unstable();
    }
    Ok(measured)
}

/// Makes requests over all targets at the same time; how long each took.
async fn drive(targets: Vec<Target>, operation: Operation, requests: usize) -> Result<Vec<Duration>> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for target in targets {
        let next = Arc::clone(&next);
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= requests {
                    return anyhow::Ok(latencies);
                }
                let started = Instant::now();
                target.ask(operation, number).await.with_context(|| operation.name())?;
                latencies.push(started.elapsed());
            }
        });
    }
    let mut latencies = Vec::with_capacity(requests);
    while let Some(finished) = tasks.join_next().await {
        latencies.extend(finished??);
    }
    Ok(latencies)
}

/// Rollouts and spans that each server holds.
async fn rows(client: &Client, servers: &[Server]) -> Result<Vec<(u64, u64)>> {
    let mut rows = Vec::new();
    for server in servers {
        let reply = client.get(format!("{}/v1/agl/statistics", server.url)).send().await?.error_for_status()?;
        let statistics: Value = reply.json().await?;
        let count = |key: &str| statistics[key].as_u64().with_context(|| format!("no `{key}` in the statistics"));
        rows.push((count("total_rollouts")?, count("total_spans")?));
    }
    Ok(rows)
}

/// Fills a store with small spans.
async fn fill(url: &str, spans: usize) -> Result<()> {
    let store = Store::open(url, StoreOptions::default()).await?;
    let bar = indicatif::ProgressBar::new(spans as u64).with_message("filling a store");
    let mut done = 0;
    while done < spans {
        let started =
            store.rollouts().start(NewRollout { input: json!("filler"), ..NewRollout::default() }, None).await?;
        let number = SPANS_PER_ROLLOUT.min(spans - done);
        let span = |index: usize| IncomingSpan {
            sequence_id: None,
            span: Span {
                rollout_id: started.rollout.rollout_id.clone(),
                attempt_id: started.attempt.attempt_id.clone(),
                sequence_id: 0,
                trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
                span_id: format!("{index:016x}"),
                parent_id: None,
                name: "work".to_owned(),
                status: SpanStatus { status_code: StatusCode::Ok, description: None, extra: Map::new() },
                attributes: Map::from_iter([("gen_ai.request.model".to_owned(), json!("m"))]),
                events: Vec::new(),
                links: Vec::new(),
                start_time: Some(1_795_256_016.5),
                end_time: Some(1_795_256_017.25),
                context: None,
                parent: None,
                resource: Arc::default(),
                extra: Map::new(),
            },
        };
        store.spans().ingest((0..number).map(span).collect()).await?;
        done += number;
        bar.set_position(done as u64);
    }
    bar.finish_and_clear();
    store.close().await;
    Ok(())
}

fn report(servers: &[Server], measured: &[Measured], before: &[(u64, u64)], after: &[(u64, u64)], json: bool) {
    for (index, server) in servers.iter().enumerate() {
        let ((rollouts, spans), (rollouts_after, spans_after)) = (before[index], after[index]);
        if json {
            output::line(json!({
                "event": "rows", "server": server.name, "url": server.url,
                "rollouts_before": rollouts, "spans_before": spans,
                "rollouts_after": rollouts_after, "spans_after": spans_after,
            }));
        } else {
            let name = format!("{:<8}", server.name);
            output::line(format!("{name} {rollouts} rollouts, {spans} spans -> {rollouts_after}, {spans_after}"));
        }
    }
    if json {
        measured.iter().for_each(|row| output::line(as_json(servers, row)));
    } else {
        print_table(servers, measured);
        output::line("cpu: the server's processor time for one request, ours durable on disk (synchronous=FULL).");
        output::line(
            "vs 0.3.0: how many times less than Agent-lightning 0.3.0's in-memory server took, measured elsewhere.",
        );
    }
}

fn as_json(servers: &[Server], row: &Measured) -> Value {
    json!({
        "event": "operation", "operation": row.operation.name(), "server": servers[row.server].name,
        "requests": row.requests, "connections": row.operation.connections(),
        "cpu_ms": row.cpu_milliseconds(), "p50_ms": row.latency(0.5), "p99_ms": row.latency(0.99),
        "agent_lightning_cpu_ms": row.operation.agent_lightning_milliseconds(),
        "times_less": row.operation.agent_lightning_milliseconds() / row.cpu_milliseconds(),
    })
}

fn print_table(servers: &[Server], measured: &[Measured]) {
    let mut table =
        Columns::new(&["operation", "server", "requests", "cpu ms", "p50 ms", "p99 ms", "vs empty", "vs 0.3.0"]);
    for row in measured {
        // The first server is the one that the others are compared with.
        let empty = measured.iter().find(|other| other.operation == row.operation && other.server == 0);
        let ratio = empty.map_or(1.0, |empty| row.cpu_milliseconds() / empty.cpu_milliseconds());
        let less = row.operation.agent_lightning_milliseconds() / row.cpu_milliseconds();
        table.push(vec![
            row.operation.name().to_owned(),
            servers[row.server].name.clone(),
            row.requests.to_string(),
            format!("{:.3}", row.cpu_milliseconds()),
            format!("{:.2}", row.latency(0.5)),
            format!("{:.2}", row.latency(0.99)),
            format!("{ratio:.2}x"),
            format!("{less:.1}x less"),
        ]);
    }
    table.print();
}
