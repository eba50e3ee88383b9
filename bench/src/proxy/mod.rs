//! `fulgurite-bench proxy`: what a call costs through the proxy and its record, over what the same call costs straight at
//! the model's host.

mod arguments;
mod disk;
mod figures;
mod gateway;
mod host;
mod load;
mod script;
mod traffic;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
pub use arguments::{ProxyArguments, ProxyHostArguments, Synchronous};
use disk::Disk;
use figures::{Pace, Round, Seconds, TrafficRow};
use fulgurite_renderers::open_renderer;
use fulgurite_types::Message;
pub use host::bench_proxy_host;
use load::{drive, drive_at_once};
use reqwest::Client;
use script::{MODEL, PROMPT_TOKENS, SAMPLED_TOKENS};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
pub use traffic::Traffic;
use traffic::{TURNS, Tasks};

use crate::output;
use crate::processors::{half, hold};
use crate::render::make_model;
use crate::server::{STORE, Server, measured_program};
use crate::table::Columns;

/// What a gateway of Agent-lightning is called.
const GATEWAY: &str = "gateway";
/// Calls of each kind that open connections and fill caches, and are not counted.
const WARMING: usize = 200;
/// Calls of the first kind for one of each other.
const SHARE_OF_OTHERS: usize = 2;
/// How long a round's calls are put off, so that whatever prepared them is at rest.
const LEAD: Duration = Duration::from_millis(10);
/// How long a round's last calls may go on to be written off after their answers have been read. It counts.
const SETTLING: Duration = Duration::from_millis(100);

/// Measures and prints.
pub async fn bench_proxy(arguments: ProxyArguments) -> Result<()> {
    ensure!(arguments.calls > 0, "--calls must be at least 1");
    ensure!(arguments.rate.is_finite() && arguments.rate > 0.0, "--rate must be a number above 0");
    ensure!(arguments.concurrency > 0, "--concurrency must be at least 1");
    let has_whole = arguments.kinds.contains(&Traffic::Whole);
    ensure!(
        arguments.gateway.is_none() || has_whole,
        "--gateway takes part in calls that are answered whole: --kinds whole"
    );
    let directory = arguments.directory.clone().unwrap_or_else(std::env::temp_dir);
    let model = tempfile::tempdir()?;
    make_model(model.path())?;
    let program = measured_program(arguments.program.clone())?;
    let mut targets = vec![start_host(model.path()).await?];
    let host = targets[0].url.clone();
    let start = async |name, program| {
        let own = tempfile::tempdir_in(&directory);
        let own = own.with_context(|| format!("--directory: cannot make one in {}", directory.display()))?;
        start_proxy(name, program, own, &host, model.path(), arguments.synchronous).await
    };
    targets.push(start("fulgurite", program).await?);
    if let Some(program) = arguments.against.clone() {
        targets.push(start("against", program).await?);
    }
    if let (Some(url), Some(pid)) = (&arguments.gateway, arguments.gateway_pid) {
        targets.push(Server::running(GATEWAY, url, pid));
    }
    let processors = if arguments.share_processors { None } else { half() };
    if let Some(processors) = &processors {
        let held = hold(std::process::id(), processors).and_then(|()| targets[0].hold(processors));
        held.context("client and host cannot be kept to half of the processors (--share-processors does without)")?;
    }
    let mut bench = Bench::new(targets, processors, directory, model.path(), &arguments).await?;
    bench.run(arguments.calls).await?;
    report(&bench, &arguments);
    Ok(())
}

async fn start_host(model: &Path) -> Result<Server> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    command.args(["proxy-host", "--model"]).arg(model);
    Server::spawn("direct", command, tempfile::tempdir()?).await
}

async fn start_proxy(
    name: &str,
    program: PathBuf,
    directory: TempDir,
    host: &str,
    model: &Path,
    synchronous: Synchronous,
) -> Result<Server> {
    let config = directory.path().join("bench.toml");
    std::fs::write(&config, format!("[store]\nsynchronous = \"{}\"\n", mode(synchronous)))?;
    let mut command = Command::new(program);
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(config);
    command.arg("--store").arg(directory.path().join(STORE));
    command.arg("--model").arg(format!("{MODEL}=vllm:{host},path={}", model.display()));
    Server::spawn(name, command, directory).await
}

struct Bench {
    client: Client,
    /// The host first.
    targets: Vec<Server>,
    /// Of client and host, unless they run on all.
    processors: Option<Vec<usize>>,
    /// In which the stores are.
    directory: PathBuf,
    tasks: Tasks,
    /// What the host's answer is in a conversation.
    answer: Message,
    /// Calls a second, where they are paced.
    rate: f64,
    /// Calls under way, where they are not.
    concurrency: usize,
    /// Of calls, the first of which says how many rounds there are.
    kinds: Vec<Traffic>,
    rounds: Vec<Round>,
    /// Calls made through each proxy.
    made: usize,
    memory: Vec<Memory>,
    disk: Disk,
}

