//! Two processes on what one at a time may have.

use std::path::Path;
use std::process::Stdio;

use serde_json::json;

use crate::common::{Process, Ran, Server, eventually, fulgurite, model_flag, run, text, tiny_model};

/// A second server on the store of a first one.
fn second(store: &str) -> Ran {
    run(["serve", "--listen", "127.0.0.1:0", "--store", store])
}

#[test]
fn a_second_server_on_a_sqlite_store_is_refused_and_told_who_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path(), [""; 0]);
    server.enqueue([json!("task")], &json!({}));
    let link = directory.path().join("link.db");
    std::os::unix::fs::symlink(directory.path().join("store.db"), &link).unwrap();
    for store in [server.store.clone(), format!("sqlite://{}", link.display())] {
        let refused = second(&store).failure(directory.path());
        let words = format!("is in use by `fulgurite serve` (process {}, since ", server.process.id());
        assert!(refused.starts_with("error: the store [directory]/store.db ") && refused.contains(&words), "{refused}");
    }
    // Whoever only reads is let in, and the first goes on.
    assert_eq!(server.query("rollouts").len(), 1);
    server.enqueue([json!("another")], &json!({}));
    server.process.kill();
    let mut server = Server::start(directory.path(), [""; 0]);
    assert_eq!(server.query("rollouts").len(), 2);
    server.process.terminate();
    assert!(!directory.path().join("store.db.lock").exists());
}

#[test]
fn a_run_that_goes_on_is_resumed_by_nobody_else() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 64);
    std::fs::write(directory.path().join("tasks.jsonl"), "{\"question\": \"q\"}\n").unwrap();
    let config = directory.path().join("train.toml");
    let lines = format!(
        "[[models]]\nname = 'policy'\nbackend = 'embedded'\npath = '{}'\n[tasks.train]\nfile = 'tasks.jsonl'\n\
         [tasks.held_out]\nfile = 'tasks.jsonl'\n[runner]\ncommand = ['sleep', '600']\nparallel = 1\n",
        model.display()
    );
    std::fs::write(&config, lines).unwrap();
    let run_directory = directory.path().join("run");
    let train = |more: &[&str]| {
        let mut command = fulgurite(["train", config.to_str().unwrap(), "--run-directory"]);
        command.arg(&run_directory).args(more);
        command
    };
    let ready = directory.path().join("ready.json");
    let mut first = train(&["--ready-file", ready.to_str().unwrap()]);
    first.stdout(Stdio::null()).stderr(Stdio::null());
    let mut first = Process::spawn(first);
    eventually("the run to begin", || {
        assert!(!first.has_ended());
        ready.exists().then_some(())
    });
    let refused = Ran::from(train(&["--resume"]).output().unwrap()).failure(directory.path());
    let words = format!("is in use by `fulgurite train` (process {}, since ", first.id());
    assert!(refused.starts_with("error: the run in [directory]/run ") && refused.contains(&words), "{refused}");
    assert!(!first.has_ended());
    first.kill();
    std::fs::remove_file(&ready).unwrap();
    let mut again = train(&["--resume", "--ready-file", ready.to_str().unwrap()]);
    again.stdout(Stdio::null()).stderr(Stdio::null());
    let mut again = Process::spawn(again);
    eventually("the run to go on", || {
        assert!(!again.has_ended());
        ready.exists().then_some(())
    });
    again.terminate();
    assert!(!run_directory.join("run.lock").exists());
}

#[test]
fn a_server_that_cannot_start_leaves_no_database() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store.db");
    let url = format!("sqlite://{}", store.display());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let no_model = model_flag("m", &directory.path().join("nothing"));
    for arguments in [["--listen", address.as_str()], ["--model", no_model.as_str()]] {
        let ran = run(["serve", "--store", &url].into_iter().chain(arguments));
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert_eq!(files(directory.path()), [""; 0]);
    }
}

#[test]
fn the_files_of_a_store_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), [""; 0]);
    server.enqueue([json!("task")], &json!({}));
    for file in ["store.db", "store.db-wal", "store.db-shm", "store.db.lock"] {
        let mode = std::fs::metadata(directory.path().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}

#[test]
fn a_store_that_others_may_read_is_left_as_it_is_with_a_warning() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    drop(Server::start(directory.path(), [""; 0]));
    let file = directory.path().join("store.db");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    drop(Server::start(directory.path(), [""; 0]));
    let log = std::fs::read_to_string(directory.path().join("serve.log")).unwrap();
    assert!(log.contains("others may read or write the store"), "{log}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
}

fn files(directory: &Path) -> Vec<String> {
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| text(&json!(name.to_str().unwrap()))).collect()
}
