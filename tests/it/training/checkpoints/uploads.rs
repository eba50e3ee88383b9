//! `[trainer] checkpoint_url`: checkpoints in an object store, and runs that go on from there.

use std::process::{Command, Stdio};

use super::object_store::{BUCKET, ObjectStore, credentials, key};
use crate::common::project::{Project, SMALL, UNEVEN, recorded_steps, weights};
use crate::common::{Ran, eventually};
use serde_json::{Value, json};

struct Uploading {
    project: Project,
    store: ObjectStore,
}

impl Uploading {
    /// A run of five updates, and the weights that it ends with when nothing is uploaded.
    fn new() -> (Self, Vec<u8>) {
        let project = Project::new(UNEVEN, SMALL);
        let undisturbed = weights(&project.train("undisturbed", &[]).pop().unwrap());
        let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
        let uploading = format!("{config}checkpoint_url = \"s3://{BUCKET}/tests\"\n");
        std::fs::write(project.path("t.toml"), uploading).unwrap();
        (Self { project, store: ObjectStore::start() }, undisturbed)
    }

    fn command(&self, url: &str, run: &str, arguments: &[&str]) -> Command {
        let mut command = self.project.command(run);
        command.args(arguments).envs(credentials(url));
        command
    }

    fn train(&self, run: &str, arguments: &[&str]) -> Vec<Value> {
        Ran::from(self.command(&self.store.url, run, arguments).output().unwrap()).json_lines()
    }

    /// The updates of the checkpoints that are whole there.
    fn whole(&self, run: &str) -> Vec<u64> {
        let prefix = key(run, "checkpoints/");
        let manifest = |key: String| {
            let name = key.strip_prefix(&prefix)?.strip_suffix("/fulgurite-checkpoint.json")?.to_owned();
            Some(name.parse().unwrap())
        };
        self.store.keys().into_iter().filter_map(manifest).collect()
    }

    fn lose(&self, run: &str) {
        std::fs::remove_dir_all(self.project.path(run)).unwrap();
    }
}

#[test]
fn a_run_whose_machine_is_lost_goes_on_from_what_it_uploaded_to_the_same_bytes() {
    let (it, undisturbed) = Uploading::new();
    // Killed in the middle, and then everything of it is gone: its directory, with the store in it.
    let mut train = it.command(&it.store.url, "lost", &[]).stdout(Stdio::null()).spawn().unwrap();
    eventually("three steps", || (recorded_steps(&it.project.path("lost")) >= 3).then_some(()));
    train.kill().unwrap();
    train.wait().unwrap();
    it.lose("lost");
    let before = it.whole("lost");
    assert!(before.last().unwrap() >= &3, "{before:?}");
    let lines = it.train("lost", &["--resume"]);
    let summary = lines.last().unwrap();
    assert!(weights(summary) == undisturbed, "{summary}");
    let metrics = std::fs::read_to_string(it.project.path("lost/metrics.jsonl")).unwrap();
    let metrics: Vec<Value> = metrics.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let steps: Vec<&Value> = metrics.iter().map(|line| &line["step"]).collect();
    assert_eq!(steps, [0, 1, 2, 3, 4, 5], "what was measured before is known again");
    assert_eq!(metrics[4]["checkpoint/uploaded"], 1);

    // What is kept there is what is kept here: the newest, and the best of those before.
    let kept = it.whole("lost");
    assert!(kept.ends_with(&[4, 5]) && kept.len() <= 3, "{kept:?}");

    // Only a checkpoint is gone, and the store is there.
    for step in &kept {
        std::fs::remove_dir_all(it.project.path("lost/checkpoints").join(format!("{step:06}"))).ok();
    }
    let again = it.train("lost", &["--resume", "--max-steps", "6"]).pop().unwrap();
    assert_eq!(again["steps"], 6);
    let straight = it.train("straight", &["--max-steps", "6"]).pop().unwrap();
    assert!(weights(&again) == weights(&straight));
}

#[test]
fn what_is_half_uploaded_counts_for_nothing() {
    let (it, undisturbed) = Uploading::new();
    it.train("half", &["--max-steps", "3"]);
    // As after a kill before the last object of the third, and a change of one of the second.
    it.store.remove(&key("half", "checkpoints/000003/fulgurite-checkpoint.json"));
    it.lose("half");
    let lines = it.train("half", &["--resume"]);
    let rollouts = it.project.query("rollouts", "half");
    let trained = rollouts.iter().filter(|rollout| rollout["metadata"]["phase"] == "train");
    let steps: std::collections::BTreeSet<u64> =
        trained.map(|rollout| rollout["metadata"]["step"].as_u64().unwrap()).collect();
    assert_eq!(steps.into_iter().collect::<Vec<_>>(), [2, 3, 4], "the third update is made again");
    assert!(weights(lines.last().unwrap()) == undisturbed);
    it.store.remove(&key("half", "checkpoints/000005/model.safetensors"));
    it.lose("half");
    let lines = it.train("half", &["--resume", "--max-steps", "5"]);
    let passed_over = lines.iter().find(|line| line["event"] == "checkpoint_passed_over");
    assert_eq!(passed_over.unwrap()["checkpoint"], "checkpoints/000005");
    assert!(weights(lines.last().unwrap()) == undisturbed);
}

