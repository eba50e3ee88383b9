//! `[trainer] publish_if`: which of a harvest's weights are put behind the model.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use super::object_store::{BUCKET, ObjectStore, key};
use crate::common::{Process, Ran, Server, eventually, model_flag, tiny_model};
use crate::training::harvest::{recorded, train, weights, write_config};
use crate::training::policy_runs::documented_metrics;
use serde_json::{Value, json};

/// A store of rewarded rollouts, conversations that are held out, and a server over the store's copies.
struct Harvest {
    directory: tempfile::TempDir,
}

impl Harvest {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let model = tiny_model(directory.path(), 128);
        recorded(directory.path(), &model);
        let row = |n: u64| {
            json!({ "messages": [{ "role": "user", "content": format!("Say {n}") },
                                 { "role": "assistant", "content": "Say you are 17." }] })
        };
        let rows: String = (0..6).map(|n| format!("{}\n", row(n))).collect();
        std::fs::write(directory.path().join("held-out.jsonl"), rows).unwrap();
        Self { directory }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A server over a copy of the store.
    fn serve(&self, name: &str) -> Server {
        let served = self.path().join(format!("served-{name}"));
        std::fs::create_dir(&served).unwrap();
        std::fs::copy(self.path().join("recorded/store.db"), served.join("store.db")).unwrap();
        Server::start(&served, ["--model", &model_flag("hello", &self.path().join("model"))])
    }

    /// Four updates by what is harvested.
    fn config(&self, trainer: &str) -> std::path::PathBuf {
        let harvest = "harvest = { rollouts_per_step = 3, max_staleness = 9, validation = \"held-out.jsonl\" }";
        let trainer = format!("max_steps = 4\n{harvest}\npublish_if = \"not_worse\"\n{trainer}");
        write_config(self.path(), "backend = \"embedded\"", None, &trainer)
    }

    fn ran(&self, trainer: &str, server: &Server, run: &str, more: &[&str]) -> Ran {
        let mut command = train(&self.config(trainer), &self.path().join(run));
        command.args(["--server", &server.url]).args(more);
        command.output().unwrap().into()
    }
}

fn version(server: &Server) -> Value {
    server.get("/v1/fulgurite/models/hello").expect(200)["weights_version"].clone()
}

/// Updates of the run that made what is behind the model.
fn step_behind(server: &Server) -> Value {
    server.get("/v1/fulgurite/publications").expect(200)[0]["step"].clone()
}

fn of<'l>(lines: &'l [Value], key: &str) -> Vec<&'l Value> {
    lines.iter().map(|line| &line[key]).filter(|value| !value.is_null()).collect()
}

/// Learns what is held out beside what it harvests: each update is better.
const BETTER: &str = "learning_rate = 1e-2\nconversations = { file = \"held-out.jsonl\", weight = 10.0 }";
/// Throws the weights about: each update is worse.
const WORSE: &str = "learning_rate = 1.0";

#[test]
fn better_weights_are_put_behind_the_model_and_worse_ones_are_kept_back() {
    let it = Harvest::new();
    let server = it.serve("better");
    let lines = it.ran(BETTER, &server, "better", &[]).json_lines();
    assert_eq!(of(&lines, "publish/version"), [0, 1, 2, 3, 4], "{lines:?}");
    assert_eq!(of(&lines, "publish/kept_back"), [0, 0, 0, 0]);
    assert!(of(&lines, "publish/difference_high").iter().all(|high| high.as_f64().unwrap() < 0.0));
    let count = lines.iter().filter(|line| line["event"] == "weights_published").count();
    assert_eq!((version(&server), count), (json!(4), 4));
    let better = lines.last().unwrap();
    let keys = lines.iter().flat_map(|line| line.as_object().unwrap().keys());
    let keys: BTreeSet<String> = keys.filter(|key| key.starts_with("publish/")).cloned().collect();
    let of_bounds = |key: &String| key == "publish/kl";
    let documented = documented_metrics().into_iter().filter(|key| key.starts_with("publish/") && !of_bounds(key));
    assert_eq!(keys, documented.collect());

    let server = it.serve("worse");
    let lines = it.ran(WORSE, &server, "worse", &[]).json_lines();
    assert_eq!(of(&lines, "publish/version"), [0, 0, 0, 0, 0], "{lines:?}");
    assert_eq!(of(&lines, "publish/kept_back"), [1, 1, 1, 1]);
    assert!(of(&lines, "publish/difference_low").iter().all(|low| low.as_f64().unwrap() > 0.0));
    let count = lines.iter().filter(|line| line["event"] == "weights_kept_back").count();
    assert_eq!((version(&server), count), (json!(0), 4));
    assert_eq!(lines.last().unwrap()["steps"], 4, "it has learnt all the same");

    // Killed in the middle, it puts back what was there, and ends in the same weights, published in the same way.
    let server = it.serve("killed");
    let mut command = train(&it.config(BETTER), &it.path().join("killed"));
    command.args(["--server", &server.url]).stdout(Stdio::null());
    let mut process = Process::spawn(command);
    let metrics = it.path().join("killed/metrics.jsonl");
    let steps = || std::fs::read_to_string(&metrics).map_or(0, |text| text.lines().count());
    eventually("two steps", || (steps() >= 2).then_some(()));
    process.kill();
    let lines = it.ran(BETTER, &server, "killed", &["--resume"]).json_lines();
    assert!(weights(lines.last().unwrap()) == weights(better));
    assert_eq!(version(&server), 4);
    let recorded = std::fs::read_to_string(&metrics).unwrap();
    let recorded: Vec<Value> = recorded.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(of(&recorded, "publish/version"), [0, 1, 2, 3, 4]);
}

