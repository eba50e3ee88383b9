//! Runs that draw tasks by how often they were solved.

use std::process::Stdio;

use serde_json::Value;

use crate::common::eventually;
use crate::common::project::{Project, SMALL, numbers, recorded_steps, weights};

/// Pays for every third letter where the task is odd, and nothing where it is even.
const ODD_TASKS_PAY: &str = concat!(
    "command = [\"hello-agent\", \"{task}\"]\n",
    r#"grade = ["sh", "-c", "n=$(LC_ALL=C tr -d '\\200-\\277' | wc -c); case $FULGURITE_TASK in *[13579]*) ;; *) n=0;; esac; echo '{\"reward\": '$((n % 3))'}'"]"#
);

const CURRICULUM: &str =
    "curriculum = { pass_rate = [0.1, 1.0], window = 2, outside = 0.05, replay = 0.7, replay_groups = 2 }";

/// A run of eight steps over six tasks, an epoch of which is two steps.
fn project(trainer: &str) -> Project {
    let project = Project::new(ODD_TASKS_PAY, &SMALL.replace("max_steps = 5", "max_steps = 8"));
    project.change_config("train = { range = [0, 100] }", "train = { range = [0, 6] }");
    project.change_config("evaluation = { every = 2, samples_per_task = 2 }", "evaluation = { every = 8 }");
    project.change_config("[trainer]\n", &format!("[trainer]\n{trainer}\n"));
    project
}

/// The groups of each step that were of tasks that are even.
fn hopeless(project: &Project, run: &str) -> [usize; 8] {
    let mut groups = [0; 8];
    for rollout in project.query("rollouts", run) {
        let is_first = rollout["metadata"]["member"] == 0 && rollout["mode"] == "train";
        if is_first && rollout["input"].as_u64().unwrap() % 2 == 0 {
            groups[rollout["metadata"]["step"].as_u64().unwrap() as usize] += 1;
        }
    }
    groups
}

/// What the metrics of each step say of tasks.
fn of_tasks(project: &Project, run: &str) -> Vec<Vec<(String, Value)>> {
    let text = std::fs::read_to_string(project.path(run).join("metrics.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Map<String, Value>>(line).unwrap());
    lines.map(|line| line.into_iter().filter(|(key, _)| key.starts_with("curriculum/")).collect()).collect()
}

#[test]
fn tasks_that_are_never_solved_are_mostly_skipped_and_those_rarely_solved_come_again() {
    let project = project("");
    let plain = project.train("plain", &[]).pop().unwrap();
    assert_eq!(hopeless(&project, "plain").iter().sum::<usize>(), 12, "three of six tasks, four epochs");

    project.change_config("[trainer]\n", &format!("[trainer]\n{CURRICULUM}\n"));
    let lines = project.train("drawn", &[]);
    let (summary, steps) = lines.split_last().unwrap();
    let skipped = hopeless(&project, "drawn");
    assert!((3..9).contains(&skipped.iter().sum::<usize>()), "each is tried once, and then hardly: {skipped:?}");
    let steps: Vec<Value> = steps.iter().filter(|line| line["event"] == "step").cloned().collect();
    let number = |key: &str| numbers(&steps, key);
    let all = ["untried", "too_hard", "inside", "too_easy"].map(|name| number(&format!("curriculum/tasks_{name}")));
    for step in 0..8 {
        assert_eq!(all.iter().map(|counts| counts[step]).sum::<f64>(), 6.0, "each task is in one place: {all:?}");
    }
    assert_eq!(all[0][7], 0.0, "{all:?}");
    assert!(all[1][7] >= 3.0, "the even ones are too hard: {all:?}");
    let replayed = number("curriculum/groups_replayed");
    assert!(replayed[0] == 0.0 && replayed.iter().any(|count| *count > 0.0), "{replayed:?}");
    let waiting = number("curriculum/tasks_waiting");
    for (step, count) in replayed.iter().enumerate().skip(1) {
        assert_eq!(*count, waiting[step - 1].min(2.0), "what waits comes in the next step: {waiting:?}");
    }
    assert!(weights(summary) != weights(&plain));
    project.account("drawn", summary);

    for cut in ["1", "3", "6"] {
        let run = format!("cut-{cut}");
        project.train(&run, &["--max-steps", cut]);
        let resumed = project.train(&run, &["--resume"]).pop().unwrap();
        assert!(weights(&resumed) == weights(summary), "what is known of the tasks is in the checkpoint: {cut}");
        assert_eq!(of_tasks(&project, &run), of_tasks(&project, "drawn"));
    }
}

#[test]
fn a_run_with_a_curriculum_that_is_killed_goes_on_to_the_same_bytes() {
    let project = project(&format!("{CURRICULUM}\ndynamic_sampling = {{ max_refills = 2 }}\ncheckpoint_every = 2"));
    let whole = project.train("whole", &[]);
    let summary = whole.last().unwrap();
    let refilled = numbers(&whole, "sampling/groups_refilled");
    assert!(refilled.len() == 8 && refilled.iter().any(|count| *count > 0.0), "{refilled:?}");
    for least in [1, 4] {
        let mut command = project.command("killed");
        if project.path("killed").exists() {
            command.arg("--resume");
        }
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        eventually("some steps", || (recorded_steps(&project.path("killed")) >= least).then_some(()));
        process.kill().unwrap();
        process.wait().unwrap();
    }
    let resumed = project.train("killed", &["--resume"]).pop().unwrap();
    assert!(weights(&resumed) == weights(summary));
    assert_eq!(of_tasks(&project, "killed"), of_tasks(&project, "whole"));
}

#[test]
fn a_curriculum_that_leaves_no_task_outside_changes_nothing() {
    let project = project("");
    let plain = project.train("plain", &["--max-steps", "4"]).pop().unwrap();
    project.change_config("[trainer]\n", "[trainer]\ncurriculum = { pass_rate = [0.0, 1.0] }\n");
    let drawn = project.train("drawn", &["--max-steps", "4"]).pop().unwrap();
    assert!(weights(&drawn) == weights(&plain));
}
