//! `fulgurite train --server`: a trainer of its own beside a server, a service that trains, and a runner; each of them
//! killed in the middle.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::{Process, Ran, Server, eventually, fulgurite, wait_until_ready};
use serde_json::{Value, json};

/// Pays for every third letter, so that rewards differ without a model that has learnt anything.
const UNEVEN: &str = r#"command = ["hello-agent", "{task}"]
grade = ["python3", "-c", "import sys; n = len(sys.stdin.read()); print('{\"reward\": %d}' % (n % 3))"]"#;

/// A directory with a model that is hardly trained, and what one process makes of it.
struct Project {
    directory: tempfile::TempDir,
    /// The summary of the run in one process.
    here: Value,
}

impl Project {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let project = Self { directory, here: Value::Null };
        project.write("here.toml", "backend = \"embedded\"", UNEVEN);
        let here = project.train("here.toml", "here").output().unwrap();
        Self { here: last_line(here), ..project }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A config whose model is at `host`.
    fn write(&self, name: &str, host: &str, runner: &str) {
        let config = format!(
            r#"
[run]
name = "t"
seed = 1

[[models]]
name = "hello"
path = "model"
{host}

[base]
corpus = ["hello-corpus", "--seed", "{{seed}}", "--count", "400"]
vocabulary_size = 300
shape = {{ hidden_size = 32, layers = 1, heads = 2, key_value_heads = 1, head_size = 16, intermediate_size = 64, context_length = 128 }}
training = {{ batch_size = 16, max_steps = 5, cooldown_steps = 2 }}

[tasks]
train = {{ range = [0, 100] }}
held_out = {{ range = [100, 102] }}
final = {{ range = [102, 104] }}

[runner]
parallel = 4
timeout_seconds = 60
{runner}

[trainer]
groups_per_batch = 3
group_size = 3
max_steps = 4
learning_rate = 1e-3
evaluation = {{ every = 2, samples_per_task = 2 }}
"#
        );
        std::fs::write(self.path(name), config).unwrap();
    }

    fn train(&self, config: &str, run: &str) -> Command {
        let mut command = fulgurite(["train", "--json"]);
        command.arg(self.path(config)).arg("--run-directory").arg(self.path(run));
        command
    }

    /// The weights that the run in one process ended with.
    fn weights(&self) -> Vec<u8> {
        let checkpoint = Path::new(self.here["checkpoint"].as_str().unwrap());
        std::fs::read(checkpoint.join("model.safetensors")).unwrap()
    }
}

fn last_line(output: Output) -> Value {
    Ran::from(output).json_lines().pop().unwrap()
}

/// A server, a service that trains, and how a daemon beside them is configured.
struct Parts<'p> {
    project: &'p Project,
    service: Server,
    server: Serving,
}

impl<'p> Parts<'p> {
    fn start(project: &'p Project, runner: &str) -> Self {
        let service_directory = project.path("service");
        std::fs::create_dir(&service_directory).unwrap();
        let config = "[[models]]\nname = \"base\"\nbackend = \"embedded\"\npath = \"../model\"\n";
        std::fs::write(service_directory.join("c.toml"), config).unwrap();
        let service =
            Server::start(&service_directory, ["--config".as_ref(), service_directory.join("c.toml").as_os_str()]);
        let (url, model) = (&service.url, project.path("model"));
        let server = Serving::start(
            project.path("server"),
            format!("hello=tinker:{url},path={},base_model=base", model.display()),
        );
        let host = format!("backend = \"tinker\"\nbase_model = \"base\"\nlora_rank = 0\nurls = [\"{url}\"]");
        project.write("daemon.toml", &host, runner);
        Self { project, service, server }
    }

    fn daemon(&self) -> Command {
        let mut command = self.project.train("daemon.toml", "daemon");
        command.args(["--server", &self.server.url]);
        command
    }

    /// The weights of a daemon's last checkpoint, which the service keeps.
    fn weights(&self, summary: &Value) -> Vec<u8> {
        let checkpoint = Path::new(summary["checkpoint"].as_str().unwrap()).join("tinker_checkpoint.json");
        let checkpoint: Value = serde_json::from_str(&std::fs::read_to_string(checkpoint).unwrap()).unwrap();
        let kept = checkpoint["path"].as_str().unwrap().strip_prefix("tinker://").unwrap();
        let kept = self.project.path("service/fulgurite-tinker/weights").join(kept);
        std::fs::read(kept.join("model.safetensors")).unwrap()
    }

