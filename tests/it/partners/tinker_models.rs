//! Models at a service that speaks the Tinker API: served to agents, and trained.

use std::path::Path;
use std::sync::Arc;

use crate::common::{Ran, Server, fulgurite, run, tiny_model};
use crate::scripted::ScriptedServer;
use crate::tinker_host::{Fault, Tinker, TinkerKind};
use serde_json::{Value, json};

/// A variable that every test has.
const KEY_VARIABLE: &str = "CARGO_PKG_NAME";

/// A service that answers as long as this is kept.
pub struct Host {
    pub tinker: Arc<Tinker>,
    pub server: ScriptedServer,
    _runtime: tokio::runtime::Runtime,
}

impl Host {
    pub fn start(kind: TinkerKind) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let tinker = Tinker::new(kind);
        let server = runtime.block_on(tinker.serve());
        Self { tinker, server, _runtime: runtime }
    }

    fn posts(&self, path: &str) -> Vec<Value> {
        self.server.posts(&format!("/prefix/api/v1/{path}"))
    }
}

#[test]
fn an_agent_is_answered_from_a_service() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 64);
    let host = Host::start(TinkerKind { key: Some(env!("CARGO_PKG_NAME").into()), ..TinkerKind::default() });
    let (url, path) = (&host.server.url, model.display());
    let flag = format!("tiny=tinker:{url}/prefix,path={path},base_model=base,api_key_env={KEY_VARIABLE}");
    let server = Server::start(directory.path(), ["--model", &flag]);
    let request = json!({ "model": "tiny", "messages": [{ "role": "user", "content": "Say" }], "max_tokens": 4 });
    let reply = server.post("/v1/chat/completions", &request).expect(200);
    assert_eq!(reply["choices"][0]["finish_reason"], "length", "{reply}");
    let streamed = json!({ "stream": true, "model": "tiny", "prompt": "Say", "max_tokens": 4 });
    assert_eq!(server.post("/v1/completions", &streamed).text.matches("[DONE]").count(), 1);
    let generations = server.query("generations");
    assert_eq!(generations.len(), 2);
    for (generation, sent) in generations.iter().zip(host.posts("asample")) {
        assert_eq!(generation["prompt_tokens"], sent["prompt"]["chunks"][0]["tokens"]);
        assert_eq!(generation["logprobs"], json!([-2.0, -2.0, -2.0, -2.0]));
        assert_eq!(generation["weights_versions"], json!([{ "version": 0, "first_token": 0 }]));
    }
    let penalty = json!({ "model": "tiny", "prompt": "Say", "max_tokens": 4, "presence_penalty": 1.0 });
    let error = server.post("/v1/completions", &penalty).expect(400);
    assert!(error["error"]["message"].as_str().unwrap().contains("presence_penalty"), "{error}");
    assert_eq!(host.posts("create_sampling_session")[0]["base_model"], "base");
}

/// Pays for what the answer's bytes add up to, so that rewards differ.
pub const CONFIG: &str = r#"
[run]
name = "t"
seed = 1

[[models]]
name = "hello"
backend = "tinker"
base_model = "base"
lora_rank = 8
path = "model"
urls = ["URL"]

[tasks]
train = { range = [0, 100] }
held_out = { range = [100, 101] }

[runner]
parallel = 2
timeout_seconds = 60
command = ["hello-agent", "{task}"]
grade = ["python3", "-c", "import sys; n = sum(sys.stdin.buffer.read()); print('{\"reward\": %d}' % (n % 3))"]

[trainer]
groups_per_batch = 2
group_size = 3
max_steps = 2
learning_rate = 0.25
evaluation = { every = 2, samples_per_task = 1 }
"#;

fn train(directory: &Path, arguments: &[&str]) -> Value {
    let mut command = fulgurite(["train", "--json"]);
    command.arg(directory.join("t.toml")).arg("--run-directory").arg(directory.join("run")).args(arguments);
    Ran::from(command.output().unwrap()).json_lines().pop().unwrap()
}

