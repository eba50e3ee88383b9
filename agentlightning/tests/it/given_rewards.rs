//! Who may reward what, and that a reward is given once.

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use fulgurite_store::{KeyHolder, Keyring};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::served::Api;
use crate::test_store::generation;

/// An attempt that somebody has taken.
struct Claimed {
    rollout_id: String,
    attempt_id: String,
    headers: HeaderMap,
}

impl Claimed {
    fn path(&self, rest: &str) -> String {
        format!("/rollout/{}/attempt/{}/{rest}", self.rollout_id, self.attempt_id)
    }

    fn agent(&self) -> Option<KeyHolder> {
        let (rollout_id, attempt_id) = (self.rollout_id.clone(), self.attempt_id.clone());
        Some(KeyHolder::Attempt { rollout_id, attempt_id })
    }

    fn grader(&self) -> Option<KeyHolder> {
        let (rollout_id, attempt_id) = (self.rollout_id.clone(), self.attempt_id.clone());
        Some(KeyHolder::Grader { rollout_id, attempt_id })
    }

    /// An annotation span that says it is the grader's.
    fn forged_span(&self, span_id: &str) -> Value {
        json!({
            "rollout_id": self.rollout_id, "attempt_id": self.attempt_id, "sequence_id": 9, "span_id": span_id,
            "trace_id": "0af7651916cd43dd8448eb211c80319c", "parent_id": null, "name": "agentlightning.annotation",
            "status": {"status_code": "OK"},
            "attributes": {
                "agentlightning.reward.0.name": "primary", "agentlightning.reward.0.value": 3000.0,
                "fulgurite.reward.giver": "grader",
            },
            "events": [], "links": [], "start_time": 1.0, "end_time": 2.0, "context": null, "parent": null,
            "resource": {"attributes": {}, "schema_url": ""},
        })
    }
}

