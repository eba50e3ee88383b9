//! Training runs of the real command: an agent as its own process, kills, resumption, and the account of every token.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;
#[path = "common/vllm_over_engine.rs"]
mod vllm_over_engine;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use common::{Ran, Server, eventually, fulgurite};
use serde_json::{Value, json};
use vllm_over_engine::VllmOverEngine;

/// A directory with a config whose base is hardly trained and whose agent and grader are given.
struct Project {
    directory: tempfile::TempDir,
}

impl Project {
    /// `runner` and `trainer` are lines of those sections.
    fn new(runner: &str, trainer: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = format!(
            r#"
[run]
name = "t"
seed = 1

[[models]]
name = "hello"
backend = "embedded"
path = "model-{{seed}}"

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
evaluation = {{ every = 2, samples_per_task = 2 }}
{trainer}
"#
        );
        std::fs::write(directory.path().join("t.toml"), config).unwrap();
        Self { directory }
    }

    /// Has adapters of this rank trained; 0 is all weights.
    fn train_adapters(&self, rank: usize) {
        let config = std::fs::read_to_string(self.path("t.toml")).unwrap();
        let path = "path = \"model-{seed}\"\n";
        std::fs::write(self.path("t.toml"), config.replace(path, &format!("{path}lora_rank = {rank}\n"))).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, run: &str) -> Command {
        let mut command = fulgurite(["train", "--json"]);
        command.arg(self.path("t.toml")).arg("--run-directory").arg(self.path(run));
        command
    }

    /// Runs to the end and gives the lines of JSON.
    fn train(&self, run: &str, arguments: &[&str]) -> Vec<Value> {
        let output = self.command(run).args(arguments).output().unwrap();
        lines(output)
    }

    fn query(&self, what: &str, run: &str) -> Vec<Value> {
        let output = fulgurite([what, "--all", "--json", "--run"]).arg(self.path(run)).output().unwrap();
        lines(output)
    }
}

fn lines(output: Output) -> Vec<Value> {
    Ran::from(output).json_lines()
}

fn recorded_steps(run: &Path) -> usize {
    std::fs::read_to_string(run.join("metrics.jsonl")).map_or(0, |text| text.lines().count())
}

/// Tokens by cause, `trained` among them; checks that they add up to all that the store holds.
fn account(project: &Project, run: &str, summary: &Value) -> BTreeMap<String, u64> {
    let untrained: BTreeMap<String, u64> = serde_json::from_value(summary["untrained_tokens"].clone()).unwrap();
    let mut account = untrained;
    assert_eq!(account["other"], 0, "{summary}");
    account.insert("trained".to_owned(), summary["trained_tokens"].as_u64().unwrap());
    let sampled: u64 = project
        .query("spans", run)
        .iter()
        .filter_map(|span| span["attributes"]["gen_ai.usage.output_tokens"].as_u64())
        .sum();
    assert_eq!(account.values().sum::<u64>(), sampled);
    assert_eq!(summary["sampled_tokens"], sampled);
    account
}

/// What the weights are, byte for byte.
fn weights(summary: &Value) -> Vec<u8> {
    saved(summary, "model.safetensors")
}

/// A file of the last checkpoint.
fn saved(summary: &Value, file: &str) -> Vec<u8> {
    std::fs::read(Path::new(summary["checkpoint"].as_str().unwrap()).join(file)).unwrap()
}

/// Pays for every third letter, so that rewards differ without a model that has learnt anything.
const UNEVEN: &str = r#"command = ["hello-agent", "{task}"]
grade = ["python3", "-c", "import sys; n = len(sys.stdin.read()); print('{\"reward\": %d}' % (n % 3))"]"#;

const SMALL: &str = "groups_per_batch = 3\ngroup_size = 3\nmax_steps = 5\nlearning_rate = 1e-3\n";

#[test]
fn the_hello_run_learns_to_comply() {
    learns_to_comply("hello.toml");
}

#[test]
fn the_hello_run_learns_to_comply_by_an_adapter() {
    learns_to_comply("hello-lora.toml");
}

