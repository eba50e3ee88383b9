//! Training runs of the real command: an agent as its own process, what it trains, and the account of every token.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::project::{CALL, Project, SMALL, UNEVEN, UNEVEN_GRADE, saved, weights};
use crate::common::{Ran, fulgurite, program};
use crate::vllm_over_engine::VllmOverEngine;
use serde_json::{Value, json};

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
    let lines = Ran::from(output).json_lines();
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
fn sampler_and_learner_agree_to_the_bit_at_another_temperature() {
    let project = Project::new(UNEVEN, &format!("{SMALL}sampling_parameters = {{ temperature = 0.7 }}\n"));
    project
        .change_config("max_steps = 5\nlearning", "max_steps = 3\nkl = { coefficient = 0.1, in = \"loss\" }\nlearning");
    let lines = project.train("run", &[]);
    let summary = lines.last().unwrap();
    assert_eq!(summary["max_logprob_difference"], json!(0.0), "{summary}");
    assert!(summary["trained_tokens"].as_u64().unwrap() > 0, "{summary}");
    let account = project.account("run", summary);
    assert_eq!(account.get("modified_distribution").copied().unwrap_or_default(), 0, "{account:?}");
    for generation in project.query("generations", "run") {
        let temperature = generation["sampling"]["temperature"].as_f64().unwrap();
        assert!((temperature - 0.7).abs() < 1e-6, "what the agent leaves out is the run's: {generation}");
    }

    let own = "[runner]\ncommand = [\"python3\", \"agent.py\"]\n".to_owned() + UNEVEN_GRADE;
    project.change_config(&format!("[runner]\nparallel = 4\ntimeout_seconds = 60\n{UNEVEN}"), &format!("{own}\n"));
    std::fs::write(project.path("agent.py"), CALL.replace("'max_tokens'", "'temperature': 1.0, 'max_tokens'")).unwrap();
    let mut command = project.command("own");
    let ended = Ran::from(command.args(["--max-steps", "1"]).output().unwrap());
    let summary = ended.json_lines().pop().unwrap();
    assert!(summary["untrained_tokens"]["modified_distribution"].as_u64().unwrap() > 0, "{summary}");
    assert_eq!(summary["trained_tokens"], 0, "a call of another temperature is not the run's: {summary}");
}

#[test]
fn a_temperature_that_a_learner_cannot_take_is_refused_before_a_run() {
    for (temperature, words) in [
        ("0", "sampling_parameters.temperature is 0, but must be above 0 and at most 2"),
        ("0.7", "sampling_parameters.temperature is 0.7, but model `hello` is trained over the Tinker API"),
    ] {
        let project =
            Project::new(UNEVEN, &format!("{SMALL}sampling_parameters = {{ temperature = {temperature} }}\n"));
        let service = "backend = \"tinker\"\nbase_model = \"base\"\nurls = [\"http://127.0.0.1:9\"]";
        project.change_config("backend = \"embedded\"", service);
        let refused = Ran::from(project.command("run").output().unwrap());
        assert!(refused.stderr.contains(words), "{refused:?}");
        project.change_config("sampling_parameters", "entropy_bonus = 0.1\nsampling_parameters");
        project.change_config(&format!("temperature = {temperature}"), "temperature = 1.0");
        let refused = Ran::from(project.command("run").output().unwrap());
        assert!(refused.stderr.contains("entropy_bonus is set, but model `hello` is trained over"), "{refused:?}");
        assert!(!project.path("model-1").exists());
    }
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
    project.account("a", &first);
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
    project.account("there", &there);
    let published = project.path("there/published");
    let directories: Vec<PathBuf> = (0..=5).map(|version| published.join(format!("{version:06}"))).collect();
    assert_eq!(host.loaded(), directories, "each version once");
    assert_eq!(std::fs::read_dir(published).unwrap().count(), 2, "the newest, and the one that a host may still read");
    for generation in project.query("generations", "there") {
        assert!(generation["weights_versions"][0]["version"].is_u64(), "{generation}");
    }
}

