//! Law: whatever the order in which a training run's requests come, and however often, each is carried out once, in the
//! order of their places.

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use fulgurite_engine::{EmbeddedTinkerModel, Engine, EngineOptions, ModelConfig, create_model};
use fulgurite_tinker::server::{TinkerBase, TinkerServer, TinkerServerOptions, routes};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tower::ServiceExt;

/// What is asked of the model at its places from 1 on.
const WORK: [&str; 9] = ["pass", "pass", "step", "score", "pass", "step", "nothing", "unreadable", "score"];

/// A server, and a session in it. One for all cases: each has a model of its own.
pub struct Host {
    pub runtime: Runtime,
    pub routes: Router,
    pub session_id: String,
    _home: tempfile::TempDir,
}

fn tiny_config() -> ModelConfig {
    ModelConfig {
        architecture: Default::default(),
        vocab_size: 37,
        hidden_size: 20,
        intermediate_size: 27,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: 18,
        max_position_embeddings: 64,
        rope_theta: 10_000.0,
        rope_scaling: Default::default(),
        rms_norm_eps: 1e-6,
        tie_word_embeddings: true,
        head: Default::default(),
        other: Default::default(),
    }
}

pub fn host() -> &'static Host {
    static HOST: OnceLock<Host> = OnceLock::new();
    HOST.get_or_init(|| {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("model");
        create_model(&directory, &tiny_config(), 1).unwrap();
        let engine = Engine::open(&directory, EngineOptions { threads: 1, ..EngineOptions::default() }).unwrap();
        let base = TinkerBase::new("tiny", Arc::new(EmbeddedTinkerModel::new(&engine).unwrap()));
        let options = TinkerServerOptions { threads: 1, ..TinkerServerOptions::new(home.path().join("state")) };
        let runtime = Runtime::new().unwrap();
        let (routes, session_id) = runtime.block_on(async {
            let routes = routes(TinkerServer::start(vec![base], options).unwrap());
            let session = post(&routes, "create_session", &json!({ "tags": [], "sdk_version": "0.26" })).await;
            (routes, session["session_id"].as_str().unwrap().to_owned())
        });
        Host { runtime, routes, session_id, _home: home }
    })
}

pub async fn post(routes: &Router, route: &str, body: &Value) -> Value {
    let request = Request::post(format!("/api/v1/{route}")).header("content-type", "application/json");
    let request = request.body(Body::from(body.to_string())).unwrap();
    let response = routes.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK, "{route} {body}");
    serde_json::from_slice(&to_bytes(response.into_body(), usize::MAX).await.unwrap()).unwrap()
}

/// The route and body of a request at a place.
fn request(kind: &str, model_id: &str, place: u64) -> (&'static str, Value) {
    let input = |kind: &str| {
        let text = json!([{ "type": "encoded_text", "tokens": [5, 6, 7] }]);
        let image = json!([{ "type": "image", "data": "", "format": "png" }]);
        let chunks = if kind == "unreadable" { image } else { text };
        let targets = json!({ "target_tokens": { "data": [6, 7, 8], "dtype": "int64" } });
        let datum = json!({ "model_input": { "chunks": chunks }, "loss_fn_inputs": targets });
        json!({ "data": [datum], "loss_fn": "cross_entropy" })
    };
    let (route, mut body) = match kind {
        "step" => {
            let parameters = json!({
                "learning_rate": 0.01, "beta1": 0.9, "beta2": 0.95, "eps": 1e-12, "weight_decay": 0.0,
                "grad_clip_norm": 0.0,
            });
            ("optim_step", json!({ "adam_params": parameters }))
        }
        "nothing" => ("optim_step", json!({ "optimizer_params": { "type": "sgd" } })),
        "score" => ("forward", json!({ "forward_input": input(kind) })),
        kind => ("forward_backward", json!({ "forward_backward_input": input(kind) })),
    };
    body["model_id"] = model_id.into();
    body["seq_id"] = place.into();
    (route, body)
}

/// What the requests of a new model come to, in the order of their places, sent as `places` say.
fn results(model_seq_id: u64, places: &[u64]) -> Vec<Value> {
    let Host { runtime, routes, session_id, .. } = host();
    let create = json!({
        "session_id": session_id, "model_seq_id": model_seq_id, "base_model": "tiny", "lora_config": { "rank": 0 },
    });
    runtime.block_on(async {
        let created = post(routes, "create_model", &create).await;
        let model_id = created["model_id"].as_str().unwrap();
        for &place in places {
            let (route, body) = request(WORK[place as usize - 1], model_id, place);
            let submitted = post(routes, route, &body).await;
            assert_eq!(submitted["request_id"], format!("{model_id}/{place}"));
        }
        let mut results = Vec::new();
        for place in 1..=WORK.len() {
            results
                .push(post(routes, "retrieve_future", &json!({ "request_id": format!("{model_id}/{place}") })).await);
        }
        post(routes, "unload_model", &json!({ "model_id": model_id })).await;
        results
    })
}

/// In order, each once.
fn expected() -> &'static [Value] {
    static EXPECTED: OnceLock<Vec<Value>> = OnceLock::new();
    EXPECTED.get_or_init(|| results(0, &(1..=WORK.len() as u64).collect::<Vec<_>>()))
}

#[test]
fn each_kind_of_request_comes_to_what_it_should() {
    let metric = |index: usize| {
        let metrics = &expected()[index]["metrics"];
        [&metrics["loss:sum"], &metrics["grad_norm"]].into_iter().find_map(Value::as_f64).unwrap()
    };
    assert!(metric(0) == metric(1) && metric(3) < metric(0) && metric(8) < metric(4), "steps make the loss less");
    assert!(metric(2) > 0.0 && metric(5) > 0.0);
    for (index, words) in [(6, "the optimizer `sgd` is not available"), (7, "an image")] {
        assert!(expected()[index]["error"].as_str().unwrap().contains(words), "{}", expected()[index]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_order_and_however_often_requests_come_their_results_are_the_same(
        model_seq_id in 1..u64::MAX,
        first in Just((1..=WORK.len() as u64).collect::<Vec<_>>()).prop_shuffle(),
        again in prop::collection::vec((1..=WORK.len() as u64, 0..WORK.len()), 0..8),
    ) {
        let mut places = first;
        for (place, index) in again {
            places.insert(index, place);
        }
        prop_assert_eq!(results(model_seq_id, &places), expected());
    }
}
