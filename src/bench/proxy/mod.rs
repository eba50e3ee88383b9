//! `fulgurite bench proxy`: what a call costs through the proxy and its record, over what the same call costs straight at
//! the model's host.

mod figures;
mod host;
mod load;
mod traffic;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use figures::{Round, Row};
use fulgurite_renderers::{Message, open_renderer};
pub use host::bench_proxy_host;
use host::{MODEL, SAMPLED_TOKENS};
use load::drive;
use reqwest::Client;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use traffic::{PROMPT_TOKENS, TURNS, Tasks, Traffic};

use super::render::make_model;
use super::server::{STORE, Server};
use crate::cli::BenchProxyArguments;
use crate::output;
use crate::query::table::Columns;

/// Calls of each kind that open connections and fill caches, and are not counted.
const WARMING: usize = 200;
/// Calls of the first kind for one of each other.
const SHARE_OF_OTHERS: usize = 4;
/// How long a round's last calls may go on to be written off after their answers have been read. It counts.
const SETTLING: Duration = Duration::from_millis(100);

/// Measures and prints.
pub async fn bench_proxy(arguments: BenchProxyArguments) -> Result<()> {
    ensure!(arguments.calls > 0, "--calls must be at least 1");
    ensure!(arguments.rate.is_finite() && arguments.rate > 0.0, "--rate must be a number above 0");
    let model = tempfile::tempdir()?;
    make_model(model.path())?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut targets = vec![start_host(&program, model.path()).await?];
    let host = targets[0].url.clone();
    targets.push(start_proxy("fulgurite", program, &host, model.path()).await?);
    if let Some(program) = arguments.against.clone() {
        targets.push(start_proxy("against", program, &host, model.path()).await?);
    }
    let mut bench = Bench::new(targets, model.path(), arguments.rate).await?;
    let memory = bench.run(arguments.calls).await?;
    report(&bench, &memory, arguments.json);
    Ok(())
}

async fn start_host(program: &Path, model: &Path) -> Result<Server> {
    let mut command = Command::new(program);
    command.args(["bench", "proxy-host", "--model"]).arg(model);
    Server::spawn("direct", command, tempfile::tempdir()?).await
}

async fn start_proxy(name: &str, program: PathBuf, host: &str, model: &Path) -> Result<Server> {
    let directory: TempDir = tempfile::tempdir()?;
    let mut command = Command::new(program);
    command.args(["serve", "--listen", "127.0.0.1:0", "--store"]).arg(directory.path().join(STORE));
    command.arg("--model").arg(format!("{MODEL}=vllm:{host},path={}", model.display()));
    Server::spawn(name, command, directory).await
}

struct Bench {
    client: Client,
    /// The host first.
    targets: Vec<Server>,
    tasks: Tasks,
    /// What the host's answer is in a conversation.
    answer: Message,
    /// Calls a second.
    rate: f64,
    rounds: Vec<Round>,
    /// Calls made through each proxy.
    made: usize,
}

/// Resident bytes of each proxy once it is warm, in the middle, and at the end.
struct Memory([Vec<u64>; 3]);

impl Bench {
    async fn new(targets: Vec<Server>, model: &Path, rate: f64) -> Result<Self> {
        let client = Client::builder().no_proxy().build()?;
        let mut tasks = Tasks::new(open_renderer(model, "auto")?);
        let mut answer = Message::default();
        for proxy in &targets[1..] {
            answer = first_answer(&client, &mut tasks, &proxy.url).await?;
        }
        Ok(Self { client, made: 1, targets, tasks, answer, rate, rounds: Vec::new() })
    }

    /// Warms everything up, and makes so many calls of the first kind, and a share of the others.
    async fn run(&mut self, calls: usize) -> Result<Memory> {
        for traffic in Traffic::ALL {
            self.round(traffic, 0, WARMING.min(calls)).await?;
        }
        self.rounds.clear();
        let start = self.resident()?;
        let per_round = (self.rate.ceil() as usize).clamp(1, calls);
        let rounds = calls.div_ceil(per_round);
        let mut middle = start.clone();
        for number in 0..rounds {
            for traffic in Traffic::ALL {
                if traffic == Traffic::Whole || number % SHARE_OF_OTHERS == 0 {
                    self.round(traffic, number, per_round).await?;
                }
            }
            if number == rounds / 2 {
                middle = self.resident()?;
            }
        }
        self.check_recorded().await?;
        Ok(Memory([start, middle, self.resident()?]))
    }

    /// Makes the same calls of one kind, at least as many as told, to each target after the other. What comes before and
    /// after an attempt's calls is not counted.
    async fn round(&mut self, traffic: Traffic, number: usize, calls: usize) -> Result<()> {
        let agents = if traffic == Traffic::Conversations { calls.div_ceil(TURNS) } else { calls };
        let agents = self.tasks.agents(traffic, agents, &self.answer)?;
        for (target, server) in self.targets.iter().enumerate() {
            let attempts = match target {
                0 => Vec::new(),
                _ => agents.start_attempts(&self.client, &server.url).await?,
            };
            let calls = agents.calls_to(&server.url, &attempts);
            let before = server.cpu_seconds()?;
            let timings = drive(&self.client, calls, self.rate).await?;
            tokio::time::sleep(SETTLING).await;
            let cpu_seconds = server.cpu_seconds()? - before;
            agents.end_attempts(&self.client, &server.url, attempts).await?;
            self.rounds.push(Round::new(traffic, number, target, cpu_seconds, &timings));
        }
        self.made += agents.calls();
        Ok(())
    }