/// What the proxies hold once a share of the calls has been made.
struct Memory {
    /// In hundredths.
    share: usize,
    /// Bytes of each.
    resident: Vec<u64>,
}

/// How long a connection waits for another call; servers wait longer (`server.header_seconds`).
const IDLE: Duration = Duration::from_secs(20);
/// Shares of the calls after which one looks at the memory, in hundredths. The first is before them.
const SHARES: [usize; 4] = [0, 10, 50, 100];

impl Bench {
    async fn new(
        targets: Vec<Server>,
        processors: Option<Vec<usize>>,
        directory: PathBuf,
        model: &Path,
        arguments: &ProxyArguments,
    ) -> Result<Self> {
        // A connection is given up before a server does, which may close one just when a call is sent over it.
        let client = Client::builder().no_proxy().pool_idle_timeout(IDLE).build()?;
        let mut tasks = Tasks::new(open_renderer(model, "auto")?);
        let mut answer = Message::default();
        for proxy in &targets[1..] {
            if proxy.name == GATEWAY {
                gateway::register(&client, &proxy.url, &targets[0].url).await?;
                continue;
            }
            answer = first_answer(&client, &mut tasks, &proxy.url).await?;
        }
        let ProxyArguments { rate, concurrency, ref kinds, .. } = *arguments;
        let (kinds, rounds, memory, disk) = (kinds.clone(), Vec::new(), Vec::new(), Disk::default());
        Ok(Self {
            client,
            targets,
            processors,
            directory,
            tasks,
            answer,
            rate,
            concurrency,
            kinds,
            rounds,
            made: 1,
            memory,
            disk,
        })
    }

    /// Warms everything up, and makes so many calls of the first kind, and a share of the others.
    async fn run(&mut self, calls: usize) -> Result<()> {
        for traffic in self.kinds.clone() {
            self.round((traffic, Pace::Rate), 0, WARMING.min(calls)).await?;
        }
        self.rounds.clear();
        self.look_at_memory(0)?;
        let per_round = (self.rate.ceil() as usize).clamp(1, calls);
        let rounds = calls.div_ceil(per_round);
        for number in 0..rounds {
            for (place, traffic) in self.kinds.clone().into_iter().enumerate() {
                if place == 0 || number % SHARE_OF_OTHERS == 0 {
                    self.round((traffic, Pace::Rate), number, per_round).await?;
                    self.round((traffic, Pace::AtOnce), number, per_round).await?;
                }
            }
            // Nothing else is done meanwhile.
            let measured = self.disk.round(&self.directory, per_round, self.rate);
            measured.with_context(|| format!("cannot write to {}", self.directory.display()))?;
            self.look_at_memory(100 * (number + 1) / rounds)?;
        }
        self.check_recorded().await
    }

    /// Makes the same calls of one kind, at least as many as told, to each target after the other. What comes before and
    /// after an attempt's calls is not counted.
    async fn round(&mut self, kind: (Traffic, Pace), number: usize, calls: usize) -> Result<()> {
        let (traffic, pace) = kind;
        let agents = if traffic == Traffic::Conversations { calls.div_ceil(TURNS) } else { calls };
        let agents = self.tasks.agents(traffic, agents, &self.answer)?;
        for (target, server) in self.targets.iter().enumerate() {
            let is_gateway = server.name == GATEWAY;
            // It takes no streams, and could not keep up with a rate at which others do.
            if is_gateway && kind != (Traffic::Whole, Pace::AtOnce) {
                continue;
            }
            let attempts = match target {
                0 => Vec::new(),
                _ if is_gateway => agents.start_at_gateway(&self.client, &server.url).await?,
                _ => agents.start_attempts(&self.client, &server.url).await?,
            };
            let calls = agents.calls_to(&server.url, &attempts);
            tokio::time::sleep(LEAD).await;
            let (before, began) = (server.cpu_seconds()?, Instant::now());
            let timings = match pace {
                Pace::Rate => drive(&self.client, calls, self.rate).await?,
                Pace::AtOnce => drive_at_once(&self.client, calls, self.concurrency).await?,
            };
            let elapsed = began.elapsed().as_secs_f64();
            tokio::time::sleep(SETTLING).await;
            let seconds = Seconds { cpu: server.cpu_seconds()? - before, elapsed };
            match is_gateway {
                true => agents.end_at_gateway(&self.client, &server.url, attempts).await?,
                false => agents.end_attempts(&self.client, &server.url, attempts).await?,
            }
            self.rounds.push(Round::new(kind, number, target, seconds, &timings));
        }
        self.made += agents.calls();
        Ok(())
    }