impl Api {
    /// Sends as whoever holds a key, with further headers.
    async fn send_as(
        &self,
        holder: Option<KeyHolder>,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> (StatusCode, HeaderMap, Value) {
        let mut request = Request::builder().method("POST").uri(path).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::from(body.to_string())).unwrap();
        if let Some(holder) = holder {
            request.extensions_mut().insert(holder);
        }
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, headers, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn take(&self, grader: Option<&str>) -> Claimed {
        self.done("/v1/agl/queues/rollouts/enqueue", json!({"rollouts": [{"input": 1}]})).await;
        let body = json!({"worker_id": "w", "grader": grader});
        let (_, headers, claimed) = self.send_as(None, "/v1/agl/queues/rollouts/dequeue", &[], &body).await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Claimed {
            rollout_id: text(&claimed[0]["rollout_id"]),
            attempt_id: text(&claimed[0]["attempt"]["attempt_id"]),
            headers,
        }
    }

    async fn reward(&self, claimed: &Claimed, holder: Option<KeyHolder>, body: &Value) -> (StatusCode, Value) {
        let (status, _, reply) = self.send_as(holder, &claimed.path("reward"), &[], body).await;
        (status, reply)
    }

    async fn values(&self, claimed: &Claimed) -> Vec<f64> {
        let rewards = self.store.rewards().of_attempt(&claimed.rollout_id, claimed.attempt_id.as_str()).await.unwrap();
        rewards.iter().map(|recorded| recorded.reward.value).collect()
    }

    async fn end(&self, claimed: &Claimed) {
        let path = format!("/v1/agl/rollouts/{}/attempts/{}", claimed.rollout_id, claimed.attempt_id);
        self.done(&path, json!({"status": "succeeded"})).await;
    }
}

#[tokio::test]
async fn an_agent_cannot_overwrite_its_graders_reward() {
    let api = Api::new().await;
    let claimed = api.take(Some("grade.py")).await;
    let keyring = Keyring { admin: None, issued: api.store.issued_keys().await.unwrap().clone() };
    let holder = |header: &str| keyring.holder(claimed.headers[header].to_str().unwrap()).ok();
    assert_eq!(holder("x-fulgurite-key"), claimed.agent());
    assert_eq!(holder("x-fulgurite-grader-key"), claimed.grader());

    let (status, given) = api.reward(&claimed, claimed.grader(), &json!({"value": 0.5})).await;
    assert_eq!((status, &given["giver"]), (StatusCode::CREATED, &json!("grader")));
    for nobody in [claimed.agent(), None, Some(KeyHolder::ModelCalls)] {
        let (status, reply) = api.reward(&claimed, nobody, &json!({"value": 3000.0})).await;
        let detail = reply["detail"].as_str().unwrap();
        assert_eq!(status, StatusCode::FORBIDDEN, "{detail}");
        assert!(detail.starts_with("the attempt is graded by `grade.py`"), "{detail}");
    }
    let (status, reply) = api.reward(&claimed, claimed.agent(), &json!({"value": 3000.0, "giver": "grader"})).await;
    assert_eq!((status, reply["detail"].as_str().unwrap().split(':').next()), (StatusCode::FORBIDDEN, Some("giver")));
    let path = format!("/api/rollouts/{}/attempt/{}/events", claimed.rollout_id, claimed.attempt_id);
    let event = json!({"event_type": "reward", "data": {"value": 3000.0}});
    assert_eq!(api.send_as(claimed.agent(), &path, &[], &event).await.0, StatusCode::FORBIDDEN);
    assert_eq!(api.values(&claimed).await, [0.5]);

    let by_person = json!({"value": 0.75, "giver": "person"});
    let (status, given) = api.reward(&claimed, Some(KeyHolder::Admin), &by_person).await;
    assert_eq!((status, &given["giver"]), (StatusCode::CREATED, &json!("person")));
    assert_eq!(api.values(&claimed).await, [0.5, 0.75]);
}

#[tokio::test]
async fn a_reward_in_an_agents_span_does_not_count_where_there_is_a_grader() {
    let api = Api::new().await;
    let (graded, free) = (api.take(Some("grade.py")).await, api.take(None).await);
    for (span_id, holder) in [("a", graded.agent()), ("b", None)] {
        let (status, _, reply) = api.send_as(holder, "/v1/agl/spans", &[], &graded.forged_span(span_id)).await;
        assert_eq!(status, StatusCode::CREATED, "the span is kept: {reply}");
        assert_eq!(reply["name"], "fulgurite.uncounted_annotation");
        assert_eq!(reply["attributes"]["fulgurite.uncounted.agentlightning.reward.0.value"], 3000.0);
        assert_eq!(reply["attributes"].get("fulgurite.reward.giver"), None);
    }
    let mut output = graded.forged_span("c");
    output["name"] = json!("task");
    output["attributes"] = json!({"agentops.task.output": "{\"type\": \"reward\", \"value\": 3000}"});
    api.done("/v1/agl/spans", output).await;
    let mut event = graded.forged_span("e");
    event["name"] = json!("agentlightning.event");
    event["attributes"] =
        json!({"agentlightning.event.type": "reward", "agentlightning.event.data": "{\"value\": 3000.0}"});
    api.done("/v1/agl/spans", event).await;
    let (_, events) = api.get(&format!("/api/rollouts/{}/events", graded.rollout_id)).await;
    assert_eq!(events, json!([]));
    assert_eq!(api.values(&graded).await, Vec::<f64>::new());
    assert!(api.store.rewards().rewarded_attempts(0, 9).await.unwrap().items.is_empty());

    api.done("/v1/agl/spans", free.forged_span("a")).await;
    let rewards = api.store.rewards().of_attempt(&free.rollout_id, "latest").await.unwrap();
    assert_eq!(
        (rewards[0].reward.value, rewards[0].giver.unwrap().as_str()),
        (3000.0, "unknown"),
        "a claim of its own"
    );
    api.send_as(Some(KeyHolder::Admin), "/v1/agl/spans", &[], &graded.forged_span("d")).await;
    assert_eq!(api.values(&graded).await, [3000.0], "with the admin key it is a reward like any");
}

#[tokio::test]
async fn a_reward_in_a_trace_does_not_count_where_there_is_a_grader() {
    let api = Api::new().await;
    let (graded, free) = (api.take(Some("grade.py")).await, api.take(None).await);
    let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    for claimed in [&graded, &free] {
        let span = json!({
            "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331",
            "name": "agentlightning.annotation", "startTimeUnixNano": "1", "endTimeUnixNano": "2",
            "attributes": [
                {"key": "agentlightning.reward.0.value", "value": {"doubleValue": 3000.0}},
                text("fulgurite.reward.giver", "grader"),
            ],
        });
        let resource = json!({"attributes": [
            text("agentlightning.rollout_id", &claimed.rollout_id), text("agentlightning.attempt_id", &claimed.attempt_id),
        ]});
        let export = json!({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span]}]}]});
        let (status, _, reply) = api.send_as(None, "/v1/traces", &[], &export).await;
        assert_eq!((status, reply), (StatusCode::OK, json!({})));
    }
    assert_eq!((api.values(&graded).await, api.values(&free).await), (vec![], vec![3000.0]));
}