#[test]
fn a_model_in_a_gguf_file_is_trained_and_resumed_as_the_directory_that_it_converts_to() {
    let project = Project::new("", SMALL);
    // Its few tokens leave room for no task in the prompt.
    let agent = CALL.replace("Say 7", "Hi").replace("urllib.request.urlopen(", "said = urllib.request.urlopen(");
    std::fs::write(project.path("agent.py"), agent + "print(json.loads(said)['choices'][0]['message'])").unwrap();
    let base = std::fs::read_to_string(project.path("t.toml")).unwrap();
    let (before, rest) = base.split_once("[base]").unwrap();
    let (_, after) = rest.split_once("[tasks]").unwrap();
    let runner = "[runner]\ncommand = [\"python3\", \"agent.py\"]\n".to_owned() + UNEVEN_GRADE;
    let config = format!("{before}[tasks]{}", after.replace("[runner]", &runner));
    std::fs::write(project.path("t.toml"), config.replace("model-{seed}", "tiny.gguf")).unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("engine/tests/vectors/gguf/qwen3-tied.gguf");
    std::fs::copy(file, project.path("tiny.gguf")).unwrap();
    let here = |command: &mut Command| {
        let command = command.current_dir(project.directory.path()).env("XDG_CACHE_HOME", project.path("cache"));
        Ran::from(command.output().unwrap())
    };

    here(project.command("run").args(["--max-steps", "1"])).json_lines();
    let resumed = here(project.command("run").args(["--max-steps", "2", "--resume"])).json_lines().pop().unwrap();
    assert_eq!((&resumed["steps"], &resumed["max_logprob_difference"]), (&json!(2), &json!(0.0)));
    assert!(resumed["trained_tokens"].as_u64().unwrap() > 0, "{resumed}");
    let converted = here(&mut fulgurite(["model", "convert", "tiny.gguf", "converted"]));
    assert_eq!(converted.code, Some(0), "{}", converted.stderr);
    project.change_config("tiny.gguf", "converted");
    let of_directory = here(project.command("of-directory").args(["--max-steps", "2"])).json_lines().pop().unwrap();
    assert!(weights(&resumed) == weights(&of_directory));

    let rollout = project.query("rollouts", "run")[0]["rollout_id"].as_str().unwrap().to_owned();
    let shown = here(fulgurite(["show", &rollout, "--tokens", "--run"]).arg(project.path("run")));
    assert!(shown.stdout.contains("sampled, logprob") && !shown.stdout.contains("without their text"), "{shown:?}");
    let first = shown.stdout.lines().skip_while(|line| !line.contains("sampled, logprob")).nth(1).unwrap();
    assert!(first.ends_with('"'), "{}", shown.stdout);
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
    let _server = project.train_at_our_tinker_server();
    let there = project.train("there", &[]).pop().unwrap();
    assert_eq!(here["trained_tokens"], there["trained_tokens"]);
    assert_eq!(there["max_logprob_difference"], json!(0.0));
    project.account("there", &there);

    let checkpoint = Path::new(there["checkpoint"].as_str().unwrap()).join("tinker_checkpoint.json");
    let checkpoint: Value = serde_json::from_str(&std::fs::read_to_string(checkpoint).unwrap()).unwrap();
    let kept = checkpoint["path"].as_str().unwrap().strip_prefix("tinker://").unwrap();
    let kept = project.path("fulgurite-tinker/weights").join(kept).join(file);
    assert!(saved(&here, file) == std::fs::read(kept).unwrap());
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
    let account = project.account("run", &summary);
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
    let account = project.account("run", &summary);
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
    let expected = "all 4 rollouts of held_out at step 0 failed; the most frequent reason: agent exited with status 1 \
                (4 of the 4 that failed); the agent's standard error ended with\n    no such tool ";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("no such tool").count(), 1, "once: {}", ran.stderr);
    let event: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&event["event"], &event["phase"]), (&json!("rollouts_failed"), &json!("held_out")));
    assert_eq!((&event["failed"], &event["rollouts"], &event["count"]), (&json!(4), &json!(4), &json!(4)));
    assert!(event["stderr_tail"].as_str().unwrap().starts_with("no such tool"), "{event}");
}

