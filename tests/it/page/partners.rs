//! The page that Agent-lightning 0.3.0 brings, over our server.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{browser, seen};
use crate::common::{Server, text};

/// Where the package has its page, in the environment that the tests make.
fn files() -> Option<PathBuf> {
    let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/agentlightning/lib");
    let pythons = std::fs::read_dir(lib).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let page = |python: PathBuf| python.join("site-packages/agentlightning/dashboard");
    pythons.map(page).find(|page| page.join("index.html").exists())
}

#[test]
fn agent_lightnings_own_dashboard_shows_what_is_here() {
    let Some(files) = files() else {
        eprintln!("NOT RUN: tests/setup puts the package agentlightning into target/agentlightning");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), [] as [&str; 0]);
    server.enqueue([json!({ "question": "what" })], &json!({}));
    server.post("/v1/agl/queues/rollouts/dequeue", &json!({ "worker_id": "runner-1" })).expect(200);
    let started = server.post("/v1/agl/rollouts", &json!({ "input": "x" })).expect(201);
    let rollout = text(&started["rollout_id"]);
    server.post(&format!("/rollout/{rollout}/reward"), &json!({ "value": 0.5 }));
    let resources = json!({ "main_llm": { "resource_type": "llm", "endpoint": "http://127.0.0.1", "model": "tiny" } });
    let kept = server.post("/v1/agl/resources", &resources).expect(201);
    let Some(browser) = browser("agentlightning", &server.url, &[&files.display().to_string()]) else { return };
    let seen = seen(browser);
    assert_eq!(seen["failed"], json!([]), "{seen}");
    for (list, wanted) in [
        ("rollouts", rollout.as_str()),
        ("traces", "agentlightning.annotation"),
        ("runners", "runner-1"),
        ("resources", &text(&kept["resources_id"])),
    ] {
        assert!(seen[list].to_string().contains(wanted), "{list} has not {wanted}: {seen}");
    }
}