    /// Notes what each proxy holds if that many hundredths of the calls, or more, are one of the shares.
    fn look_at_memory(&mut self, made: usize) -> Result<()> {
        while let Some(share) = SHARES.get(self.memory.len()).copied().filter(|share| *share <= made) {
            let resident = self.targets[1..].iter().map(Server::resident_bytes).collect::<Result<_>>()?;
            self.memory.push(Memory { share, resident });
        }
        Ok(())
    }

    /// Fails unless each proxy has recorded every call.
    async fn check_recorded(&self) -> Result<()> {
        for proxy in self.targets[1..].iter().filter(|proxy| proxy.name != GATEWAY) {
            let request = self.client.get(format!("{}/v1/agl/statistics", proxy.url));
            let statistics: Value = request.send().await?.error_for_status()?.json().await?;
            let (spans, made) = (&statistics["total_spans"], self.made);
            ensure!(*spans == json!(made), "{} has recorded {spans} calls of {made}", proxy.name);
        }
        Ok(())
    }
}

/// What a proxy answers, which must be as it was scripted.
async fn first_answer(client: &Client, tasks: &mut Tasks, url: &str) -> Result<Message> {
    let agents = tasks.agents(Traffic::Sessions, 1, &Message::default())?;
    let call = agents.calls_to(url, &[]).pop().context("there is no call")?;
    let request = client.post(call.url).header("content-type", "application/json").body(call.body);
    let reply: Value = request.send().await?.json().await?;
    let counted = (&reply["usage"]["prompt_tokens"], &reply["usage"]["completion_tokens"]);
    ensure!(counted == (&json!(PROMPT_TOKENS), &json!(SAMPLED_TOKENS)), "the first answer is not as scripted: {reply}");
    Ok(serde_json::from_value(reply["choices"][0]["message"].clone())?)
}

/// As the config calls it.
fn mode(synchronous: Synchronous) -> &'static str {
    match synchronous {
        Synchronous::Full => "full",
        Synchronous::Normal => "normal",
    }
}

fn report(bench: &Bench, arguments: &ProxyArguments) {
    let kinds = bench.kinds.iter().flat_map(|traffic| [(*traffic, Pace::Rate), (*traffic, Pace::AtOnce)]);
    let rows: Vec<TrafficRow> = kinds
        .flat_map(|kind| (0..bench.targets.len()).map(move |target| (kind, target)))
        .map(|(kind, target)| TrafficRow::of(&bench.rounds, kind, target))
        .filter(|row| row.calls > 0)
        .collect();
    match arguments.json {
        true => print_json(bench, &rows, mode(arguments.synchronous)),
        false => print_table(bench, &rows, mode(arguments.synchronous)),
    }
}

fn print_json(bench: &Bench, rows: &[TrafficRow], synchronous: &str) {
    for row in rows {
        let pace = match row.pace {
            Pace::Rate => json!({ "calls_a_second": bench.rate }),
            Pace::AtOnce => json!({ "calls_at_once": bench.concurrency }),
        };
        output::line(json!({
            "event": "row", "traffic": row.traffic.name(), "pace": pace, "server": bench.targets[row.target].name,
            "calls": row.calls, "calls_per_second": row.rate, "cpu_ms_per_call": row.cpu, "ttft_ms": row.first,
            "p50_ms": row.p50, "p99_ms": row.p99, "added_ttft_ms": row.added_first, "added_p99_ms": row.added_p99,
        }));
    }
    let (disk_p50, disk_p99) = bench.disk.milliseconds();
    for (index, proxy) in bench.targets[1..].iter().enumerate().rev().filter(|(_, proxy)| proxy.name != GATEWAY) {
        let mut summary = Map::new();
        summary.insert("event".to_owned(), json!("summary"));
        summary.insert("server".to_owned(), json!(proxy.name));
        for row in rows.iter().filter(|row| row.target == index + 1) {
            let (prefix, rate) = (row.traffic.prefix(), bench.rate);
            let figures = match row.pace {
                Pace::Rate => vec![
                    ("calls".to_owned(), json!(row.calls)),
                    (format!("added_cpu_ms_per_call_at_{rate}"), json!(row.cpu)),
                    (format!("added_p99_ms_at_{rate}"), json!(row.added_p99)),
                    ("added_ttft_ms".to_owned(), json!(row.added_first)),
                ],
                Pace::AtOnce => vec![
                    ("added_cpu_ms_per_call".to_owned(), json!(row.cpu)),
                    ("calls_per_second".to_owned(), json!(row.rate)),
                ],
            };
            summary.extend(figures.into_iter().map(|(name, value)| (format!("{prefix}{name}"), value)));
        }
        for (name, value) in [
            ("prompt_tokens", json!(PROMPT_TOKENS)),
            ("sampled_tokens", json!(SAMPLED_TOKENS)),
            ("calls_at_once", json!(bench.concurrency)),
            ("store", json!("sqlite")),
            ("synchronous", json!(synchronous)),
            ("directory", json!(bench.directory.to_string_lossy())),
            ("disk_p50_ms", json!(disk_p50)),
            ("disk_p99_ms", json!(disk_p99)),
            ("client_and_host_processors", json!(bench.processors.as_ref().map(Vec::len))),
            ("calls_made", json!(bench.made)),
        ] {
            summary.insert(name.to_owned(), value);
        }
        if let Some((gateway, times)) = gateway_over(bench, rows, index + 1) {
            summary.insert("gateway_cpu_ms_per_call".to_owned(), json!(gateway.cpu));
            summary.insert("gateway_calls_per_second".to_owned(), json!(gateway.rate));
            summary.insert("gateway_cpu_times_own".to_owned(), json!(times));
        }
        for Memory { share, resident } in &bench.memory {
            summary.insert(format!("resident_mib_at_{share}_percent"), json!(mebibytes(resident[index])));
        }
        output::line(Value::Object(summary));
    }
}