fn learns_to_comply(config: &str) {
    let runs = tempfile::tempdir().unwrap();
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/hello").join(config)).unwrap();
    std::fs::write(runs.path().join(config), text).unwrap();
    let output = fulgurite(["train", config, "--json"]).current_dir(runs.path()).output().unwrap();
    let lines = lines(output);
    let (summary, steps) = lines.split_last().unwrap();
    let number = |key: &str| summary[key].as_f64().unwrap_or_else(|| panic!("{key}: {summary}"));
    assert!(number("held_out_reward_before") < 0.0, "{summary}");
    assert!(number("held_out_reward_after") >= 0.95, "{summary}");
    assert!(number("held_out_exact_after") >= 0.90, "{summary}");
    assert!(number("final_exact_after") >= 0.90, "{summary}");
    assert_eq!(number("steps") as usize + 1, steps.len(), "a line for each update, and one for the last evaluation");
    assert_eq!(number("max_logprob_difference"), 0.0, "sampler and trainer agree to the bit");
    for step in &steps[..steps.len() - 1] {
        for key in ["progress/batch", "env/all/reward/total", "optim/lr", "time/total"] {
            assert!(step[key].is_number(), "{key}: {step}");
        }
        assert_eq!(step["event"], "step");
    }
    assert_eq!(summary["untrained_tokens"]["other"], 0);
}

#[test]
fn the_same_seed_gives_the_same_weights() {
    let project = Project::new(UNEVEN, SMALL);
    let first = project.train("a", &[]).pop().unwrap();
    let second = project.train("b", &[]).pop().unwrap();
    let other = project.train("c", &["--seed", "2"]).pop().unwrap();
    assert!(weights(&first) == weights(&second));
    assert!(weights(&first) != weights(&other));
    assert!(weights(&first) != std::fs::read(project.path("model-1/model.safetensors")).unwrap());
    account(&project, "a", &first);
}

#[test]
fn a_model_that_another_host_samples_is_trained_to_the_same_bytes() {
    let project = Project::new(UNEVEN, SMALL);
    let here = project.train("here", &[]).pop().unwrap();
    let host = VllmOverEngine::start(&project.path("model-1"));
    let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
    let remote = format!("backend = \"vllm\"\nurls = [\"{}\"]", host.url);
    std::fs::write(project.path("t.toml"), config.replace("backend = \"embedded\"", &remote)).unwrap();
    let there = project.train("there", &[]).pop().unwrap();
    assert!(weights(&here) == weights(&there));
    assert_eq!(here["trained_tokens"], there["trained_tokens"]);
    assert_eq!(there["max_logprob_difference"], json!(0.0));
    account(&project, "there", &there);
    let published = project.path("there/published");
    let directories: Vec<PathBuf> = (0..=5).map(|version| published.join(format!("{version:06}"))).collect();
    assert_eq!(host.loaded(), directories, "each version once");
    assert_eq!(std::fs::read_dir(published).unwrap().count(), 1, "only the newest is kept");
    for generation in project.query("generations", "there") {
        assert!(generation["weights_versions"][0]["version"].is_u64(), "{generation}");
    }
}

#[test]
fn a_model_that_our_tinker_server_trains_ends_in_the_same_bytes() {
    trains_the_same_at_our_tinker_server(0, "model.safetensors");
}

#[test]
fn an_adapter_that_our_tinker_server_trains_ends_in_the_same_bytes() {
    trains_the_same_at_our_tinker_server(4, "adapter_model.safetensors");
}

fn trains_the_same_at_our_tinker_server(rank: usize, file: &str) {
    let project = Project::new(UNEVEN, SMALL);
    project.train_adapters(rank);
    let here = project.train("here", &[]).pop().unwrap();
    let served = project.path("served.toml");
    std::fs::write(&served, "[[models]]\nname = \"base\"\nbackend = \"embedded\"\npath = \"model-1\"\n").unwrap();
    let server = Server::start(project.directory.path(), ["--config".as_ref(), served.as_os_str()]);
    let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
    let service = format!("backend = \"tinker\"\nbase_model = \"base\"\nurls = [\"{}\"]", server.url);
    std::fs::write(project.path("t.toml"), config.replace("backend = \"embedded\"", &service)).unwrap();
    let there = project.train("there", &[]).pop().unwrap();
    assert_eq!(here["trained_tokens"], there["trained_tokens"]);
    assert_eq!(there["max_logprob_difference"], json!(0.0));
    account(&project, "there", &there);

    let checkpoint = Path::new(there["checkpoint"].as_str().unwrap()).join("tinker_checkpoint.json");
    let checkpoint: Value = serde_json::from_str(&std::fs::read_to_string(checkpoint).unwrap()).unwrap();
    let kept = checkpoint["path"].as_str().unwrap().strip_prefix("tinker://").unwrap();
    let kept = project.path("fulgurite-tinker/weights").join(kept).join(file);
    assert!(saved(&here, file) == std::fs::read(kept).unwrap());
}

