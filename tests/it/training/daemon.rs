//! `fulgurite train --server`: a trainer of its own beside a server, a service that trains, and a runner; each of them
//! killed in the middle.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::common::project::{SMALL, UNEVEN, recorded_steps, small_run};
use crate::common::{Process, Ran, eventually, fulgurite, wait_until_ready};
use serde_json::{Value, json};

/// All that has an adapter at a service.
const ADAPTED: [&str; 8] = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"];

/// A directory with a model that is hardly trained, and what one process makes of it.
struct Project {
    directory: tempfile::TempDir,
    /// Of the adapter that is trained; 0 trains all weights.
    rank: u32,
    /// The summary of the run in one process.
    here: Value,
}

impl Project {
    fn new() -> Self {
        Self::of_rank(0)
    }

    fn of_rank(rank: u32) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let project = Self { directory, rank, here: Value::Null };
        // What is asked of a service: adapters beside every matrix.
        let modules = match rank {
            0 => String::new(),
            _ => format!("\nlora_modules = {:?}", ADAPTED),
        };
        project.write("here.toml", &format!("backend = \"embedded\"\nlora_rank = {rank}{modules}"), UNEVEN);
        let here = project.train("here.toml", "here").output().unwrap();
        Self { here: last_line(here), ..project }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A config whose model is at `host`.
    fn write(&self, name: &str, host: &str, runner: &str) {
        let trainer = SMALL.replace("max_steps = 5", "max_steps = 4");
        let config = small_run(&format!("path = \"model\"\n{host}"), runner, &trainer);
        std::fs::write(self.path(name), config).unwrap();
    }

    fn train(&self, config: &str, run: &str) -> Command {
        let mut command = fulgurite(["train", "--json"]);
        command.arg(self.path(config)).arg("--run-directory").arg(self.path(run));
        command
    }

    /// The weights that the run in one process ended with.
    fn weights(&self) -> Vec<u8> {
        self.trained_in(Path::new(self.here["checkpoint"].as_str().unwrap()))
    }

    /// What was trained, from where it is kept.
    fn trained_in(&self, checkpoint: &Path) -> Vec<u8> {
        let name = if self.rank == 0 { "model.safetensors" } else { "adapter_model.safetensors" };
        std::fs::read(checkpoint.join(name)).unwrap()
    }
}

fn last_line(output: Output) -> Value {
    Ran::from(output).json_lines().pop().unwrap()
}

/// A server, a service that trains, and how a daemon beside them is configured.
struct Parts<'p> {
    project: &'p Project,
    /// Trains, and samples for the server; none where the server does that itself.
    service: Option<Serving>,
    server: Serving,
}

impl<'p> Parts<'p> {
    fn start(project: &'p Project, runner: &str) -> Self {
        Self::start_with(project, runner, None)
    }

    fn start_with(project: &'p Project, runner: &str, admin_key: Option<&'static str>) -> Self {
        let model = project.path("model").display().to_string();
        let service = Serving::start(project.path("service"), format!("base=embedded:{model}"), None);
        let url = &service.url;
        let model = format!("hello=tinker:{url},path={model},base_model=base");
        let server = Serving::start(project.path("server"), model, admin_key);
        let rank = project.rank;
        let host = format!("backend = \"tinker\"\nbase_model = \"base\"\nlora_rank = {rank}\nurls = [\"{url}\"]");
        project.write("daemon.toml", &host, runner);
        Self { project, service: Some(service), server }
    }

    /// A server that samples and trains by itself.
    fn in_one_server(project: &'p Project, runner: &str) -> Self {
        let model = format!("hello=embedded:{}", project.path("model").display());
        let server = Serving::start(project.path("server"), model, None);
        let host = format!("backend = \"tinker\"\nlora_rank = 0\nurls = [\"{}\"]", server.url);
        project.write("daemon.toml", &host, runner);
        Self { project, service: None, server }
    }

    fn daemon(&self) -> Command {
        let mut command = self.project.train("daemon.toml", "daemon");
        command.args(["--server", &self.server.url]);
        command
    }

    /// A daemon whose first training rollouts are under way.
    fn training_daemon(&self) -> Child {
        let mut command = self.daemon();
        let daemon = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        eventually("a training rollout with a call", || {
            let is_called = |rollout: &Value| rollout["mode"] == "train" && rollout["status"] == "running";
            self.server.rollouts().iter().any(is_called).then_some(())
        });
        daemon
    }

    /// The weights of a daemon's last checkpoint, which the service keeps.
    fn weights(&self, summary: &Value) -> Vec<u8> {
        let checkpoint = Path::new(summary["checkpoint"].as_str().unwrap()).join("tinker_checkpoint.json");
        let checkpoint: Value = serde_json::from_str(&std::fs::read_to_string(checkpoint).unwrap()).unwrap();
        let kept = checkpoint["path"].as_str().unwrap().strip_prefix("tinker://").unwrap();
        let keeper = self.service.as_ref().unwrap_or(&self.server);
        self.project.trained_in(&keeper.directory.join("fulgurite-tinker/weights").join(kept))
    }

    /// A daemon's run is the run in one process: the same weights, the same scores, every token accounted for.
    fn is_as_in_one_process(&self, summary: &Value) {
        assert!(self.weights(summary) == self.project.weights(), "{summary}, but here {}", self.project.here);
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
        recorded_steps(&self.project.path("daemon"))
    }
}