#[test]
fn a_resumed_run_puts_back_what_was_behind_the_model_and_not_what_it_has_learnt_since() {
    let it = Harvest::new();
    let server = it.serve("worse");
    it.ran(WORSE, &server, "worse", &["--max-steps", "2"]).json_lines();
    let request = json!({ "model": "hello", "temperature": 1, "seed": 7, "max_tokens": 5, "logprobs": true,
                        "messages": [{ "role": "user", "content": "Say 1" }] });
    let answer = || server.post("/v1/chat/completions", &request).expect(200)["choices"][0]["logprobs"].clone();
    let before = answer();
    // Other weights, as after a mistake.
    let checkpoint = it.path().join("worse/checkpoints/000002");
    let as_the_runs = json!({ "version": 2, "model": checkpoint, "replaces": "anything" });
    server.post("/v1/fulgurite/models/hello/weights", &as_the_runs).expect(409);
    server.post("/v1/fulgurite/models/hello/weights", &json!({ "model": checkpoint })).expect(200);
    assert!(answer() != before);
    let lines = it.ran(WORSE, &server, "worse", &["--resume", "--max-steps", "3", "--replace-weights"]).json_lines();
    assert_eq!(of(&lines, "publish/kept_back"), [1, 1]);
    assert_eq!((step_behind(&server), answer()), (json!(0), before));
    let kept: Vec<_> = std::fs::read_dir(it.path().join("worse/behind-model")).unwrap().collect();
    assert_eq!(kept.len(), 1);
}

#[test]
fn what_is_behind_the_model_is_uploaded_and_put_back_after_the_machine_is_lost() {
    let it = Harvest::new();
    let objects = ObjectStore::start();
    let url = format!("\ncheckpoint_url = \"s3://{BUCKET}/tests\"");
    let ran = |trainer: &str, server: &Server, run: &str, more: &[&str]| {
        let mut command = train(&it.config(&(trainer.to_owned() + &url)), &it.path().join(run));
        command.args(["--server", &server.url]).args(more).envs(objects.environment());
        Ran::from(command.output().unwrap()).json_lines()
    };
    let behind = |run: &str| -> BTreeSet<String> {
        let prefix = key(run, "behind-model/");
        let keys = objects.keys().into_iter();
        keys.filter_map(|key| Some(key.strip_prefix(&prefix)?.split_once('/')?.0.to_owned())).collect()
    };

    // Worse weights stay where they are, and what they are worse than is all that is there.
    let server = it.serve("worse");
    ran(WORSE, &server, "worse", &["--max-steps", "2"]);
    let request = json!({ "model": "hello", "temperature": 1, "seed": 7, "max_tokens": 5, "logprobs": true,
                        "messages": [{ "role": "user", "content": "Say 1" }] });
    let answer = || server.post("/v1/chat/completions", &request).expect(200)["choices"][0]["logprobs"].clone();
    let before = answer();
    assert_eq!(behind("worse"), BTreeSet::from(["000000".to_owned()]));
    let checkpoint = it.path().join("worse/checkpoints/000002");
    server.post("/v1/fulgurite/models/hello/weights", &json!({ "model": checkpoint })).expect(200);
    assert!(answer() != before);
    std::fs::remove_dir_all(it.path().join("worse")).unwrap();
    let lines = ran(WORSE, &server, "worse", &["--resume", "--max-steps", "3", "--replace-weights"]);
    assert_eq!(of(&lines, "publish/kept_back"), [1, 1, 1], "those before are told once more");
    assert_eq!((step_behind(&server), answer()), (json!(0), before));

    // Better ones follow each other there as here, and a run that lost its directory ends in the same weights.
    let server = it.serve("straight");
    let straight = ran(BETTER, &server, "straight", &[]).pop().unwrap();
    let here = std::fs::read_dir(it.path().join("straight/behind-model")).unwrap();
    let here: BTreeSet<String> = here.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(behind("straight") == here && here.contains("000004"), "{here:?} and {:?}", behind("straight"));
    let server = it.serve("better");
    ran(BETTER, &server, "better", &["--max-steps", "2"]);
    std::fs::remove_dir_all(it.path().join("better")).unwrap();
    let resumed = ran(BETTER, &server, "better", &["--resume"]).pop().unwrap();
    assert!(weights(&resumed) == weights(&straight));
    assert_eq!(version(&server), 4);
}