#[test]
fn an_adapter_is_trained_beside_its_model_and_goes_on_after_a_kill() {
    let project = Project::new(UNEVEN, SMALL);
    project.train_adapters(4);
    let undisturbed = project.train("undisturbed", &[]).pop().unwrap();
    let mut train = project.command("killed").stdout(Stdio::null()).spawn().unwrap();
    let run = project.path("killed");
    eventually("a step", || (recorded_steps(&run) >= 2).then_some(()));
    train.kill().unwrap();
    train.wait().unwrap();
    let summary = project.train("killed", &["--resume"]).pop().unwrap();
    for file in ["adapter_config.json", "adapter_model.safetensors", "optimizer.state"] {
        assert!(saved(&summary, file) == saved(&undisturbed, file), "{file}");
    }
    assert!(!Path::new(summary["checkpoint"].as_str().unwrap()).join("model.safetensors").exists());
    assert_eq!(summary["max_logprob_difference"], json!(0.0));
    account(&project, "killed", &summary);
}

#[test]
fn a_run_that_is_killed_at_any_moment_ends_as_if_it_had_not_been() {
    let project = Project::new(UNEVEN, SMALL);
    let undisturbed = project.train("undisturbed", &[]).pop().unwrap();

    // Killed again and again: after so many recorded steps and so many milliseconds more. `TRAINER_KILLS` says how often.
    let kills: usize = std::env::var("TRAINER_KILLS").map_or(5, |kills| kills.parse().unwrap());
    let mut resume: &[&str] = &[];
    for kill in 0..kills {
        let (steps, milliseconds) = (5 * kill / kills, (30 + 67 * kill as u64) % 100);
        let mut train = project.command("killed").args(resume).stdout(Stdio::null()).spawn().unwrap();
        let run = project.path("killed");
        eventually("a step", || (run.join("config.json").exists() && recorded_steps(&run) >= steps).then_some(()));
        std::thread::sleep(Duration::from_millis(milliseconds));
        train.kill().unwrap();
        train.wait().unwrap();
        resume = &["--resume"];
    }
    let lines = project.train("killed", &["--resume"]);
    let summary = lines.last().unwrap();
    assert!(weights(summary) == weights(&undisturbed), "{summary}");
    assert_eq!(summary["steps"], 5);
    for key in ["held_out_reward_before", "held_out_reward_after", "final_reward_after"] {
        assert_eq!(summary[key], undisturbed[key]);
    }

    // Over is over: the final tasks are scored once.
    let rollouts = project.query("rollouts", "killed").len();
    let again = project.train("killed", &["--resume"]);
    assert_eq!(again.len(), 1);
    assert_eq!(again[0]["final_reward_after"], summary["final_reward_after"]);
    assert_eq!(project.query("rollouts", "killed").len(), rollouts);

    // Nothing twice, nothing lost, and what the kills cost is accounted for.
    let account = account(&project, "killed", summary);
    assert_eq!(account["trained"], undisturbed["trained_tokens"].as_u64().unwrap());
    let metrics = std::fs::read_to_string(project.path("killed/metrics.jsonl")).unwrap();
    let batches: Vec<u64> = metrics
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["progress/batch"].as_u64().unwrap())
        .collect();
    assert_eq!(batches, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_damaged_checkpoint_is_passed_over_for_the_one_before_it() {
    let project = Project::new(UNEVEN, SMALL);
    let undisturbed = project.train("undisturbed", &[]).pop().unwrap();
    let max_steps = |from: &str, to: &str| {
        let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
        std::fs::write(project.path("t.toml"), config.replace(from, to)).unwrap();
    };
    max_steps("max_steps = 5\nlearning", "max_steps = 3\nlearning");
    project.train("run", &[]);
    max_steps("max_steps = 3\nlearning", "max_steps = 5\nlearning");

    // One bit of one weight.
    let flip = |checkpoint: &str| {
        let path = project.path("run/checkpoints").join(checkpoint).join("model.safetensors");
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(path, bytes).unwrap();
    };
    flip("000003");
    let lines = project.train("run", &["--resume"]);
    assert_eq!(lines[0]["event"], "checkpoint_passed_over");
    assert_eq!(lines[0]["checkpoint"], "checkpoints/000003");
    let reason = lines[0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("model.safetensors is not what was saved"), "{reason}");
    assert_eq!(lines[1]["step"], 2, "the third update is made again");
    let summary = lines.last().unwrap();
    assert_eq!(summary["steps"], 5);
    assert!(weights(summary) == weights(&undisturbed), "{summary}");
    account(&project, "run", summary);

    // None is left: an error that says why, and nothing is undone.
    max_steps("max_steps = 5\nlearning", "max_steps = 6\nlearning");
    flip("000005");
    std::fs::remove_dir_all(project.path("run/checkpoints/000004")).unwrap();
    let failed = Ran::from(project.command("run").arg("--resume").output().unwrap());
    assert_eq!(failed.code, Some(1));
    for part in
        ["checkpoints/000005: model.safetensors is not what was saved", "checkpoints/000004: its directory is gone"]
    {
        assert!(failed.stderr.contains(part), "{}", failed.stderr);
    }
    flip("000005");
    assert_eq!(project.train("run", &["--resume"]).last().unwrap()["steps"], 6);
}

#[test]
fn what_was_trained_after_the_last_checkpoint_is_trained_again() {
    // Four rollouts of the first evaluation and nine of the first step are graded at once; those of the second step
    // wait for a file.
    let grader = "import os, sys, time; n = len(sys.stdin.read())\n\
                  with open('graded', 'a') as graded: graded.write('.'); graded.flush(); count = graded.tell()\n\
                  while count > 13 and not os.path.exists('go'): time.sleep(0.01)\n\
                  print('{\"reward\": %d}' % (n % 3))";
    let project = Project::new("", &format!("{SMALL}checkpoint_every = 100\n"));
    let grade = json!(["python3", "-c", grader]);
    let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
    let runner = format!("[runner]\ncommand = [\"hello-agent\", \"{{task}}\"]\ngrade = {grade}\n");
    std::fs::write(project.path("t.toml"), config.replace("[runner]\n", &runner)).unwrap();

    let mut train = project.command("run").stdout(Stdio::null()).spawn().unwrap();
    eventually("the first step", || (recorded_steps(&project.path("run")) == 1).then_some(()));
    let lost = |rollout: &Value| rollout["mode"] == "train" && rollout["status"] == "running";
    eventually("a call of the second step", || project.query("rollouts", "run").iter().any(lost).then_some(()));
    train.kill().unwrap();
    train.wait().unwrap();
    std::fs::write(project.path("go"), "").unwrap();

    // A run is its directory, wherever that is.
    std::fs::rename(project.path("run"), project.path("moved")).unwrap();
    let summary = project.train("moved", &["--resume"]).pop().unwrap();
    assert_eq!(summary["steps"], 5);
    let account = account(&project, "moved", &summary);
    assert!(account["after_last_checkpoint"] > 0, "{account:?}");
    let undisturbed = project.train("undisturbed", &[]).pop().unwrap();
    assert!(weights(&summary) == weights(&undisturbed));
    assert_eq!(summary["trained_tokens"], undisturbed["trained_tokens"]);
}

#[test]
fn a_runner_that_is_killed_is_replaced_and_its_attempts_are_tried_again() {
    // Of a training rollout the grader waits for a file, so that the kill comes after the agents' calls and before
    // their rewards.
    let wait = "import os, sys, time; n = len(sys.stdin.read()); training = int(os.environ['FULGURITE_TASK']) < 100\n\
                while training and not os.path.exists(sys.argv[1]): time.sleep(0.01)";
    let grader = format!("{wait}\nprint('{{\"reward\": %d}}' % (n % 3))");
    let project = Project::new("", SMALL);
    let go = project.path("go");
    let grade = json!(["python3", "-c", grader, go]);
    let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
    let runner = format!("[runner]\ncommand = [\"hello-agent\", \"{{task}}\"]\ngrade = {grade}\n");
    std::fs::write(project.path("t.toml"), config.replace("[runner]\n", &runner)).unwrap();

    let train = project.command("run").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("a runner and a store", || project.path("run/metrics.jsonl").exists().then_some(()));
    let runner = eventually("the runner", || child_of(train.id(), "run"));
    // An attempt is heard of when a call of it is recorded.
    eventually("a recorded call", || {
        let is_called = |rollout: &Value| rollout["mode"] == "train" && rollout["status"] == "running";
        project.query("rollouts", "run").iter().any(is_called).then_some(())
    });
    assert!(Command::new("kill").args(["-9", &runner.to_string()]).status().unwrap().success());
    eventually("another runner", || child_of(train.id(), "run").filter(|other| *other != runner));
    std::fs::write(go, "").unwrap();

    let output = train.wait_with_output().unwrap();
    let summary = lines(output).pop().unwrap();
    assert_eq!(summary["steps"], 5);
    let account = account(&project, "run", &summary);
    assert!(account["superseded_attempt"] > 0, "{account:?}");
    let rollouts = project.query("rollouts", "run");
    assert!(rollouts.iter().all(|rollout| rollout["status"] == "succeeded"));
    assert!(rollouts.iter().any(|rollout| rollout["attempt"]["sequence_id"] == 2), "nothing was tried again");
}

/// The id of a child whose command line has `word` as an argument.
fn child_of(parent: u32, word: &str) -> Option<u32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok()).find(|id| {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{id}/{file}")).unwrap_or_default();
        let stat = read("stat");
        // After the command's name, which may hold anything, come the state and the parent.
        let parent_id = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
        parent_id == Some(parent) && (word.is_empty() || read("cmdline").split('\0').any(|argument| argument == word))
    })
}