    /// A daemon's run is the run in one process: the same weights, the same scores, every token accounted for.
    fn is_as_in_one_process(&self, summary: &Value) {
        assert!(self.weights(summary) == self.project.weights(), "{summary}");
        for key in ["steps", "trained_tokens", "held_out_reward_before", "held_out_reward_after", "final_reward_after"]
        {
            assert_eq!(summary[key], self.project.here[key], "{key}: {summary}");
        }
        assert_eq!(summary["max_logprob_difference"], json!(0.0));
        let untrained: BTreeMap<String, u64> = serde_json::from_value(summary["untrained_tokens"].clone()).unwrap();
        assert_eq!(untrained["other"], 0, "{summary}");
        let accounted = untrained.values().sum::<u64>() + summary["trained_tokens"].as_u64().unwrap();
        assert_eq!(summary["sampled_tokens"], accounted);
    }

    fn recorded_steps(&self) -> usize {
        let text = std::fs::read_to_string(self.project.path("daemon/metrics.jsonl"));
        text.map_or(0, |text| text.lines().count())
    }
}

/// `fulgurite serve` that can be killed and started again where it was.
struct Serving {
    directory: PathBuf,
    model: String,
    url: String,
    process: Process,
}

impl Serving {
    fn start(directory: PathBuf, model: String) -> Self {
        std::fs::create_dir(&directory).unwrap();
        let (process, url) = serve(&directory, &model, "127.0.0.1:0");
        Self { directory, model, url, process }
    }

    fn kill_and_start_again(&mut self) {
        self.process.kill();
        (self.process, self.url) = serve(&self.directory, &self.model, self.url.strip_prefix("http://").unwrap());
    }

    fn rollouts(&self) -> Vec<Value> {
        let store = format!("sqlite://{}", self.directory.join("store.db").display());
        common::run(["rollouts", "--store", &store, "--all", "--json"]).json_lines()
    }
}

fn serve(directory: &Path, model: &str, listen: &str) -> (Process, String) {
    let (ready_file, log) = (directory.join("ready.json"), directory.join("serve.log"));
    if ready_file.exists() {
        std::fs::remove_file(&ready_file).unwrap();
    }
    let store = format!("sqlite://{}", directory.join("store.db").display());
    let mut command = fulgurite(["serve", "--listen", listen, "--store", &store, "--model", model]);
    command.arg("--ready-file").arg(&ready_file).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
    let mut process = Process::spawn(command);
    let url = wait_until_ready(&mut process, &ready_file, &log);
    (process, url)
}

#[test]
fn a_daemon_beside_a_server_trains_to_the_bytes_of_one_process() {
    let project = Project::new();
    let parts = Parts::start(&project, UNEVEN);
    let summary = last_line(parts.daemon().output().unwrap());
    parts.is_as_in_one_process(&summary);
    assert!(!project.path("daemon/fulgurite.db").exists(), "the record is the server's");
    // Over is over.
    let rollouts = parts.server.rollouts().len();
    let again = last_line(parts.daemon().arg("--resume").output().unwrap());
    assert_eq!(again["final_reward_after"], summary["final_reward_after"]);
    assert_eq!(parts.server.rollouts().len(), rollouts);
    drop(parts.service);
}

#[test]
fn a_daemon_that_is_killed_goes_on_to_the_same_bytes() {
    let project = Project::new();
    let parts = Parts::start(&project, UNEVEN);
    let mut resume: &[&str] = &[];
    for steps in [0, 1, 3] {
        let mut command = parts.daemon();
        command.args(resume).stdout(Stdio::null());
        let mut daemon = Process::spawn(command);
        let config = project.path("daemon/config.json");
        eventually("a step", || (config.exists() && parts.recorded_steps() >= steps).then_some(()));
        daemon.kill();
        resume = &["--resume"];
    }
    let summary = last_line(parts.daemon().arg("--resume").output().unwrap());
    parts.is_as_in_one_process(&summary);
}
