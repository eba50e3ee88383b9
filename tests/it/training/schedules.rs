//! When the rollouts of a step are run: before it, ahead of it, or while the learner computes on those before them.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::objectives::{refused, trained};
use crate::common::eventually;
use crate::common::project::{Project, SMALL, UNEVEN, numbers, recorded_steps, weights};

/// Kills a run again and again, each time some milliseconds after so many recorded steps.
fn killed(project: &Project, run: &str) -> Value {
    let mut resume: &[&str] = &[];
    for (steps, milliseconds) in [(0, 60), (1, 20), (2, 45), (4, 10)] {
        let mut train = project.command(run).args(resume).stdout(Stdio::null()).spawn().unwrap();
        let directory = project.path(run);
        eventually("a step", || {
            (directory.join("config.json").exists() && recorded_steps(&directory) >= steps).then_some(())
        });
        std::thread::sleep(Duration::from_millis(milliseconds));
        train.kill().unwrap();
        train.wait().unwrap();
        resume = &["--resume"];
    }
    project.train(run, &["--resume"]).pop().unwrap()
}

#[test]
fn an_asynchronous_run_of_no_staleness_is_the_synchronous_one_also_where_it_was_cut() {
    let project = Project::new(UNEVEN, SMALL);
    let (steps, sync) = trained(&project, "sync", "");
    assert_eq!(numbers(&steps, "async/staleness_max"), [0.0; 5]);
    project.change_config("[trainer]\n", "[trainer]\nschedule = { async = { max_staleness = 0 } }\n");
    let paced = project.train("paced", &[]).pop().unwrap();
    assert!(weights(&paced) == weights(&sync));
    project.train("cut", &["--max-steps", "2"]);
    let resumed = project.train("cut", &["--resume"]).pop().unwrap();
    assert!(weights(&resumed) == weights(&sync));
}

#[test]
fn rollouts_run_ahead_are_all_trained_and_none_is_older_than_allowed() {
    let project = Project::new(UNEVEN, SMALL);
    project.change_config("[trainer]\n", "[trainer]\nschedule = { async = { max_staleness = 2 } }\nloss = 'ppo'\n");
    let lines = project.train("ahead", &[]);
    assert!(!lines.iter().any(|line| line["event"] == "no_trust_region"), "{lines:?}");
    let (summary, steps) = lines.split_last().unwrap();
    let rollouts = project.query("rollouts", "ahead");
    let trained: Vec<&Value> = rollouts.iter().filter(|rollout| rollout["metadata"]["phase"] == "train").collect();
    assert_eq!(trained.len(), 5 * 9, "none is run twice, and none beyond the last step");
    let staleness = numbers(steps, "async/staleness_max");
    assert!(staleness.iter().all(|updates| *updates <= 2.0) && staleness[0] == 0.0, "{staleness:?}");
    // Those of the second and third step are told of the weights that were there when they were put on the queue.
    let lag = |step: u64| {
        let of_step = trained.iter().find(|rollout| rollout["metadata"]["step"] == step).unwrap();
        of_step["resources_id"].as_str().unwrap().rsplit_once('-').unwrap().1.to_owned()
    };
    assert_eq!([0, 1, 2, 3, 4].map(lag), ["0", "0", "0", "1", "2"]);
    let account = project.account("ahead", summary);
    assert_eq!(account.get("stale_weights"), None, "{account:?}");

    // Where the run stops early, what was sampled ahead is accounted for.
    project.change_config("[trainer]\n", "[trainer]\nstop = { held_out_reward = -1.0, in_a_row = 2 }\n");
    let stopped = project.train("stopped", &[]).pop().unwrap();
    assert_eq!(stopped["stopped_by_rule"], json!(true), "{stopped}");
    assert!(project.account("stopped", &stopped)["after_last_step"] > 0);
}

