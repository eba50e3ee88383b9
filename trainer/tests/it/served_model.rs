//! New weights that are put behind a server's model: an answer that will not change ends that, an outage does not.
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use fulgurite_backends::{BackendError, NewWeights, WeightsReceiver, WeightsSource};
use fulgurite_client::{Server, ServerOptions};
use fulgurite_trainer::RemotelyServedModel;
use fulgurite_types::{Replaces, WeightsId, WeightsVersion};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const PATH: &str = "/runs/r/published/000004";

/// What becomes of weights that a server answers so to, and the bodies that it got. The last answer is for all later ones.
async fn loaded(patience: Duration, answers: Vec<(u16, Value)>) -> (Result<(), BackendError>, Vec<Value>) {
    loaded_from(WeightsSource::Model(Path::new(PATH).to_owned()), patience, answers).await
}

async fn loaded_from(
    source: WeightsSource,
    patience: Duration,
    answers: Vec<(u16, Value)>,
) -> (Result<(), BackendError>, Vec<Value>) {
    let bodies: Arc<Mutex<Vec<Value>>> = Arc::default();
    let received = Arc::clone(&bodies);
    let answer = move |body: Bytes| {
        let mut bodies = received.lock().unwrap();
        let (status, answer) = answers.get(bodies.len()).or(answers.last()).unwrap();
        bodies.push(serde_json::from_slice(&body).unwrap());
        let answer = (StatusCode::from_u16(*status).unwrap(), answer.to_string());
        async move { answer }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await.unwrap() });
    let server = Server::new(ServerOptions { url, admin_key: None, patience, reply_limit: 1 << 20 }).unwrap();
    let model = RemotelyServedModel::new(server, "m", "r", WeightsId::of_digest([1; 32]), Replaces::Anything);
    let weights = NewWeights { version: WeightsVersion(4), source };
    let outcome = model.load_weights(&weights).await;
    let bodies = bodies.lock().unwrap().clone();
    (outcome, bodies)
}

fn error(code: Value, message: &str) -> Value {
    json!({ "error": { "code": code, "message": message } })
}

#[tokio::test]
async fn files_that_the_server_cannot_read_are_no_outage() {
    let message = format!("{PATH}/model.safetensors: No such file or directory (os error 2)");
    // The second is what earlier releases answer.
    for answer in [(422, error(json!("weights_unread"), &message)), (500, error(Value::Null, &message))] {
        let (outcome, _) = loaded(Duration::ZERO, vec![answer]).await;
        let Err(BackendError::Unread { message }) = outcome else { panic!("{outcome:?}") };
        for part in [PATH, "the server at http://127.0.0.1:", "No such file", "--run-directory"] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
}

#[tokio::test]
async fn an_adapter_that_the_server_has_no_base_for_is_no_outage() {
    let answer = (422, error(json!("other_base"), "this server's model was started with others"));
    let (outcome, bodies) = loaded(Duration::from_secs(60), vec![answer]).await;
    let Err(BackendError::Unread { message }) = outcome else { panic!("{outcome:?}") };
    assert!(message.contains("was started with others") && bodies.len() == 1, "{message}");
}

#[tokio::test]
async fn a_server_that_is_away_gets_weights_later() {
    let there = json!({ "model": "m", "weights_version": 4 });
    let answers = vec![
        (503, error(json!("shutting_down"), "ending")),
        (500, error(Value::Null, "the model host failed")),
        (200, there),
    ];
    let (outcome, bodies) = loaded(Duration::from_secs(60), answers).await;
    outcome.unwrap();
    assert_eq!(bodies.len(), 3);
}

#[tokio::test]
async fn a_server_that_knows_no_runs_gets_weights_without_one() {
    let unknown = error(Value::Null, "there is no key `run_id`; there are version, model, adapter");
    let there = json!({ "model": "m", "weights_version": 4 });
    let (outcome, bodies) = loaded(Duration::ZERO, vec![(400, unknown), (200, there)]).await;
    outcome.unwrap();
    let [with, without] = bodies.as_slice() else { panic!("{bodies:?}") };
    assert_eq!((&with["run_id"], &without["run_id"]), (&json!("r"), &Value::Null));
    assert_eq!((&without["version"], &without["model"]), (&json!(4), &json!(PATH)));
    // Nor bases of adapters.
    let unknown =
        |field: &str| (400, error(Value::Null, &format!("there is no key `{field}`; did you mean `version`?")));
    let there = json!({ "model": "m", "weights_version": 4 });
    let adapter = WeightsSource::Adapter(Path::new(PATH).to_owned());
    let (outcome, bodies) =
        loaded_from(adapter, Duration::ZERO, vec![unknown("base"), unknown("run_id"), (200, there)]).await;
    outcome.unwrap();
    let sent = bodies.iter().map(|body| (body["base"].is_string(), body["run_id"].is_string()));
    assert_eq!(sent.collect::<Vec<_>>(), [(true, true), (false, true), (false, false)]);
    assert!(bodies[0]["base"].as_str().is_some_and(|base| base.starts_with("0101")), "{bodies:?}");
    // Another mistake in the request is one.
    let (outcome, bodies) = loaded(Duration::ZERO, vec![(400, error(Value::Null, "no such adapter"))]).await;
    assert!(matches!(outcome, Err(BackendError::Configuration { .. })) && bodies.len() == 1);
}
