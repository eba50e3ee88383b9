//! What of a base model's facts a request meets: its name, its width, and what its cache holds of a prompt.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{Request, StatusCode};
use fulgurite_tinker::wire::protobuf::SampleResponse;
use prost::Message;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::training_runs::{Host, host, post};

/// What a route answers, whatever its status.
async fn answer(routes: &Router, route: &str, body: &Value, accept: &str) -> (StatusCode, Vec<u8>) {
    let request = Request::post(format!("/api/v1/{route}")).header(CONTENT_TYPE, "application/json");
    let request = request.header(ACCEPT, accept).body(Body::from(body.to_string())).unwrap();
    let response = routes.clone().oneshot(request).await.unwrap();
    (response.status(), to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec())
}

/// A new session, so that no other test's places are in the way.
async fn session(routes: &Router) -> Value {
    post(routes, "create_session", &json!({ "sdk_version": "0.38.0" })).await["session_id"].clone()
}

#[test]
fn a_variant_with_a_longer_context_is_its_base_unless_that_is_shorter() {
    let Host { runtime, routes, .. } = host();
    runtime.block_on(async {
        let session_id = session(routes).await;
        let open = async |place: u64, base_model: &str| {
            let body = json!({
                "session_id": session_id, "sampling_session_seq_id": place, "base_model": base_model,
            });
            let (status, body) = answer(routes, "create_sampling_session", &body, "application/json").await;
            (status, serde_json::from_slice::<Value>(&body).unwrap())
        };
        // The context is 64 tokens.
        let (status, opened) = open(0, "tiny:peft:64").await;
        assert_eq!(status, StatusCode::OK, "{opened}");
        let sampler = opened["sampling_session_id"].as_str().unwrap();
        let shown = Request::get(format!("/api/v1/samplers/{sampler}")).body(Body::empty()).unwrap();
        let shown = routes.clone().oneshot(shown).await.unwrap();
        let shown: Value = serde_json::from_slice(&to_bytes(shown.into_body(), usize::MAX).await.unwrap()).unwrap();
        assert_eq!(shown["base_model"], "tiny", "the same model");
        for (name, words) in [
            ("tiny:peft:65", "`tiny:peft:65` asks for a context of 65 tokens, but `tiny` has 64"),
            ("tiny:peft:x", "no base model `tiny:peft:x`"),
            ("other:peft:64", "no base model `other:peft:64`"),
        ] {
            let (status, error) = open(1, name).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{error}");
            assert!(error["detail"].as_str().unwrap().contains(words), "{error}");
        }
    });
}

#[test]
fn a_rank_above_the_models_width_is_taken_up_to_a_limit_that_is_named() {
    let Host { runtime, routes, .. } = host();
    runtime.block_on(async {
        let session_id = session(routes).await;
        let create = async |place: u64, rank: u64| {
            let body = json!({
                "session_id": session_id, "model_seq_id": place, "base_model": "tiny", "lora_config": { "rank": rank },
            });
            let submitted = post(routes, "create_model", &body).await;
            post(routes, "retrieve_future", &json!({ "request_id": submitted["request_id"] })).await
        };
        // The hidden size is 20.
        let refused = create(0, 513).await;
        let expected = "lora_config.rank is 513, but must be at most 512 beside a model of hidden size 20";
        assert!(refused["error"].as_str().unwrap().contains(expected), "{refused}");
        let created = create(1, 128).await;
        let model_id = &created["model_id"];
        assert!(model_id.is_string(), "{created}");
        post(routes, "unload_model", &json!({ "model_id": model_id })).await;
    });
}

#[test]
fn an_answer_says_what_its_first_sample_found_of_the_prompt_in_the_cache() {
    let Host { runtime, routes, .. } = host();
    runtime.block_on(async {
        let session_id = session(routes).await;
        let opened = json!({ "session_id": session_id, "sampling_session_seq_id": 0, "base_model": "tiny" });
        let opened = post(routes, "create_sampling_session", &opened).await;
        // No other test asks about it.
        let prompt: Vec<u32> = (0..40).map(|place| 30 + place % 7).collect();
        let cached = async |place: u64| {
            let sent = json!({
                "sampling_session_id": opened["sampling_session_id"], "seq_id": place, "num_samples": 2,
                "prompt": { "chunks": [{ "type": "encoded_text", "tokens": prompt }] },
                "sampling_params": { "max_tokens": 2, "seed": 1, "stop": [] },
            });
            let submitted = post(routes, "asample", &sent).await;
            let retrieve = json!({ "request_id": submitted["request_id"] });
            let (status, body) = answer(routes, "retrieve_future", &retrieve, "application/x-protobuf").await;
            assert_eq!(status, StatusCode::OK);
            let response = SampleResponse::decode(body.as_slice()).unwrap();
            assert_eq!(response.sequences.len(), 2);
            response.prompt_cache_hit_tokens
        };
        assert_eq!(cached(0).await, 0);
        // Two whole blocks of 40 tokens; the last one is always computed.
        assert_eq!(cached(1).await, 32);
    });
}
