//! `fulgurite train --server` begun where weights are behind the model already: they change only if the command says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Process, Ran, Server, client, eventually, fulgurite, model_flag, run, tiny_model};
use crate::training::harvest::{ask, recorded, train, write_config};
use serde_json::{Value, json};

const TRAINER: &str = "learning_rate = 1e-2\nmax_steps = 2\nkeep_checkpoints = 9\npublish_if = \"always\"\n\
                       harvest = { rollouts_per_step = 4, max_staleness = 2 }";

/// A server over a store of rollouts to learn from, and a config that trains its model.
pub(super) struct Served {
    pub(super) directory: tempfile::TempDir,
    pub(super) config: PathBuf,
    pub(super) server: Server,
}

impl Served {
    pub(super) fn new() -> Self {
        Self::with_host("backend = \"embedded\"")
    }

    /// `host` is lines of the model's section.
    pub(super) fn with_host(host: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let model = tiny_model(directory.path(), 128);
        let store = format!("sqlite://{}", recorded(directory.path(), &model).display());
        let served = directory.path().join("served");
        std::fs::create_dir(&served).unwrap();
        let server = Server::start_on(&store, &served, ["--model", &model_flag("hello", &model)]);
        let config = write_config(directory.path(), host, None, TRAINER);
        Self { directory, config, server }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(super) fn command(&self, run: &str, more: &[&str]) -> Command {
        let mut command = train(&self.config, &self.path(run));
        command.args(["--server", &self.server.url]).args(more);
        command
    }

    pub(super) fn ran(&self, run: &str, more: &[&str]) -> Ran {
        self.command(run, more).output().unwrap().into()
    }

    /// A run in the background, which waits where there is nothing to learn from.
    pub(super) fn started(&self, run: &str, more: &[&str]) -> Process {
        self.written(self.command(run, more), run)
    }

    /// The same for people: its first line says that it has begun, after all that is looked at before.
    fn shown(&self, run: &str, more: &[&str]) -> Process {
        let mut command = fulgurite(["train", "--server", &self.server.url, "--run-directory"]);
        command.arg(self.path(run)).arg(&self.config).args(more);
        self.written(command, run)
    }

    fn written(&self, mut command: Command, run: &str) -> Process {
        let file = |path| std::fs::File::create(path).unwrap();
        command.stdout(file(self.output(run))).stderr(file(self.log(run)));
        Process::spawn(command)
    }

    fn output(&self, run: &str) -> PathBuf {
        self.path(&format!("{run}.out"))
    }

    fn has_started(&self, run: &str) {
        let words = format!("run {run}");
        eventually("its first line", || {
            std::fs::read_to_string(self.output(run)).unwrap().contains(&words).then_some(())
        });
    }

    pub(super) fn log(&self, run: &str) -> PathBuf {
        self.path(&format!("{run}.log"))
    }

    /// What is behind the model: the version, and the run and step that made it.
    pub(super) fn behind(&self) -> (Value, Value, Value) {
        let published = self.server.get("/v1/fulgurite/publications").expect(200);
        let [one] = published.as_array().unwrap().as_slice() else { panic!("{published}") };
        (one["version"].clone(), one["run_id"].clone(), one["step"].clone())
    }

    /// Waits until weights of a run are behind the model.
    pub(super) fn gets(&self, run: &str, step: u64) {
        eventually("weights", || {
            let published = self.server.get("/v1/fulgurite/publications").expect(200);
            let newest = published.as_array().unwrap().first()?;
            (newest["run_id"] == json!(run) && newest["step"] == json!(step)).then_some(())
        });
    }

    /// That a command is refused for what is behind the model, names ways to go on, and changes nothing.
    fn is_refused(&self, run: &str, more: &[&str], expected: &str) {
        let (before, was_there) = (self.behind(), self.path(run).exists());
        let ran = self.ran(run, more);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        for text in [expected, "--start-over`"] {
            assert!(ran.stderr.contains(text), "{text}: {}", ran.stderr);
        }
        // There is nothing to go on with where no run is.
        assert_eq!(ran.stderr.contains("--resume"), was_there, "{}", ran.stderr);
        assert_eq!((self.behind(), self.path(run).exists()), (before, was_there), "{run} {more:?}");
    }

    /// Calls by sessions, without their rewards.
    pub(super) fn called(&self, sessions: std::ops::Range<u64>) {
        for session in sessions {
            let call = client().post(format!("{}/v1/chat/completions", self.server.url));
            let call = call.header("x-fulgurite-session", format!("session-{session}"));
            assert!(call.json(&ask(session)).send().unwrap().status().is_success());
        }
    }

    /// Rewards the sessions that were called since the last time.
    pub(super) fn rewarded(&self) {
        let known = self.server.query("rewards");
        let is_rewarded = |id: &Value| known.iter().any(|reward| reward["rollout_id"] == *id);
        let listed = self.server.get("/v1/agl/rollouts?status_in=running&include_sessions=true").expect(200);
        let sessions = listed["items"].as_array().unwrap().iter().map(|rollout| &rollout["rollout_id"]);
        for (place, id) in sessions.filter(|id| !is_rewarded(id)).enumerate() {
            let path = format!("/rollout/{}/reward", id.as_str().unwrap());
            self.server.post(&path, &json!({ "value": place })).expect(201);
        }
    }

    pub(super) fn sql(&self, query: &str) -> Vec<Value> {
        run(["sql", query, "--json", "--store", &self.server.store]).json_lines()
    }
}

#[test]
fn a_start_changes_what_is_behind_a_model_only_if_it_is_told_to() {
    let it = Served::new();
    it.ran("first", &[]).json_lines();
    assert_eq!(it.behind(), (json!(2), json!("first"), json!(2)));
    // After its end, by another config and from another directory as well.
    it.is_refused("second", &[], "`hello` has version 2 of run first after 2 updates, put there ");
    let config = std::fs::read_to_string(&it.config).unwrap();
    std::fs::write(&it.config, config.replace("1e-2", "1e-3")).unwrap();
    it.is_refused("second", &[], "`hello` has version 2 of run first after 2 updates, put there ");
    std::fs::write(&it.config, config).unwrap();

    // Beside a running one, and after that was killed.
    let goes_on = ["--resume", "--max-steps", "9"];
    let mut first = it.started("first", &goes_on);
    it.gets("first", 3);
    let third = it.behind();
    it.is_refused("second", &[], "`hello` has version 3 of run first after 3 updates, put there ");
    first.kill();
    it.is_refused("second", &[], "`hello` has version 3 of run first after 3 updates, put there ");
    // The same update makes the same weights.
    let mut first = it.shown("first", &goes_on);
    it.has_started("first");
    it.called(0..4);
    assert_eq!(it.behind(), third);

    // Another run takes the model over; what the first one learns from then is no longer put behind it.
    let mut second = it.started("second", &["--start-over"]);
    it.gets("second", 0);
    it.rewarded();
    assert_eq!(first.exit_code(), Some(1));
    let log = std::fs::read_to_string(it.log("first")).unwrap();
    assert!(log.contains("`hello` has got version 4 of run second after 0 updates"), "{log}");
    assert!(log.contains("--resume --replace-weights`") && log.contains("--start-over`"), "{log}");
    it.called(4..8);
    it.rewarded();
    it.gets("second", 1);
    let recorded = it.path("second/metrics.jsonl");
    eventually("its record", || (!std::fs::read_to_string(&recorded).unwrap().is_empty()).then_some(()));
    second.kill();

    // The first one goes on once it is told to put its own back.
    it.is_refused("first", &goes_on, "which is not the run's: ");
    let mut first = it.started("first", &["--resume", "--max-steps", "9", "--replace-weights"]);
    it.gets("first", 4);
    first.kill();

    // After a rollback as well.
    let mut rollback = fulgurite(["model", "rollback", "--server", &it.server.url, "--checkpoint", "2"]);
    let rolled_back = Ran::from(rollback.arg(it.path("first")).output().unwrap());
    assert_eq!(rolled_back.code, Some(0), "{rolled_back:?}");
    it.gets("first", 2);
    it.is_refused("first", &goes_on, "to which it was taken back: ");
    it.is_refused("third", &[], "version 2 of run first after 2 updates, rolled back to ");
    it.ran("first", &["--resume", "--max-steps", "4", "--replace-weights"]).json_lines();
    it.gets("first", 4);

    // Its start was never put there.
    let starts = it.sql("SELECT version FROM named_weights WHERE run_id = 'first' AND step = 0");
    assert_eq!(starts, Vec::<Value>::new());

    // Nothing was trained twice, and nothing that the run cannot name the weights of.
    let trained = "FROM generation_uses WHERE cause = 'trained'";
    let twice = it.sql(&format!("SELECT generation_id {trained} GROUP BY generation_id HAVING COUNT(*) > 1"));
    assert_eq!(twice, Vec::<Value>::new());
    let named = it.sql("SELECT version, run_id FROM named_weights");
    let calls = it.server.query("generations");
    let uses = it.sql(&format!("SELECT run_id, generation_id {trained}"));
    assert!(uses.iter().any(|used| used["run_id"] == "second") && uses.len() >= 20, "{uses:?}");
    for used in &uses {
        let call = calls.iter().find(|call| call["generation_id"] == used["generation_id"]).unwrap();
        for part in call["weights_versions"].as_array().unwrap() {
            let of = &named.iter().find(|named| named["version"] == part["version"]).unwrap()["run_id"];
            assert!(of.is_null() || *of == used["run_id"], "{used} {call}");
        }
    }
    let unknown = it.sql("SELECT run_id FROM generation_uses WHERE cause = 'unknown_weights'");
    assert!(unknown.iter().any(|used| used["run_id"] == "second"), "{unknown:?}");
}

#[test]
fn a_killed_harvest_that_goes_on_puts_no_older_weights_behind_its_model() {
    let it = Served::new();
    let config = std::fs::read_to_string(&it.config).unwrap();
    let rare = config
        .replace("max_staleness = 2", "max_staleness = 20")
        .replace("max_steps = 2", "checkpoint_every = 50\nmax_steps = 3");
    std::fs::write(&it.config, rare).unwrap();
    let goes_on = ["--resume", "--max-steps", "5"];
    let mut first = it.started("first", &["--max-steps", "5"]);
    it.gets("first", 3);
    first.kill();
    // Its last checkpoint is its start: it makes three updates again before it comes to what is new.
    let mut first = it.started("first", &goes_on);
    it.called(0..4);
    it.rewarded();
    it.gets("first", 4);
    first.kill();
    let versions = it.sql("SELECT version FROM publications ORDER BY position");
    let versions: Vec<u64> = versions.iter().map(|row| row["version"].as_u64().unwrap()).collect();
    assert!(versions.is_sorted(), "{versions:?}");
}

/// Cuts the largest file of a checkpoint in half.
pub(super) fn truncate(checkpoint: &Path) {
    let files = std::fs::read_dir(checkpoint).unwrap().map(|entry| entry.unwrap());
    let sized = files.map(|file| (file.metadata().unwrap().len(), file.path()));
    let (size, path) = sized.max().unwrap();
    std::fs::File::options().write(true).open(path).unwrap().set_len(size / 2).unwrap();
}

/// A run with checkpoints after its first and third update, of which the newer one is lost: what is behind its model is two
/// updates ahead, and its config permits one.
fn assert_older_checkpoint_needs_permission(lose: impl FnOnce(&Path)) {
    let it = Served::new();
    let change = |from: &str, to: &str| {
        let config = std::fs::read_to_string(&it.config).unwrap();
        assert!(config.contains(from), "{config}");
        std::fs::write(&it.config, config.replace(from, to)).unwrap();
    };
    change("max_steps = 2", "checkpoint_every = 50\nmax_steps = 3");
    it.ran("first", &["--max-steps", "1"]).json_lines();
    it.ran("first", &["--resume"]).json_lines();
    assert_eq!(it.behind(), (json!(3), json!("first"), json!(3)));
    change("max_staleness = 2", "max_staleness = 1");
    change("max_steps = 3", "max_steps = 4");
    lose(&it.path("first/checkpoints/000003"));
    let publications = || it.sql("SELECT version FROM publications ORDER BY position").len();
    let before = publications();
    it.is_refused("first", &["--resume"], "which is 2 updates from the run's last checkpoint");
    // The printed command is one that is not refused.
    it.is_refused("first", &["--resume"], "--resume --replace-weights` goes on with run first and puts ");
    assert_eq!(publications(), before);
    let mut first = it.started("first", &["--resume", "--replace-weights"]);
    eventually("its first update's weights", || (publications() > before).then_some(()));
    first.kill();
}

#[test]
fn a_resumed_run_with_a_truncated_checkpoint_puts_no_older_weights_behind_its_model() {
    assert_older_checkpoint_needs_permission(truncate);
}

#[test]
fn a_resumed_run_with_a_missing_checkpoint_puts_no_older_weights_behind_its_model() {
    assert_older_checkpoint_needs_permission(|checkpoint| std::fs::remove_dir_all(checkpoint).unwrap());
}

#[test]
fn a_run_whose_model_gets_others_weights_ends_although_nobody_samples_from_its_own() {
    let it = Served::new();
    let mut first = it.started("first", &["--max-steps", "9"]);
    it.gets("first", 3);
    // It waits for more to learn from, which can never come once others' weights answer.
    let mut second = it.started("second", &["--start-over"]);
    assert_eq!(first.exit_code(), Some(1));
    second.kill();
    let log = std::fs::read_to_string(it.log("first")).unwrap();
    assert!(log.contains("of run second after 0 updates"), "{log}");
}

#[test]
fn a_run_is_not_begun_anew_because_its_store_is_another() {
    let it = Served::new();
    it.ran("first", &[]).json_lines();
    let elsewhere = Served::new();
    let metrics = std::fs::read_to_string(it.path("first/metrics.jsonl")).unwrap();
    let mut command = train(&it.config, &it.path("first"));
    command.args(["--server", &elsewhere.server.url, "--resume", "--max-steps", "4"]);
    let ran = Ran::from(command.output().unwrap());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("has recorded steps in another store"), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(it.path("first/metrics.jsonl")).unwrap(), metrics);
}

