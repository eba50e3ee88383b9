//! Agent-lightning 0.3.0 itself against the real command: its client, its runner with its tracers, its adapters, and
//! training by them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Process, Ran, Server, fulgurite, model_flag, text, tiny_model, wait_until_ready};
use serde_json::{Value, json};

/// A script with the Python that has Agent-lightning. It leaves its logs in `directory`.
fn python(directory: &Path, script: &str) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("target/agentlightning/bin/python");
    assert!(python.exists(), "tests/setup makes {}", python.display());
    let mut command = Command::new(python);
    command.arg(root.join(script)).current_dir(directory).stdin(Stdio::null());
    command
}

fn finish(mut command: Command) -> String {
    let ran = Ran::from(command.output().unwrap());
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    ran.stdout
}

#[test]
fn their_client_gets_through_every_method_of_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start::<&str>(directory.path(), []);
    let mut client = python(directory.path(), "tests/agentlightning/every_method.py");
    client.arg(&server.url);
    assert_eq!(finish(client).trim_end(), "every method");
}

#[test]
fn their_client_sends_the_admin_key_where_its_url_holds_it() {
    let directory = tempfile::tempdir().unwrap();
    let (key, config) = (directory.path().join("admin.key"), directory.path().join("config.toml"));
    std::fs::write(&key, "the-key-to-everything").unwrap();
    std::fs::write(&config, "[server]\nadmin_key_file = \"admin.key\"\n").unwrap();
    let server = Server::start(directory.path(), ["--config", config.to_str().unwrap()]);
    let mut client = python(directory.path(), "tests/agentlightning/every_method.py");
    client.arg(server.url.replace("http://", "http://any:the-key-to-everything@"));
    assert_eq!(finish(client).trim_end(), "every method");
}

#[test]
fn agentops_traces_our_proxy_and_every_call_counts_once() {
    their_runner_leaves_triplets("agentops", 4);
}

#[test]
fn opentelemetry_alone_traces_our_proxy_and_every_call_counts_once() {
    their_runner_leaves_triplets("otel", 2);
}

/// Three rollouts by their runner; `spans` is how many each leaves.
fn their_runner_leaves_triplets(tracer: &str, spans: usize) {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 128);
    let server = Server::start(directory.path(), ["--model", &model_flag("tiny", &model)]);
    let endpoint = format!("{}/v1", server.url);
    let resource = json!({ "main_llm": { "resource_type": "proxy_llm", "endpoint": endpoint, "model": "tiny" } });
    server.post("/v1/agl/resources", &resource).expect(201);
    let rollouts = server.enqueue([json!(17), json!(18), json!(19)], &json!({}));
    let mut runner = python(directory.path(), "tests/agentlightning/paid_by_length.py");
    finish_quietly(runner.args([&server.url, "--tracer", tracer, "--rollouts", "3"]));
    for rollout in server.query("rollouts") {
        assert_eq!(rollout["status"], "succeeded", "{rollout}");
    }
    assert_eq!(server.query("spans").len(), spans * rollouts.len());

    let mut adapters = python(directory.path(), "tests/agentlightning/triplets.py");
    adapters.arg(&server.url);
    let found: Value = serde_json::from_str(finish(adapters).lines().last().unwrap()).unwrap();
    let ours = server.query("triplets");
    assert_eq!(ours.len(), rollouts.len(), "one call each, whoever traced it");
    for rollout in &rollouts {
        let ours = ours.iter().find(|triplet| triplet["metadata"]["rollout_id"] == json!(rollout)).unwrap();
        let [tracer, proxy] = ["tracer", "proxy"].map(|adapter| &found[rollout][adapter]);
        assert_eq!((tracer.as_array().unwrap().len(), proxy.as_array().unwrap().len()), (1, 1), "{found}");
        for theirs in [&tracer[0], &proxy[0]] {
            assert_eq!(theirs["prompt"], ours["prompt"]["token_ids"]);
            assert_eq!(theirs["response"], ours["response"]["token_ids"]);
            assert_eq!(theirs["reward"], ours["reward"]);
            assert!(theirs["reward"].is_number());
        }
        let [theirs, ours]: [Vec<f32>; 2] = [&tracer[0]["logprobs"], &ours["response"]["logprobs"]]
            .map(|logprobs| serde_json::from_value(logprobs.clone()).unwrap());
        assert!(!ours.is_empty());
        assert_eq!(theirs, ours);
    }
}

fn finish_quietly(command: &mut Command) {
    let ran = Ran::from(command.output().unwrap());
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
}

/// A config without a runner, whose base is hardly trained.
fn config(directory: &Path) -> PathBuf {
    let path = directory.join("t.toml");
    let text = r#"
[server]
listen = "127.0.0.1:0"

[run]
name = "t"

[[models]]
name = "hello"
backend = "embedded"
path = "model"

[base]
corpus = ["hello-corpus", "--seed", "1", "--count", "400"]
vocabulary_size = 300
shape = { hidden_size = 32, layers = 1, heads = 2, key_value_heads = 1, head_size = 16, intermediate_size = 64, context_length = 128 }
training = { batch_size = 16, max_steps = 5, cooldown_steps = 2 }

[tasks]
train = { range = [0, 100] }
held_out = { range = [100, 102] }

[trainer]
groups_per_batch = 3
group_size = 3
max_steps = 2
evaluation = { every = 2, samples_per_task = 2 }
"#;
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn their_runner_trains_a_policy() {
    let directory = tempfile::tempdir().unwrap();
    let (ready, log) = (directory.path().join("ready.json"), directory.path().join("log"));
    let mut train = fulgurite(["train", "--json", "--ready-file"]);
    train.arg(&ready).arg(config(directory.path())).arg("--run-directory").arg(directory.path().join("run"));
    train.stdout(std::fs::File::create(directory.path().join("out")).unwrap());
    train.stderr(std::fs::File::create(&log).unwrap());
    let mut train = Process::spawn(train);
    let url = wait_until_ready(&mut train, &ready, &log);
    let mut runner = python(directory.path(), "tests/agentlightning/paid_by_length.py");
    runner.args([&url, "--tracer", "otel"]).stdout(Stdio::null()).stderr(Stdio::null());
    // Killed with its child when the test ends, whichever way.
    let _runner = Process::spawn(runner);
    assert_eq!(train.exit_code(), Some(0), "{}", std::fs::read_to_string(&log).unwrap());

    let printed = std::fs::read_to_string(directory.path().join("out")).unwrap();
    let summary: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    assert_eq!(summary["steps"], 2, "{summary}");
    assert!(summary["trained_tokens"].as_u64().unwrap() > 0, "{summary}");
    assert_eq!(summary["max_logprob_difference"], 0.0, "{summary}");
    assert_eq!(
        summary["held_out_strict_after"], 0.25,
        "what the reward's other dimensions say stands beside it: {summary}"
    );

    let run = directory.path().join("run");
    let query = |what: &str, more: &[&str]| {
        let mut command = fulgurite([what, "--json", "--run"]);
        Ran::from(command.arg(&run).args(more).output().unwrap()).json_lines()
    };
    let resources = query("resources", &[]);
    assert!(resources.len() >= 2, "one for each version of the weights");
    for resource in &resources {
        assert_eq!(resource["resources"]["main_llm"]["endpoint"], format!("{url}/v1"), "{resource}");
    }
    let known: Vec<String> = resources.iter().map(|resource| text(&resource["resources_id"])).collect();
    for rollout in query("rollouts", &["--all"]) {
        assert!(known.contains(&text(&rollout["resources_id"])), "{rollout}");
    }
}
