//! Giving rewards, and listing them.

use axum::http::StatusCode;
use serde_json::json;

use crate::served::Api;
use crate::test_store::generation;

#[tokio::test]
async fn rewards_are_taken_at_every_level() {
    let api = Api::new().await;
    let attempted = api.store.start().await;
    let (rollout_id, attempt_id) = (attempted.rollout.rollout_id.as_str(), attempted.attempt.attempt_id.as_str());
    api.store.record_generation(generation("g", &attempted, &[1], &[2])).await.unwrap();
    let root = format!("/rollout/{rollout_id}");
    let body = json!({"value": 1, "name": "solved", "components": {"z": 0.5, "a": 2}});
    let (status, reply) = api.post(&format!("{root}/reward"), body).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(reply["reward"], json!({"value": 1.0, "name": "solved", "components": [["z", 0.5], ["a", 2.0]]}));
    api.done(&format!("{root}/attempt/{attempt_id}/reward"), json!({"value": -1.0})).await;
    api.done(&format!("{root}/generation/g/reward"), json!({"value": 0.5})).await;
    for (path, body, status) in [
        ("reward", json!({}), StatusCode::UNPROCESSABLE_ENTITY),
        ("reward", json!({"value": "1"}), StatusCode::UNPROCESSABLE_ENTITY),
        ("reward", json!({"value": null}), StatusCode::UNPROCESSABLE_ENTITY),
        ("reward", json!({"value": 1, "components": {"a": "b"}}), StatusCode::UNPROCESSABLE_ENTITY),
        ("attempt/at-no/reward", json!({"value": 1}), StatusCode::NOT_FOUND),
        ("generation/no/reward", json!({"value": 1}), StatusCode::NOT_FOUND),
    ] {
        assert_eq!(api.post(&format!("{root}/{path}"), body).await.0, status, "{path}");
    }
    assert_eq!(api.post("/rollout/ro-no/reward", json!({"value": 1})).await.0, StatusCode::NOT_FOUND);
    let values: Vec<_> = api.store.rewards(rollout_id, "latest").await.unwrap();
    assert_eq!(values.iter().map(|found| found.reward.value).collect::<Vec<_>>(), [1.0, -1.0, 0.5]);
}

#[tokio::test]
async fn a_part_of_the_rewarded_attempts_has_an_end() {
    let api = Api::new().await;
    let (status, part) = api.get("/v1/fulgurite/rewarded-attempts?limit=9223372036854775807").await;
    assert_eq!((status, &part["items"]), (StatusCode::OK, &json!([])));
}
