//! A PostgreSQL server that is not there yet, or goes away meanwhile. Without PostgreSQL there is nothing to test.

use std::fs::File;
use std::process::Stdio;

use crate::common::own_postgres::OwnPostgres;
use crate::common::project::{Project, SMALL, UNEVEN, recorded_steps};
use crate::common::{Process, eventually, fulgurite, printed, run, wait_until_ready};
use serde_json::Value;

#[test]
fn a_server_that_starts_before_its_database_waits_for_it_within_its_patience() {
    let Some(database) = OwnPostgres::prepare() else { return };
    let directory = tempfile::tempdir().unwrap();
    let (ready_file, log) = (directory.path().join("ready.json"), directory.path().join("serve.log"));
    let mut command = fulgurite(["serve", "--listen", "127.0.0.1:0", "--store", &database.url(), "--ready-file"]);
    command.arg(&ready_file).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
    let mut server = Process::spawn(command);
    eventually("it to say that it waits", || {
        assert!(!server.has_ended(), "{}", std::fs::read_to_string(&log).unwrap());
        std::fs::read_to_string(&log).unwrap().contains("the database is away").then_some(())
    });
    database.start();
    wait_until_ready(&mut server, &ready_file, &log);
    assert_eq!(server.terminate(), Some(0));

    database.stop();
    let config = directory.path().join("serve.toml");
    std::fs::write(&config, "[store]\npatience_seconds = 0.5\n").unwrap();
    let impatient =
        ["serve", "--listen", "127.0.0.1:0", "--store", &database.url(), "--config", config.to_str().unwrap()];
    let ran = run(impatient);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let expected = "no PostgreSQL server answered within 0.5 s ([store] patience_seconds)";
    assert!(
        ran.stderr.contains(expected) && ran.stderr.contains("cannot open the store postgres://"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_run_goes_on_after_its_database_has_crashed_and_is_back() {
    let Some(database) = OwnPostgres::prepare() else { return };
    let project = Project::new(UNEVEN, SMALL);
    let store = format!("[store]\nurl = \"{}\"\n\n[run]", database.url());
    project.change_config("[run]", &store);
    let (out, log) = (project.path("out"), project.path("log"));
    let mut command = project.command("run");
    command.stdout(File::create(&out).unwrap()).stderr(File::create(&log).unwrap());
    let mut run = Process::spawn(command);
    let log_text = || std::fs::read_to_string(&log).unwrap();
    // It starts before its database does, too.
    eventually("the run to wait", || {
        assert!(!run.has_ended(), "{}", log_text());
        log_text().contains("the database is away").then_some(())
    });
    database.start();
    for steps in [1, 3] {
        eventually("steps", || {
            assert!(!run.has_ended(), "{}", log_text());
            (recorded_steps(&project.path("run")) >= steps).then_some(())
        });
        database.stop();
        database.start();
    }
    assert_eq!(run.exit_code(), Some(0), "{}", log_text());
    let metrics = std::fs::read_to_string(project.path("run").join("metrics.jsonl")).unwrap();
    let step = |line: &str| serde_json::from_str::<Value>(line).unwrap()["step"].as_u64().unwrap();
    assert_eq!(metrics.lines().map(step).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5], "each step once, and its end");
    assert_eq!(printed(["store", "check", "--store", &database.url()]), "the store is sound\n");
}