#[test]
fn a_run_whose_weights_are_kept_back_for_too_long_ends_and_says_why() {
    let it = Harvest::new();
    let server = it.serve("stale");
    let config = std::fs::read_to_string(it.config(WORSE)).unwrap();
    let stale = config.replace("max_staleness = 9", "max_staleness = 1");
    std::fs::write(it.path().join("stale.toml"), &stale).unwrap();
    let run = |config: &str| -> Ran {
        std::fs::write(it.path().join("stale.toml"), config).unwrap();
        let mut command = train(&it.path().join("stale.toml"), &it.path().join("stale"));
        command.args(["--server", &server.url]).output().unwrap().into()
    };
    let ran = run(&stale);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    insta::assert_snapshot!(ran.stderr.lines().last().unwrap(), @r#"error: the last 2 updates were each worse on [trainer] harvest.validation than the weights behind the model, version 0, and were kept back (publish_if); with harvest.max_staleness = 1 nothing that is sampled from those can be learnt from any more. A new run with a lower learning_rate may do better; --resume goes on with a greater max_staleness, or with publish_if = "always""#);
    let refused = |config: String| run(&config).stderr.replace(it.path().to_str().unwrap(), "[directory]");
    insta::assert_snapshot!(refused(stale.replace(", validation = \"held-out.jsonl\"", "")), @r#"
    error: [directory]/stale.toml
      caused by: [trainer] publish_if compares what is held out, and nothing is: name conversations by harvest = { validation = "FILE" }
    "#);
    insta::assert_snapshot!(refused(stale.replace("held-out.jsonl", "nowhere.jsonl")), @r"
    error: [directory]/stale.toml
      caused by: [trainer] harvest.validation: cannot read [directory]/nowhere.jsonl
      caused by: No such file or directory (os error 2)
    ");
    insta::assert_snapshot!(refused(stale.replace("not_worse", "better")), @r#"
    error: [directory]/stale.toml
      caused by: line 12: trainer.publish_if cannot be `better`; there is `not_worse`, `within_bounds`, `always`
        12 | publish_if = "better"
           |              ^^^^^^^^
    "#);
}

#[test]
fn weights_that_one_update_has_thrown_about_are_kept_back_unless_all_are_to_be_published() {
    let it = Harvest::new();
    let server = it.serve("bounds");
    let run = |steps: u64, run: &str, publish: &str| -> Ran {
        let harvest = "harvest = { rollouts_per_step = 4, max_staleness = 1 }";
        let trainer = format!("max_steps = {steps}\n{WORSE}\n{harvest}\n{publish}");
        let config = write_config(it.path(), "backend = \"embedded\"", None, &trainer);
        let mut command = train(&config, &it.path().join(run));
        command.args(["--server", &server.url]).output().unwrap().into()
    };
    let publications = || server.get("/v1/fulgurite/publications").expect(200);
    let bounded = run(3, "bounded", "");
    assert_eq!(bounded.code, Some(1), "{bounded:?}");
    let expected = "the last 2 updates each left [trainer] publish_max_kl = 0.5 nats a token between themselves and the weights \
                    behind the model, version 0, and were kept back (publish_if)";
    assert!(bounded.stderr.contains(expected), "{}", bounded.stderr);
    let lines: Vec<Value> = bounded.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.iter().filter(|line| line["event"] == "weights_kept_back").count(), 2, "{lines:?}");
    assert_eq!(of(&lines, "publish/kept_back"), [1, 1]);
    assert_eq!(publications(), json!([]));
    assert!(!it.path().join("bounded/checkpoints").exists(), "nobody goes on from weights that were kept back");

    let all = run(1, "all", "publish_if = \"always\"");
    assert_eq!(all.code, Some(0), "{all:?}");
    assert_eq!((&publications()[0]["run_id"], step_behind(&server)), (&json!("all"), json!(1)));
}
