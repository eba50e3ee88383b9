//! A run's metrics as TensorBoard and Weights & Biases read them, by their own packages.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::common::project::{Project, SMALL, UNEVEN, recorded_steps};
use crate::common::{Ran, eventually, fulgurite};

/// The interpreter that has their packages.
fn python() -> PathBuf {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/trackers/bin/python");
    assert!(python.exists(), "tests/setup makes {}", python.display());
    python
}

/// What their packages read.
fn read(what: &str, path: &Path) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut reader = Command::new(python());
    reader.arg(root.join("tests/trackers/read.py")).arg(what).arg(path).env("PYTHONDONTWRITEBYTECODE", "1");
    let ran = Ran::from(reader.stdin(Stdio::null()).output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap()
}

fn metrics(run: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The one log of an offline run below a directory.
fn wandb_log(below: &Path) -> PathBuf {
    let entries = std::fs::read_dir(below).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let runs: Vec<PathBuf> = entries.filter(|path| name(path).starts_with("offline-run-")).collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    let name = name(&runs[0]);
    let id = name.rsplit_once('-').unwrap().1;
    runs[0].join(format!("run-{id}.wandb"))
}

/// What is read of TensorBoard's files is what the run's own file has, each number once.
fn assert_tensorboard_has(directory: &Path, steps: &[Value]) {
    let shown = read("tensorboard", directory);
    let mut numbers = 0;
    for step in steps {
        for (key, value) in step.as_object().unwrap().iter().filter(|(key, value)| *key != "step" && value.is_number())
        {
            let of_step: Vec<&Value> =
                shown[key].as_array().unwrap().iter().filter(|point| point[0] == step["step"]).collect();
            assert_eq!(of_step.len(), 1, "{key} of {}", step["step"]);
            let expected = value.as_f64().unwrap() as f32;
            assert_eq!(of_step[0][1].as_f64().unwrap() as f32, expected, "{key}");
            numbers += 1;
        }
    }
    assert_eq!(read("events", directory).as_array().unwrap().len(), numbers, "nothing stands there twice");
}

fn assert_wandb_has(log: &Value, steps: &[Value]) {
    let history = log["history"].as_array().unwrap();
    assert_eq!(history.len(), steps.len());
    for (logged, step) in history.iter().zip(steps) {
        assert_eq!((&logged["step"], &logged["_step"]), (&step["step"], &step["step"]));
        for (key, value) in step.as_object().unwrap().iter().filter(|(_, value)| value.is_number()) {
            assert_eq!(logged[key].as_f64(), value.as_f64(), "{key}");
        }
        assert!(logged["_runtime"].as_f64().unwrap() >= 0.0);
    }
    let last = steps.last().unwrap()["test/env/all/reward/total"].as_f64();
    assert_eq!((log["summary"]["test/env/all/reward/total"].as_f64(), &log["exit"]), (last, &json!(0)));
}

#[test]
fn a_run_that_is_killed_and_resumed_is_one_run_to_its_trackers() {
    let project = Project::new(UNEVEN, SMALL);
    let python = python();
    let trackers = format!("tensorboard = true\nwandb = true\nwandb_project = \"hello\"\npython = {python:?}\n");
    project.change_config("[tasks]", &format!("[trackers]\n{trackers}\n[tasks]"));
    let mut train = project.command("run").stdout(Stdio::null()).spawn().unwrap();
    let run = project.path("run");
    eventually("two steps", || (recorded_steps(&run) >= 2).then_some(()));
    train.kill().unwrap();
    train.wait().unwrap();
    // A log without an end, and perhaps half a step, is read as far as it goes.
    let log = wandb_log(&run.join("wandb"));
    project.train("run", &["--resume"]);
    let steps = metrics(&run);
    assert_eq!(steps.len(), 6);
    assert_tensorboard_has(&run.join("tensorboard"), &steps);
    let resumed = wandb_log(&run.join("wandb"));
    assert_eq!(resumed.file_name(), log.file_name(), "the same run, in place of its unfinished log");
    let logged = read("wandb", &resumed);
    assert_wandb_has(&logged, &steps);
    let config = &logged["run"]["config"];
    assert_eq!((&logged["run"]["project"], &logged["run"]["name"]), (&json!("hello"), &json!("run")));
    assert_eq!((&config["trainer"]["group_size"], &config["run"]["seed"]), (&json!(3), &json!(1)));

    // The same after the fact, and as a table.
    let export = |to: &str| {
        let mut command = fulgurite(["export", "run", "--what", "metrics", "--to", to, "-o", "out", "--json"]);
        Ran::from(command.current_dir(project.directory.path()).output().unwrap()).json_lines().remove(0)
    };
    assert_eq!(export("tensorboard"), json!({ "steps": 6, "written": "out/run" }));
    assert_tensorboard_has(&project.path("out/run"), &steps);
    export("wandb");
    let exported = read("wandb", &wandb_log(&project.path("out/wandb")));
    assert_wandb_has(&exported, &steps);
    assert_eq!(exported["run"]["id"], logged["run"]["id"]);
    assert_eq!(export("csv")["written"], "out/run.csv");
    let table = std::fs::read_to_string(project.path("out/run.csv")).unwrap();
    assert_eq!(table.lines().count(), 7);
    assert!(table.starts_with("step,"), "{table}");

    // The interpreter is that of the config which is named. What cannot be written leaves no directory.
    let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
    assert!(config.contains(&format!("{python:?}")));
    let other = project.path("other.toml");
    std::fs::write(&other, config.replace(&format!("{python:?}"), "\"no/such/python\"")).unwrap();
    let mut command = fulgurite(["export", "run", "--what", "metrics", "--to", "wandb", "-o", "none/deep", "--config"]);
    let error = Ran::from(command.arg(&other).current_dir(project.directory.path()).output().unwrap());
    let error = error.failure(project.directory.path());
    assert!(error.contains("no/such/python ([trackers] python)"), "{error}");
    assert!(!project.path("none").exists());
    // Other formats need no interpreter, and no config.
    let mut command =
        fulgurite(["export", "run", "--what", "metrics", "--to", "csv", "-o", "out", "--config", "no.toml"]);
    assert_eq!(command.current_dir(project.directory.path()).output().unwrap().status.code(), Some(0));
}

#[test]
fn a_tracker_that_cannot_write_is_told_of_once_and_the_run_goes_on() {
    let project = Project::new(UNEVEN, SMALL);
    project.change_config("[tasks]", "[trackers]\ntensorboard = true\nwandb = true\ndirectory = \"taken\"\n\n[tasks]");
    std::fs::write(project.path("taken"), "a file").unwrap();
    let ran = Ran::from(project.command("run").args(["--max-steps", "1"]).output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let warnings: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(warnings.len(), 2, "{}", ran.stderr);
    let message = warnings[0].replace(project.directory.path().to_str().unwrap(), "[directory]");
    insta::assert_snapshot!(message, @"warning: TensorBoard is not told of this run, which goes on: cannot create [directory]/taken/tensorboard/run: Not a directory (os error 20)");
}

#[test]
fn a_mistake_in_an_export_of_metrics_says_what_is_right() {
    let project = Project::new(UNEVEN, SMALL);
    let failure = |arguments: &[&str]| {
        let mut command = fulgurite(["export"]);
        Ran::from(command.args(arguments).output().unwrap()).failure(project.directory.path())
    };
    insta::assert_snapshot!(failure(&["--what", "metrics", "--to", "csv", "-o", "x"]), @"error: --what metrics needs a run: its directory, or its name below runs/");
    insta::assert_snapshot!(failure(&["r", "--what", "metrics", "--to", "m.jsonl", "-o", "x"]), @"error: --to m.jsonl: metrics are written for tensorboard, wandb or csv");
    insta::assert_snapshot!(failure(&["r", "--what", "metrics", "--to", "csv"]), @"error: --what metrics needs -o, the directory to write into");
    insta::assert_snapshot!(failure(&["r", "--what", "metrics", "--to", "csv", "-o", "x"]), @"error: r is the directory of no run, and there is none of that name in runs/");
    insta::assert_snapshot!(failure(&["--to", "x.jsonl", "-o", "x"]), @"error: -o is where metrics are written (--what metrics); of anything else --to names the file");
}
