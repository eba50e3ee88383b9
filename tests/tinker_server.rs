//! The official SDK of the Tinker API against the real command.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Ran, Server, tiny_model};
use serde_json::{Value, json};

/// Serves an untrained model as `tiny`.
fn start(directory: &Path) -> (Server, PathBuf) {
    let model = tiny_model(directory, 128);
    let config = directory.join("c.toml");
    std::fs::write(&config, "[[models]]\nname = \"tiny\"\nbackend = \"embedded\"\npath = \"model\"\n").unwrap();
    (Server::start(directory, ["--config".as_ref(), config.as_os_str()]), model.canonicalize().unwrap())
}

#[test]
fn the_official_sdk_trains_and_samples() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("target/tinker/bin/python");
    assert!(python.exists(), "tests/run makes {}", python.display());
    let directory = tempfile::tempdir().unwrap();
    let (server, model) = start(directory.path());
    let mut client = Command::new(python);
    client.arg(root.join("tests/tinker/every_call.py")).arg(&server.url).arg(model).current_dir(directory.path());
    client.stdin(Stdio::null()).env("TINKER_TELEMETRY", "0").env("HF_HUB_OFFLINE", "1");
    let ran = Ran::from(client.output().unwrap());
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let found: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    for (what, words) in [
        ("loss", "not public"),
        ("step", "the gradient was dropped"),
        ("rank", "LoRA is not available yet"),
        ("base", "no base model `other`"),
        ("prompt", "context length"),
    ] {
        assert!(found["refused"][what].as_str().unwrap().contains(words), "{found}");
    }
}

#[test]
fn what_cannot_be_done_is_refused_in_the_apis_words() {
    let directory = tempfile::tempdir().unwrap();
    let (server, _) = start(directory.path());
    let refused = |path: &str, body: Value, status: u16, words: &str| {
        let error = server.post(&format!("/api/v1/{path}"), &body).expect(status);
        assert!(error["detail"].as_str().unwrap().contains(words), "{path}: {error}");
    };
    refused("create_session", json!({ "tags": 3 }), 422, "cannot be read");
    refused("session_heartbeat", json!({ "session_id": "x" }), 404, "no session `x`");
    refused("get_info", json!({ "model_id": "x" }), 404, "no model `x`");
    refused("optim_step", json!({ "model_id": "x", "seq_id": 1, "adam_params": {} }), 404, "no model `x`");
    refused("retrieve_future", json!({ "request_id": "x" }), 410, "not known any more");
    assert!(!directory.path().join("fulgurite-tinker").exists(), "nothing is kept of what was refused");

    let session = server.post("/api/v1/create_session", &json!({ "sdk_version": "0.38.0" })).expect(200);
    let session = session["session_id"].as_str().unwrap();
    let opened = json!({ "session_id": session, "sampling_session_seq_id": 0, "base_model": "tiny" });
    let sampler = server.post("/api/v1/create_sampling_session", &opened).expect(200);
    let sampler = sampler["sampling_session_id"].as_str().unwrap();
    let asked = |change: Value| {
        let mut body = json!({
            "sampling_session_id": sampler, "seq_id": 0, "sampling_params": { "max_tokens": 2, "seed": 1 },
            "prompt": { "chunks": [{ "type": "encoded_text", "tokens": [5, 6] }] },
        });
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        body
    };
    refused("asample", asked(json!({ "num_samples": 0 })), 400, "num_samples is 0");
    refused("asample", asked(json!({ "sampling_params": { "top_k": 0 } })), 400, "top_k is 0");
    refused("asample", asked(json!({ "sampling_params": { "temperature": -1.0 } })), 400, "temperature is -1");
    refused("asample", asked(json!({ "prompt": { "chunks": [] } })), 400, "prompt is empty");
    refused("asample", asked(json!({ "prompt": { "chunks": [{ "type": "dmel", "dmel": "" }] } })), 400, "sound");
    refused("asample", asked(json!({ "sampling_session_id": "x" })), 404, "no sampling session `x`");
    // A place that was refused is free; one that was taken is the same request again.
    let first = server.post("/api/v1/asample", &asked(json!({ "num_samples": 2 }))).expect(200);
    assert_eq!(first["sample_sequence_ids"].as_array().unwrap().len(), 2);
    assert_eq!(server.post("/api/v1/asample", &asked(json!({ "num_samples": 2 }))).expect(200), first);
    let result = server.post("/api/v1/retrieve_future", &json!({ "request_id": first["request_id"] })).expect(200);
    assert_eq!(result["sequences"].as_array().unwrap().len(), 2, "JSON for who asks for it: {result}");
    server.post(&format!("/api/v1/sessions/{session}/finish"), &json!({ "reason": { "type": "success" } }));
    refused("session_heartbeat", json!({ "session_id": session }), 410, "is over");
    refused("asample", asked(json!({ "seq_id": 1 })), 404, "no sampling session");
}
