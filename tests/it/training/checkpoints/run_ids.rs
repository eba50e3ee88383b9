//! Runs of one name at one server, begun in different places: each keeps its own record. And starts that are refused, which
//! leave nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use sqlx::{AnyConnection, AssertSqlSafe, Connection};

use super::starts::Served;
use crate::common::{Process, Ran, eventually, fulgurite, tiny_weights};
use crate::training::harvest::train;

/// Rows that a start could leave.
const ROWS: &str = "SELECT (SELECT COUNT(*) FROM runs) AS runs, (SELECT COUNT(*) FROM named_weights) AS names,
    (SELECT COUNT(*) FROM run_leases) AS leases, (SELECT COUNT(*) FROM publications) AS publications,
    (SELECT COUNT(*) FROM steps) AS steps, (SELECT COUNT(*) FROM resources) AS resources";

impl Served {
    fn rows(&self) -> Value {
        self.sql(ROWS).remove(0)
    }

    /// A run of the same name in another directory, as of another machine.
    fn elsewhere(&self, run: &str, more: &[&str]) -> Ran {
        let mut command = train(&self.config, &self.path("elsewhere").join(run));
        command.args(["--server", &self.server.url]).args(more).output().unwrap().into()
    }

    /// Types a printed command, in the directory where it was printed.
    fn typed(&self, words: &[String]) -> Process {
        let mut command = fulgurite(words);
        command.current_dir(self.directory.path()).stdout(Stdio::null()).stderr(Stdio::null());
        Process::spawn(command)
    }

    fn recorded(&self) -> Vec<String> {
        let runs = self.sql("SELECT run_id FROM runs ORDER BY position");
        runs.iter().map(|row| row["run_id"].as_str().unwrap().to_owned()).collect()
    }
}

fn config_of(directory: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(directory.join("config.json")).unwrap()).unwrap()
}

/// The commands that an error prints.
fn printed(stderr: &str) -> Vec<Vec<String>> {
    let commands = stderr.split('`').filter(|part| part.starts_with("fulgurite train "));
    commands.map(|command| command.split(' ').skip(1).map(str::to_owned).collect()).collect()
}

#[test]
fn a_new_run_whose_name_is_taken_at_its_server_gets_the_next_id() {
    let it = Served::new();
    it.ran("first", &[]).json_lines();
    let steps = it.sql("SELECT * FROM steps");
    let expected = format!("run first is there already (begun in {}): this one is first-", it.path("first").display());
    // What there was to learn from is trained: each waits for more.
    for (place, id) in [("elsewhere", "first-2"), ("third", "first-3")] {
        std::fs::create_dir(it.path(place)).unwrap();
        let run = format!("{place}/first");
        let mut process = it.started(&run, &["--start-over"]);
        it.gets(id, 0);
        process.kill();
        let log = std::fs::read_to_string(it.log(&run)).unwrap();
        assert!(log.contains(&expected) && log.contains(id), "{log}");
        assert_eq!(config_of(&it.path(&run))["run_id"], id);
    }
    assert_eq!(it.recorded(), ["first", "first-2", "first-3"]);
    assert_eq!(it.sql("SELECT * FROM steps"), steps, "the other run is as it was");
    // They go on by their own ids.
    let mut process = it.started("third/first", &["--resume"]);
    it.called(0..4);
    it.rewarded();
    it.gets("first-3", 1);
    process.kill();
    assert_eq!(it.recorded().len(), 3);
    // And are shown by them.
    let shown = fulgurite(["runs", "show", "--json"]).arg(it.path("third/first")).output().unwrap();
    assert!(Ran::from(shown).stdout.contains("first-3"));
}

#[test]
fn a_refused_start_leaves_nothing_and_prints_no_command_that_is_refused() {
    let it = Served::new();
    it.ran("first", &[]).json_lines();
    let before = it.rows();
    assert_eq!(before["leases"], 0, "{before}");
    // Where no run is, and where the run of that name is another machine's.
    for run in ["new", "first"] {
        let refused = it.elsewhere(run, &[]);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(!it.path("elsewhere").exists(), "no directory is left");
        assert_eq!(it.rows(), before);
        let event: Value = serde_json::from_str(&refused.stdout).unwrap();
        assert_eq!((&event["event"], &event["published_run"]), (&json!("weights_in_place"), &json!("first")));
        let ways: Vec<&Value> = event["ways"].as_array().unwrap().iter().map(|way| &way["way"]).collect();
        assert_eq!(ways, ["start_over"], "{event}");
        assert_eq!(printed(&refused.stderr).len(), 1, "{}", refused.stderr);
    }
    // A run at its limit is offered with the key to raise.
    let mut command = fulgurite(["train"]);
    command.arg(&it.config).args(["--server", &it.server.url, "--run-directory"]).arg(it.path("first"));
    let refused = Ran::from(command.output().unwrap());
    assert!(refused.stderr.contains("holds a run already") || refused.stderr.contains("--max-steps 4"), "{refused:?}");
    let commands = printed(&refused.stderr);
    assert_eq!(commands.len(), 2, "{}", refused.stderr);
    assert!(commands[0].ends_with(&["--resume".to_owned()]) && refused.stderr.contains("--max-steps 4"), "{refused:?}");
    // Both are accepted: what is left to learn from is a third update, and nothing for a new run.
    for (command, (run, step)) in commands.iter().zip([("first", 3), ("h-seed-1-1", 0)]) {
        let mut process = it.typed(command);
        it.gets(run, step);
        process.kill();
    }
}

