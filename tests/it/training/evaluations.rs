//! `fulgurite eval`: tasks scored by a model or checkpoint as it is.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::common::project::{Project, SMALL, UNEVEN};
use crate::common::{Ran, eventually, fulgurite, text};

fn command(project: &Project, arguments: &[&str]) -> Command {
    let mut command = fulgurite(["eval"]);
    command.arg(project.path("t.toml")).current_dir(project.directory.path()).args(arguments);
    command
}

fn ran(project: &Project, arguments: &[&str]) -> Ran {
    command(project, arguments).output().unwrap().into()
}

fn eval(project: &Project, arguments: &[&str]) -> Value {
    ran(project, &[arguments, &["--json"]].concat()).json_lines().pop().unwrap()
}

/// What was sampled for each rollout of an evaluation, by group and member.
fn sampled(project: &Project, run: &str) -> BTreeMap<String, Vec<Value>> {
    let mut sampled: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for generation in project.query("generations", run) {
        let place = text(&generation["rollout_id"]).rsplit_once("eval-").unwrap().1[8..].to_owned();
        sampled.entry(place).or_default().push(generation["sampled_tokens"].clone());
    }
    sampled
}

#[test]
fn a_checkpoint_scores_what_its_run_scored_and_nothing_of_it_is_trained() {
    let project = Project::new(UNEVEN, SMALL);
    let summary = project.train("run", &[]).pop().unwrap();
    let first = eval(&project, &["--checkpoint", "run", "--against", "run", "--pass-reward", "2"]);
    assert_eq!(first["reward"]["value"], summary["held_out_reward_after"], "{first}");
    assert_eq!((&first["tasks"], &first["rollouts"], &first["step"]), (&json!(2), &json!(4), &json!(5)));
    let against = &first["against"];
    assert_eq!((&against["common_tasks"], &against["other_tasks"]), (&json!(2), &json!(0)));
    assert_eq!(against["reward"]["difference"]["value"], 0.0, "the same weights, the same seeds");
    let passed = first["pass"]["1"]["value"].as_f64().unwrap();
    assert!(first["pass"]["2"]["value"].as_f64().unwrap() >= passed);

    let directory = text(&first["run_directory"]);
    let rollouts = project.query("rollouts", &directory);
    assert_eq!(rollouts.len(), 4);
    for rollout in &rollouts {
        let kind = &rollout["metadata"]["kind"];
        assert_eq!(
            (&rollout["mode"], &rollout["status"], kind),
            (&json!("val"), &json!("succeeded"), &json!("evaluation"))
        );
    }
    let uses = project.sql(&directory, "SELECT cause, COUNT(*) AS calls FROM generation_uses GROUP BY cause");
    assert_eq!(uses, [json!({ "cause": "evaluation", "calls": 4 })]);
    let runs = project.sql(&directory, "SELECT json_extract(config, '$.kind') AS kind FROM runs");
    assert_eq!(runs, [json!({ "kind": "evaluation" })]);

    // What is scored already is shown again, and not sampled; other samples are other rollouts.
    let again = eval(&project, &["--checkpoint", "run/checkpoints/000005", "--pass-reward", "2"]);
    assert_eq!((&again["run_id"], &again["reward"]), (&first["run_id"], &first["reward"]));
    assert_eq!(project.query("rollouts", &directory).len(), 4);
    let more = eval(&project, &["--checkpoint", "run", "--samples", "3", "--against", &directory]);
    assert_ne!(more["run_id"], first["run_id"]);
    assert_eq!(more["rollouts"], 6);

    // The config is the run's own where none is named; a checkpoint is known by its weights.
    let own =
        fulgurite(["eval", "--checkpoint", "run", "--samples", "3", "--json", "--against", "run/checkpoints/000005"])
            .current_dir(project.directory.path())
            .output()
            .unwrap();
    assert_eq!(Ran::from(own).json_lines()[0]["run_id"], more["run_id"]);

    let table = ran(&project, &["--checkpoint", "run", "--against", "run"]);
    assert_eq!((table.code, table.stderr.as_str()), (Some(0), ""));
    let shown = table.stdout.replace(project.directory.path().to_str().unwrap(), "[directory]");
    let shown = shown.replace(&text(&first["run_id"]), "t-seed-1-eval-########");
    insta::assert_snapshot!(shown, @r"
    evaluation t-seed-1-eval-######## in [directory]/runs/t-seed-1-eval-########
    [directory]/run/checkpoints/000005, 2 held-out tasks, 2 samples of each

          tasks  rollouts  failed  reward  95 %              pass@1[avg-of-2]  95 %            pass@2  95 %
     all  2      4         0       +0.750  +0.500 .. +1.000  0.500             0.500 .. 0.500  1.000   1.000 .. 1.000

    against run after 5 updates: 2 tasks in common
             here    there   difference  95 %
     reward  +0.750  +0.750  +0.000      +0.000 .. +0.000  may be chance
     pass@1  +0.500  +0.500  +0.000      +0.000 .. +0.000  may be chance
    ");
}

#[test]
fn an_evaluation_that_is_killed_samples_only_what_is_missing() {
    // Each grading takes a while, so that there is something to cut short.
    let grader = "import sys, time; time.sleep(0.15); print('{\"reward\": %d}' % (len(sys.stdin.read()) % 3))";
    let runner = format!("command = [\"hello-agent\", \"{{task}}\"]\ngrade = {}\n", json!(["python3", "-c", grader]));
    let project = Project::new(&runner, SMALL);
    project.change_config("held_out = { range = [100, 102] }", "held_out = { range = [100, 106] }");
    let arguments = ["--samples", "4", "--json"];
    let undisturbed = eval(&project, &["--samples", "4"]);
    let whole = text(&undisturbed["run_directory"]);
    let expected = sampled(&project, &whole);
    let rollouts = |directory: &str| project.query("rollouts", directory);
    assert_eq!(rollouts(&whole).len(), 24);
    std::fs::rename(&whole, project.path("undisturbed")).unwrap();

    let mut done: BTreeMap<String, String> = BTreeMap::new();
    for least in [2, 8] {
        let mut process = command(&project, &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let ended = eventually("some rollouts", || {
            let store = std::path::Path::new(&whole).join("fulgurite.db");
            let ended = store.exists().then(|| {
                let ran: Ran = fulgurite(["rollouts", "--all", "--json", "--run", &whole]).output().unwrap().into();
                let lines = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
                lines.filter(|rollout| rollout["status"] == "succeeded").collect::<Vec<_>>()
            })?;
            (ended.len() >= least).then_some(ended)
        });
        process.kill().unwrap();
        process.wait().unwrap();
        for rollout in ended {
            let attempt = text(&rollout["attempt"]["attempt_id"]);
            let known = done.entry(text(&rollout["rollout_id"])).or_insert_with(|| attempt.clone());
            assert_eq!(*known, attempt, "what had ended was run again");
        }
    }
    let resumed = eval(&project, &["--samples", "4"]);
    assert_eq!(resumed["reward"], undisturbed["reward"]);
    assert_eq!((&resumed["rollouts"], &resumed["failed"]), (&json!(24), &json!(0)));
    let after = rollouts(&whole);
    assert_eq!(after.len(), 24, "no rollout twice");
    for rollout in &after {
        if let Some(attempt) = done.get(&text(&rollout["rollout_id"])) {
            assert_eq!(text(&rollout["attempt"]["attempt_id"]), *attempt);
        }
    }
    // An attempt that was cut short is made again; the tokens are those of the undisturbed evaluation.
    for (place, answers) in sampled(&project, &whole) {
        assert_eq!(answers.last(), expected[&place].last(), "{place}");
    }
    let unaccounted = "SELECT COUNT(*) AS calls FROM generations WHERE generation_id NOT IN (SELECT generation_id FROM generation_uses)";
    assert_eq!(project.sql(&whole, unaccounted), [json!({ "calls": 0 })]);
}

#[test]
fn final_tasks_are_scored_once() {
    let project = Project::new(UNEVEN, SMALL);
    let summary = project.train("run", &[]).pop().unwrap();
    let refused = ran(&project, &["--checkpoint", "run", "--final"]);
    assert_eq!(refused.code, Some(1));
    let score = format!("reward {:+.3} of 4 rollouts (run)", summary["final_reward_after"].as_f64().unwrap());
    assert!(refused.stderr.contains(&score), "{score}: {}", refused.stderr);

    // The base has none yet.
    let first = eval(&project, &["--final"]);
    assert_eq!((&first["evaluated"], &first["tasks"]), (&json!("final"), &json!(2)));
    let rollouts = project.query("rollouts", &text(&first["run_directory"]));
    assert!(rollouts.iter().all(|rollout| rollout["mode"] == "test"));
    for again in [&["--final"][..], &["--final", "--samples", "5"], &["--final", "--seed", "1"]] {
        let refused = ran(&project, again);
        assert_eq!(refused.code, Some(1));
        let shown = refused.stderr.replace(&text(&first["run_id"]), "t-seed-1-eval-########");
        insta::allow_duplicates! {
            insta::assert_snapshot!(shown, @"error: these weights have been scored on [tasks] final already, and once is all that keeps it a measure: reward +1.000 of 4 rollouts at 2 tasks (t-seed-1-eval-########). Leave out --final to score [tasks] held_out");
        }
    }
    eval(&project, &[]);
}

#[test]
fn tags_of_tasks_are_scored_apart() {
    let project = Project::new(UNEVEN, SMALL);
    project.change_config("{task}", "{task.n}");
    project.change_config(
        "held_out = { range = [100, 102] }",
        "held_out = [{ n = 100, tag = \"even\" }, { n = 101, tags = [\"odd\", \"prime\"] }, { n = 102, tag = \"even\" }]",
    );
    project.change_config("train = { range = [0, 100] }", "train = [{ n = 1 }]");
    let scores = eval(&project, &[]);
    let tags = scores["tags"].as_object().unwrap();
    assert_eq!(tags.keys().collect::<Vec<_>>(), ["even", "odd", "prime"]);
    assert_eq!(
        (&tags["even"]["tasks"], &tags["even"]["rollouts"], &tags["odd"]["tasks"]),
        (&json!(2), &json!(4), &json!(1))
    );
    // A filter finds them by their tags too.
    let run = text(&scores["run_directory"]);
    let tagged = project.query("rollouts", &run);
    assert_eq!(tagged.iter().filter(|rollout| rollout["metadata"]["tags"] == json!(["even"])).count(), 4);
    let table = ran(&project, &[]).stdout;
    assert!(table.lines().any(|line| line.trim_start().starts_with("prime")), "{table}");
}

#[test]
fn what_cannot_be_evaluated_is_told_before_anything_is_sampled() {
    let project = Project::new(UNEVEN, SMALL);
    let fail = |arguments: &[&str]| ran(&project, arguments).failure(project.directory.path());
    insta::assert_snapshot!(fail(&["--model", "other"]), @r"
    error: [directory]/t.toml
      caused by: --model other: there is no such file or directory, and no such [[models]]: there are `hello`
    ");
    insta::assert_snapshot!(fail(&["--checkpoint", "nowhere"]), @r"
    error: [directory]/t.toml
      caused by: --checkpoint [directory]/nowhere: there is no such directory
    ");
    insta::assert_snapshot!(fail(&["--samples", "0"]), @"error: --samples is 0, but must be at least 1");
    insta::assert_snapshot!(fail(&["--against", "nothing"]), @"error: --against nothing: there is no such directory");
    project.change_config("final = { range = [102, 104] }", "");
    insta::assert_snapshot!(fail(&["--final"]), @r"
    error: [directory]/t.toml
      caused by: --final scores [tasks] final, and there is none
    ");
    let none: Ran = fulgurite(["eval"]).output().unwrap().into();
    insta::assert_snapshot!(none.failure(project.directory.path()), @"error: what is evaluated? Name a config, or a run by --checkpoint DIR");
    std::fs::create_dir(project.path("empty")).unwrap();
    insta::assert_snapshot!(fail(&["--checkpoint", "empty"]), @r"
    error: [directory]/t.toml
      caused by: [directory]/empty holds no weights (*.safetensors)
    ");
    assert!(!project.path("runs").exists(), "nothing was begun");
}

#[test]
fn scores_of_inspect_become_an_evaluation_that_others_are_held_against() {
    let directory = tempfile::tempdir().unwrap();
    let write = |file: &str, id: &str, values: [&str; 3]| {
        let sample = |(n, value): (usize, &&str)| {
            json!({ "id": n, "epoch": 1, "input": format!("{n}?"), "target": "x",
                "scores": { "match": { "value": value, "answer": "x" } } })
        };
        let samples: Vec<Value> = values.iter().enumerate().map(sample).collect();
        let log = json!({ "version": 2, "status": "success", "samples": samples,
            "eval": { "eval_id": id, "task": "sums", "model": "openai/hello" } });
        std::fs::write(directory.path().join(file), log.to_string()).unwrap();
    };
    write("before.json", "one", ["I", "I", "C"]);
    write("after.json", "two", ["C", "I", "C"]);
    let eval = |arguments: &[&str]| -> Ran {
        fulgurite(["eval", "--json"]).args(arguments).current_dir(directory.path()).output().unwrap().into()
    };
    let before = eval(&["--inspect-log", "before.json"]).json_lines().pop().unwrap();
    assert!((before["reward"]["value"].as_f64().unwrap() - 1.0 / 3.0).abs() < 1e-12, "{before}");
    let after =
        eval(&["--inspect-log", "after.json", "--against", "runs/inspect-sums-one"]).json_lines().pop().unwrap();
    let difference = after["against"]["reward"]["difference"]["value"].as_f64();
    assert!(difference.is_some_and(|difference| (difference - 1.0 / 3.0).abs() < 1e-12), "{after}");
    let none = eval(&["--inspect-log", "after.json", "--against", "runs"]);
    assert!(none.code == Some(1) && none.stderr.contains("there is no evaluation"), "{none:?}");
    let both = eval(&["--inspect-log", "after.json", "--samples", "2"]);
    assert_eq!(both.code, Some(2), "{both:?}");
}
