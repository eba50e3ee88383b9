//! `fulgurite sweep`: arms that are compared, cut short and gone on with.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::common::project::{Project, SMALL, UNEVEN, recorded_steps};
use crate::common::{Process, Ran, eventually, fulgurite, parts_of_report};

fn sweep(project: &Project, arguments: &[&str]) -> Command {
    let mut command = fulgurite(["sweep", "t.toml", "-o", "s", "--json", "--parallel", "2"]);
    command.args(arguments).current_dir(project.directory.path());
    command
}

fn events(lines: &[Value], event: &str) -> Vec<Value> {
    lines.iter().filter(|line| line["event"] == event).cloned().collect()
}

/// The bytes of the last weights of a run.
fn last_weights(run: &Path) -> Vec<u8> {
    let mut checkpoints: Vec<_> =
        std::fs::read_dir(run.join("checkpoints")).unwrap().map(|it| it.unwrap().path()).collect();
    checkpoints.sort();
    std::fs::read(checkpoints.pop().unwrap().join("model.safetensors")).unwrap()
}

#[test]
fn every_arm_is_trained_with_the_same_seeds_and_the_best_comes_first() {
    let project = Project::new(UNEVEN, SMALL);
    let keys = ["trainer.learning_rate=1e-3,4e-3", "trainer.max_steps=2", "--seeds", "1,2"];
    let lines = Ran::from(sweep(&project, &keys).output().unwrap()).json_lines();
    let ended = events(&lines, "run_ended");
    assert_eq!((ended.len(), lines.len()), (4, 6));
    let arms = events(&lines, "arm");
    for arm in &arms {
        let seeds: Vec<&Value> = arm["runs"].as_array().unwrap().iter().map(|run| &run["seed"]).collect();
        assert_eq!((&arm["state"], seeds), (&json!("ended"), vec![&json!(1), &json!(2)]));
        let mean = |key: &str| {
            let of = |run: &Value| run[key]["value"].as_f64().unwrap();
            (of(&arm["runs"][0]) + of(&arm["runs"][1])) / 2.0
        };
        assert_eq!(arm["held_out"]["mean"].as_f64(), Some(mean("held_out")));
        assert_eq!(arm["reward"]["mean"].as_f64(), Some(mean("reward")));
        assert!(arm["tokens"].as_u64().unwrap() > 0);
    }
    let best = |arm: &Value| (arm["held_out"]["mean"].as_f64().unwrap(), arm["reward"]["mean"].as_f64().unwrap());
    assert!(best(&arms[0]) >= best(&arms[1]), "{arms:?}");

    // An arm is what `train` makes of the same key.
    let run = project.path("s/learning_rate=0.004,max_steps=2-seed-1");
    project.train("alone", &["--set", "trainer.learning_rate=4e-3", "--max-steps", "2"]);
    assert_eq!(last_weights(&run), last_weights(&project.path("alone")));
    let config: Value = serde_json::from_str(&std::fs::read_to_string(run.join("config.json")).unwrap()).unwrap();
    assert_eq!(config["trainer"]["learning_rate"], 0.004);

    let table = std::fs::read_to_string(project.path("s/sweep.csv")).unwrap();
    assert_eq!(table.lines().count(), 5);
    assert!(table.starts_with("run,arm,trainer.learning_rate,trainer.max_steps,seed,state,held_out,"), "{table}");

    // What is over is not run again.
    let before = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let again = Ran::from(sweep(&project, &["--resume"]).output().unwrap()).json_lines();
    assert_eq!((events(&again, "run_ended").len(), events(&again, "arm")), (0, arms));
    assert_eq!(std::fs::read_to_string(run.join("metrics.jsonl")).unwrap(), before);
    let other = Ran::from(sweep(&project, &["trainer.learning_rate=1", "--resume"]).output().unwrap());
    insta::assert_snapshot!(other.failure(project.directory.path()), @"error: [directory]/s/sweep.json was begun with others than these arms, seeds or keys: leave them out to go on");
    let twice = Ran::from(sweep(&project, &["trainer.learning_rate=1"]).output().unwrap());
    insta::assert_snapshot!(twice.failure(project.directory.path()), @"error: [directory]/s holds a sweep already: --resume goes on with it, -o names another");

    // The report lays the runs over each other, and shows how scores go with keys.
    let report = fulgurite(["report", "s", "-o", "r.html"]).current_dir(project.directory.path()).output().unwrap();
    assert_eq!(Ran::from(report).code, Some(0));
    let page = std::fs::read_to_string(project.path("r.html")).unwrap();
    let (_, data) = parts_of_report(&page);
    let rows = data["answers"]["/ui/data/runs"].as_array().unwrap();
    let rates: BTreeSet<String> = rows.iter().map(|row| row["settings"]["trainer.learning_rate"].to_string()).collect();
    assert_eq!((rows.len(), rates.len(), data["summaries"].as_object().unwrap().len()), (4, 2, 4));
    assert!(rows.iter().all(|row| row["held_out_after"].is_number()), "{rows:?}");
}

