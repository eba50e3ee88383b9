//! Runs of the real command whose weights PyTorch trains.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::{interpreter, with_package};
use crate::common::data_project::{self, DataProject};
use crate::common::project::{EMBEDDED, Project, SMALL, UNEVEN, numbers, recorded_steps, saved};
use crate::common::{Ran, eventually, fulgurite};
use crate::vllm_over_engine::VllmOverEngine;

/// A small run with a learner in PyTorch.
pub(super) fn project(rank: usize) -> Project {
    let project = Project::new(UNEVEN, SMALL);
    project.change_config(EMBEDDED, &format!("{EMBEDDED}\nlora_rank = {rank}\nlearner = \"torch\""));
    let python = interpreter(project.directory.path());
    project.change_config("[runner]", &format!("[torch]\npython = {python:?}\n\n[runner]"));
    project
}

fn files(rank: usize) -> &'static [&'static str] {
    match rank {
        0 => &["model.safetensors", "optimizer.state", "fulgurite.sha256"],
        _ => &["adapter_model.safetensors", "adapter_config.json", "optimizer.state", "fulgurite.sha256"],
    }
}

/// The learner of a trainer that has made a step: before that there is another, which only shows that the package is there.
pub(super) fn learner_of(train: &Child) -> u32 {
    eventually("a learner", || {
        let children = std::fs::read_dir(format!("/proc/{}/task", train.id())).ok()?;
        let children = children.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
        let children: Vec<u32> =
            children.flat_map(|text| text.split(' ').filter_map(|id| id.parse().ok()).collect::<Vec<_>>()).collect();
        children.into_iter().find(|id| words_of(*id).contains("fulgurite.learner"))
    })
}

fn words_of(process: u32) -> String {
    std::fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default()
}

pub(super) fn kill(process: u32) {
    assert!(Command::new("kill").args(["-9", &process.to_string()]).status().unwrap().success());
}