#[test]
fn a_run_trains_at_a_service_and_goes_on_from_its_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    tiny_model(directory.path(), 64);
    let host = Host::start(TinkerKind::default());
    let config = CONFIG.replace("URL", &format!("{}/prefix", host.server.url));
    std::fs::write(directory.path().join("t.toml"), config).unwrap();
    let summary = train(directory.path(), &[]);
    assert_eq!((&summary["steps"], &summary["max_logprob_difference"]), (&json!(2), &json!(0.0)), "{summary}");
    assert_eq!(summary["untrained_tokens"]["other"], 0);
    let steps = host.posts("optim_step");
    assert_eq!((steps.len(), &steps[0]["adam_params"]["learning_rate"]), (2, &json!(0.25)));
    assert_eq!(host.posts("create_model")[0]["lora_config"]["rank"], 8);
    let checkpoint = Path::new(summary["checkpoint"].as_str().unwrap()).join("tinker_checkpoint.json");
    let checkpoint: Value = serde_json::from_str(&std::fs::read_to_string(checkpoint).unwrap()).unwrap();
    assert!(checkpoint["path"].as_str().unwrap().starts_with("tinker://s"), "{checkpoint}");

    let summary = train(directory.path(), &["--resume", "--max-steps", "3"]);
    assert_eq!((&summary["steps"], &summary["max_logprob_difference"]), (&json!(3), &json!(0.0)), "{summary}");
    assert_eq!(host.posts("load_weights")[0]["path"], checkpoint["path"]);
    let shown = fulgurite(["generations", "--all", "--json", "--run"]).arg(directory.path().join("run")).output();
    for generation in Ran::from(shown.unwrap()).json_lines() {
        let version = generation["weights_versions"][0]["version"].as_u64().unwrap();
        let expected = -2.0 + version as f64 / 8.0;
        assert_eq!(generation["logprobs"][0], json!(expected), "each version has its own logprob: {generation}");
    }
    assert_eq!(host.tinker.violations(), Vec::<String>::new());
}

#[test]
fn a_run_waits_for_a_service_that_is_away_when_it_begins() {
    let directory = tempfile::tempdir().unwrap();
    tiny_model(directory.path(), 64);
    let host = Host::start(TinkerKind::default());
    // What is asked before the run is not answered either: sessions are opened anew until one is.
    for _ in 0..2 {
        host.tinker.fail("create_session", Fault::reset());
    }
    let config =
        CONFIG.replace("URL", &format!("{}/prefix", host.server.url)).replace("max_steps = 2", "max_steps = 1");
    std::fs::write(directory.path().join("t.toml"), config).unwrap();
    let mut command = fulgurite(["train", "--json"]);
    command.arg(directory.path().join("t.toml")).arg("--run-directory").arg(directory.path().join("run"));
    let ran = Ran::from(command.output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("the service that trains does not answer, and is tried again"), "{}", ran.stderr);
    assert_eq!(host.posts("optim_step").len(), 1);
}

#[test]
fn a_config_that_a_service_cannot_serve_says_why() {
    let directory = tempfile::tempdir().unwrap();
    tiny_model(directory.path(), 64);
    let file = directory.path().join("c.toml");
    let failure = |model: &str| {
        std::fs::write(&file, format!("[[models]]\nname = \"q\"\npath = \"model\"\n{model}")).unwrap();
        let store = format!("sqlite://{}", directory.path().join("s.db").display());
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--store", &store, "--config", file.to_str().unwrap()];
        run(arguments).failure(directory.path())
    };
    insta::assert_snapshot!(failure("backend = \"tinker\"\nurls = [\"http://h\", \"http://g\"]"), @r#"
    error: [directory]/c.toml: models[0] `q`
      caused by: backend = "tinker" is one service, and urls names 2
    "#);
    insta::assert_snapshot!(failure("backend = \"vllm\"\nurls = [\"http://h\"]\nbase_model = \"b\""), @r#"
    error: [directory]/c.toml: models[0] `q`
      caused by: backend = "vllm" knows no base_model: leave it out
    "#);
}