#[test]
fn a_sweep_beside_a_server_is_refused_before_its_runs_overwrite_each_others_weights() {
    let project = Project::new(UNEVEN, SMALL);
    let at_server = ["trainer.learning_rate=1e-3,4e-3", "--server", "http://127.0.0.1:4747"];
    let refused = Ran::from(sweep(&project, &at_server).output().unwrap());
    insta::assert_snapshot!(refused.failure(project.directory.path()), @"error: --server http://127.0.0.1:4747: the runs of a sweep would put their weights in each other's place behind one model of that server, so that each has a server of its own: leave --server out");
    assert!(!project.path("s").exists(), "nothing is begun");
}

#[test]
fn an_arm_that_fails_is_told_of_and_hides_no_other() {
    let project = Project::new(UNEVEN, SMALL);
    std::fs::write(
        project.path("arms.jsonl"),
        "{\"name\": \"strict\", \"trainer.reward_bounds\": [8, 9]}\n{\"name\": \"plain\", \"trainer.max_steps\": 1}\n",
    )
    .unwrap();
    let ran = Ran::from(sweep(&project, &["--list", "arms.jsonl"]).output().unwrap());
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.starts_with("error: 1 of 2 runs failed; their output is in "), "{}", ran.stderr);
    let lines: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let arms = events(&lines, "arm");
    assert_eq!((&arms[0]["arm"], &arms[0]["state"]), (&json!("plain"), &json!("ended")));
    assert_eq!((&arms[1]["arm"], &arms[1]["state"]), (&json!("strict"), &json!("failed")));
    let error = arms[1]["error"].as_str().unwrap();
    assert!(!error.starts_with("error:") && error.contains("rollouts"), "{error}");
}

#[test]
fn a_sweep_that_was_killed_goes_on_where_it_was() {
    let project = Project::new(UNEVEN, SMALL);
    let keys = ["trainer.learning_rate=1e-3,2e-3,4e-3", "--set", "trainer.max_steps=4"];
    let mut killed = Process::spawn(sweep(&project, &keys));
    let first = project.path("s/learning_rate=0.001-seed-1");
    eventually("two steps of a run", || (recorded_steps(&first) >= 2).then_some(()));
    killed.kill();
    let lines = Ran::from(sweep(&project, &["--resume"]).output().unwrap()).json_lines();
    let arms = events(&lines, "arm");
    assert!(arms.len() == 3 && arms.iter().all(|arm| arm["state"] == "ended"), "{arms:?}");
    project.train("alone", &["--set", "trainer.learning_rate=1e-3", "--max-steps", "4"]);
    assert_eq!(last_weights(&first), last_weights(&project.path("alone")));
}

#[test]
fn the_worse_half_is_stopped_early_at_equal_steps() {
    let project = Project::new(UNEVEN, SMALL);
    let keys = ["trainer.learning_rate=1e-4,1e-3,2e-3,4e-3", "--stop-early"];
    let lines = Ran::from(sweep(&project, &keys).output().unwrap()).json_lines();
    let stopped: Vec<Value> = events(&lines, "stopped_early").iter().map(|line| line["updates"].clone()).collect();
    assert_eq!(stopped, [json!(2), json!(2), json!(3)]);
    let arms = events(&lines, "arm");
    let states: Vec<&str> = arms.iter().map(|arm| arm["state"].as_str().unwrap()).collect();
    assert_eq!(states.iter().filter(|state| **state == "ended").count(), 1, "{states:?}");
    let ended = arms.iter().find(|arm| arm["state"] == "ended").unwrap();
    assert_eq!(ended["runs"][0]["updates"], 5);
    // Gone on with, the same arms are stopped.
    let again = Ran::from(sweep(&project, &["--resume"]).output().unwrap()).json_lines();
    assert_eq!(events(&again, "stopped_early"), events(&lines, "stopped_early"));
    assert_eq!(events(&again, "run_ended").len(), 0);
}

#[test]
fn a_mistake_in_a_sweep_costs_no_run() {
    let project = Project::new(UNEVEN, SMALL);
    let failure = |arguments: &[&str]| {
        let failed = Ran::from(sweep(&project, arguments).output().unwrap()).failure(project.directory.path());
        assert!(!project.path("s").exists());
        failed
    };
    insta::assert_snapshot!(failure(&["trainer.lerning_rate=1,2"]), @"
    error: [directory]/t.toml
      caused by: arm lerning_rate=1
      caused by: --set trainer.lerning_rate=1: trainer has no key `lerning_rate`; did you mean `learning_rate`?
    ");
    insta::assert_snapshot!(failure(&["trainer.group_size=0,3"]), @"
    error: [directory]/t.toml
      caused by: arm group_size=0
      caused by: [trainer] group_size is 0, but must be at least 2: its mean is what each is measured against
    ");
    insta::assert_snapshot!(failure(&["trainer.group_size=3,4", "--seeds", "1,1"]), @"error: --seeds has 1 twice");
    insta::assert_snapshot!(failure(&["trainer.group_size=3,4", "--resume"]), @"error: [directory]/s holds no sweep to resume");
    project.change_config("[run]", "[store]\nurl = \"sqlite://all.db\"\n[run]");
    insta::assert_snapshot!(failure(&["trainer.group_size=3,4"]), @"
    error: [directory]/t.toml
      caused by: arm group_size=3
      caused by: [store] url is one SQLite file for all runs: leave it out, so that each run has its own
    ");
}
