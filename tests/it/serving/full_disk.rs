//! A file that may not grow stands for a disk without room. It is SQLite's file; PostgreSQL looks after its own disk.

use std::fs::File;
use std::process::{Command, Stdio};

use crate::common::{Process, Server, text, wait_until_ready};
use serde_json::{Value, json};

/// Lets no file of a process grow beyond so many bytes.
fn limit_files(process: &Process, limit: &str) {
    let limit = format!("--fsize={limit}:unlimited");
    assert!(Command::new("prlimit").args(["--pid", &process.id().to_string(), &limit]).status().unwrap().success());
}

fn span(attempt: &Value, number: usize) -> Value {
    json!({
        "rollout_id": attempt["rollout_id"], "attempt_id": attempt["attempt_id"], "sequence_id": number,
        "span_id": format!("{number:016x}"), "trace_id": "0af7651916cd43dd8448eb211c80319c", "parent_id": null,
        "name": "work", "status": { "status_code": "OK" }, "attributes": { "text": "x".repeat(100_000) }, "events": [],
        "links": [], "start_time": 1.0, "end_time": 2.0, "context": null, "parent": null,
        "resource": { "attributes": {}, "schema_url": "" },
    })
}

#[test]
fn a_full_disk_is_said_and_over_once_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    let (ready_file, log) = (directory.path().join("ready.json"), directory.path().join("serve.log"));
    let store = format!("sqlite://{}", directory.path().join("store.db").display());
    // The signal that comes with the limit would end the process; a full disk sends none.
    let mut command = Command::new("sh");
    command.args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#, env!("CARGO_BIN_EXE_fulgurite")]);
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", &store, "--ready-file"]).arg(&ready_file);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
    let mut process = Process::spawn(command);
    let url = wait_until_ready(&mut process, &ready_file, &log);
    let server = Server { url, process, store };

    let started = server.post("/v1/agl/rollouts", &json!({ "input": 1 })).expect(201);
    let attempt = &started["attempt"];
    limit_files(&server.process, "1000000");
    let mut number = 0;
    let refused = loop {
        number += 1;
        let answer = server.post("/v1/agl/spans", &span(attempt, number));
        if answer.status != 201 {
            break answer.expect(507);
        }
        assert!(number < 100, "the limit has no effect");
    };
    assert!(text(&refused["detail"]).starts_with("no room left for the database: "), "{refused}");
    // What is there can still be read, and nothing else was lost.
    let path = format!("/v1/agl/spans?rollout_id={}", text(&started["rollout_id"]));
    assert_eq!(server.get(&path).expect(200)["total"], number - 1);

    limit_files(&server.process, "unlimited");
    for number in number..number + 3 {
        server.post("/v1/agl/spans", &span(attempt, number)).expect(201);
    }
    assert_eq!(server.get(&path).expect(200)["total"], number + 2);
}