#[test]
fn a_directory_of_another_run_of_that_name_takes_nothing_over() {
    let (it, other) = (Served::new(), Served::new());
    it.ran("first", &[]).json_lines();
    other.ran("first", &[]).json_lines();
    let before = other.rows();
    for more in [&["--resume"][..], &["--resume", "--replace-weights", "--max-steps", "9"]] {
        let mut command = train(&it.config, &it.path("first"));
        let refused = Ran::from(command.args(["--server", &other.server.url]).args(more).output().unwrap());
        assert_eq!(refused.code, Some(1), "{refused:?}");
        let expected = format!("its run first is another, which was begun in {}: ", other.path("first").display());
        assert!(refused.stderr.contains(&expected), "{}", refused.stderr);
        assert_eq!(other.rows(), before);
        assert!(!it.path("first/failure.json").exists(), "nothing of the run has failed");
        let commands = printed(&refused.stderr);
        assert!(commands.len() == 1 && commands[0].ends_with(&["--start-over".to_owned()]), "{}", refused.stderr);
    }
    // A run of no server at all: its steps are in its own store.
    let elsewhere = Served::new();
    let before = elsewhere.rows();
    let mut command = train(&it.config, &it.path("first"));
    let refused = Ran::from(command.args(["--server", &elsewhere.server.url, "--resume"]).output().unwrap());
    assert!(refused.stderr.contains("has recorded steps in another store (sqlite://"), "{}", refused.stderr);
    assert_eq!(elsewhere.rows(), before, "a refused run is not recorded");
    let [command] = printed(&refused.stderr).try_into().unwrap();
    let mut process = it.typed(&command);
    eventually("a new run", || (!elsewhere.recorded().is_empty()).then_some(()));
    process.kill();
}

#[test]
fn an_adapter_is_refused_at_a_server_with_other_files_whatever_is_published() {
    let it = Served::with_host("backend = \"embedded\"\nlora_rank = 2");
    it.ran("first", &[]).json_lines();
    let config = std::fs::read_to_string(&it.config).unwrap();
    tiny_weights(it.directory.path(), 128, "other", 7);
    let others = config.replace("path = \"model\"", "path = \"other\"");
    std::fs::write(&it.config, &others).unwrap();
    let before = (it.rows(), it.behind());
    let starts: [(&str, &[&str]); 4] = [
        ("new", &[]),
        ("new", &["--start-over"]),
        ("first", &["--resume", "--max-steps", "4"]),
        ("first", &["--resume", "--replace-weights"]),
    ];
    for (run, more) in starts {
        let refused = it.ran(run, more);
        assert_eq!(refused.code, Some(1), "{more:?}: {refused:?}");
        assert!(refused.stderr.contains("was started with other files for `hello`"), "{}", refused.stderr);
        assert_eq!((it.rows(), it.behind()), before, "{more:?}");
    }
    assert!(!it.path("new").exists());
    // Whole weights take the place of what is there.
    std::fs::write(&it.config, others.replace("lora_rank = 2", "")).unwrap();
    let mut whole = it.started("whole", &["--start-over"]);
    it.gets("whole", 0);
    whole.kill();
}

/// Changes a server's store behind its back.
pub(super) fn change(store: &str, statements: &[&str]) {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        sqlx::any::install_default_drivers();
        let mut connection = AnyConnection::connect(store).await.unwrap();
        for statement in statements {
            sqlx::query(AssertSqlSafe((*statement).to_owned())).execute(&mut connection).await.unwrap();
        }
        connection.close().await.unwrap();
    });
}

#[test]
fn a_run_directory_of_an_earlier_release_goes_on_at_a_server() {
    let it = Served::new();
    it.ran("first", &[]).json_lines();
    let (second, copy): (Vec<Value>, PathBuf) = (it.sql("SELECT source FROM publications"), it.path("copy"));
    assert!(second.last().unwrap().to_string().contains("first"), "{second:?}");
    assert!(Command::new("cp").arg("-r").args([it.path("first"), copy]).status().unwrap().success());
    // Its weights were named by their numbers alone, and neither checkpoints nor runs said which they are.
    change(
        &it.server.store,
        &[
            "DELETE FROM publications WHERE version <> 2",
            "DELETE FROM named_weights WHERE run_id = 'first' AND version <> 2",
            "UPDATE named_weights SET weights_id = lower(hex(randomblob(16))), parent_id = NULL, run_id = NULL, step = NULL,
                 time = 0 WHERE version = 2",
            "UPDATE checkpoints SET state = json_remove(state, '$.weights')",
            "UPDATE runs SET config = json_remove(config, '$.instance')",
        ],
    );
    let file = it.path("first/config.json");
    let mut config = config_of(&it.path("first"));
    config.as_object_mut().unwrap().remove("instance");
    std::fs::write(&file, config.to_string()).unwrap();
    // The copy says which run it is of, and the server's run does not: that is not known to be the same.
    let refused = it.ran("copy", &["--resume", "--max-steps", "4"]);
    assert!(refused.stderr.contains("its run first is another"), "{}", refused.stderr);
    let mut process = it.started("first", &["--resume", "--max-steps", "4"]);
    // The same weights, by a name with which what they sample can be trained.
    it.gets("first", 2);
    it.called(0..4);
    it.rewarded();
    it.gets("first", 3);
    process.kill();
}
