//! The protocol's own clients: Python's, TypeScript's, and the inspector's command line.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{flags, project, run, short};
use crate::common::{Process, Ran, fulgurite, wait_until_ready};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn script(name: &str) -> PathBuf {
    Path::new(ROOT).join("tests/mcp").join(name)
}

/// Runs a script of a client's, whose run has the name `run`, and gives what it printed.
fn drive(mut client: Command, name: &str) -> Value {
    client.env("XDG_STATE_HOME", super::host::STATE);
    client.env("GRADER", short().to_string()).env("RUN", run(name, "short").to_string());
    let ran = Ran::from(client.output().unwrap());
    let printed = ran.json_lines().pop().unwrap_or_else(|| panic!("{}", ran.stderr));
    assert_eq!(
        (&printed["server"], &printed["tools"], &printed["wrong"]),
        (&json!("fulgurite"), &json!(19), &json!(true))
    );
    let trained = printed["trained"].as_str().unwrap();
    assert!(trained.starts_with(&format!("Run \"{name}\" has made 2 updates")), "{trained}");
    // Clients give up the progress of a call that is answered, so that the last word of it may be lost.
    let first = &printed["progress"][0];
    assert_eq!((first[0].as_f64(), first[1].as_f64()), (Some(1.0), Some(2.0)), "{printed}");
    printed
}

fn python() -> Command {
    let python = Path::new(ROOT).join("target/python/bin/python");
    assert!(python.exists(), "tests/setup makes {}", python.display());
    Command::new(python)
}

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_fulgurite")
}

#[test]
fn the_official_client_for_python_trains_over_standard_streams() {
    let project = project();
    let mut client = python();
    client.arg(script("drive.py")).args([program(), "mcp"]).args(flags()).current_dir(project.directory.path());
    drive(client, "python");
}

#[test]
fn sessions_over_http_are_sixty_four_at_most_and_make_room_when_they_end() {
    let directory = tempfile::tempdir().unwrap();
    let (ready, log) = (directory.path().join("ready.json"), directory.path().join("log"));
    let mut command = fulgurite(["mcp", "--listen", "127.0.0.1:0", "--ready-file"]);
    command.arg(&ready).current_dir(directory.path()).env("XDG_STATE_HOME", super::host::STATE);
    command.stderr(std::fs::File::create(&log).unwrap()).stdout(std::process::Stdio::null());
    let mut server = Process::spawn(command);
    let url = format!("{}/mcp", wait_until_ready(&mut server, &ready, &log));
    let http = reqwest::blocking::Client::new();
    let client = json!({ "name": "test", "version": "1" });
    let parameters = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let begin = || {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters });
        let request = http.post(&url).header("accept", "application/json, text/event-stream");
        request.header("content-type", "application/json").body(body.to_string()).send().unwrap()
    };
    let session =
        |answer: &reqwest::blocking::Response| answer.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let sessions: Vec<String> = (0..64).map(|_| session(&begin())).collect();
    let refused = begin();
    assert_eq!(refused.status(), 503);
    let answer: Value = serde_json::from_str(&refused.text().unwrap()).unwrap();
    assert!(answer["error"]["message"].as_str().unwrap().starts_with("64 sessions are open"), "{answer}");
    let ended = http.delete(&url).header("mcp-session-id", &sessions[0]).send().unwrap();
    assert!(ended.status().is_success(), "{}", ended.status());
    assert_eq!(begin().status(), 200);
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn the_same_client_trains_over_http_with_the_servers_key_and_not_without() {
    let project = project();
    let (ready, log) = (project.path("ready.json"), project.path("log"));
    let mut command = fulgurite(["mcp", "--listen", "127.0.0.1:0", "--ready-file"]);
    command.arg(&ready).args(flags()).current_dir(project.directory.path()).env("FULGURITE_ADMIN_KEY", "secret");
    command.env("XDG_STATE_HOME", super::host::STATE);
    command.stderr(std::fs::File::create(&log).unwrap()).stdout(std::process::Stdio::null());
    let mut server = Process::spawn(command);
    let url = format!("{}/mcp", wait_until_ready(&mut server, &ready, &log));
    let http = reqwest::blocking::Client::new();
    for key in ["", "wrong"] {
        let refused = http.post(&url).bearer_auth(key).body("{}").send().unwrap();
        assert_eq!(refused.status(), 401);
    }
    let foreign =
        http.post(&url).bearer_auth("secret").header("origin", "http://evil.example").body("{}").send().unwrap();
    assert_eq!(foreign.status(), 403);
    let mut client = python();
    client.arg(script("drive.py")).arg(&url).env("KEY", "secret");
    drive(client, "python");
    assert_eq!(server.terminate(), Some(0));
    assert!(super::processes_of(project.directory.path()).is_empty());
}

/// Node's programs, where there is `npm` to install them with; `tests/run` says where there is not.
fn node_modules(package: &str) -> Option<PathBuf> {
    let modules = Path::new(ROOT).join("target/node/node_modules");
    modules.join(package).exists().then_some(modules)
}

#[test]
fn the_official_client_for_typescript_trains() {
    let Some(modules) = node_modules("@modelcontextprotocol/sdk") else { return };
    let project = project();
    let mut client = Command::new("node");
    client.arg(script("drive.mjs")).args([program(), "mcp"]).args(flags()).env("NODE_MODULES", modules);
    client.current_dir(project.directory.path());
    drive(client, "node");
}

#[test]
fn the_inspectors_command_line_lists_and_calls_tools() {
    let Some(modules) = node_modules("@modelcontextprotocol/inspector") else { return };
    let directory = tempfile::tempdir().unwrap();
    let inspect = |arguments: &[&str]| -> Value {
        let mut command = Command::new(modules.join(".bin/mcp-inspector"));
        command.args(["--cli", program(), "mcp"]).args(arguments).current_dir(directory.path());
        let ran = Ran::from(command.output().unwrap());
        serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}{}", ran.stdout, ran.stderr))
    };
    assert_eq!(inspect(&["--method", "tools/list"])["tools"].as_array().unwrap().len(), 19);
    let called = inspect(&["--method", "tools/call", "--tool-name", "list_runs"]);
    assert_eq!(called["content"][0]["text"], "No runs yet. Next: start_run.", "{called}");
}