#[test]
fn a_loss_without_bounds_on_old_tokens_is_warned_of_and_a_mask_bounds_it() {
    let project = Project::new(UNEVEN, &SMALL.replace("max_steps = 5", "max_steps = 2"));
    project.change_config("[trainer]\n", "[trainer]\nschedule = { async = { max_staleness = 1 } }\n");
    let lines = project.train("unbounded", &[]);
    assert_eq!(lines[0], json!({ "event": "no_trust_region", "max_staleness": 1 }));
    let (steps, _) = trained(&project, "masked", "importance_mask = [0.5, 2.0]");
    assert!(!steps.iter().any(|line| line["event"] == "no_trust_region"), "{steps:?}");
    assert!(numbers(&steps, "optim/importance_masked").iter().all(|share| *share < 0.5), "{steps:?}");
}

#[test]
fn an_asynchronous_run_that_is_killed_in_a_step_goes_on() {
    let project = Project::new(UNEVEN, SMALL);
    let sync = project.train("sync", &[]).pop().unwrap();
    project.change_config("[trainer]\n", "[trainer]\nschedule = { async = { max_staleness = 0 } }\n");
    let paced = killed(&project, "paced");
    assert!(weights(&paced) == weights(&sync), "of no staleness it is the synchronous one to the byte");
    project.account("paced", &paced);

    project.change_config("max_staleness = 0", "max_staleness = 2");
    let ahead = killed(&project, "ahead");
    let steps = std::fs::read_to_string(project.path("ahead/metrics.jsonl")).unwrap();
    let steps: Vec<Value> = steps.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(numbers(&steps, "progress/batch"), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let staleness = numbers(&steps, "async/staleness_max");
    assert!(staleness.len() == 5 && staleness.iter().all(|updates| *updates <= 2.0), "{staleness:?}");
    // What was run ahead of a kill is run again, and what it cost stands in the account; nothing is trained twice.
    let account = project.account("ahead", &ahead);
    let trained: u64 = steps.iter().filter_map(|step| step["optim/trained_tokens"].as_u64()).sum();
    assert!(trained == 0 || trained == account["trained"], "{trained} {account:?}");
}

#[test]
fn minibatches_have_the_batchs_gradient_and_go_on_after_a_kill() {
    let project = Project::new(UNEVEN, SMALL);
    let sync = project.train("sync", &[]);
    let whole = sync.last().unwrap();
    project.change_config("[trainer]\n", "[trainer]\nschedule = { minibatches = 1 }\n");
    let one = project.train("one", &[]).pop().unwrap();
    assert!(weights(&one) == weights(whole), "one part is the batch");
    project.change_config("minibatches = 1", "minibatches = 3");
    let lines = project.train("three", &[]);
    let (three, steps) = lines.split_last().unwrap();
    let (ours, theirs) = (numbers(steps, "optim/gradient_norm"), numbers(&sync, "optim/gradient_norm"));
    assert!((ours[0] / theirs[0] - 1.0).abs() < 1e-5, "{ours:?} {theirs:?}");
    for key in ["optim/datums", "sampling/groups", "env/all/reward/total", "env/all/total_episodes"] {
        assert_eq!(numbers(steps, key)[0], numbers(&sync, key)[0], "{key}");
    }
    assert_eq!(three["max_logprob_difference"], json!(0.0));
    project.account("three", three);
    let again = killed(&project, "killed");
    assert!(weights(&again) == weights(three));

    project.change_config("schedule = { minibatches = 3 }\n", "");
    for (lines, other) in [
        ("substeps = 2", "substeps"),
        ("loss_aggregation = 'token_mean'", "loss_aggregation"),
        ("kl = { coefficient = 0.1 }", "kl.in = \"reward\""),
        ("dynamic_sampling = {}", "dynamic_sampling"),
    ] {
        let message = refused(&project, &format!("schedule = {{ minibatches = 2 }}\n{lines}"));
        let expected = format!("[trainer] schedule cannot be in minibatches with {other}, which is of a whole batch");
        assert!(message.contains(&expected), "{message}");
    }
}
