//! `fulgurite export RUN`: the records of one run.

use serde_json::Value;

use crate::common::project::{Project, SMALL, UNEVEN};
use crate::common::{Ran, fulgurite};

const RECORDS: [&str; 6] = ["all", "rollouts", "spans", "generations", "triplets", "conversations"];

#[test]
fn a_run_is_exported_by_its_name_whatever_is_written_of_it() {
    let project = Project::new(UNEVEN, &SMALL.replace("max_steps = 5", "max_steps = 1"));
    project.train("runs/own", &[]);
    project.change_config("[tasks]", "[store]\nurl = \"sqlite://shared.db\"\n\n[tasks]");
    project.train("runs/one", &[]);
    project.train("runs/two", &[]);
    let export = |arguments: &[&str]| -> Ran {
        let mut export = fulgurite(["export", "--to", "x.jsonl"]);
        export.args(arguments).current_dir(project.directory.path()).output().unwrap().into()
    };
    let exported = |arguments: &[&str]| -> Vec<Value> {
        let ran = export(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
        let text = std::fs::read_to_string(project.path("x.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    for what in RECORDS {
        let own = exported(&["own", "--what", what]);
        assert!(!own.is_empty(), "{what}");
        for same in [&["runs/own"][..], &["--run", "runs/own"], &["--run", "own"]] {
            assert_eq!(exported(&[same, &["--what", what]].concat()), own, "{what} {same:?}");
        }
    }
    // Of a store that has other runs too, only what is of this one.
    for what in &RECORDS[1..] {
        let of = |run: &str| exported(&[run, "--what", what]);
        let (one, two) = (of("one"), of("runs/two"));
        let shared = exported(&["--store", "sqlite://shared.db", "--what", what]);
        assert!(!one.is_empty() && !two.is_empty(), "{what}");
        assert_eq!(one.len() + two.len(), shared.len(), "{what}");
    }

    // What is no run is a rollout's id, as ever; and what is both is refused.
    let rollouts = project.query("rollouts", "runs/one");
    let id = rollouts[0]["rollout_id"].as_str().unwrap();
    let of_rollout = ["--store", "sqlite://shared.db", "--what", "rollouts", id];
    assert_eq!(exported(&of_rollout)[0]["data"]["rollout_id"], id);
    std::fs::create_dir(project.path(&format!("runs/{id}"))).unwrap();
    std::fs::copy(project.path("runs/own/config.json"), project.path(&format!("runs/{id}/config.json"))).unwrap();
    let refused = |arguments: &[&str]| export(arguments).failure(project.directory.path()).replace(id, "[id]");
    insta::assert_snapshot!(refused(&of_rollout), @"error: `[id]` is the run in runs/[id] and a rollout of sqlite://shared.db: --run runs/[id] means the run, --rollout [id] the rollout");
    let by_flag = ["--store", "sqlite://shared.db", "--what", "rollouts", "--rollout", id];
    assert_eq!(exported(&by_flag)[0]["data"]["rollout_id"], id);

    let store = ["--store", "sqlite://shared.db"];
    insta::assert_snapshot!(refused(&[&["own"], &store[..]].concat()), @"error: `own` is a run, which says itself where its store is: leave out --store, --run and --config");
    insta::assert_snapshot!(refused(&[&["three"], &store[..]].concat()), @"error: `three` is no run: neither its directory, nor its name below runs/; nor is it a rollout of sqlite://shared.db");
    insta::assert_snapshot!(refused(&[&["--rollout", "three"], &store[..]].concat()), @"error: there is no rollout `three` in this store, and no session of that name");
    insta::assert_snapshot!(refused(&["three"]), @r"
    error: `three` is no run: neither its directory, nor its name below runs/
      caused by: cannot open the store sqlite://[directory]/fulgurite.db (--store, --run, --config)
      caused by: store not found: sqlite://[directory]/fulgurite.db
    ");
    insta::assert_snapshot!(refused(&["one", "--run-id", "two"]), @"error: --run-id two is not the run in runs/one, which is one: leave it out");
    for (arguments, expected) in [
        (
            &[][..],
            "--what soft-targets needs a run of off-policy distillation, by its directory or its name below runs/",
        ),
        (&["three"], "three is the directory of no run, and there is none of that name in runs/"),
        (&["own", "--config", "t.toml"], "a run has a config of its own: leave out RUN, or --config"),
        (&["own"], "runs/own/config.json: soft targets are of a run with objective = \"off_policy_distillation\""),
        (&store, "--store names no run: give its directory, or its name below runs/"),
    ] {
        let message = refused(&[arguments, &["--what", "soft-targets"]].concat());
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
}