/// Python that calls the model once.
const CALL: &str = "import json, os, urllib.request\n\
    body = json.dumps({'model': 'hello', 'max_tokens': 9, 'messages': [{'role': 'user', 'content': 'Say 7'}]})\n\
    urllib.request.urlopen(urllib.request.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions', body.encode(), {\n    \
        'content-type': 'application/json', 'authorization': 'Bearer ' + os.environ['OPENAI_API_KEY']})).read()\n";

#[test]
fn an_interrupted_run_takes_its_agents_along_and_can_be_resumed() {
    let project = Project::new(r#"command = ["python3", "agent.py"]"#, SMALL);
    // It says who it is, and then hangs while there is no file that lets it go.
    std::fs::write(
        project.path("agent.py"),
        format!(
            "import os, time\nopen(f'agent-{{os.getpid()}}', 'w').close()\n\
             while not os.path.exists('go'): time.sleep(0.01)\n{CALL}print('{{\"reward\": 1}}')"
        ),
    )
    .unwrap();
    let train = project.command("run").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let agent = eventually("an agent", || {
        let entries = std::fs::read_dir(project.directory.path()).unwrap();
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("agent-")?.parse::<u32>().ok()).next()
    });
    assert!(Command::new("kill").args(["-TERM", &train.id().to_string()]).status().unwrap().success());
    let output = train.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--resume"));
    // It is killed by then; that it is gone is for the system to see to.
    eventually("the agent's end", || (!Path::new(&format!("/proc/{agent}")).exists()).then_some(()));

    std::fs::write(project.path("go"), "").unwrap();
    let summary = project.train("run", &["--resume"]).pop().unwrap();
    assert_eq!(summary["steps"], 5);
}