#[test]
fn a_copy_of_a_run_is_refused_while_a_process_trains_it() {
    let it = Served::new();
    let goes_on = ["--resume", "--max-steps", "9"];
    let mut first = it.started("first", &["--max-steps", "9"]);
    it.gets("first", 3);
    let steps = || it.sql("SELECT step, time FROM steps ORDER BY step");
    eventually("its record", || (steps().len() == 3).then_some(()));
    // Files that a trainer replaces may be gone before they are copied.
    eventually("a copy", || {
        let _ = std::fs::remove_dir_all(it.path("copy"));
        let copied = Command::new("cp").arg("-r").args([it.path("first"), it.path("copy")]).status().unwrap();
        copied.success().then_some(())
    });
    let recorded = steps();
    let refused = |run: &str, expected: &str| {
        let ran = it.ran(run, &goes_on);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains(expected), "{expected}: {}", ran.stderr);
        assert_eq!(steps(), recorded, "it is refused before anything is undone");
    };
    refused("copy", &format!("run first is trained by process {} on ", first.id()));
    refused("copy", &format!("end that process first (`kill {}` on ", first.id()));

    // The same machine sees that it was killed.
    first.kill();
    let mut copy = it.started("copy", &goes_on);
    it.called(0..4);
    it.rewarded();
    it.gets("first", 4);
    copy.kill();

    // A process of another machine may be alive until its lease has run out.
    let [owner] = it.sql("SELECT owner_id FROM run_leases").try_into().unwrap();
    let claim = |seconds: f64| {
        let owner_there = json!({ "owner_id": "there", "host": "elsewhere", "pid": 7, "directory": "/runs/first" });
        let claim = json!({ "owner": owner_there, "seconds": seconds, "ended_owner": owner["owner_id"] });
        let lease = it.server.post("/v1/fulgurite/runs/first/lease", &claim).expect(200);
        assert_eq!(lease["owner"]["host"], "elsewhere", "{lease}");
    };
    claim(3600.0);
    let ran = it.ran("copy", &goes_on);
    let expected = "run first is trained by process 7 on elsewhere (in /runs/first, since ";
    assert!(ran.code == Some(1) && ran.stderr.contains(expected), "{ran:?}");
    assert!(ran.stderr.contains("the run is free in "), "{ran:?}");
    claim(0.0);
    it.ran("copy", &["--resume", "--max-steps", "4"]).json_lines();
    // It gave the run back.
    it.ran("copy", &["--resume", "--max-steps", "4"]).json_lines();
}