#[test]
fn a_connection_that_breaks_in_an_upload_is_told_of_and_the_run_goes_on() {
    let (it, undisturbed) = Uploading::new();
    let url = it.store.behind_broken_line("PUT /runs/tests/broken/checkpoints/000003/model.safetensors");
    let lines = Ran::from(it.command(&url, "broken", &[]).output().unwrap()).json_lines();
    let warnings: Vec<&Value> = lines.iter().filter(|line| line["event"] == "checkpoint_not_uploaded").collect();
    assert_eq!(warnings.len(), 1, "{lines:?}");
    assert_eq!(warnings[0]["checkpoint"], "checkpoints/000003");
    let reason = warnings[0]["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("cannot write s3://runs/tests/broken/checkpoints/000003/model.safetensors: "),
        "{reason}"
    );
    let uploaded: Vec<&Value> = lines.iter().map(|line| &line["checkpoint/uploaded"]).collect();
    assert_eq!(uploaded.iter().filter(|value| ***value == json!(0)).count(), 1);
    assert!(weights(lines.last().unwrap()) == undisturbed);
    assert!(!it.whole("broken").contains(&3) && it.whole("broken").contains(&5));
}

#[test]
fn what_cannot_be_written_to_is_refused_before_anything_is_run() {
    let (it, _) = Uploading::new();
    let refused = |url: &str, run: &str| {
        let ran = Ran::from(it.command(url, run, &[]).output().unwrap());
        assert_eq!((ran.code, recorded_steps(&it.project.path(run))), (Some(1), 0), "{ran:?}");
        ran.stderr.lines().filter(|line| !line.contains(" INFO ")).collect::<Vec<_>>().join("\n")
    };
    let keyless = ObjectStore::refusing();
    let message = refused(&keyless.url, "keyless");
    assert!(message.contains("checkpoints cannot be uploaded ([trainer] checkpoint_url)"), "{message}");
    assert!(message.contains("the credentials are refused, or may not do that: AWS_ACCESS_KEY_ID"), "{message}");
    it.project.change_config("s3://runs/tests", "s3://ruins/tests");
    let message = refused(&it.store.url, "absent");
    assert!(message.contains("cannot write s3://ruins/tests/absent/config.json: is there such a bucket?"), "{message}");
    // Nobody listens.
    let message = refused("http://127.0.0.1:9", "nobody");
    assert!(message.contains("cannot read s3://ruins/tests/nobody/config.json: "), "{message}");
    it.project.change_config("s3://ruins/tests", "s3:/runs");
    insta::assert_snapshot!(refused(&it.store.url, "mistyped").replace(it.project.directory.path().to_str().unwrap(), "[directory]"), @r"
    error: [directory]/t.toml
      caused by: [trainer] checkpoint_url is s3:/runs, but must look like s3://BUCKET/PREFIX
    ");
}

#[test]
fn a_place_that_another_run_of_that_name_has_is_not_taken_from_it() {
    let (it, _) = Uploading::new();
    it.train("run", &["--max-steps", "1"]);
    it.lose("run");
    let ran = Ran::from(it.command(&it.store.url, "run", &[]).output().unwrap());
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("s3://runs/tests/run holds the checkpoints of another run of that name"), "{ran:?}");
    assert_eq!(it.whole("run"), [1]);
}

#[test]
fn agents_do_not_see_the_keys_to_what_is_uploaded() {
    let (it, _) = Uploading::new();
    let seen = it.project.path("seen");
    let agent = format!("import os; open({:?}, 'a').write(' '.join(os.environ) + '\\n')", seen.display().to_string());
    let agent = format!("command = [\"python3\", \"-c\", {:?}]", format!("{agent}\n{}", crate::common::project::CALL));
    it.project.change_config("command = [\"hello-agent\", \"{task}\"]", &agent);
    it.train("run", &["--max-steps", "1"]);
    let seen = std::fs::read_to_string(seen).unwrap();
    assert!(seen.contains("OPENAI_BASE_URL") && !seen.contains("AWS_SECRET_ACCESS_KEY"), "{seen}");
}