fn ends_in_the_same_bytes(rank: usize) {
    let project = project(rank);
    let undisturbed = project.train("undisturbed", &[]).pop().unwrap();
    assert_eq!(undisturbed["steps"], 5);
    assert!(undisturbed["max_logprob_difference"].as_f64().unwrap() < 1e-4, "{undisturbed}");
    let steps = std::fs::read_to_string(project.path("undisturbed/metrics.jsonl")).unwrap();
    assert!(steps.contains("learner/shared_tokens"), "a group's prompt is computed once: {steps}");
    let run = project.path("killed");

    // The trainer is killed: its learner ends with it.
    let mut train = project.command("killed").stdout(Stdio::null()).spawn().unwrap();
    eventually("a step", || (recorded_steps(&run) >= 2).then_some(()));
    let learner = learner_of(&train);
    train.kill().unwrap();
    train.wait().unwrap();
    eventually("the learner's end", || (!words_of(learner).contains("fulgurite.learner")).then_some(()));

    // The learner is killed: the run ends, and says of what.
    let mut command = project.command("killed");
    let train = command.arg("--resume").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("a step", || (recorded_steps(&run) >= 3).then_some(()));
    let learner = learner_of(&train);
    kill(learner);
    let ended = Ran::from(train.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for words in ["the torch learner ended (killed by SIGKILL", "goes on from its checkpoint by --resume"] {
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }

    let summary = project.train("killed", &["--resume"]).pop().unwrap();
    assert_eq!(summary["steps"], 5);
    for file in files(rank) {
        assert!(saved(&summary, file) == saved(&undisturbed, file), "{file}");
    }
    project.account("killed", &summary);
    let checkpoints = std::fs::read_dir(run.join("checkpoints")).unwrap();
    let halves = checkpoints.filter(|entry| entry.as_ref().unwrap().path().extension().is_some());
    assert_eq!(halves.count(), 0, "nothing half-written");
}

#[test]
fn an_adapters_run_ends_in_the_same_bytes_whoever_is_killed() {
    ends_in_the_same_bytes(4);
}

#[test]
fn a_run_of_all_weights_ends_in_the_same_bytes_whoever_is_killed() {
    ends_in_the_same_bytes(0);
}

#[test]
fn a_spike_is_left_out_of_the_same_update_as_with_the_embedded_learner() {
    let config = data_project::config("sft", "conversations = \"chats.jsonl\"");
    let message = |role: &str, text: &str| json!({ "role": role, "content": text });
    let row = |n: usize| {
        let text = format!("Say {}", "x".repeat(n % 7));
        json!({ "messages": [message("user", &text), message("assistant", &format!("I am {n}."))] })
    };
    let rows: String = (0..30).map(|n| format!("{}\n", row(n))).collect();
    let project = DataProject::new(&config, "chats.jsonl", &rows);
    let spikes = "[trainer]\nspike_factor = 1.01\nspike_window = 1\nstop_after_spikes = 0\n";
    project.change("[trainer]\n", spikes);
    let skipped = |run: &str| numbers(&project.train(run, &[]).0, "optim/skipped_steps");
    let embedded = skipped("embedded");
    assert!(embedded.contains(&1.0) && embedded.contains(&0.0), "{embedded:?}");
    let python = interpreter(project.directory.path());
    project.change("[trainer]\n", &format!("[torch]\npython = {python:?}\n\n[trainer]\n"));
    project.change("path = \"model\"", "path = \"model\"\nlearner = \"torch\"");
    assert_eq!(skipped("torch"), embedded);
}

#[test]
fn an_adapter_of_the_embedded_learner_is_gone_on_from() {
    let project = project(4);
    project.change_config("\nlearner = \"torch\"", "");
    let first = project.train("first", &["--max-steps", "2"]).pop().unwrap();
    let start = first["checkpoint"].as_str().unwrap().to_owned();
    project.change_config("lora_rank = 4", &format!("adapter = {start:?}\nlearner = \"torch\""));
    let undisturbed = project.train("on", &["--max-steps", "3"]).pop().unwrap();
    assert!(undisturbed["max_logprob_difference"].as_f64().unwrap() < 1e-4, "{undisturbed}");
    project.train("cut", &["--max-steps", "1"]);
    let resumed = project.train("cut", &["--max-steps", "3", "--resume"]).pop().unwrap();
    for file in files(4) {
        assert!(saved(&resumed, file) == saved(&undisturbed, file), "{file}");
    }
}

#[test]
fn a_run_changes_its_learner_between_two_checkpoints() {
    let project = project(4);
    project.train("run", &["--max-steps", "2"]);
    project.change_config("\nlearner = \"torch\"", "");
    let summary = project.train("run", &["--max-steps", "4", "--resume"]).pop().unwrap();
    assert_eq!(summary["steps"], 4, "{summary}");
    // Steps that the embedded learner makes are equal to the bit again.
    assert!(summary["max_logprob_difference"].as_f64().unwrap() < 1e-4, "{summary}");
}

#[test]
fn a_dry_run_shows_what_pytorch_needs_of_memory_before_the_run() {
    let project = project(4);
    let dry_run = |flags: &[&str]| {
        let mut command = fulgurite(["train", "t.toml", "--dry-run"]);
        Ran::from(command.args(flags).current_dir(project.directory.path()).output().unwrap())
    };
    let shown = dry_run(&[]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let place = |words: &str| shown.stdout.find(words).unwrap_or_else(|| panic!("{words}: {}", shown.stdout));
    assert!(place("memory            ") < place("sampled tokens"), "{}", shown.stdout);
    assert!(shown.stdout.contains("that this machine has available now: fits"), "{}", shown.stdout);
    let estimate = dry_run(&["--json"]).json_lines().pop().unwrap();
    assert!(estimate["plan"]["host"]["torch"]["weights"].as_u64().unwrap() > 0, "{estimate}");
    // The embedded learner's needs are what `model inspect` says.
    let embedded = dry_run(&["--json", "--set", "models.0.learner=embedded"]).json_lines().pop().unwrap();
    assert!(embedded["plan"].is_null(), "{embedded}");
}

#[test]
fn a_model_that_another_host_samples_is_trained_in_pytorch() {
    let project = project(0);
    let here = project.train("here", &[]).pop().unwrap();
    let host = VllmOverEngine::start(&project.path("model-1"));
    project.change_config("backend = \"embedded\"", &format!("backend = \"vllm\"\nurls = [\"{}\"]", host.url));
    let there = project.train("there", &[]).pop().unwrap();
    assert!(saved(&here, "model.safetensors") == saved(&there, "model.safetensors"));
    let published = project.path("there/published");
    let directories: Vec<PathBuf> = (0..=5).map(|version| published.join(format!("{version:06}"))).collect();
    assert_eq!(host.loaded(), directories, "each version once");
    project.account("there", &there);
}

#[test]
fn a_model_learns_from_conversations_in_pytorch() {
    use crate::common::data_project::DataProject;
    let row = |n: usize| {
        let message = |role: &str, text: String| json!({ "role": role, "content": text });
        json!({ "messages": [message("user", format!("Say you are {n}.")), message("assistant", format!("I am {n}."))] })
    };
    let rows: String = (0..20).map(|n| format!("{}\n", row(n))).collect();
    let config = "[run]\nname = \"t\"\nseed = 1\n\n[[models]]\nname = \"tiny\"\nbackend = \"embedded\"\npath = \"model\"\n\
                  learner = \"torch\"\n\n[trainer]\nobjective = \"sft\"\nbatch_size = 4\nepochs = 2\nlearning_rate = 1e-2\n\
                  source = { conversations = \"chats.jsonl\", validation = 0.2 }\n";
    let project = DataProject::new(config, "chats.jsonl", &rows);
    let python = interpreter(project.directory.path());
    let train = |run: &str, learner: &str| -> Value {
        let mut command = project.command(run);
        command.args(["--set", &format!("models.0.learner={learner}"), "--set"]);
        command.arg(format!("torch.python={}", python.display()));
        Ran::from(with_package(&mut command).output().unwrap()).json_lines().pop().unwrap()
    };
    let (torch, embedded) = (train("torch", "torch"), train("embedded", "embedded"));
    let after = |summary: &Value| summary["validation_nll_after"].as_f64().unwrap();
    assert!((after(&torch) - after(&embedded)).abs() < 1e-2 * after(&embedded), "{torch}\n{embedded}");
    assert!(Path::new(torch["checkpoint"].as_str().unwrap()).join("tokenizer.json").exists());
}
