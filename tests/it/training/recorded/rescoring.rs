//! `fulgurite rescore`: the tokens of a run under other weights.

use std::process::Command;

use serde_json::{Value, json};

use crate::common::project::{Project, SMALL, UNEVEN};
use crate::common::{Ran, fulgurite};

fn rescore(project: &Project, arguments: &[&str]) -> Ran {
    let mut command: Command = fulgurite(["rescore"]);
    Ran::from(command.arg(project.path("run")).args(arguments).output().unwrap())
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

#[test]
fn what_was_sampled_is_scored_by_its_own_weights_and_by_those_that_learnt_from_it() {
    let project = Project::new(UNEVEN, &SMALL.replace("max_steps = 5", "max_steps = 3").replace("1e-3", "1e-2"));
    project.train("run", &[]);
    let mut lines = rescore(&project, &["--json"]).json_lines();
    let summary = lines.pop().unwrap();
    let generations = project.query("generations", "run");
    assert_eq!((lines.len(), &summary["left_out"]), (generations.len(), &json!(0)));
    let sampled: usize = generations.iter().map(|call| call["sampled_tokens"].as_array().unwrap().len()).sum();
    assert_eq!(summary["all"]["tokens"], json!(sampled));
    assert!(summary["all"]["kl"].as_f64().unwrap() > 0.0 && summary["weights"]["kl"].as_f64().unwrap() > 0.0);

    // The engine scores as it sampled, to the bit; the last checkpoint sampled the last evaluation.
    assert!(summary["engine"]["tokens"].as_u64() > Some(0), "{summary}");
    assert_eq!((&summary["engine"]["greatest"], &summary["engine"]["kl"]), (&json!(0.0), &json!(0.0)));
    let by_last = |call: &&Value| call["weights_versions"][0]["version"] == 3;
    let last: Vec<&Value> = generations.iter().filter(by_last).map(|call| &call["generation_id"]).collect();
    assert!(!last.is_empty());
    for call in lines.iter().filter(|call| last.contains(&&call["generation_id"])) {
        assert_eq!(numbers(&call["rescored"]), numbers(&call["recorded"]), "{call}");
    }
    // Its base is what nobody keeps as a checkpoint.
    let first = lines.iter().find(|call| call["step"] == 0).unwrap();
    assert_eq!(first["same_weights"], Value::Null);
    assert!(numbers(&first["rescored"]) != numbers(&first["recorded"]));

    let learnt = rescore(&project, &["--tokens", "--where", "mode = train and reward >= 2"]);
    assert_eq!(learnt.code, Some(0), "{learnt:?}");
    for expected in [
        "generation",
        "change",
        "update",
        "KL",
        "more likely now",
        "scored again differ by +0.000000 on average, 0.000000 at most",
    ] {
        assert!(learnt.stdout.contains(expected), "{expected}: {}", learnt.stdout);
    }
    for (arguments, expected) in [
        (vec!["--checkpoint", "no-such"], "there is no such directory"),
        (vec!["--where", "reward > 100"], "has no call of `hello` to score"),
    ] {
        let ran = rescore(&project, &arguments);
        assert!(ran.code == Some(1) && ran.stderr.contains(expected), "{arguments:?}: {ran:?}");
    }
}
