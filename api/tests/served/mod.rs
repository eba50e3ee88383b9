//! Routes over a store of their own, asked without a connection.

#![allow(clippy::unwrap_used, clippy::panic, dead_code, missing_docs)]

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

use crate::routes;
use crate::test_store::TestStore;

pub struct Api {
    pub router: Router,
    pub store: TestStore,
}

impl Api {
    pub async fn new() -> Self {
        let store = TestStore::new().await;
        Self { router: routes(store.store.clone()), store }
    }

    pub async fn send(&self, method: &str, path: &str, body: impl Into<Body>) -> (StatusCode, Value) {
        let request = Request::builder().method(method).uri(path).body(body.into()).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or_else(|_| panic!("{status}: {bytes:?}")))
    }

    /// The status of a reply that may not be JSON.
    pub async fn status(&self, method: &str, path: &str) -> StatusCode {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        self.router.clone().oneshot(request).await.unwrap().status()
    }

    /// The status of a post whose reply has no body.
    pub async fn empty(&self, path: &str, body: &Value) -> StatusCode {
        let request = Request::builder().method("POST").uri(path).body(Body::from(body.to_string())).unwrap();
        self.router.clone().oneshot(request).await.unwrap().status()
    }

    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.send("GET", path, Body::empty()).await
    }

    pub async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        self.send("POST", path, body.to_string()).await
    }

    /// Posts, expects success, and gives the reply.
    pub async fn done(&self, path: &str, body: Value) -> Value {
        let (status, reply) = self.post(path, body).await;
        assert!(status.is_success(), "{path}: {status}: {reply}");
        reply
    }
}
