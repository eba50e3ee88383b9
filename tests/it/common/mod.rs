//! What every test of the real command needs: to run it, to have it serve, and a small model for it to serve.

// Each test file uses a part of this.
#![allow(dead_code)]

pub mod data_project;
pub mod own_postgres;
pub mod project;

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use fulgurite_engine::ModelConfig;
use serde_json::{Value, json};

/// Longest wait for anything; only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(120);

/// The command, without what the environment of the tests would add to its options.
pub fn fulgurite<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulgurite"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FULGURITE_")) {
        command.env_remove(name);
    }
    // Help is wrapped to the terminal's width.
    command.env_remove("COLUMNS").args(arguments).stdin(Stdio::null());
    command
}

/// How a command ended and what it printed.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// The lines of `--json`, of a command that must have succeeded.
    pub fn json_lines(&self) -> Vec<Value> {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What a command that must have failed says, `directory` left out of it.
    pub fn failure(&self, directory: &Path) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (Some(1), ""), "{}", self.stderr);
        self.stderr.replace(directory.to_str().unwrap(), "[directory]")
    }
}

/// What a command that must succeed prints.
pub fn printed<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> String {
    let ran = run(arguments);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{}", ran.stdout);
    ran.stdout
}

/// Runs the command to its end.
pub fn run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Ran {
    fulgurite(arguments).output().unwrap().into()
}

/// Looks again and again until `look` finds something.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A child process that does not outlive the test.
pub struct Process(Child);