/// An agent that does something else for each task, so that each cause happens.
const EVERY_CAUSE: &str = r#"
import http.client, json, os, sys, urllib.parse
task = int(sys.argv[1])
base = urllib.parse.urlparse(os.environ["OPENAI_BASE_URL"])

def call(read_all=True, **more):
    connection = http.client.HTTPConnection(base.hostname, base.port)
    body = {"model": "hello", "messages": [{"role": "user", "content": "Say %d" % task}], "max_tokens": 20, **more}
    connection.request("POST", base.path + "/chat/completions", json.dumps(body))
    response = connection.getresponse()
    assert response.status == 200, response.read()
    if read_all:
        return response.read()
    response.fp.readline()
    response.close()
    connection.close()

kind = task % 7
if kind == 0:
    call(stream=True, read_all=False, temperature=1.0)
elif kind == 1:
    call(temperature=0.5)
elif kind == 2:
    call()
    marker = sys.argv[2] + "/failed-" + os.environ["FULGURITE_ROLLOUT_ID"]
    if not os.path.exists(marker):
        open(marker, "w").close()
        sys.exit(3)
elif kind == 3:
    call()
    sys.exit("always")
elif kind == 4:
    outside = http.client.HTTPConnection(base.hostname, base.port)
    outside.request("POST", "/v1/chat/completions", json.dumps(
        {"model": "hello", "messages": [{"role": "user", "content": "x"}], "max_tokens": 5}))
    outside.getresponse().read()
answer = call()
print(json.dumps({"reward": 0.5 if kind == 5 else float(len(answer) % 5)}))
"#;

#[test]
fn every_sampled_token_is_accounted_for_by_cause() {
    let project = Project::new("", "groups_per_batch = 7\ngroup_size = 4\nmax_steps = 2\n");
    std::fs::write(project.path("agent.py"), EVERY_CAUSE).unwrap();
    let scratch = project.directory.path().display().to_string();
    let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
    let command = json!(["python3", "agent.py", "{task}", scratch]);
    let config = config
        .replace("[runner]\n", &format!("[runner]\ncommand = {command}\nmax_attempts = 2\n"))
        .replace("train = { range = [0, 100] }", "train = [0, 1, 2, 3, 4, 5, 6]")
        .replace("range = [100, 102]", "range = [104, 106]")
        .replace("range = [102, 104]", "range = [111, 113]");
    std::fs::write(project.path("t.toml"), config).unwrap();

    let summary = project.train("run", &[]).pop().unwrap();
    let account = account(&project, "run", &summary);
    for cause in [
        "trained",
        "evaluation",
        "client_gone",
        "modified_distribution",
        "failed_attempt",
        "constant_group",
        "unattributed",
    ] {
        assert!(account.get(cause).is_some_and(|tokens| *tokens > 0), "{cause}: {account:?}");
    }
    // The task whose agent always fails: both attempts of each of its rollouts, and why.
    let failed: Vec<Value> =
        project.query("rollouts", "run").into_iter().filter(|rollout| rollout["status"] == "failed").collect();
    assert_eq!(failed.len(), 8);
    for rollout in failed {
        assert_eq!((&rollout["input"], &rollout["attempt"]["sequence_id"]), (&json!(3), &json!(2)));
        let reason = rollout["attempt"]["metadata"]["reason"].as_str().unwrap();
        assert!(reason.contains("status 1"), "{reason}");
    }
}

