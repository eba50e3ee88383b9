//! Giving rewards, and listing them.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use fulgurite_types::{NewRollout, session_rollout_id};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::served::Api;
use crate::test_store::generation;

#[tokio::test]
async fn rewards_are_taken_at_every_level() {
    let api = Api::new().await;
    let attempted = api.store.start().await;
    let (rollout_id, attempt_id) = (attempted.rollout.rollout_id.as_str(), attempted.attempt.attempt_id.as_str());
    api.store.recording().record(generation("g", &attempted, &[1], &[2])).await.unwrap();
    let root = format!("/rollout/{rollout_id}");
    let body = json!({"value": 1, "name": "solved", "components": {"z": 0.5, "a": 2}});
    let (status, reply) = api.post(&format!("{root}/reward"), body).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(reply["reward"], json!({"value": 1.0, "name": "solved", "components": [["z", 0.5], ["a", 2.0]]}));
    api.done(&format!("{root}/attempt/{attempt_id}/reward"), json!({"value": -1.0, "name": "solved"})).await;
    api.done(&format!("{root}/generation/g/reward"), json!({"value": 0.5})).await;
    let (status, reply) = api.post(&format!("{root}/reward"), json!({"value": 0.0, "name": "kind"})).await;
    let expected = format!(
        "the reward of the attempt {attempt_id} is named `solved`, and only one name counts: revise it under that name, or \
         give `kind` as one of its components"
    );
    assert_eq!((status, reply), (StatusCode::CONFLICT, json!({ "detail": expected })));
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
    let values: Vec<_> = api.store.rewards().of_attempt(rollout_id, "latest").await.unwrap();
    assert_eq!(values.iter().map(|found| found.reward.value).collect::<Vec<_>>(), [1.0, -1.0, 0.5]);
}

#[tokio::test]
async fn a_field_that_no_reward_has_is_refused_with_the_nearest_one() {
    let api = Api::new().await;
    let attempted = api.store.start().await;
    api.store.recording().record(generation("g", &attempted, &[1], &[2])).await.unwrap();
    let (rollout_id, attempt_id) = (&attempted.rollout.rollout_id, &attempted.attempt.attempt_id);
    for path in ["reward", &format!("attempt/{attempt_id}/reward"), "generation/g/reward"] {
        for (field, message) in [
            ("valeu", "there is no field `valeu`; did you mean `value`?"),
            ("componets", "there is no field `componets`; did you mean `components`?"),
            ("x", "there is no field `x`; there are `value`, `name`, `components`, `giver`"),
        ] {
            let mut body = json!({ "value": 1.0 });
            body[field] = json!({});
            let (status, reply) = api.post(&format!("/rollout/{rollout_id}/{path}"), body).await;
            assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{path} {field}");
            let mistake = json!({ "type": "extra_forbidden", "loc": ["body", field], "msg": message, "input": {} });
            assert_eq!(reply["detail"], json!([mistake]));
        }
    }
    assert!(api.store.rewards().of_attempt(rollout_id, "latest").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_session_is_rewarded_and_read_by_the_name_that_its_client_gave_it() {
    let api = Api::new().await;
    let start = async |header: &str| {
        let rollout_id = session_rollout_id(header, b"visit 7");
        let rollout = NewRollout { rollout_id: Some(rollout_id.clone()), ..NewRollout::default() };
        api.store.rollouts().start(rollout, None).await.unwrap();
        rollout_id
    };
    assert_eq!(api.post("/rollout/visit%207/reward", json!({ "value": 1 })).await.0, StatusCode::NOT_FOUND);
    let rollout_id = start("x-session-id").await;
    let (status, given) = api.post("/rollout/visit%207/reward", json!({ "value": 1 })).await;
    assert_eq!(status, StatusCode::CREATED, "{given}");
    let recorded = api.store.rewards().of_attempt(&rollout_id, "latest").await.unwrap();
    assert_eq!(json!(recorded), json!([given]));
    for path in ["/v1/fulgurite/rollouts/visit%207/attempts/latest/rewards", "/rollout/visit%207/attempt/latest/reward"]
    {
        assert_eq!(api.get(path).await, (StatusCode::OK, json!([given])), "{path}");
    }
    let (_, drift) = api.get("/rollout/visit%207/drift").await;
    assert_eq!(drift["rollout_id"], json!(rollout_id));
    let (_, generations) = api.get("/v1/fulgurite/generations?rollout_id=visit%207").await;
    assert_eq!(generations["items"], json!([]));

    let other = start("session-id").await;
    let (status, refused) = api.post("/rollout/visit%207/reward", json!({ "value": 0 })).await;
    assert_eq!(status, StatusCode::CONFLICT, "{refused}");
    let words = refused["detail"].as_str().unwrap();
    assert!(words.contains(&rollout_id) && words.contains(&other), "{words}");
    assert_eq!(api.store.rewards().of_attempt(&rollout_id, "latest").await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_part_of_the_rewarded_attempts_has_an_end() {
    let api = Api::new().await;
    let (status, part) = api.get("/v1/fulgurite/rewarded-attempts?limit=9223372036854775807").await;
    assert_eq!((status, &part["items"]), (StatusCode::OK, &json!([])));
}

#[tokio::test]
async fn half_a_surrogate_pair_in_a_body_is_replaced_and_the_answer_says_so() {
    let api = Api::new().await;
    let attempted = api.store.start().await;
    let (rollout_id, attempt_id) = (attempted.rollout.rollout_id.as_str(), attempted.attempt.attempt_id.as_str());
    let post = async |path: &str, body: String| {
        let request = Request::post(path).header("content-type", "application/json").body(Body::from(body)).unwrap();
        let response = api.router.clone().oneshot(request).await.unwrap();
        let warning = response.headers().get("x-fulgurite-warning").map(|text| text.to_str().unwrap().to_owned());
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, warning, serde_json::from_slice::<Value>(&bytes).unwrap())
    };
    let path = format!("/rollout/{rollout_id}/reward");
    let (status, warning, reply) = post(&path, r#"{"value":1,"name":"a \ud99c"}"#.to_owned()).await;
    assert_eq!((status, &reply["reward"]["name"]), (StatusCode::CREATED, &json!("a \u{fffd}")), "{reply}");
    assert_eq!(warning.as_deref(), Some("half a surrogate pair in name replaced by U+FFFD: 1"));
    let (_, warning, _) = post(&path, r#"{"value":1,"name":"\ud83d\ude42"}"#.to_owned()).await;
    assert_eq!(warning, None);

    let attribute = |key: &str, value: &str| format!(r#"{{"key":"{key}","value":{{"stringValue":"{value}"}}}}"#);
    let attributes = [
        attribute("agentlightning.rollout_id", rollout_id),
        attribute("agentlightning.attempt_id", attempt_id),
        attribute("text", "\\udfff"),
    ];
    let export = format!(
        r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"traceId":"{}","spanId":"{}","name":"s","attributes":[{}]}}]}}]}}]}}"#,
        "0a".repeat(16),
        "0b".repeat(8),
        attributes.join(",")
    );
    let (status, warning, reply) = post("/v1/traces", export).await;
    assert_eq!(status, StatusCode::OK, "{reply}");
    assert!(warning.is_some_and(|warning| warning.contains("attributes[2].value.stringValue")));
}