/// What a whole call takes at the gateway, if there is one, and how many times the processor time that it takes at a target.
fn gateway_over<'r>(bench: &Bench, rows: &'r [TrafficRow], target: usize) -> Option<(&'r TrafficRow, f64)> {
    let row =
        |target| rows.iter().find(|row| (row.traffic, row.pace, row.target) == (Traffic::Whole, Pace::AtOnce, target));
    let gateway = row(bench.targets.iter().position(|server| server.name == GATEWAY)?)?;
    Some((gateway, gateway.cpu / row(target)?.cpu))
}

fn mebibytes(bytes: u64) -> f64 {
    (bytes as f64 / 104_857.6).round() / 10.0
}

fn print_table(bench: &Bench, rows: &[TrafficRow], synchronous: &str) {
    let columns = ["calls", "made", "to", "number", "a second", "cpu ms", "ttft ms", "p50 ms", "p99 ms"];
    let mut table = Columns::new(&[&columns[..], &["added ttft", "added p99"]].concat());
    for row in rows {
        let through = |value: f64| if row.target == 0 { String::new() } else { format!("{value:.3}") };
        let pace = match row.pace {
            Pace::Rate => format!("{} a second", bench.rate),
            Pace::AtOnce => format!("{} at once", bench.concurrency),
        };
        table.push(vec![
            row.traffic.name().to_owned(),
            pace,
            bench.targets[row.target].name.clone(),
            row.calls.to_string(),
            format!("{:.0}", row.rate),
            through(row.cpu),
            format!("{:.3}", row.first),
            format!("{:.3}", row.p50),
            format!("{:.3}", row.p99),
            through(row.added_first),
            through(row.added_p99),
        ]);
    }
    table.print();
    if let Some((_, times)) = gateway_over(bench, rows, 1) {
        output::line(format!("A whole call takes {times:.1} times as much processor time at the gateway."));
    }
    for (index, proxy) in bench.targets[1..].iter().enumerate() {
        let looks = bench.memory.iter().map(|look| {
            let Memory { share, resident } = look;
            format!("{} MiB at {share} %", mebibytes(resident[index]))
        });
        let looks: Vec<String> = looks.collect();
        output::line(format!("{}: resident {} of the calls", proxy.name, looks.join(", ")));
    }
    output::line(format!(
        "{PROMPT_TOKENS} prompt tokens (of conversations, in the first turn), {SAMPLED_TOKENS} sampled; every call \
         committed to SQLite (synchronous={synchronous}) before its answer ends."
    ));
    let (disk_p50, disk_p99) = bench.disk.milliseconds();
    output::line(format!(
        "The disk of {} alone, for the pages of one commit at a time at that rate: {disk_p50:.3} ms, 99th percentile \
         {disk_p99:.3} ms.",
        bench.directory.display()
    ));
    if let Some(processors) = &bench.processors {
        output::line(format!("Processors of client and host: {}; the proxy runs on all.", processors.len()));
    }
    output::line(
        "cpu: all processor time of the proxy's process. ttft: until the first byte of an answer, of a stream until the \
         first that holds text; of an answer that comes whole it is nearly the whole time. added: the median over rounds \
         of what was more than straight to the host.",
    );
}
