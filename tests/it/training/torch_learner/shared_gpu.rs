//! One GPU for the learner and the host that samples: the host sleeps during each pass.

use std::process::{Command, Stdio};

use super::runs::{kill, learner_of, project};
use crate::common::project::{Project, recorded_steps, saved};
use crate::common::{Ran, eventually};
use crate::vllm_over_engine::VllmOverEngine;

fn shared() -> (Project, VllmOverEngine) {
    let project = project(0);
    // It makes the model.
    project.train("first", &["--max-steps", "1"]);
    let host = VllmOverEngine::start(&project.path("model-1"));
    project.change_config("backend = \"embedded\"", &format!("backend = \"vllm\"\nurls = [\"{}\"]", host.url));
    project.change_config("[torch]\n", "[torch]\nshares_gpu = true\n");
    (project, host)
}

#[test]
fn the_host_sleeps_during_passes_alone_and_is_woken_before_it_gets_weights() {
    let (project, host) = shared();
    let there = project.train("shared", &[]).pop().unwrap();
    assert_eq!(there["steps"], 5, "{there}");
    let mut expected = vec!["load"];
    expected.extend(["sleep", "wake_up", "load"].repeat(5));
    // Between two calls of one pass it may have been idle for long.
    let mut turns = host.turns().join(" ");
    while turns.contains("sleep wake_up sleep wake_up") {
        turns = turns.replace("sleep wake_up sleep wake_up", "sleep wake_up");
    }
    assert_eq!(turns, expected.join(" "));
    project.account("shared", &there);
    project.change_config("shares_gpu = true\n", "");
    let apart = project.train("apart", &[]).pop().unwrap();
    assert!(saved(&there, "model.safetensors") == saved(&apart, "model.safetensors"));
}

#[test]
fn the_host_is_awake_after_its_learner_or_trainer_was_killed_or_interrupted() {
    let (project, host) = shared();
    let run = project.path("run");

    let train = project.command("run").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("a step", || (recorded_steps(&run) >= 1).then_some(()));
    let learner = learner_of(&train);
    eventually("a pass", || host.is_asleep().then_some(()));
    kill(learner);
    let ended = Ran::from(train.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(!host.is_asleep(), "{}", ended.stderr);

    let mut train = project.command("run").arg("--resume").stdout(Stdio::null()).spawn().unwrap();
    eventually("a step", || (recorded_steps(&run) >= 2).then_some(()));
    eventually("a pass", || host.is_asleep().then_some(()));
    assert!(Command::new("kill").args(["-INT", &train.id().to_string()]).status().unwrap().success());
    train.wait().unwrap();
    assert!(!host.is_asleep());

    let mut train = project.command("run").arg("--resume").stdout(Stdio::null()).spawn().unwrap();
    eventually("a pass", || host.is_asleep().then_some(()));
    train.kill().unwrap();
    train.wait().unwrap();
    if !host.is_asleep() {
        // It was killed a moment too late: as if in the pass.
        host.put_asleep();
    }
    host.turns();
    let summary = project.train("run", &["--resume"]).pop().unwrap();
    assert_eq!(summary["steps"], 5);
    let turns = host.turns();
    assert_eq!(turns[..2], ["wake_up", "load"], "{turns:?}");
    assert!(!turns.contains(&"a call of a host that sleeps"), "{turns:?}");
}