#[test]
fn a_group_in_which_all_earn_the_same_changes_nothing() {
    let constant = r#"command = ["hello-agent", "{task}"]
grade = ["echo", "{\"reward\": 1.0}"]"#;
    let project = Project::new(constant, "groups_per_batch = 2\ngroup_size = 2\nmax_steps = 1\n");
    let summary = project.train("run", &[]).pop().unwrap();
    assert!(weights(&summary) == std::fs::read(project.path("model-1/model.safetensors")).unwrap());
    let account = account(&project, "run", &summary);
    assert_eq!(account["trained"], 0);
    assert!(account["constant_group"] > 0);
}

#[test]
fn an_agent_that_always_fails_stops_the_run_with_its_reason() {
    // What it says differs from rollout to rollout; that it fails does not.
    let agent = "import os; raise SystemExit('no such tool ' + os.environ['FULGURITE_ROLLOUT_ID'])";
    let project = Project::new(&format!("command = [\"python3\", \"-c\", \"{agent}\"]\nmax_attempts = 1"), SMALL);
    let ran = Ran::from(project.command("run").output().unwrap());
    assert_eq!(ran.code, Some(1));
    let said = "all 4 rollouts of held_out at step 0 failed; the most frequent reason: agent exited with status 1 \
                (4 of the 4 that failed); the agent's standard error ended with\n    no such tool ";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("no such tool").count(), 1, "once: {}", ran.stderr);
    let event: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&event["event"], &event["phase"]), (&json!("rollouts_failed"), &json!("held_out")));
    assert_eq!((&event["failed"], &event["rollouts"], &event["count"]), (&json!(4), &json!(4), &json!(4)));
    assert!(event["stderr_tail"].as_str().unwrap().starts_with("no such tool"), "{event}");
}

#[test]
fn a_step_in_which_most_rollouts_fail_says_why() {
    let agent =
        format!("{CALL}import sys\nif sys.argv[1] == '100': sys.exit('out of luck')\nprint('{{\"reward\": 1}}')");
    let project = Project::new("max_attempts = 1", "groups_per_batch = 2\ngroup_size = 2\nmax_steps = 1\n");
    std::fs::write(project.path("agent.py"), agent).unwrap();
    let lines = project.train("run", &["--", "python3", "agent.py", "{task}"]);
    let events: Vec<&Value> = lines.iter().filter(|line| line["event"] == "rollouts_failed").collect();
    assert!(!events.is_empty(), "{lines:?}");
    for event in events {
        assert_eq!(
            (&event["reason"], &event["stderr_tail"]),
            (&json!("agent exited with status 1"), &json!("out of luck"))
        );
    }
    let summary = lines.last().unwrap();
    assert_eq!((&summary["held_out_failed_after"], &summary["held_out_rollouts_after"]), (&json!(2), &json!(4)));
}