impl Process {
    pub fn spawn(mut command: Command) -> Self {
        Self(command.spawn().unwrap())
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// What it prints, if that is piped here and was not taken before.
    pub fn stdout(&mut self) -> ChildStdout {
        self.0.stdout.take().unwrap()
    }

    /// What it reads, if that is piped here and was not taken before.
    pub fn stdin(&mut self) -> ChildStdin {
        self.0.stdin.take().unwrap()
    }

    /// `kill -9`, waited for.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// SIGTERM, and the exit code.
    pub fn terminate(&mut self) -> Option<i32> {
        let signalled = Command::new("kill").args(["-TERM", &self.id().to_string()]).status().unwrap();
        assert!(signalled.success());
        self.exit_code()
    }

    /// Waits for the end.
    pub fn exit_code(&mut self) -> Option<i32> {
        eventually("the process to end", || self.0.try_wait().unwrap()).code()
    }

    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for the file that a server writes once it answers, and gives the server's URL.
pub fn wait_until_ready(process: &mut Process, ready_file: &Path, log: &Path) -> String {
    let ready: Value = eventually("the ready file", || {
        let ended = process.has_ended();
        assert!(!ended, "it ended before it was ready: {}", std::fs::read_to_string(log).unwrap());
        Some(serde_json::from_str(&std::fs::read_to_string(ready_file).ok()?).unwrap())
    });
    assert_eq!(ready["pid"], process.id());
    ready["url"].as_str().unwrap().to_owned()
}

/// `fulgurite serve` on a free port.
pub struct Server {
    pub url: String,
    pub process: Process,
    /// The URL of its store.
    pub store: String,
}

impl Server {
    /// Serves what `arguments` say, with store, ready file and log in `directory`.
    pub fn start<S: AsRef<OsStr>>(directory: &Path, arguments: impl IntoIterator<Item = S>) -> Self {
        Self::start_in(&[], directory, arguments)
    }

    /// As [`Server::start`], with a store that may be elsewhere.
    pub fn start_on<S: AsRef<OsStr>>(store: &str, directory: &Path, arguments: impl IntoIterator<Item = S>) -> Self {
        Self::start_with(&[], store, directory, arguments)
    }

    /// As [`Server::start`], with these variables in its environment.
    pub fn start_in<S: AsRef<OsStr>>(
        environment: &[(&str, &str)],
        directory: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> Self {
        let store = format!("sqlite://{}", directory.join("store.db").display());
        Self::start_with(environment, &store, directory, arguments)
    }

    fn start_with<S: AsRef<OsStr>>(
        environment: &[(&str, &str)],
        store: &str,
        directory: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> Self {
        let (ready_file, log) = (directory.join("ready.json"), directory.join("serve.log"));
        if ready_file.exists() {
            std::fs::remove_file(&ready_file).unwrap();
        }
        let mut command = fulgurite(["serve", "--listen", "127.0.0.1:0", "--store", store]);
        command.envs(environment.iter().copied());
        command.current_dir(directory);
        command.arg("--ready-file").arg(&ready_file).args(arguments);
        command.stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        let mut process = Process::spawn(command);
        let url = wait_until_ready(&mut process, &ready_file, &log);
        Self { url, process, store: store.to_owned() }
    }

    pub fn get(&self, path: &str) -> HttpAnswer {
        HttpAnswer::read(client().get(format!("{}{path}", self.url)).send().unwrap())
    }

    pub fn post(&self, path: &str, body: &Value) -> HttpAnswer {
        self.post_text(path, body.to_string())
    }

    /// Posts what may not be JSON, as JSON.
    pub fn post_text(&self, path: &str, body: impl Into<reqwest::blocking::Body>) -> HttpAnswer {
        let request = client().post(format!("{}{path}", self.url)).header("content-type", "application/json");
        HttpAnswer::read(request.body(body).send().unwrap())
    }

    /// Queues one rollout for each input, and gives their ids.
    pub fn enqueue(&self, inputs: impl IntoIterator<Item = Value>, config: &Value) -> Vec<String> {
        let rollouts: Vec<Value> =
            inputs.into_iter().map(|input| json!({ "input": input, "config": config })).collect();
        let queued = self.post("/v1/agl/queues/rollouts/enqueue", &json!({ "rollouts": rollouts })).expect(201);
        queued.as_array().unwrap().iter().map(|rollout| text(&rollout["rollout_id"])).collect()
    }

    /// Lines of a query command's `--json` on this server's store: `rollouts`, `spans` or `triplets`.
    pub fn query(&self, command: &str) -> Vec<Value> {
        run([command, "--store", &self.store, "--all", "--json"]).json_lines()
    }
}

/// A whole HTTP answer.
#[derive(Debug)]
pub struct HttpAnswer {
    pub status: u16,
    pub text: String,
}

impl HttpAnswer {
    fn read(response: reqwest::blocking::Response) -> Self {
        Self { status: response.status().as_u16(), text: response.text().unwrap() }
    }

    /// The JSON of an answer that must have this status.
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        serde_json::from_str(&self.text).unwrap()
    }
}

/// Bytes that a process holds.
pub fn resident_bytes(process: u32) -> u64 {
    status_bytes(process, "VmRSS:").unwrap()
}

/// Bytes that a process has held at most; 0 once it has ended.
pub fn peak_bytes(process: u32) -> u64 {
    status_bytes(process, "VmHWM:").unwrap_or(0)
}

fn status_bytes(process: u32, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    Some(1024 * line.trim().trim_end_matches(" kB").parse::<u64>().ok()?)
}

/// Keeps no connections, so that a killed server's are not taken for its successor's.
pub fn client() -> reqwest::blocking::Client {
    reqwest::blocking::Client::builder().pool_max_idle_per_host(0).timeout(PATIENCE).build().unwrap()
}

/// A JSON string's text.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}")).to_owned()
}

/// A report without its script and data, and the data.
pub fn parts_of_report(page: &str) -> (String, Value) {
    let (before, rest) = page.split_once("<script id=\"report\" type=\"application/json\">").unwrap();
    let (data, rest) = rest.split_once("</script>").unwrap();
    let (_, after) = rest.rsplit_once("</script>").unwrap();
    (format!("{before}{after}"), serde_json::from_str(data).unwrap())
}

/// A program that is built beside the command.
pub fn program(name: &str) -> String {
    let path = Path::new(env!("CARGO_BIN_EXE_fulgurite")).with_file_name(name);
    assert!(path.exists(), "{} is missing: cargo build --workspace --bins", path.display());
    path.to_str().unwrap().to_owned()
}

/// Makes an untrained model of one layer in `directory`. Greedy sampling from it goes on until the context is full.
pub fn tiny_model(directory: &Path, context_length: usize) -> PathBuf {
    tiny_weights(directory, context_length, "model", 1)
}

/// The same model with the weights that a seed gives it, in a directory of that name.
pub fn tiny_weights(directory: &Path, context_length: usize, name: &str, seed: u64) -> PathBuf {
    let tokenizer = fulgurite_renderers::train_byte_level_tokenizer(["Say you are 17."; 2], 280, &[]).unwrap();
    let scratch = directory.join("tokenizer");
    fulgurite_renderers::write_tokenizer_directory(&scratch, &tokenizer).unwrap();
    let opened = fulgurite_renderers::Tokenizer::open(&scratch).unwrap();
    let shape = ModelConfig {
        architecture: Default::default(),
        vocab_size: opened.vocabulary_size(),
        hidden_size: 16,
        intermediate_size: 32,
        num_hidden_layers: 1,
        num_attention_heads: 2,
        num_key_value_heads: 1,
        head_dim: 8,
        max_position_embeddings: context_length,
        rms_norm_eps: 1e-6,
        rope_theta: 10_000.0,
        rope_scaling: Default::default(),
        tie_word_embeddings: true,
        head: Default::default(),
        other: json!({ "eos_token_id": opened.eos_ids() }).as_object().unwrap().clone(),
    };
    let path = directory.join(name);
    fulgurite_engine::create_model(&path, &shape, seed).unwrap();
    fulgurite_renderers::write_tokenizer_directory(&path, &tokenizer).unwrap();
    path
}

/// The `--model` flag's value for a model directory.
pub fn model_flag(name: &str, directory: &Path) -> String {
    format!("{name}=embedded:{}", directory.display())
}

/// What a query prints, with ids and times replaced by others of their length.
pub fn table<S: AsRef<OsStr>>(server: &Server, arguments: impl IntoIterator<Item = S>) -> String {
    let words: Vec<_> = arguments.into_iter().map(|word| word.as_ref().to_owned()).collect();
    let mut table =
        printed(words.iter().map(|word| word.as_os_str()).chain(["--store".as_ref(), server.store.as_ref()]));
    for generation in server.query("generations") {
        let id = text(&generation["generation_id"]);
        table = table.replace(&id, &format!("chatcmpl-{}", "#".repeat(id.len() - 9)));
    }
    for attempt in server.query("attempts") {
        let id = text(&attempt["attempt_id"]);
        table = table.replace(&id, &format!("at-{}", "#".repeat(id.len() - 3)));
    }
    table.lines().map(|line| without_times(line).trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Puts one time in the place of every time, and no time in the place of every duration.
fn without_times(line: &str) -> String {
    let shape = |text: &str| text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect::<String>();
    let mut out = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let starts_word = !out.ends_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
        let number = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').count();
        if rest.get(..19).is_some_and(|start| shape(start) == "0000-00-00 00:00:00") {
            out.push_str("2026-11-21 15:04:05");
            rest = &rest[19..];
        } else if starts_word && rest[..number].split_once('.').is_some_and(|(_, fraction)| fraction.len() == 3) {
            out.push_str(&format!("{:<number$}", "0.000"));
            rest = &rest[number..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// How many model calls the server says are under way.
pub fn in_flight(server: &Server) -> f64 {
    sum_of_metric(server, "fulgurite_calls_in_flight")
}

/// A metric, over all its labels.
pub fn sum_of_metric(server: &Server, name: &str) -> f64 {
    let metrics = server.get("/metrics").text;
    let lines = metrics.lines().filter(|line| line.starts_with(name));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}
