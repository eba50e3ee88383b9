//! Small training runs of the real command.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{Ran, Server, fulgurite};

// A shell begins in a thirtieth of Python's time, and runs have dozens of rollouts. Bytes that continue a character are not
// counted, so that it is letters that are paid for.
macro_rules! uneven_grade {
    () => {
        r#"grade = ["sh", "-c", "n=$(LC_ALL=C tr -d '\\200-\\277' | wc -c); echo '{\"reward\": '$((n % 3))'}'"]"#
    };
}

/// Pays for every third letter, so that rewards differ without a model that has learnt anything.
pub const UNEVEN_GRADE: &str = uneven_grade!();

/// An agent that asks once, and that grade.
pub const UNEVEN: &str = concat!("command = [\"hello-agent\", \"{task}\"]\n", uneven_grade!());

pub const SMALL: &str = "groups_per_batch = 3\ngroup_size = 3\nmax_steps = 5\nlearning_rate = 1e-3\n";

/// Python that calls the model once.
pub const CALL: &str = "import json, os, urllib.request\n\
    body = json.dumps({'model': 'hello', 'max_tokens': 9, 'messages': [{'role': 'user', 'content': 'Say 7'}]})\n\
    urllib.request.urlopen(urllib.request.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions', body.encode(), {\n    \
        'content-type': 'application/json', 'authorization': 'Bearer ' + os.environ['OPENAI_API_KEY']})).read()\n";

/// The model of a run in one process.
pub const EMBEDDED: &str = "backend = \"embedded\"\npath = \"model-{seed}\"";

/// A config whose base is hardly trained. `model`, `runner` and `trainer` are lines of those sections.
pub fn small_run(model: &str, runner: &str, trainer: &str) -> String {
    format!(
        r#"
[run]
name = "t"
seed = 1

[[models]]
name = "hello"
{model}

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
    )
}

/// A directory with the config of a small run in one process.
pub struct Project {
    pub directory: tempfile::TempDir,
}

impl Project {
    /// `runner` and `trainer` are lines of those sections.
    pub fn new(runner: &str, trainer: &str) -> Self {
        let project = Self { directory: tempfile::tempdir().unwrap() };
        std::fs::write(project.path("t.toml"), small_run(EMBEDDED, runner, trainer)).unwrap();
        project
    }

    /// Has adapters of this rank trained; 0 is all weights.
    pub fn train_adapters(&self, rank: usize) {
        self.change_config(EMBEDDED, &format!("{EMBEDDED}\nlora_rank = {rank}"));
    }

    /// Has a server of ours, over the base that is made already, train the model as a Tinker service from now on.
    pub fn train_at_our_tinker_server(&self) -> Server {
        let served = self.path("served.toml");
        std::fs::write(&served, "[[models]]\nname = \"base\"\nbackend = \"embedded\"\npath = \"model-1\"\n").unwrap();
        let server = Server::start(self.directory.path(), ["--config".as_ref(), served.as_os_str()]);
        let service = format!("backend = \"tinker\"\nbase_model = \"base\"\nurls = [\"{}\"]", server.url);
        self.change_config("backend = \"embedded\"", &service);
        server
    }

    /// Puts other text in the place of what stands in the config.
    pub fn change_config(&self, from: &str, to: &str) {
        let config = std::fs::read_to_string(self.path("t.toml")).unwrap();
        assert!(config.contains(from), "{from}");
        std::fs::write(self.path("t.toml"), config.replace(from, to)).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn command(&self, run: &str) -> Command {
        let mut command = fulgurite(["train", "--json"]);
        command.arg(self.path("t.toml")).arg("--run-directory").arg(self.path(run));
        command
    }

    /// Runs to the end and gives the lines of JSON.
    pub fn train(&self, run: &str, arguments: &[&str]) -> Vec<Value> {
        Ran::from(self.command(run).args(arguments).output().unwrap()).json_lines()
    }

    pub fn query(&self, what: &str, run: &str) -> Vec<Value> {
        let output = fulgurite([what, "--all", "--json", "--run"]).arg(self.path(run)).output().unwrap();
        Ran::from(output).json_lines()
    }

    /// Lines of `fulgurite sql` on a run's store.
    pub fn sql(&self, run: &str, query: &str) -> Vec<Value> {
        let output = fulgurite(["sql", "--json", query, "--run"]).arg(self.path(run)).output().unwrap();
        Ran::from(output).json_lines()
    }

    /// Tokens by cause, `trained` among them; checks that they add up to all that the store holds.
    pub fn account(&self, run: &str, summary: &Value) -> BTreeMap<String, u64> {
        let untrained: BTreeMap<String, u64> = serde_json::from_value(summary["untrained_tokens"].clone()).unwrap();
        let mut account = untrained;
        assert_eq!(account["other"], 0, "{summary}");
        account.insert("trained".to_owned(), summary["trained_tokens"].as_u64().unwrap());
        let spans = self.query("spans", run);
        let sampled: u64 =
            spans.iter().filter_map(|span| span["attributes"]["gen_ai.usage.output_tokens"].as_u64()).sum();
        assert_eq!(account.values().sum::<u64>(), sampled);
        assert_eq!(summary["sampled_tokens"], sampled);
        account
    }
}

pub fn recorded_steps(run: &Path) -> usize {
    std::fs::read_to_string(run.join("metrics.jsonl")).map_or(0, |text| text.lines().count())
}

/// What the weights are, byte for byte.
pub fn weights(summary: &Value) -> Vec<u8> {
    saved(summary, "model.safetensors")
}

/// A file of the last checkpoint.
pub fn saved(summary: &Value, file: &str) -> Vec<u8> {
    std::fs::read(Path::new(summary["checkpoint"].as_str().unwrap()).join(file)).unwrap()
}

/// A number of each step that has it.
pub fn numbers(steps: &[Value], key: &str) -> Vec<f64> {
    steps.iter().filter_map(|step| step[key].as_f64()).collect()
}
