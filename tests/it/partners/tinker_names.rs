//! Weights that were saved over the Tinker API, as models that agents' calls name.

use crate::common::{Server, client, model_flag, text, tiny_model};
use serde_json::{Value, json};
use std::path::Path;

/// Serves the untrained model in `directory` as `tiny`.
fn start(directory: &Path) -> Server {
    Server::start(directory, ["--model", &model_flag("tiny", &directory.join("model"))])
}

/// What a request of the Tinker API comes to.
fn result(server: &Server, path: &str, body: &Value) -> Value {
    let submitted = server.post(&format!("/api/v1/{path}"), body).expect(200);
    server.post("/api/v1/retrieve_future", &json!({ "request_id": submitted["request_id"] })).expect(200)
}

/// Trains the model for a step, and saves it to be sampled from; the path.
fn saved(server: &Server) -> String {
    let session = server.post("/api/v1/create_session", &json!({})).expect(200)["session_id"].clone();
    let create =
        json!({ "session_id": session, "model_seq_id": 0, "base_model": "tiny", "lora_config": { "rank": 4 } });
    let model = result(server, "create_model", &create)["model_id"].clone();
    let values = |data: Value, dtype: &str| json!({ "data": data, "dtype": dtype });
    let inputs =
        json!({ "target_tokens": values(json!([6, 7]), "int64"), "weights": values(json!([1, 1]), "float32") });
    let datum = json!({
        "model_input": { "chunks": [{ "type": "encoded_text", "tokens": [5, 6] }] }, "loss_fn_inputs": inputs,
    });
    let pass = json!({
        "model_id": model, "seq_id": 1, "forward_backward_input": { "data": [datum], "loss_fn": "cross_entropy" },
    });
    result(server, "forward_backward", &pass);
    let step = json!({ "model_id": model, "seq_id": 2, "adam_params": { "learning_rate": 0.1 } });
    assert!(result(server, "optim_step", &step)["metrics"]["grad_norm"].as_f64().unwrap() > 0.0);
    let save = json!({ "model_id": model, "path": "a", "seq_id": 3 });
    text(&result(server, "save_weights_for_sampler", &save)["path"])
}

/// A call for the likeliest tokens after others.
fn completion(model: &str) -> Value {
    json!({ "model": model, "prompt": [5, 6], "max_tokens": 5, "temperature": 0 })
}

