//! `fulgurite serve`, through its real socket.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use common::{Server, model_flag, tiny_model};
use serde_json::json;

fn serve(directory: &std::path::Path, context_length: usize) -> Server {
    let model = tiny_model(directory, context_length);
    Server::start(directory, ["--model", &model_flag("tiny", &model)])
}

#[test]
fn it_says_what_it_serves_and_leaves_when_told() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = serve(directory.path(), 64);
    assert_eq!(server.get("/healthz").expect(200), json!({ "status": "ok", "models": ["tiny"] }));
    let models = server.get("/v1/models").expect(200);
    assert_eq!((&models["data"][0]["id"], &models["data"][0]["max_model_len"]), (&json!("tiny"), &json!(64)));
    assert_eq!(server.get("/v1/agl/health").expect(200), json!({ "status": "ok" }));
    assert_eq!(server.process.terminate(), Some(0));
}
