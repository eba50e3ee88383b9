//! Clients whose base URL has a version too many or too few are told which one is right, in their dialect.

use serde_json::{Value, json};

use super::keys::{ADMIN, Guarded};
use crate::common::{Server, model_flag, tiny_model};

/// Whether an answer is an error of a dialect.
type IsDialect<'f> = &'f dyn Fn(&Value) -> bool;

#[test]
fn a_doubled_or_missing_version_is_told_the_right_base_url_in_the_clients_dialect() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 64);
    let server = Server::start(directory.path(), ["--model", &model_flag("tiny", &model)]);
    let url = &server.url;
    let attempt = "/rollout/r/attempt/a";
    let openai = |answer: &Value| answer["error"]["type"].is_string() && answer["type"].is_null();
    let anthropic = |answer: &Value| answer["type"] == "error" && answer["error"]["type"] == "not_found_error";
    let google = |answer: &Value| answer["error"]["status"] == "NOT_FOUND" && answer["error"]["code"] == 404;
    let cases: [(&str, String, IsDialect<'_>); 11] = [
        ("/v1/v1/chat/completions", format!("{url}/v1"), &openai),
        ("/chat/completions", format!("{url}/v1"), &openai),
        ("/v1/v1/completions", format!("{url}/v1"), &openai),
        ("/v1/v1/responses", format!("{url}/v1"), &openai),
        ("/responses", format!("{url}/v1"), &openai),
        ("/v1/v1/messages", url.clone(), &anthropic),
        ("/messages", url.clone(), &anthropic),
        ("/v1beta/v1beta/models/tiny:generateContent", url.clone(), &google),
        ("/models/tiny:generateContent", url.clone(), &google),
        (&format!("{attempt}/v1/v1/chat/completions"), format!("{url}{attempt}/v1"), &openai),
        (&format!("{attempt}/v1/v1/messages"), format!("{url}{attempt}"), &anthropic),
    ];
    for (path, right, is_dialect) in cases {
        let answer = server.post(path, &json!({})).expect(404);
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(
            is_dialect(&answer) && message.ends_with(&format!("; set the client's base URL to {right}")),
            "{path}: {answer}"
        );
    }
    let none = server.post("/v1/none", &json!({})).expect(404);
    assert_eq!(none["error"]["message"], "there is no route POST /v1/none");
}

#[test]
fn an_agents_key_is_told_the_right_base_url_as_well() {
    let guarded = Guarded::start();
    let issued =
        guarded.with_key(reqwest::Method::POST, "/v1/fulgurite/keys/model-calls", ADMIN, &json!({ "seconds": 60 }));
    let key = issued.json()["key"].as_str().unwrap().to_owned();
    let answered = guarded.with_key(reqwest::Method::POST, "/v1/v1/chat/completions", &key, &json!({}));
    assert_eq!(answered.status, 404);
    assert!(answered.json()["error"]["message"].as_str().unwrap().contains("set the client's base URL to http://"));
    let without = guarded.with_key(reqwest::Method::POST, "/v1/v1/chat/completions", "wrong", &json!({}));
    assert_eq!(without.status, 401);
}

#[test]
fn a_slash_at_the_end_of_a_call_is_told_to_be_one_too_many() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 64);
    let server = Server::start(directory.path(), ["--model", &model_flag("tiny", &model)]);
    for path in ["/v1/chat/completions", "/v1/messages", "/rollout/r/attempt/a/v1/responses"] {
        let answer = server.post(&format!("{path}/"), &json!({})).expect(404);
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.ends_with(&format!("; the path is {path}, without a slash at its end")), "{answer}");
    }
}

#[test]
fn a_server_of_several_models_tells_what_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 64);
    let [one, other] = ["one", "other"].map(|name| model_flag(name, &model));
    let server = Server::start(directory.path(), ["--model", &one, "--model", &other]);
    let config = server.get("/server_info").expect(200)["vllm_config"].clone();
    assert_eq!(config["model_config"]["served_model_name"], json!(["one", "other"]), "{config}");
    assert!(config["lora_config"]["max_lora_rank"].is_u64(), "{config}");
}