/// `fulgurite serve` that can be killed and started again where it was.
struct Serving {
    directory: PathBuf,
    model: String,
    admin_key: Option<&'static str>,
    url: String,
    process: Process,
}

impl Serving {
    fn start(directory: PathBuf, model: String, admin_key: Option<&'static str>) -> Self {
        std::fs::create_dir(&directory).unwrap();
        let (process, url) = serve(&directory, &model, admin_key, "127.0.0.1:0");
        Self { directory, model, admin_key, url, process }
    }

    fn kill_and_start_again(&mut self) {
        self.process.kill();
        let address = self.url.strip_prefix("http://").unwrap();
        (self.process, self.url) = serve(&self.directory, &self.model, self.admin_key, address);
    }

    fn rollouts(&self) -> Vec<Value> {
        let store = format!("sqlite://{}", self.directory.join("store.db").display());
        crate::common::run(["rollouts", "--store", &store, "--all", "--json"]).json_lines()
    }
}

fn serve(directory: &Path, model: &str, admin_key: Option<&str>, listen: &str) -> (Process, String) {
    let (ready_file, log) = (directory.join("ready.json"), directory.join("serve.log"));
    if ready_file.exists() {
        std::fs::remove_file(&ready_file).unwrap();
    }
    let store = format!("sqlite://{}", directory.join("store.db").display());
    let mut command = fulgurite(["serve", "--listen", listen, "--store", &store, "--model", model]);
    command.current_dir(directory).envs(admin_key.map(|key| ("FULGURITE_ADMIN_KEY", key)));
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
}

#[test]
fn a_daemon_trains_an_adapter_to_the_bytes_of_one_process() {
    let project = Project::of_rank(4);
    let parts = Parts::start(&project, UNEVEN);
    parts.is_as_in_one_process(&last_line(parts.daemon().output().unwrap()));
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

/// As [`UNEVEN`], but from the first training step on, grades wait for a file.
fn held(go: &Path) -> String {
    let grader = "import os, sys, time; n = len(sys.stdin.read()); training = int(os.environ['FULGURITE_TASK']) < 100\n\
                  while training and not os.path.exists(sys.argv[1]): time.sleep(0.01)\n\
                  print('{\"reward\": %d}' % (n % 3))";
    format!("command = [\"hello-agent\", \"{{task}}\"]\ngrade = {}", json!(["python3", "-c", grader, go]))
}

#[test]
fn a_server_or_a_service_that_is_killed_is_waited_for() {
    let project = Project::new();
    let go = project.path("go");
    let mut parts = Parts::start(&project, &held(&go));
    let daemon = parts.training_daemon();
    parts.server.kill_and_start_again();
    std::fs::write(&go, "").unwrap();
    eventually("the second step", || (parts.recorded_steps() >= 2).then_some(()));
    parts.server.kill_and_start_again();
    eventually("the third step", || (parts.recorded_steps() >= 3).then_some(()));
    parts.service.as_mut().unwrap().kill_and_start_again();
    let summary = last_line(daemon.wait_with_output().unwrap());
    parts.is_as_in_one_process(&summary);
}

#[test]
fn one_server_samples_and_trains_for_a_daemon_and_may_be_killed() {
    let project = Project::new();
    let go = project.path("go");
    let mut parts = Parts::in_one_server(&project, &held(&go));
    let daemon = parts.training_daemon();
    std::fs::write(&go, "").unwrap();
    eventually("the second step", || (parts.recorded_steps() >= 2).then_some(()));
    parts.server.kill_and_start_again();
    let summary = last_line(daemon.wait_with_output().unwrap());
    parts.is_as_in_one_process(&summary);
}

#[test]
fn a_daemon_says_what_is_wrong_with_server_key_and_model() {
    let project = Project::new();
    let parts = Parts::start_with(&project, UNEVEN, Some("opens-all-of-it"));
    let failure = |command: &mut Command| Ran::from(command.output().unwrap()).failure(project.directory.path());
    let without_key = failure(&mut parts.daemon());
    assert!(without_key.contains("wants the server's admin key") && without_key.contains(&parts.server.url));
    let wrong = failure(parts.daemon().env("FULGURITE_ADMIN_KEY", "opens-nothing-here"));
    assert!(wrong.contains("FULGURITE_ADMIN_KEY must hold it") && !wrong.contains("opens-nothing"), "{wrong}");
    let config = std::fs::read_to_string(project.path("daemon.toml")).unwrap();
    std::fs::write(project.path("other.toml"), config.replace("\"hello\"", "\"other\"")).unwrap();
    let mut other = project.train("other.toml", "other");
    let unknown = failure(other.args(["--server", &parts.server.url]).env("FULGURITE_ADMIN_KEY", "opens-all-of-it"));
    assert!(unknown.contains("cannot train model `other`") && unknown.contains("hello"), "{unknown}");
    assert!(!project.path("other").exists(), "nothing was begun");
    let no_url = failure(project.train("daemon.toml", "daemon").args(["--server", "localhost:4747"]));
    assert!(no_url.contains("it looks like http://127.0.0.1:4747"), "{no_url}");

    let mut command = parts.daemon();
    let summary = last_line(command.env("FULGURITE_ADMIN_KEY", "opens-all-of-it").output().unwrap());
    parts.is_as_in_one_process(&summary);
}