#[test]
fn saved_weights_are_named_as_a_model_in_every_dialect_and_recorded_under_their_name() {
    let directory = tempfile::tempdir().unwrap();
    tiny_model(directory.path(), 128);
    let mut server = start(directory.path());
    let path = saved(&server);

    // What the Tinker API samples from them is what every other does.
    let session = server.post("/api/v1/create_session", &json!({})).expect(200)["session_id"].clone();
    let opened = json!({ "session_id": session, "sampling_session_seq_id": 0, "model_path": path });
    let sampler = server.post("/api/v1/create_sampling_session", &opened).expect(200)["sampling_session_id"].clone();
    let request = json!({
        "sampling_session_id": sampler, "seq_id": 0, "num_samples": 1,
        "prompt": { "chunks": [{ "type": "encoded_text", "tokens": [5, 6] }] },
        "sampling_params": { "max_tokens": 5, "temperature": 0 },
    });
    let expected = result(&server, "asample", &request)["sequences"][0].clone();
    for model in [path.clone(), format!("tiny;{path}"), format!("tiny:peft:64;{path}")] {
        assert_eq!(server.post("/v1/completions", &completion(&model)).expect(200)["model"], path.as_str());
    }
    server.post("/v1/completions", &completion("tiny")).expect(200);
    let recorded = server.query("generations");
    let (base, named) = recorded.split_last().unwrap();
    assert_eq!((base["model"].as_str(), named.len()), (Some("tiny"), 3));
    for generation in named {
        assert_eq!(generation["model"], path.as_str());
        assert_eq!(generation["sampled_tokens"], expected["tokens"]);
        assert_eq!(generation["weights_versions"], json!([{ "version": 0, "first_token": 0 }]));
    }
    assert_ne!(base["sampled_tokens"], expected["tokens"]);

    let chat = |more: Value| {
        let mut body = json!({
            "model": path, "messages": [{ "role": "user", "content": "Say" }], "max_tokens": 3, "temperature": 0,
        });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let contents = json!({
        "contents": [{ "role": "user", "parts": [{ "text": "Say" }] }],
        "generationConfig": { "maxOutputTokens": 3, "temperature": 0 },
    });
    let response = json!({ "model": path, "input": "Say", "max_output_tokens": 3, "temperature": 0 });
    let calls = [
        ("/v1/chat/completions".to_owned(), chat(json!({}))),
        ("/oai/api/v1/chat/completions".to_owned(), chat(json!({ "n": 1 }))),
        ("/v1/messages".to_owned(), chat(json!({}))),
        ("/anthropic/api/v1/messages".to_owned(), chat(json!({ "top_k": 1 }))),
        ("/v1/responses".to_owned(), response),
        (format!("/v1beta/models/{path}:generateContent"), contents.clone()),
    ];
    for (url, body) in &calls {
        server.post(url, body).expect(200);
    }
    let streamed = server.post("/oai/api/v1/chat/completions", &chat(json!({ "stream": true })));
    assert_eq!((streamed.status, streamed.text.matches("[DONE]").count()), (200, 1));
    let recorded = server.query("generations").split_off(4);
    assert_eq!(recorded.len(), calls.len() + 1);
    for generation in &recorded {
        for field in ["model", "prompt_tokens", "sampled_tokens"] {
            assert_eq!(generation[field], recorded[0][field], "{field}");
        }
    }
    assert_eq!(recorded[0]["model"], path.as_str());
    let prompt = json!({ "model": path, "messages": [{ "role": "user", "content": "Say" }] });
    let counted_by_google = json!({ "contents": contents["contents"] });
    let counted = [
        server.post("/v1/messages/count_tokens", &prompt).expect(200)["input_tokens"].clone(),
        server.post(&format!("/v1beta/models/{path}:countTokens"), &counted_by_google).expect(200)["totalTokens"]
            .clone(),
    ];
    assert_eq!(counted, [(); 2].map(|()| json!(recorded[0]["prompt_tokens"].as_array().unwrap().len())));
    let shown = server.get(&format!("/v1/models/{}", path.replace('/', "%2F"))).expect(200);
    assert_eq!((&shown["id"], &shown["max_model_len"]), (&json!(path), &json!(128)));
    let listed = server.get("/v1/models").expect(200);
    assert_eq!(listed["data"].as_array().unwrap().len(), 1, "checkpoints are listed by the Tinker API: {listed}");

    // What was saved is read again by another process.
    server.process.kill();
    server = start(directory.path());
    server.post("/v1/completions", &completion(&path)).expect(200);
    let again = server.query("generations").pop().unwrap();
    assert_eq!(again["sampled_tokens"], expected["tokens"]);
}

#[test]
fn a_name_of_no_saved_weights_is_refused_in_each_dialect_with_those_that_there_are() {
    let directory = tempfile::tempdir().unwrap();
    tiny_model(directory.path(), 64);
    let server = start(directory.path());
    let ask = |url: &str, model: &str, status: u16| {
        let url = url.replace("MODEL", model);
        let body = match url.contains("v1beta") {
            true => json!({ "contents": [{ "role": "user", "parts": [{ "text": "Say" }] }] }),
            false => {
                let messages = json!([{ "role": "user", "content": "Say" }]);
                let mut body = json!({ "model": model, "messages": messages, "max_tokens": 3 });
                if url.ends_with("responses") {
                    body = json!({ "model": model, "input": "Say" });
                }
                body
            }
        };
        server.post(&url, &body).expect(status)["error"].clone()
    };
    let unknown = "tinker://nobody:train:0/sampler_weights/b";
    let none = ask("/v1/chat/completions", unknown, 404);
    assert_eq!(none["message"], format!("there are no weights `{unknown}` here; kept: none"));
    let path = saved(&server);
    let words = format!("there are no weights `{unknown}` here; kept: {path}");
    for (url, kind) in [
        (
            "/v1/chat/completions",
            json!({ "type": "invalid_request_error", "code": "model_not_found", "param": "model" }),
        ),
        ("/v1/responses", json!({ "type": "invalid_request_error", "code": "model_not_found", "param": "model" })),
        ("/v1/messages", json!({ "type": "not_found_error" })),
        ("/v1beta/models/MODEL:generateContent", json!({ "status": "NOT_FOUND", "code": 404 })),
    ] {
        let error = ask(url, unknown, 404);
        assert_eq!(error["message"], words, "{url}");
        kind.as_object().unwrap().iter().for_each(|(key, value)| assert_eq!(&error[key], value, "{url}: {error}"));
        for wrong in ["tinker://nobody", "tinker://nobody/other/b", "tiny;tinker://"] {
            let error = ask(url, wrong, 400);
            let message = text(&error["message"]);
            assert!(message.contains("tinker://RUN/weights|sampler_weights|external_weights/NAME"), "{url}: {error}");
        }
    }
    let external = path.replace("sampler_weights", "external_weights");
    let error = ask("/v1/chat/completions", &external, 400);
    assert!(text(&error["message"]).contains("holds no weights to sample from"), "{error}");
    let error = ask("/v1/chat/completions", &format!("other;{path}"), 400);
    assert!(text(&error["message"]).contains("is of base model `tiny`, not `other`"), "{error}");
    // Any other name is what it was.
    let error = ask("/v1/chat/completions", "other", 404);
    assert_eq!(error["message"], "the model `other` does not exist here; served: tiny");

    let (run, name) = path.strip_prefix("tinker://").unwrap().split_once('/').unwrap();
    let url = format!("{}/api/v1/training_runs/{run}/checkpoints/{name}", server.url);
    assert_eq!(client().delete(url).send().unwrap().status(), 204);
    ask("/v1/chat/completions", &path, 404);
    assert_eq!(server.query("generations"), Vec::<Value>::new(), "nothing is recorded of what was refused");
}
