use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use flate2::Compression;
use flate2::write::GzEncoder;
use fulgurite_agentlightning::Overdue;
use fulgurite_api::conventions::turns::Queue;
use fulgurite_api::{Serving, Turns, TurnsFull};
use fulgurite_store::{KeyHolder, Store};
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tower::ServiceExt;

use crate::served::Api;
use crate::store_api::span;
use crate::test_store::TestStore;

/// Says whose turn is asked for, and hands out places when it is let.
struct Scripted {
    entered: mpsc::UnboundedSender<String>,
    lets: Semaphore,
}

impl Turns for Scripted {
    fn enter(&self, owner: String) -> BoxFuture<'_, Result<Box<dyn Send>, TurnsFull>> {
        Box::pin(async move {
            self.entered.send(owner).unwrap();
            self.lets.acquire().await.unwrap().forget();
            Ok(Box::new(()) as Box<dyn Send>)
        })
    }
}

/// Has no place for anybody.
struct Full;

impl Turns for Full {
    fn enter(&self, _owner: String) -> BoxFuture<'_, Result<Box<dyn Send>, TurnsFull>> {
        Box::pin(async { Err(TurnsFull { waiting: 16 }) })
    }
}

fn api(store: TestStore, turns: Arc<dyn Turns>) -> Api {
    let serving = Serving { turns, ..Serving::default() };
    Api { router: crate::served_so(Store::clone(&store), &serving, Overdue::ByTimer), store }
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// A post by whoever has an attempt's key.
fn post(path: &str, encoding: &str, body: Vec<u8>) -> Request<Body> {
    let holder = KeyHolder::Attempt { rollout_id: "r".into(), attempt_id: "a".into() };
    Request::post(path)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONTENT_ENCODING, encoding)
        .extension(holder)
        .body(Body::from(body))
        .unwrap()
}

/// A large body for each route that takes one, and its encoding.
fn large_bodies(rollout_id: &str, attempt_id: &str) -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let long = "x".repeat(100_000);
    let mut large_span = span(rollout_id, attempt_id);
    large_span["attributes"]["long"] = json!(long);
    let otlp = json!({ "resourceSpans": [], "long": long }).to_string();
    let prompt = json!({ "p": { "resource_type": "prompt_template", "template": long, "engine": "jinja" } });
    let components: Value =
        (0..10_000).map(|id| (format!("c{id}"), json!(1.0))).collect::<serde_json::Map<_, _>>().into();
    let reward = json!({ "value": 1.0, "components": components });
    vec![
        ("/v1/agl/spans", "identity", large_span.to_string().into_bytes()),
        ("/v1/agl/resources", "identity", prompt.to_string().into_bytes()),
        ("/rollout/x/reward", "identity", reward.to_string().into_bytes()),
        // A few bytes, of which inflating makes many.
        ("/v1/traces", "gzip", gzip(&otlp)),
        ("/v1/traces", "identity", otlp.into_bytes()),
    ]
}

#[tokio::test]
async fn a_large_body_waits_for_its_turn_and_others_are_answered_meanwhile() {
    let store = TestStore::new().await;
    let started = store.start().await;
    let (rollout_id, attempt_id) = (&started.rollout.rollout_id, &started.attempt.attempt_id);
    let (entered, mut owners) = mpsc::unbounded_channel();
    let turns = Arc::new(Scripted { entered, lets: Semaphore::new(0) });
    let api = api(store, turns.clone());
    for (path, encoding, body) in large_bodies(rollout_id, attempt_id) {
        let mut sent = tokio::spawn(api.router.clone().oneshot(post(path, encoding, body)));
        tokio::select! {
            owner = owners.recv() => assert_eq!(owner.unwrap(), "r/a", "{path}"),
            _ = &mut sent => panic!("{path} took no turn"),
        }
        assert_eq!(api.get("/v1/agl/health").await.0, StatusCode::OK);
        // A small body takes no turn.
        api.done("/v1/agl/spans/next", json!({ "rollout_id": "x", "attempt_id": "y" })).await;
        assert!(!sent.is_finished() && owners.try_recv().is_err(), "{path}");
        turns.lets.add_permits(1);
        let status = sent.await.unwrap().unwrap().status();
        let expected = if path.ends_with("reward") { StatusCode::NOT_FOUND } else { status };
        assert!(status == expected && !status.is_server_error() && status != StatusCode::TOO_MANY_REQUESTS, "{path}");
    }
}

#[tokio::test]
async fn a_large_body_for_which_there_is_no_room_is_refused_in_its_dialect() {
    let api = api(TestStore::new().await, Arc::new(Full));
    for (path, encoding, body) in large_bodies("r", "a") {
        let answer = api.router.clone().oneshot(post(path, encoding, body)).await.unwrap();
        let status = answer.status();
        let reply: Value = serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap();
        let words = if path == "/v1/traces" { &reply["message"] } else { &reply["detail"] };
        let expected = "16 large bodies wait to be read already; send this one later";
        assert_eq!((status, words), (StatusCode::TOO_MANY_REQUESTS, &json!(expected)), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_large_body_is_read_aside_from_the_only_thread() {
    let (entered, _owners) = mpsc::unbounded_channel();
    let turns: Arc<dyn Turns> = Arc::new(Scripted { entered, lets: Semaphore::new(1) });
    let mut extensions = axum::http::Extensions::new();
    extensions.insert(turns);
    let (sender, receiver) = std::sync::mpsc::channel();
    let reading = tokio::spawn(async move {
        let turn = Queue::of(&extensions).turn(1 << 20).await.unwrap();
        turn.work(|| receiver.recv())
    });
    let other = tokio::spawn(async move { sender.send(()).unwrap() });
    reading.await.unwrap().unwrap();
    other.await.unwrap();
}

#[tokio::test]
async fn long_lists_are_written_as_they_are_read() {
    let api = Api::new().await;
    let started = api.store.start().await;
    let prompt = json!({ "p": { "resource_type": "prompt_template", "template": "t", "engine": "jinja" } });
    for number in 0..20 {
        api.done(&format!("/v1/agl/workers/w-{number}"), json!({})).await;
        api.done("/v1/agl/resources", prompt.clone()).await;
    }
    let attempts = format!("/v1/agl/rollouts/{}/attempts", started.rollout.rollout_id);
    for path in ["/v1/agl/workers", "/v1/agl/resources", &attempts] {
        for page in ["", "?limit=-1", "?limit=300&offset=3", "?limit=300&offset=300"] {
            let request = Request::get(format!("{path}{page}")).body(Body::empty()).unwrap();
            let answer = api.router.clone().oneshot(request).await.unwrap();
            assert!(answer.headers().get(header::CONTENT_LENGTH).is_none(), "{path}{page} was put together in memory");
            let text = answer.into_body().collect().await.unwrap().to_bytes();
            let long: Value = serde_json::from_slice(&text).unwrap_or_else(|_| panic!("{path}{page}: {text:?}"));
            let short = api.get(&format!("{path}?limit=256{}", &page[page.find("&").unwrap_or(page.len())..])).await.1;
            assert_eq!((&long["items"], &long["total"]), (&short["items"], &short["total"]), "{path}{page}");
        }
    }
}