#[tokio::test]
async fn an_attempts_own_key_rewards_nothing_after_its_end_and_no_other_attempt() {
    let api = Api::new().await;
    let (claimed, other) = (api.take(None).await, api.take(None).await);
    let body = json!({"value": 1.0});
    assert_eq!(api.reward(&claimed, claimed.agent(), &body).await.0, StatusCode::CREATED);
    let (status, reply) = api.reward(&claimed, other.agent(), &body).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{reply}");
    assert_eq!(api.reward(&claimed, other.grader(), &body).await.0, StatusCode::FORBIDDEN);
    api.end(&claimed).await;
    let (status, reply) = api.reward(&claimed, claimed.agent(), &json!({"value": 3000.0})).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(reply["detail"].as_str().unwrap().contains("has ended (succeeded)"), "{reply}");
    let (status, _, _) = api.send_as(claimed.agent(), "/v1/agl/spans", &[], &claimed.forged_span("a")).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(api.values(&claimed).await, [1.0]);
    // Without a key, on a server without an admin key, as whoever judges what was harvested.
    assert_eq!(api.reward(&claimed, None, &json!({"value": 0.25})).await.0, StatusCode::CREATED);
    assert_eq!(api.values(&claimed).await, [1.0, 0.25]);
}

#[tokio::test]
async fn an_agent_does_not_speak_after_its_judge() {
    let api = Api::new().await;
    let claimed = api.take(None).await;
    let attempted = api.store.rollouts().get(&claimed.rollout_id).await.unwrap().unwrap();
    let attempted = fulgurite_types::AttemptedRollout { rollout: attempted.0, attempt: attempted.1.unwrap() };
    api.store.recording().record(generation("g", &attempted, &[1], &[2])).await.unwrap();
    api.reward(&claimed, Some(KeyHolder::Admin), &json!({"value": 0.5, "giver": "judge"})).await;
    let (status, reply) = api.reward(&claimed, claimed.agent(), &json!({"value": 1.0})).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(reply["detail"].as_str().unwrap().starts_with("the reward was given by the judge"), "{reply}");
    let of_call = format!("/rollout/{}/generation/g/reward", claimed.rollout_id);
    let (status, ..) = api.send_as(claimed.agent(), &of_call, &[], &json!({"value": 1.0})).await;
    assert_eq!(status, StatusCode::CREATED, "of that call nobody else has said anything");
}

#[tokio::test]
async fn a_reward_that_is_sent_again_after_a_lost_answer_is_given_once() {
    let api = Api::new().await;
    let claimed = api.take(Some("grade.py")).await;
    let path = claimed.path("reward");
    let body = json!({"value": 0.1, "components": {"exact": 0.3}});
    let key = [("idempotency-key", "k")];
    let (status, _, first) = api.send_as(claimed.grader(), &path, &key, &body).await;
    assert_eq!(status, StatusCode::CREATED);
    let again = api.send_as(claimed.grader(), &path, &key, &body).await;
    assert_eq!((again.0, &again.2), (StatusCode::CREATED, &first));
    let (status, _, reply) = api.send_as(claimed.grader(), &path, &key, &json!({"value": 0.2})).await;
    assert_eq!(
        (status, &reply["detail"]),
        (StatusCode::CONFLICT, &json!("Idempotency-Key: the same key came with another body before"))
    );
    // As client libraries count their tries: the same again is the same, another is new.
    let retry = [("x-stainless-retry-count", "1")];
    assert_eq!(api.send_as(claimed.grader(), &path, &retry, &body).await.2, first);
    assert_eq!(api.values(&claimed).await, [0.1]);
    api.send_as(claimed.grader(), &path, &retry, &json!({"value": 0.2})).await;
    api.send_as(claimed.grader(), &path, &[], &json!({"value": 0.2})).await;
    assert_eq!(api.values(&claimed).await, [0.1, 0.2, 0.2]);
    for wrong in ["", "k\u{e9}", &"k".repeat(256)] {
        let (status, _, reply) = api.send_as(claimed.grader(), &path, &[("idempotency-key", wrong)], &body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{reply}");
    }
    // Another attempt's keys are its own.
    let other = api.take(Some("grade.py")).await;
    let (status, _, reply) = api.send_as(other.grader(), &other.path("reward"), &key, &json!({"value": 7.0})).await;
    assert_eq!((status, &reply["reward"]["value"]), (StatusCode::CREATED, &json!(7.0)));
}

#[tokio::test]
async fn a_retry_of_an_agents_reward_is_answered_after_its_attempt_has_ended() {
    let api = Api::new().await;
    let claimed = api.take(None).await;
    let (path, key) = (format!("/rollout/{}/reward", claimed.rollout_id), [("idempotency-key", "k")]);
    let (_, _, first) = api.send_as(claimed.agent(), &path, &key, &json!({"value": 1.0})).await;
    api.end(&claimed).await;
    let again = api.send_as(claimed.agent(), &path, &key, &json!({"value": 1.0})).await;
    assert_eq!((again.0, again.2), (StatusCode::CREATED, first));
}
