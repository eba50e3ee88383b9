//! What opens everything, and who gets at it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use super::foreign_pages::serve_everywhere;
use crate::common::{Process, Ran, Server, fulgurite, run, wait_until_ready};

/// Of the user nobody, who is not the superuser.
const NOBODY: u32 = 65_534;

const KEY: &str = "a-key-that-nobody-guesses-0123456789";

/// Whether the tests run as the superuser, who reads everything.
fn is_superuser() -> bool {
    rustix::process::geteuid().is_root()
}

/// A command for a user who may not do everything, of a program that all may run.
fn unprivileged(mut command: Command) -> Command {
    if is_superuser() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn open_to_all(directory: &Path) {
    std::fs::set_permissions(directory, Permissions::from_mode(0o777)).unwrap();
}

#[test]
fn no_query_prints_the_secret_that_keys_are_made_with() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), [""; 0]);
    for query in ["select * from secrets", "SELECT hex(secret) FROM main.[secrets]"] {
        let refused = run(["sql", "--store", &server.store, query]).failure(directory.path());
        assert!(
            refused.contains("the table `secrets` holds what keys are made with, and no query reads it"),
            "{refused}"
        );
    }
    server.enqueue([json!("task")], &json!({}));
    let file = directory.path().join("all.jsonl");
    let exported = run(["export", "--store", &server.store, "--to", file.to_str().unwrap()]);
    assert_eq!(exported.code, Some(0), "{}", exported.stderr);
    let exported = std::fs::read_to_string(file).unwrap();
    assert!(exported.contains("task") && !exported.contains("issued_keys"), "{exported}");
}

#[test]
fn the_admin_key_is_in_no_childs_environment_and_in_no_file_that_others_read() {
    let directory = tempfile::tempdir().unwrap();
    open_to_all(directory.path());
    let (ready, log) = (directory.path().join("ready.json"), directory.path().join("log"));
    let store = format!("sqlite://{}", directory.path().join("store.db").display());
    let mut serve = unprivileged(fulgurite(["serve", "--listen", "127.0.0.1:0", "--store", &store]));
    serve.env("FULGURITE_ADMIN_KEY", KEY).arg("--ready-file").arg(&ready);
    serve.stdout(Stdio::null()).stderr(std::fs::File::create(&log).unwrap());
    let mut server = Process::spawn(serve);
    let url = wait_until_ready(&mut server, &ready, &log);
    let environment = format!("/proc/{}/environ", server.id());
    let read = unprivileged(Command::new("cat")).arg(&environment).output().unwrap();
    assert!(!read.status.success(), "{}", String::from_utf8_lossy(&read.stdout));

    let client = crate::common::client();
    let queue = json!({ "rollouts": [{ "input": "task", "config": {} }] }).to_string();
    let enqueue = client.post(format!("{url}/v1/agl/queues/rollouts/enqueue")).bearer_auth(KEY);
    assert_eq!(enqueue.header("content-type", "application/json").body(queue).send().unwrap().status(), 201);
    // The agent looks into its own environment, its parent's, and that one's parent's, which is the runner.
    let agent = "env; cat /proc/$PPID/environ; cat /proc/$(awk '{print $4}' /proc/$PPID/stat)/environ; true";
    let found = directory.path().join("found");
    let script = format!("({agent}) > {} 2>&1; echo '{{\"reward\": 1}}'", found.display());
    let mut runner = unprivileged(fulgurite(["run", "--server", &url, "--until-idle", "--", "/bin/sh", "-c", &script]));
    runner.env("FULGURITE_ADMIN_KEY", KEY);
    let ran = Ran::from(runner.output().unwrap());
    assert!(ran.stdout.starts_with("1 attempts succeeded"), "{ran:?}");
    let found = String::from_utf8_lossy(&std::fs::read(found).unwrap()).into_owned();
    assert!(found.contains("FULGURITE_ROLLOUT_ID=") && found.contains("Permission denied"), "{found}");
    assert!(!found.contains(KEY), "{found}");
}

#[test]
fn beyond_loopback_an_admin_key_that_can_be_guessed_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let serve = |key: &str| {
        let mut command = fulgurite(["serve", "--listen", "0.0.0.0:0", "--store"]);
        command.arg(directory.path().join("store.db")).env("FULGURITE_ADMIN_KEY", key);
        Ran::from(command.output().unwrap()).failure(directory.path())
    };
    insta::assert_snapshot!(serve("secret"), @"error: server.listen is 0.0.0.0:0: beyond loopback the admin key must have at least 32 characters, and it has 6; `openssl rand -hex 32` makes one");
    insta::assert_snapshot!(serve(&"k".repeat(31)), @"error: server.listen is 0.0.0.0:0: beyond loopback the admin key must have at least 32 characters, and it has 31; `openssl rand -hex 32` makes one");
    assert!(!directory.path().join("store.db").exists());
    let on_loopback = Server::start_in(&[("FULGURITE_ADMIN_KEY", "secret")], directory.path(), [""; 0]);
    drop(on_loopback);
    serve_everywhere(directory.path(), &"k".repeat(32));
}

#[test]
fn a_store_where_nothing_can_be_written_is_read() {
    let directory = tempfile::tempdir().unwrap();
    open_to_all(directory.path());
    let mut server = Server::start(directory.path(), [""; 0]);
    server.enqueue([json!("task")], &json!({}));
    assert_eq!(server.process.terminate(), Some(0));
    let file = directory.path().join("store.db");
    std::fs::set_permissions(&file, Permissions::from_mode(0o444)).unwrap();
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o555)).unwrap();
    let rollouts = || {
        let mut command = unprivileged(fulgurite(["rollouts", "--store", &server.store, "--json"]));
        Ran::from(command.output().unwrap())
    };
    assert_eq!(rollouts().json_lines().len(), 1);
    // What was recorded last is not in the file itself: told, and not left out.
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
    std::fs::write(directory.path().join("store.db-wal"), "x").unwrap();
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o555)).unwrap();
    let refused = rollouts();
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    assert!(refused.stderr.contains("store.db-wal, which can be read only where"), "{}", refused.stderr);
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
}

#[test]
fn no_attempt_is_called_latest() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), [""; 0]);
    let rollout = server.enqueue([json!("task")], &json!({})).remove(0);
    let event = json!({ "event_type": "custom", "data": {} });
    let refused = server.post(&format!("/api/rollouts/{rollout}/attempt/latest/events"), &event);
    assert!((400..500).contains(&refused.status), "{refused:?}");
    assert!(server.query("attempts").iter().all(|attempt| attempt["attempt_id"] != "latest"));
    let archive = directory.path().join("archive.jsonl");
    let renamed = json!({
        "rollout_id": rollout, "attempt_id": "latest", "sequence_id": 1, "start_time": 1.0, "end_time": null,
        "status": "running", "worker_id": null, "last_heartbeat_time": null, "metadata": null,
    });
    let renamed = json!({ "record": "attempt", "data": renamed });
    std::fs::write(&archive, format!("{renamed}\n")).unwrap();
    let refused = run(["import", "--store", &server.store, archive.to_str().unwrap()]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.stderr.contains("must not be `latest`"), "{refused:?}");
}
