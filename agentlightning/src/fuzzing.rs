//! What a fuzzer runs: bytes from outside, through every route over the store, our own too.

#![allow(clippy::expect_used, reason = "a fuzzer knows a failure by its panic")]

use std::path::PathBuf;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode, Uri, header};
use fulgurite_api::{RouteNeeds, Serving};
use fulgurite_store::{Statistics, Store, StoreOptions, Synchronous};
use fulgurite_types::{NewGatewayRollout, RolloutMode, new_id};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::Overdue;

/// Bytes that a body may have; small, so that the limit is met.
const BODY_LIMIT: usize = 4096;
/// After this, a call that waits for something is left alone.
const PATIENCE: Duration = Duration::from_millis(20);
/// Most of a reply that is looked at.
const LONGEST_REPLY: usize = 1 << 24;

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";

/// Method, path and content type of every route that reads something. Of a `GET`, the bytes are the query.
pub const ROUTES: &[(&str, &str, &str)] = &[
    ("POST", "/v1/agl/queues/rollouts/enqueue", JSON),
    ("POST", "/v1/agl/queues/rollouts/dequeue", JSON),
    ("POST", "/v1/agl/rollouts", JSON),
    ("GET", "/v1/agl/rollouts", JSON),
    ("POST", "/v1/agl/rollouts/search", JSON),
    ("POST", "/v1/agl/rollouts/r", JSON),
    ("POST", "/v1/agl/rollouts/r/attempts", JSON),
    ("GET", "/v1/agl/rollouts/r/attempts", JSON),
    ("POST", "/v1/agl/rollouts/r/attempts/search", JSON),
    ("POST", "/v1/agl/rollouts/r/attempts/latest", JSON),
    ("POST", "/v1/agl/rollouts/r/attempts/0", JSON),
    ("POST", "/v1/agl/waits/rollouts", JSON),
    ("GET", "/v1/agl/workers", JSON),
    ("POST", "/v1/agl/workers/search", JSON),
    ("POST", "/v1/agl/workers/w", JSON),
    ("GET", "/v1/agl/resources", JSON),
    ("POST", "/v1/agl/resources", JSON),
    ("POST", "/v1/agl/resources/rs", JSON),
    ("POST", "/v1/agl/spans", JSON),
    ("GET", "/v1/agl/spans", JSON),
    ("POST", "/v1/agl/spans/search", JSON),
    ("POST", "/v1/agl/spans/next", JSON),
    ("POST", "/v1/fulgurite/attempts/heartbeat", JSON),
    ("POST", "/v1/fulgurite/rollouts/r/attempts/0/report", JSON),
    ("POST", "/rollout/r/reward", JSON),
    ("POST", "/v1/traces", PROTOBUF),
    ("POST", "/v1/traces", JSON),
    ("POST", "/api/rollouts", JSON),
    ("GET", "/api/rollouts", JSON),
    ("GET", "/api/rollouts/terminal", JSON),
    ("PATCH", "/api/rollouts/r", JSON),
    ("POST", "/api/rollouts/r/attempt/0/events", JSON),
    ("GET", "/api/rollouts/r/events", JSON),
];

/// Sends bytes to the route that the first of them picks, on a store of its own with a rollout `r` and its attempt
/// `0`. It must answer in its dialect, must not fail, and what it refuses must have changed nothing.
pub fn fuzz_rest(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let (method, path, content_type) = ROUTES[usize::from(*first) % ROUTES.len()];
    let uri = if method == "GET" { [path.as_bytes(), b"?", rest].concat() } else { path.as_bytes().to_vec() };
    // What is not a URI never reaches a route.
    let Ok(uri) = Uri::try_from(uri) else { return };
    let body = if method == "GET" { Body::empty() } else { Body::from(rest.to_vec()) };
    let request = Request::builder().method(method).uri(uri).header(header::CONTENT_TYPE, content_type).body(body);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let store = TemporaryStore::open().await;
        answer(&store.store, request.expect("a request")).await;
        store.close().await;
    });
}

async fn answer(store: &Store, request: Request<Body>) {
    let before = store.queries().statistics().await.expect("statistics");
    let serving = Serving { body_limit: BODY_LIMIT, ..Serving::default() };
    let router = fulgurite_api::routes(store.clone(), &serving, &mut RouteNeeds::default());
    let router = router.merge(crate::routes(store.clone(), &serving, Overdue::BeforeCalls));
    let Ok(response) = tokio::time::timeout(PATIENCE, router.oneshot(request)).await else { return };
    let response = response.expect("a router does not fail");
    let status = response.status();
    assert!(!status.is_server_error(), "{status}");
    let is_json = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == JSON);
    let reply = axum::body::to_bytes(response.into_body(), LONGEST_REPLY).await.expect("a reply has an end");
    if is_json {
        let reply: Value = serde_json::from_slice(&reply).expect("a reply in JSON");
        let has_reason = reply.get("detail").or(reply.get("message")).is_some();
        assert!(has_reason || !status.is_client_error(), "{status} without a word: {reply}");
    }
    if status.is_client_error() && status != StatusCode::REQUEST_TIMEOUT {
        let after = store.queries().statistics().await.expect("statistics");
        assert_eq!(counts(before), counts(after), "{status} has changed something");
    }
}

fn counts(all: Statistics) -> [u64; 5] {
    [all.rollouts, all.attempts, all.spans, all.resources, all.workers]
}

/// A store in a directory of its own.
struct TemporaryStore {
    store: Store,
    directory: PathBuf,
}

impl TemporaryStore {
    async fn open() -> Self {
        let directory = std::env::temp_dir().join(new_id("fulgurite-fuzz-", 16));
        std::fs::create_dir(&directory).expect("a directory");
        let options = StoreOptions { synchronous: Synchronous::Normal, ..StoreOptions::default() };
        let path = directory.join("store.db");
        let store = Store::open(path.to_str().expect("a path in UTF-8"), options).await.expect("a store");
        let rollout = NewGatewayRollout {
            rollout_id: Some("r".to_owned()),
            input: json!("task"),
            mode: RolloutMode::Train,
            timeout_seconds: 3600.0,
            local: None,
            k8s: None,
            metadata: fulgurite_types::Object::new(),
        };
        store.gateway_rollouts().create(vec![rollout]).await.expect("a rollout");
        store.attempts().open("r", "0").await.expect("an attempt");
        Self { store, directory }
    }

    async fn close(self) {
        self.store.close().await;
        std::fs::remove_dir_all(self.directory).expect("the directory is its own");
    }
}

#[cfg(test)]
#[path = "../../api/src/fuzzing/mutation.rs"]
mod mutation;
#[cfg(test)]
mod tests;