#[test]
fn an_agent_that_never_calls_the_model_is_an_error_and_not_a_success() {
    let project = Project::new(r#"command = ["echo", '{"reward": 1}']"#, SMALL);
    let ran = Ran::from(project.command("run").output().unwrap());
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    for words in [
        "none of the 4 rollouts of held_out at step 0 called the model `hello`",
        "has heard of no model call of theirs",
        "OPENAI_BASE_URL",
    ] {
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
}

#[test]
fn updates_without_a_gradient_are_told_with_answers() {
    let constant = r#"command = ["hello-agent", "{task}"]
grade = ["echo", "{\"reward\": 0.25}"]"#;
    let project = Project::new(constant, "groups_per_batch = 3\ngroup_size = 2\nmax_steps = 4\n");
    let lines = project.train("run", &[]);
    let warnings: Vec<&Value> = lines.iter().filter(|line| line["event"] == "without_gradient").collect();
    let [warning] = warnings.as_slice() else { panic!("once after three updates: {lines:?}") };
    assert_eq!((&warning["step"], &warning["updates"]), (&json!(3), &json!(3)));
    assert!(warning["untrained_tokens"]["constant_group"].as_u64().unwrap() > 0, "{warning}");
    let answers = warning["answers"].as_array().unwrap();
    assert_eq!(answers.len(), 3, "{warning}");
    assert!(answers.iter().all(|answer| answer["reward"] == 0.25 && answer["task"].is_string()), "{warning}");
    assert!(answers.iter().any(|answer| !answer["answer"].as_str().unwrap().is_empty()), "{warning}");
}

#[test]
fn a_step_whose_line_was_lost_is_printed_by_the_resumed_run() {
    let project = Project::new(UNEVEN, SMALL);
    let first = project.train("run", &["--max-steps", "2"]);
    // As a crash leaves it between a step's record and its line.
    let path = project.path("run/metrics.jsonl");
    let metrics = std::fs::read_to_string(&path).unwrap();
    let (kept, _) = metrics.split_once('\n').unwrap();
    std::fs::write(&path, format!("{kept}\n")).unwrap();
    let again = project.train("run", &["--max-steps", "2", "--resume"]);
    assert_eq!(again[..again.len() - 1], first[1..first.len() - 1], "the run is over, and what was not told is told");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), metrics);

    std::fs::write(&path, format!("{kept}\n{{\"step\": 1")).unwrap();
    let further = project.train("run", &["--max-steps", "3", "--resume"]);
    let steps: Vec<u64> = further.iter().filter_map(|line| line["step"].as_u64()).collect();
    assert_eq!(steps, [1, 2, 3], "the lost line, the next update, and the last evaluation");
    assert_eq!(further[0], first[1]);
}

#[test]
fn a_range_of_tasks_can_be_strings() {
    let project = Project::new(UNEVEN, "groups_per_batch = 2\ngroup_size = 2\nmax_steps = 1\n");
    let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
    let config = config.replace("{ range = [0, 100] }", "{ range = [0, 100], as = \"string\" }");
    std::fs::write(project.path("t.toml"), config).unwrap();
    project.train("run", &[]);
    for rollout in project.query("rollouts", "run") {
        assert_eq!(rollout["input"].is_string(), rollout["mode"] == "train", "{rollout}");
    }
}

/// The keys that docs/config.md has for metrics.jsonl.
fn documented_metrics() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/config.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, table) = text.split_once("## metrics.jsonl").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| row.split_once('`').unwrap().0.to_owned()).collect()
}

#[test]
fn every_key_of_metrics_jsonl_is_documented() {
    let grade = "import sys; n = len(sys.stdin.read()); print('{\\\"reward\\\": %d, \\\"exact\\\": 1}' % (n % 3))";
    let runner = format!("command = [\"hello-agent\", \"{{task}}\"]\ngrade = [\"python3\", \"-c\", \"{grade}\"]");
    let project = Project::new(&runner, "groups_per_batch = 3\ngroup_size = 3\nmax_steps = 2\n");
    project.train("run", &[]);
    let text = std::fs::read_to_string(project.path("run/metrics.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Map<String, Value>>(line).unwrap());
    let keys: std::collections::BTreeSet<String> = lines
        .flat_map(|line| line.into_iter().map(|(key, _)| key).collect::<Vec<_>>())
        .map(|key| match key.rsplit_once('/') {
            Some((prefix, "exact")) => format!("{prefix}/NAME"),
            Some((prefix @ "env/all/stop", _)) => format!("{prefix}/REASON"),
            _ => key,
        })
        .collect();
    let documented = documented_metrics();
    let missing: Vec<&String> = keys.iter().filter(|key| !documented.contains(key)).collect();
    assert!(missing.is_empty(), "docs/config.md says nothing of {missing:?}");
    let stale: Vec<&String> =
        documented.iter().filter(|key| !keys.contains(*key) && !key.starts_with("harvest/")).collect();
    assert!(stale.is_empty(), "docs/config.md tells of {stale:?}, which no line has");
}

#[test]
fn an_openai_agent_in_python_leaves_the_same_record() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python/bin/python");
    assert!(python.exists(), "tests/run makes {}", python.display());
    let agent = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/hello/agent.py");
    let project = Project::new(UNEVEN, "groups_per_batch = 2\ngroup_size = 2\nmax_steps = 2\n");
    let rust = project.train("rust", &[]).pop().unwrap();
    let command = [python.to_str().unwrap(), agent.to_str().unwrap(), "{task}"];
    let python = project.train("python", &[&["--"], &command[..]].concat()).pop().unwrap();
    assert_eq!(shapes(&project, "rust"), shapes(&project, "python"));
    // Same seeds, same prompts: the same tokens, whoever asks.
    assert!(weights(&rust) == weights(&python));
    assert_eq!(rust["sampled_tokens"], python["sampled_tokens"]);
}

/// Which spans with which attributes a run recorded, and how often.
fn shapes(project: &Project, run: &str) -> BTreeMap<String, usize> {
    let mut shapes = BTreeMap::new();
    for span in project.query("spans", run) {
        let attributes: Vec<String> = span["attributes"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(key, value)| format!("{key}: {}", kind(value)))
            .collect();
        *shapes.entry(format!("{} {}", span["name"], attributes.join(", "))).or_default() += 1;
    }
    shapes
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Array(_) => "list",
        _ => "other",
    }
}

