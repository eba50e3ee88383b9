//! An agent that lives elsewhere, told of each attempt by a POST.

use crate::support::Scripted;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use fulgurite_runner::{RunnerError, RunnerOptions, run};
use serde_json::{Value, json};
use std::future::pending;
use std::time::Duration;
use tokio::net::TcpListener;

/// A server of the user's, which answers as the task says.
async fn agents() -> String {
    let play = async |headers: HeaderMap, Json(body): Json<Value>| -> Response {
        assert_eq!(headers["idempotency-key"], body["attempt_id"].as_str().unwrap());
        assert!(body["base_url"].as_str().unwrap().ends_with("/v1") && body["reward_url"].is_string());
        let task = &body["task"];
        let long = task["bytes"].as_u64().map(|bytes| "x".repeat(bytes as usize));
        match long.as_deref().or(task["answer"].as_str()) {
            Some(text) => (StatusCode::from_u16(task["status"].as_u64().unwrap() as u16).unwrap(), text.to_owned())
                .into_response(),
            None => pending().await,
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/play", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/play", post(play))).await.unwrap() });
    url
}

fn runner(server: &Scripted, url: &str) -> RunnerOptions {
    RunnerOptions { until_idle: true, agent_url: Some(url.to_owned()), ..RunnerOptions::new(&server.url, vec![]) }
}

/// Has the agent at `url` do one task, and gives the rewards and the end.
async fn play(
    url: &str,
    task: Value,
    of: impl FnOnce(&Scripted, RunnerOptions) -> RunnerOptions,
) -> (Vec<Value>, Value) {
    let server = Scripted::start([task]).await;
    let options = of(&server, runner(&server, url));
    run(options, pending()).await.unwrap();
    let record = server.record();
    (record.rewards.iter().map(|(_, body)| body["value"].clone()).collect(), record.endings[0].1.clone())
}

#[tokio::test]
async fn an_answer_is_the_reward_or_what_is_graded() {
    let url = agents().await;
    let task = |answer: &str| json!({"status": 200, "answer": answer});
    let (rewards, end) = play(&url, task(r#"{"reward": 0.5, "exact": 1}"#), |_, options| options).await;
    assert_eq!((rewards, &end["status"]), (vec![json!(0.5)], &json!("succeeded")));
    let grade = ["/bin/sh", "-c", r#"test "$(cat)" = said && echo '{"reward": 1}'"#].map(str::to_owned).to_vec();
    let graded = |_: &Scripted, options| RunnerOptions { grade: Some(grade), ..options };
    assert_eq!(play(&url, task(r#"{"output": "said"}"#), graded).await.0, [json!(1)]);
    let (_, end) = play(&url, task(r#"{"error": "no luck"}"#), |_, options| options).await;
    assert_eq!(end["metadata"]["reason"], "agent failed: no luck");
}

#[tokio::test]
async fn an_agent_that_has_begun_posts_its_reward_when_it_has_played() {
    let (rewards, end) = play(&agents().await, json!({"status": 202, "answer": ""}), |server, options| {
        server.record().posted_rewards = vec![json!({"value": 1.0})];
        options
    })
    .await;
    assert!(rewards.is_empty(), "it posted it itself");
    assert_eq!(end["status"], "succeeded", "{end}");
}

#[tokio::test]
async fn who_cannot_be_reached_is_no_fault_of_the_policys_and_a_wrong_answer_is_the_agents() {
    let url = agents().await;
    let play = async |url: &str, task: Value| {
        let (rewards, end) = play(url, task, |_, options| options).await;
        assert!(rewards.is_empty());
        [end["metadata"]["fault"].clone(), end["metadata"]["reason"].clone()].map(|it| it.as_str().unwrap().to_owned())
    };
    let [fault, reason] = play(&url, json!({"status": 503, "answer": "full"})).await;
    assert_eq!((fault.as_str(), reason.as_str()), ("runner", "agent answered 503 Service Unavailable: full"));
    let [fault, reason] = play("http://127.0.0.1:9/play", json!(1)).await;
    assert!(fault == "runner" && reason.contains("cannot be reached"), "{reason}");
    let [fault, reason] = play(&url, json!({"status": 500, "answer": "broken"})).await;
    assert_eq!((fault.as_str(), reason.as_str()), ("agent", "agent answered 500 Internal Server Error: broken"));
    let [fault, reason] = play(&url, json!({"status": 200, "answer": "[1]"})).await;
    assert!(fault == "agent" && reason.contains("no JSON object: [1]"), "{reason}");
    let [_, reason] = play(&url, json!({"status": 200, "bytes": 5 << 20})).await;
    assert!(reason.contains("more than"), "{reason}");
}

#[tokio::test]
async fn one_that_never_answers_is_timed_out_and_what_is_no_url_is_refused() {
    let timed = |_: &Scripted, options| RunnerOptions { timeout: Duration::ZERO, ..options };
    assert_eq!(play(&agents().await, json!({}), timed).await.1["status"], "timeout");
    let server = Scripted::start([]).await;
    for wrong in ["agents:8000", "ftp://agents", ""] {
        let refused = run(runner(&server, wrong), pending()).await.unwrap_err();
        assert!(matches!(refused, RunnerError::AgentUrl { .. }), "{wrong}: {refused}");
    }
}
