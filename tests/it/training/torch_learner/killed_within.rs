//! Learners that are killed in the midst of a call of each kind: the run ends with an error that says so, and goes
//! on to the same bytes.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::runs::project;
use super::{python, root};
use crate::common::Ran;
use crate::common::data_project::DataProject;
use crate::common::project::{recorded_steps, saved};

const TRAINED: [&str; 4] = ["adapter_model.safetensors", "adapter_config.json", "optimizer.state", "fulgurite.sha256"];

/// An interpreter whose learner is killed in the call that the file `order` beside it names.
fn killed_interpreter(directory: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.join("killed-python");
    let script = format!(
        "#!/bin/sh\nKILLED_WITHIN={} PYTHONPATH={} OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 exec {} {}\n",
        directory.join("order").display(),
        root().join("python").display(),
        python().display(),
        root().join("tests/torch/killed_within.py").display(),
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn with_interpreter(mut command: Command, python: &Path) -> Command {
    command.arg("--set").arg(format!("torch.python={}", python.display()));
    command
}

/// Kills the learner in each of these calls of the run `killed` and lets it go on; gives its summary.
fn killed_in_each(directory: &Path, train: impl Fn(&str) -> Command, calls: &[&str]) -> Value {
    let mut command = train("killed");
    let first = Ran::from(command.args(["--max-steps", "1"]).output().unwrap());
    assert_eq!(first.code, Some(0), "{first:?}");
    let run = directory.join("killed");
    let order = directory.join("order");
    for call in calls {
        std::fs::write(&order, call).unwrap();
        let ended = Ran::from(train("killed").arg("--resume").output().unwrap());
        assert!(!order.exists(), "no learner was killed in {call}: {ended:?}");
        assert_eq!(ended.code, Some(1), "{call}: {ended:?}");
        for words in ["the torch learner ended (killed by SIGKILL", "the run goes on from its checkpoint by --resume"] {
            assert!(ended.stderr.contains(words), "{call}: {}", ended.stderr);
        }
        // The first update stays, and whole checkpoints are all that has a number.
        assert!(recorded_steps(&run) >= 1, "{call}");
        for entry in std::fs::read_dir(run.join("checkpoints")).unwrap().map(|entry| entry.unwrap().path()) {
            let is_whole = entry.join("fulgurite.sha256").exists();
            assert!(is_whole || entry.extension().is_some_and(|it| it == "partial"), "{call}: {}", entry.display());
        }
    }
    let summary = Ran::from(train("killed").arg("--resume").output().unwrap()).json_lines().pop().unwrap();
    let mut halves = std::fs::read_dir(run.join("checkpoints")).unwrap();
    assert!(halves.all(|entry| entry.unwrap().path().extension().is_none()), "nothing half-written");
    summary
}

fn ends_in_the_same_bytes(undisturbed: &Value, killed: &Value) {
    assert_eq!(undisturbed["steps"], killed["steps"]);
    for file in TRAINED {
        assert!(saved(undisturbed, file) == saved(killed, file), "{file}");
    }
}

#[test]
fn a_policys_run_ends_in_the_same_bytes_whichever_call_its_learner_is_killed_in() {
    let project = project(4);
    project.change_config("max_steps = 5\nlearning", "max_steps = 4\nkl = { coefficient = 0.1 }\nlearning");
    let undisturbed = project.train("undisturbed", &[]).pop().unwrap();
    let directory = project.directory.path();
    let python = killed_interpreter(directory);
    let train = |run: &str| with_interpreter(project.command(run), &python);
    let calls = [
        "keep_reference",
        "load_checkpoint",
        "forward_reference",
        "forward_backward",
        "optimizer_step",
        "save_weights",
        "save_checkpoint",
    ];
    let killed = killed_in_each(directory, train, &calls);
    ends_in_the_same_bytes(&undisturbed, &killed);
    project.account("killed", &killed);
}

#[test]
fn a_run_of_comparisons_ends_in_the_same_bytes_whichever_call_its_learner_is_killed_in() {
    let config = "[run]\nname = \"t\"\nseed = 1\n\n[[models]]\nname = \"tiny\"\nbackend = \"embedded\"\npath = \"model\"\n\
                  lora_rank = 4\nlearner = \"torch\"\n\n[trainer]\nobjective = \"dpo\"\nbatch_size = 4\nepochs = 1\n\
                  source = { comparisons = \"pairs.jsonl\", validation = 0.2 }\nlearning_rate = 1e-2\n\
                  checkpoint_every = 1\nevaluation = { every = 2 }\n";
    let pair =
        |n: usize| json!({ "prompt": format!("Say you are {n}."), "chosen": format!("I am {n}."), "rejected": "No." });
    let pairs: String = (0..20).map(|n| format!("{}\n", pair(n))).collect();
    let project = DataProject::new(config, "pairs.jsonl", &pairs);
    let directory = project.directory.path();
    let python = killed_interpreter(directory);
    let train = |run: &str| with_interpreter(project.command(run), &python);
    let undisturbed = Ran::from(train("undisturbed").output().unwrap()).json_lines().pop().unwrap();
    let killed = killed_in_each(directory, train, &["forward_backward_comparisons", "forward"]);
    ends_in_the_same_bytes(&undisturbed, &killed);
}