#[test]
fn with_an_admin_key_the_run_gives_its_agents_keys_of_their_own() {
    let agent = "import json, os, urllib.request\n\
        assert not any('opens-all' in value for value in os.environ.values())\n\
        body = json.dumps({'model': 'hello', 'max_tokens': 9, 'messages': [{'role': 'user', 'content': 'Say'}]})\n\
        request = urllib.request.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions', body.encode(), {\n    \
            'content-type': 'application/json', 'authorization': 'Bearer ' + os.environ['OPENAI_API_KEY']})\n\
        answer = urllib.request.urlopen(request).read()\n\
        print(json.dumps({'reward': float(len(answer) % 5)}))";
    let trainer = "groups_per_batch = 2\ngroup_size = 2\nmax_steps = 1\n[server]\nadmin_key_env = \"OPENS_ALL\"\n";
    let project = Project::new("", trainer);
    std::fs::write(project.path("agent.py"), agent).unwrap();
    let mut command = project.command("run");
    command.env("OPENS_ALL", "opens-all-of-it").args(["--", "python3", "agent.py"]);
    let summary = lines(command.output().unwrap()).pop().unwrap();
    assert_eq!(summary["steps"], 1);
    // Agent-lightning's runners are given one that opens model calls.
    let resources = lines(fulgurite(["resources", "--json", "--run"]).arg(project.path("run")).output().unwrap());
    let key = resources[0]["resources"]["main_llm"]["api_key"].as_str().unwrap();
    assert!(key.starts_with("fgr-"), "{key}");
}

/// The page's commands and files as one script, each file written where the page shows it.
fn script_of(page: &str) -> String {
    let mut script = String::new();
    let mut blocks = page.split("```");
    while let (Some(text), Some(block)) = (blocks.next(), blocks.next()) {
        let (language, body) = block.split_once('\n').unwrap();
        let named = text.trim_end().rsplit_once('\n').map_or("", |(_, last)| last);
        match named.strip_prefix('`').and_then(|name| name.strip_suffix("`:")) {
            Some(file) => script += &format!("cat > {file} <<'END_OF_FILE'\n{body}END_OF_FILE\n"),
            None => {
                assert_eq!(language, "sh", "{body}");
                script += body;
            }
        }
    }
    script
}

#[test]
fn the_page_about_an_agent_of_ones_own_holds_word_for_word() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/your-agent.md")).unwrap();
    // As many updates as show that it learns.
    let shortened = page.replace("max_steps = 60\n", "max_steps = 30\n").replace("every = 10,", "every = 30,");
    assert_ne!(shortened, page);
    let directory = tempfile::tempdir().unwrap();
    let python = root.join("target/python/bin");
    assert!(python.join("python3").exists(), "tests/run makes {}", python.display());
    let program = Path::new(env!("CARGO_BIN_EXE_fulgurite")).parent().unwrap().to_owned();
    let path = format!("{}:{}:{}", program.display(), python.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", &script_of(&shortened)]).current_dir(directory.path()).stdin(Stdio::null());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FULGURITE_")) {
        shell.env_remove(name);
    }
    let output = shell.env("PATH", path).env("FULGURITE", root).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    let run = directory.path().join("guess/runs/guess-seed-1-1");
    let steps = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let steps: Vec<Value> = steps.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rewards: Vec<f64> = steps.iter().filter_map(|step| step["env/all/reward/total"].as_f64()).collect();
    assert_eq!(rewards.len(), 30);
    let mean = |rewards: &[f64]| rewards.iter().sum::<f64>() / rewards.len() as f64;
    assert!(mean(&rewards[20..]) > mean(&rewards[..5]) + 0.05, "{rewards:?}");
    // The best game, and what was sampled in it, as text.
    assert!(stdout.contains("+1.000") && stdout.contains("Guess my number from 1 to 7."), "{stdout}");
    assert!(!stdout.contains("without their text"), "{stdout}");
}