#[test]
fn agents_that_fail_alike_are_counted_once_with_one_example() {
    // A warm agent whose reasons hold the task, and which never calls the model.
    let agent = "import json, sys\nfor line in sys.stdin:\n    task = json.loads(line)\n    \
                 print(json.dumps({'rollout_id': task['rollout_id'], 'error': 'boom %s' % task['task']}), flush=True)\n";
    let project = Project::new("command = [\"python3\", \"agent.py\"]\nwarm = true\nmax_attempts = 1", SMALL);
    std::fs::write(project.path("agent.py"), agent).unwrap();
    let ran = Ran::from(project.command("run").output().unwrap());
    let expected = "agent failed (4 of the 4 that failed); for example: agent failed: boom 10";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("help: the model was not called: an agent's client finds it at OPENAI_BASE_URL"),
        "{}",
        ran.stderr
    );
}

#[test]
fn agents_that_run_out_of_time_are_told_with_the_key_and_whether_they_called_the_model() {
    let runner = "command = [\"sh\", \"-c\", \"echo importing >&2; sleep 600\"]\nmax_attempts = 1";
    let project = Project::new(runner, SMALL);
    project.change_config("timeout_seconds = 60", "timeout_seconds = 1");
    let ran = Ran::from(project.command("run").output().unwrap());
    for expected in [
        "agent still ran after 1s ([runner] timeout_seconds) (4 of the 4 that failed)",
        "the agent's standard error ends with \"importing\"",
        "help: the model was not called: what takes long to start needs a greater [runner] timeout_seconds, or a smaller `parallel`",
    ] {
        assert!(ran.stderr.contains(expected), "{expected}: {}", ran.stderr);
    }
}

#[test]
fn a_warm_agent_that_asks_for_a_task_in_its_command_is_refused_once_before_the_run() {
    let project = Project::new("command = [\"hello-agent\", \"{task}\"]\nwarm = true", SMALL);
    let ran = Ran::from(project.command("run").output().unwrap());
    assert_eq!((ran.code, ran.stderr.matches("asks for the task").count()), (Some(1), 1), "{}", ran.stderr);
    assert!(!project.path("run").exists() && !project.path("model-1").exists());
    let mut run = fulgurite(["run", "--server", "http://127.0.0.1:1", "--warm", "--", "hello-agent", "{task.n}"]);
    let ran = Ran::from(run.output().unwrap());
    assert_eq!((ran.code, ran.stderr.matches("asks for the task").count()), (Some(1), 1), "{}", ran.stderr);
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

/// The keys that docs/reference/config.md has for metrics.jsonl.
pub(super) fn documented_metrics() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/config.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, table) = text.split_once("## metrics.jsonl").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| row.split_once('`').unwrap().0.to_owned()).collect()
}

/// What begins keys of runs that harvest, upload, or train in PyTorch.
const OF_OTHER_RUNS: [&str; 4] = ["harvest/", "publish/", "checkpoint/", "learner/"];