    fn resident(&self) -> Result<Vec<u64>> {
        self.targets[1..].iter().map(Server::resident_bytes).collect()
    }

    /// Fails unless each proxy has recorded every call.
    async fn check_recorded(&self) -> Result<()> {
        for proxy in &self.targets[1..] {
            let asked = self.client.get(format!("{}/v1/agl/statistics", proxy.url));
            let statistics: Value = asked.send().await?.error_for_status()?.json().await?;
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
    let asked = client.post(call.url).header("content-type", "application/json").body(call.body);
    let reply: Value = asked.send().await?.json().await?;
    let counted = (&reply["usage"]["prompt_tokens"], &reply["usage"]["completion_tokens"]);
    ensure!(counted == (&json!(PROMPT_TOKENS), &json!(SAMPLED_TOKENS)), "the first answer is not as scripted: {reply}");
    Ok(serde_json::from_value(reply["choices"][0]["message"].clone())?)
}

fn report(bench: &Bench, memory: &Memory, json: bool) {
    let rows: Vec<Row> = Traffic::ALL
        .into_iter()
        .flat_map(|traffic| (0..bench.targets.len()).map(move |target| (traffic, target)))
        .map(|(traffic, target)| Row::of(&bench.rounds, traffic, target))
        .collect();
    match json {
        true => print_json(bench, &rows, memory),
        false => print_table(bench, &rows, memory),
    }
}

fn print_json(bench: &Bench, rows: &[Row], memory: &Memory) {
    for row in rows {
        output::line(json!({
            "event": "row", "traffic": row.traffic.name(), "server": bench.targets[row.target].name,
            "calls": row.calls, "cpu_ms_per_call": row.cpu, "ttft_ms": row.first, "p50_ms": row.p50, "p99_ms": row.p99,
            "added_ttft_ms": row.added_first, "added_p99_ms": row.added_p99,
        }));
    }
    for (index, proxy) in bench.targets[1..].iter().enumerate().rev() {
        let mut summary = Map::new();
        summary.insert("event".to_owned(), json!("summary"));
        summary.insert("server".to_owned(), json!(proxy.name));
        for row in rows.iter().filter(|row| row.target == index + 1) {
            let prefix = row.traffic.prefix();
            for (name, value) in [
                ("calls".to_owned(), json!(row.calls)),
                ("added_cpu_ms_per_call".to_owned(), json!(row.cpu)),
                (format!("added_p99_ms_at_{}", bench.rate), json!(row.added_p99)),
                ("added_ttft_ms".to_owned(), json!(row.added_first)),
            ] {
                summary.insert(format!("{prefix}{name}"), value);
            }
        }
        let [start, middle, end] = memory.0.each_ref().map(|resident| resident[index]);
        for (name, value) in [
            ("prompt_tokens", json!(PROMPT_TOKENS)),
            ("sampled_tokens", json!(SAMPLED_TOKENS)),
            ("store", json!("sqlite")),
            ("synchronous", json!("full")),
            ("calls_made", json!(bench.made)),
            ("resident_bytes_at_start", json!(start)),
            ("resident_bytes_in_the_middle", json!(middle)),
            ("resident_bytes_at_end", json!(end)),
        ] {
            summary.insert(name.to_owned(), value);
        }
        output::line(Value::Object(summary));
    }
}

fn print_table(bench: &Bench, rows: &[Row], memory: &Memory) {
    let mut table =
        Columns::new(&["calls", "to", "number", "cpu ms", "ttft ms", "p50 ms", "p99 ms", "added ttft", "added p99"]);
    for row in rows {
        let through = |value: f64| if row.target == 0 { String::new() } else { format!("{value:.3}") };
        table.push(vec![
            row.traffic.name().to_owned(),
            bench.targets[row.target].name.clone(),
            row.calls.to_string(),
            through(row.cpu),
            format!("{:.3}", row.first),
            format!("{:.3}", row.p50),
            format!("{:.3}", row.p99),
            through(row.added_first),
            through(row.added_p99),
        ]);
    }
    table.print();
    for (index, proxy) in bench.targets[1..].iter().enumerate() {
        let [start, middle, end] = memory.0.each_ref().map(|resident| resident[index] >> 20);
        let name = &proxy.name;
        output::line(format!("{name}: resident {start} MiB at the start, {middle} in the middle, {end} at the end"));
    }
    output::line(format!(
        "{PROMPT_TOKENS} prompt tokens (of conversations, in the first turn), {SAMPLED_TOKENS} sampled, {} calls a second; \
         every call durable in SQLite (synchronous=FULL) before its answer ends.",
        bench.rate
    ));
    output::line(
        "cpu: all processor time of the proxy's process. added: the median over rounds of what was more than straight \
         to the host.",
    );
}
