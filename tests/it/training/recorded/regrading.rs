//! `fulgurite regrade`: another grader over rollouts that are recorded.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::common::project::{Project, SMALL};
use crate::common::{Ran, fulgurite};

/// An agent that asks once, and a grader in a file, as people have it who mend it.
const RUNNER: &str = "command = [\"hello-agent\", \"{task}\"]\ngrade = [\"python3\", \"grade.py\"]";

/// Pays for every third letter.
const FIRST_GRADER: &str = "import sys\nprint('{\"reward\": %d}' % (len(sys.stdin.read()) % 3))\n";

/// Pays the other way round, and names what it paid for.
const MENDED_GRADER: &str = "import os, sys\n\
    n = len(sys.stdin.read()) % 3\n\
    assert os.environ['FULGURITE_TASK'] and os.environ['FULGURITE_ROLLOUT_ID']\n\
    print('{\"reward\": %d, \"letters\": %d}' % (2 - n, n))\n";

fn trained() -> Project {
    let project = Project::new(RUNNER, &SMALL.replace("max_steps = 5", "max_steps = 1"));
    std::fs::write(project.path("grade.py"), FIRST_GRADER).unwrap();
    project.train("run", &[]);
    project
}

fn regrade(run: &Path, arguments: &[&str]) -> Ran {
    let mut command: Command = fulgurite(["regrade"]);
    Ran::from(command.arg(run).args(arguments).output().unwrap())
}

fn summary(ran: Ran) -> (Vec<Value>, Value) {
    let mut lines = ran.json_lines();
    let summary = lines.pop().unwrap();
    (lines, summary)
}

/// The reward that counts of each rollout, in order.
fn rewards(project: &Project) -> Vec<f64> {
    let reward = |rollout: &Value| rollout["reward"].as_f64().unwrap();
    project.query("rollouts", "run").iter().map(reward).collect()
}

#[test]
fn a_grader_that_was_mended_grades_what_is_recorded() {
    let project = trained();
    let (run, before) = (project.path("run"), rewards(&project));

    // The same grader gives the same rewards: what it reads is what it read then.
    let (lines, same) = summary(regrade(&run, &["--json"]));
    assert_eq!(lines.len(), before.len());
    assert_eq!((&same["graded"], &same["changed"], &same["left_out"]), (&json!(before.len()), &json!(0), &json!({})));
    assert!(same["groups"].as_u64() >= Some(3) && same["reordered_groups"] == 0, "{same}");

    std::fs::write(project.path("grade.py"), MENDED_GRADER).unwrap();
    let (lines, shown) = summary(regrade(&run, &["--json"]));
    let expected: Vec<f64> = before.iter().map(|reward| 2.0 - reward).collect();
    let new: Vec<f64> = lines.iter().map(|line| line["new"].as_f64().unwrap()).collect();
    assert_eq!(new, expected);
    assert_eq!(shown["changed"], json!(before.iter().filter(|reward| **reward != 1.0).count()));
    assert_eq!(shown["applied"], false);
    assert!(shown["reordered_groups"].as_u64() >= Some(1), "{shown}");
    assert_eq!(rewards(&project), before, "they were only shown");

    let (_, applied) = summary(regrade(&run, &["--json", "--apply"]));
    assert_eq!((&applied["applied"], rewards(&project)), (&json!(true), expected.clone()));
    let given = project.query("rewards", "run");
    assert!(given.iter().any(|reward| reward["reward"]["components"][0][0] == "letters"), "{given:?}");
    assert!(given.iter().all(|reward| reward["giver"] == "grader"));
    let rows = given.len();
    let (_, again) = summary(regrade(&run, &["--json", "--apply"]));
    assert_eq!((&again["changed"], project.query("rewards", "run").len()), (&json!(0), rows), "given once");

    // What is learnt from the store's rollouts follows the new rewards.
    let best = expected.iter().filter(|reward| **reward == 2.0).count();
    let listed = regrade(&run, &["--json", "--where", "reward >= 2"]);
    assert_eq!(summary(listed).1["graded"], json!(best));
}

#[test]
fn people_see_what_would_change_and_what_cannot_be_graded() {
    let project = trained();
    let run = project.path("run");
    let ran = regrade(&run, &["--grade", "echo {\"reward\":5}"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for expected in ["old", "new", "5.0000", "rollouts graded", "groups are ordered otherwise", "--apply gives"] {
        assert!(ran.stdout.contains(expected), "{expected}: {}", ran.stdout);
    }
    for (arguments, expected) in [
        (vec!["--grade", "false"], "the grader gave none of"),
        (vec!["--grade", "echo hello"], "is not a JSON object with a number `reward`: hello"),
        (vec!["--grade", "no-such-grader"], "cannot find the program \"no-such-grader\""),
        (vec!["--where", "reward > 100"], "there is nothing to grade again: no rollout is meant"),
        (vec!["--timeout", "0"], "--timeout is 0"),
    ] {
        let ran = regrade(&run, &arguments);
        assert!(ran.code == Some(1) && ran.stderr.contains(expected), "{arguments:?}: {ran:?}");
    }
    let none = regrade(&project.path("no-run"), &[]);
    assert!(none.code == Some(1) && none.stderr.contains("is the directory of no run"), "{none:?}");

    // Of a rollout whose agent printed more than is kept there is nothing to grade by.
    project.sql("run", "SELECT 1");
    let much = Project::new(
        "command = [\"python3\", \"agent.py\", \"{task}\"]\ngrade = [\"python3\", \"grade.py\"]",
        &SMALL.replace("max_steps = 5", "max_steps = 1"),
    );
    let agent = format!("{}print('x' * 100000)\n", crate::common::project::CALL);
    std::fs::write(much.path("agent.py"), agent).unwrap();
    std::fs::write(much.path("grade.py"), FIRST_GRADER).unwrap();
    much.train("run", &[]);
    let ran = regrade(&much.path("run"), &[]);
    assert!(ran.code == Some(1) && ran.stderr.contains("have no whole output recorded"), "{ran:?}");
}