#[test]
fn every_key_of_metrics_jsonl_is_documented() {
    let grade = "import sys; n = len(sys.stdin.read()); print('{\\\"reward\\\": %d, \\\"exact\\\": 1}' % (n % 3))";
    const AGENT: &str = "[\"hello-agent\", \"{task}\"]";
    let runner = format!("command = {AGENT}\ngrade = [\"python3\", \"-c\", \"{grade}\"]");
    let project = Project::new(&runner, "groups_per_batch = 3\ngroup_size = 3\nmax_steps = 2\n");
    let chat = r#"{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "I am 7."}]}"#;
    std::fs::write(project.path("chats.jsonl"), format!("{chat}\n")).unwrap();
    let mut text = String::new();
    for (run, more) in [
        ("plain", ""),
        ("near", "kl = { coefficient = 0.1 }\nimportance_mask = [0.5, 2.0]\nentropy_bonus = 0.01\n"),
        ("adapted", "kl = { coefficient = 0.1, target = 0.1 }\nentropy_bonus = { target = 9.0 }\n"),
        ("cut", "zero_reward_on_limit = true\nkl = { coefficient = 0.1, in = 'loss' }\n"),
        ("hard", "dynamic_sampling = { max_refills = 0, solve_rate = [1.0, 1.0], solved_at = 9.0 }\n"),
        ("drawn", "curriculum = { replay = 0.5 }\n"),
        ("failing", ""),
        ("silent", ""),
        ("mixed", "conversations = { file = 'chats.jsonl' }\n"),
        ("spiked", "spike_factor = 1000.0\n"),
    ] {
        let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
        // A bound for the gradient's norm is there once eight have had a gradient.
        let steps = if run == "spiked" { "max_steps = 12" } else { "max_steps = 2" };
        let fails = if run == "failing" { "n % 4 or sys.exit(1); print(" } else { "print(" };
        // The first rollout of each task calls no model, and is graded all the same.
        let agent = match run {
            "silent" => {
                let hello = program("hello-agent");
                format!("[\"sh\", \"-c\", \"mkdir quiet-{{task}} 2>&1 || exec {hello} {{task}}; echo\"]")
            }
            _ => AGENT.to_owned(),
        };
        let changed = config.replace("print(", fails).replace(AGENT, &agent).replace("max_steps = 2", steps);
        std::fs::write(project.path("t.toml"), format!("{changed}{more}")).unwrap();
        project.train(run, &[]);
        std::fs::write(project.path("t.toml"), config).unwrap();
        text += &std::fs::read_to_string(project.path(run).join("metrics.jsonl")).unwrap();
    }
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Map<String, Value>>(line).unwrap());
    let keys: std::collections::BTreeSet<String> = lines
        .flat_map(|line| line.into_iter().map(|(key, _)| key).collect::<Vec<_>>())
        .map(|key| match key.rsplit_once('/') {
            Some((prefix, "exact")) => format!("{prefix}/NAME"),
            Some((prefix @ "env/all/stop", _)) => format!("{prefix}/REASON"),
            Some((prefix, "same_weights" | "stale" | "earlier_substeps" | "other")) => format!("{prefix}/CAUSE"),
            Some((prefix @ "rollout_errors", cause)) if cause != "total" => format!("{prefix}/CAUSE"),
            _ => key,
        })
        .collect();
    let documented = documented_metrics();
    let missing: Vec<&String> = keys.iter().filter(|key| !documented.contains(key)).collect();
    assert!(missing.is_empty(), "docs/reference/config.md says nothing of {missing:?}");
    let stale: Vec<&String> = documented
        .iter()
        .filter(|key| !keys.contains(*key) && !OF_OTHER_RUNS.iter().any(|it| key.starts_with(it)))
        .collect();
    assert!(stale.is_empty(), "docs/reference/config.md tells of {stale:?}, which no line has");
}

#[test]
fn an_openai_agent_in_python_leaves_the_same_record() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python/bin/python");
    assert!(python.exists(), "tests/setup makes {}", python.display());
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
    let summary = Ran::from(command.output().unwrap()).json_lines().pop().unwrap();
    assert_eq!(summary["steps"], 1);
    // Agent-lightning's runners are given one that opens model calls.
    let resources =
        Ran::from(fulgurite(["resources", "--json", "--run"]).arg(project.path("run")).output().unwrap()).json_lines();
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
    let page = std::fs::read_to_string(root.join("docs/tutorials/your-agent.md")).unwrap();
    // As many updates as show that it learns.
    let shortened = page.replace("max_steps = 60\n", "max_steps = 30\n").replace("every = 10,", "every = 30,");
    assert_ne!(shortened, page);
    let directory = tempfile::tempdir().unwrap();
    let python = root.join("target/python/bin");
    assert!(python.join("python3").exists(), "tests/setup makes {}", python.display());
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
    assert!(mean(&rewards[20..]) > mean(&rewards[..5]) + 0.03, "{rewards:?}");
    // The best game, and what was sampled in it, as text.
    assert!(stdout.contains("+1.000") && stdout.contains("Guess my number from 1 to 7."), "{stdout}");
    assert!(!stdout.contains("without their text"), "{stdout}");
}
