//! The store API of 0.3, asked as its clients ask.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use fulgurite_agentlightning::Overdue;
use fulgurite_api::Serving;
use fulgurite_store::{KeyHolder, Keyring, Statistics};
use fulgurite_types::{Attempt, AttemptedRollout, SessionIds};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::served::Api;
use crate::test_store::TestStore;

fn keys(value: &Value) -> String {
    value.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>().join(" ")
}

pub(crate) fn span(rollout_id: &str, attempt_id: &str) -> Value {
    json!({
        "rollout_id": rollout_id, "attempt_id": attempt_id, "sequence_id": 7,
        "trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331", "parent_id": null,
        "name": "openai.chat.completion", "status": {"status_code": "OK", "description": null},
        "attributes": {"prompt_token_ids": [1, 2], "whole": 1, "not_whole": 1.0, "gen_ai.response.id": "c1"},
        "events": [], "links": [], "start_time": 1.5, "end_time": 2.5, "context": null, "parent": null,
        "resource": {"attributes": {}, "schema_url": ""}, "kind": "SpanKind.INTERNAL",
    })
}

#[tokio::test]
async fn a_rollout_goes_through_the_queue() {
    let api = Api::new().await;
    let body = json!({"rollouts": [
        {"input": {"q": "1+1"}, "mode": "train", "metadata": {"k": 1}, "config": {
            "timeout_seconds": 60, "max_attempts": 2, "retry_condition": ["failed", "timeout"]}},
        {"input": null},
    ]});
    let (status, reply) = api.post("/v1/agl/queues/rollouts/enqueue", body).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(keys(&reply[0]), "rollout_id input start_time end_time mode resources_id status config metadata");
    assert_eq!(
        reply[0]["config"].to_string(),
        r#"{"timeout_seconds":60.0,"unresponsive_seconds":null,"max_attempts":2,"retry_condition":["failed","timeout"]}"#
    );
    assert_eq!((&reply[1]["metadata"], &reply[1]["mode"]), (&json!({}), &Value::Null));

    let claimed = api.done("/v1/agl/queues/rollouts/dequeue", json!({"limit": 1, "worker_id": "Worker-0"})).await;
    assert_eq!(
        keys(&claimed[0]),
        "rollout_id input start_time end_time mode resources_id status config metadata attempt"
    );
    assert_eq!(
        keys(&claimed[0]["attempt"]),
        "rollout_id attempt_id sequence_id start_time end_time status worker_id last_heartbeat_time metadata"
    );
    let rollout_id = claimed[0]["rollout_id"].as_str().unwrap();
    assert_eq!(claimed[0]["rollout_id"], reply[0]["rollout_id"]);
    assert_eq!(api.done("/v1/agl/queues/rollouts/dequeue", json!({"limit": 0})).await, json!([]));
    assert_eq!(api.send("POST", "/v1/agl/queues/rollouts/dequeue", "").await.1.as_array().unwrap().len(), 1);

    let path = format!("/v1/agl/rollouts/{rollout_id}");
    let ended =
        api.done(&format!("{path}/attempts/latest"), json!({"status": "succeeded", "metadata": {"a": 1}})).await;
    assert_eq!((&ended["status"], &ended["metadata"]), (&json!("succeeded"), &json!({"a": 1})));
    let (_, found) = api.get(&path).await;
    assert_eq!((&found["status"], &found["attempt"]["status"]), (&json!("succeeded"), &json!("succeeded")));
    let waited = api.done("/v1/agl/waits/rollouts", json!({"rollout_ids": [rollout_id], "timeout": null})).await;
    assert_eq!(waited[0]["rollout_id"], *rollout_id);
    assert!(waited[0].get("attempt").is_none());
    let again = api.post(&format!("{path}/attempts"), json!({"worker_id": "Worker-3"})).await;
    assert_eq!((again.0, &again.1["attempt"]["sequence_id"]), (StatusCode::CREATED, &json!(2)));
    let attempts = api
        .done(&format!("{path}/attempts/search"), json!({"sort_order": "desc", "sort_by": "sequence_id", "limit": 1}))
        .await;
    assert_eq!((&attempts["items"][0]["sequence_id"], &attempts["total"]), (&json!(2), &json!(2)));
    let (_, latest) = api.get(&format!("{path}/attempts/latest")).await;
    assert_eq!(latest, attempts["items"][0]);
    let cancelled = api.done(&path, json!({"status": "cancelled", "metadata": null})).await;
    assert_eq!((&cancelled["status"], &cancelled["metadata"]), (&json!("cancelled"), &Value::Null));
}

#[tokio::test]
async fn lists_take_the_same_filters_by_get_and_post() {
    let api = Api::new().await;
    for number in 0..3 {
        api.done("/v1/agl/rollouts", json!({"input": number, "worker_id": format!("Worker-{number}")})).await;
    }
    api.done("/v1/agl/queues/rollouts/enqueue", json!({"rollouts": [{"input": 3}]})).await;
    let body = json!({"status_in": ["preparing", "running"], "limit": 2, "offset": 1});
    let (_, got) = api.get("/v1/agl/rollouts?status_in=preparing&status_in=running&limit=2&offset=1").await;
    assert_eq!(got, api.done("/v1/agl/rollouts/search", body).await);
    assert_eq!((&got["limit"], &got["offset"], &got["total"]), (&json!(2), &json!(1), &json!(3)));
    assert_eq!(got["items"][0]["input"], 1);
    let nothing = json!({"items": [], "limit": -1, "offset": 0, "total": 0});
    assert_eq!(api.done("/v1/agl/rollouts/search", json!({"status_in": []})).await, nothing);
    assert_eq!(api.done("/v1/agl/rollouts/search", json!({"status_in": null})).await["total"], 4);
    let (_, workers) = api.get("/v1/agl/workers?status_in=busy&limit=1&sort_by=worker_id&sort_order=desc").await;
    assert_eq!((&workers["items"][0]["worker_id"], &workers["total"]), (&json!("Worker-2"), &json!(3)));

    // As Agent-lightning's own server has it: -1 is no limit, and 0 is a mistake, whichever list and however it is read.
    let rollout_id = got["items"][0]["rollout_id"].as_str().unwrap().to_owned();
    let (attempts, spans) = (format!("rollouts/{rollout_id}/attempts"), format!("spans?rollout_id={rollout_id}&"));
    for list in ["rollouts", "workers", "resources", attempts.as_str(), spans.as_str()] {
        let parameter = if list.ends_with('&') { "limit" } else { "?limit" };
        for (limit, expected) in
            [("-1", StatusCode::OK), ("0", StatusCode::BAD_REQUEST), ("-2", StatusCode::BAD_REQUEST)]
        {
            let (status, reply) = api.get(&format!("/v1/agl/{list}{parameter}={limit}")).await;
            assert_eq!(status, expected, "{list} {limit}: {reply}");
            if status == StatusCode::BAD_REQUEST {
                assert_eq!(
                    reply,
                    json!({"detail": "Limit must be greater than 0 or -1 for no limit"}),
                    "{list} {limit}"
                );
            } else {
                assert_eq!(reply["limit"], -1, "{list}");
            }
        }
    }

    for (path, body, expected) in [
        ("rollouts/search", json!({"limit": 0}), "Limit must be greater than 0 or -1 for no limit"),
        (
            "rollouts/search",
            json!({"sort_by": "bogus"}),
            "Invalid sort_by: bogus, allowed fields are: rollout_id, input, start_time, end_time, mode, resources_id, \
             status, config, metadata",
        ),
        (
            "workers/Worker-0",
            json!({"heartbeat_stats": null}),
            "heartbeat_stats is invalid; it cannot be a null value.",
        ),
    ] {
        let reply = api.post(&format!("/v1/agl/{path}"), body).await;
        assert_eq!(reply, (StatusCode::BAD_REQUEST, json!({"detail": expected})));
    }
}

#[tokio::test]
async fn calls_of_nobody_are_listed_among_rollouts_only_for_who_asks() {
    let api = Api::new().await;
    api.done("/v1/agl/rollouts", json!({"input": 1})).await;
    // Metadata that only looks alike.
    let alike = json!({"input": 2, "metadata": {"kind": "sessions", "note": "{\"kind\":\"session\"}"}});
    api.done("/v1/agl/rollouts", alike).await;
    let session = SessionIds::new();
    api.store.rollouts().start_session(&session).await.unwrap();
    let of_client = json!({"input": 3, "metadata": {"kind": "session", "session": {"header": "x"}}});
    api.done("/v1/agl/rollouts", of_client).await;
    for (parameters, body, total) in [
        ("", json!({}), 2),
        ("?include_sessions=false", json!({"include_sessions": false}), 2),
        ("?include_sessions=true", json!({"include_sessions": true}), 4),
        ("?filter_logic=or&status_in=preparing", json!({"filter_logic": "or", "status_in": ["preparing"]}), 2),
        ("?include_sessions=true&limit=1", json!({"include_sessions": true, "limit": 1}), 4),
    ] {
        let (status, got) = api.get(&format!("/v1/agl/rollouts{parameters}")).await;
        assert_eq!((status, &got["total"]), (StatusCode::OK, &json!(total)), "{parameters}");
        assert_eq!(got, api.done("/v1/agl/rollouts/search", body).await, "{parameters}");
    }
    // Whoever names one wants it.
    let named = api.done("/v1/agl/rollouts/search", json!({"rollout_id_in": [session.rollout_id]})).await;
    assert_eq!(named["items"][0]["rollout_id"], json!(session.rollout_id));
    let (_, found) = api.get(&format!("/v1/agl/rollouts/{}", session.rollout_id)).await;
    assert_eq!(found["metadata"]["kind"], "session");
    let (status, refused) = api.get("/v1/agl/rollouts?include_sessions=perhaps").await;
    assert_eq!(
        (status, &refused["detail"][0]["loc"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!(["query", "include_sessions"]))
    );
}

#[tokio::test]
async fn spans_come_back_as_they_were_sent() {
    let api = Api::new().await;
    let attempted = api.store.start().await;
    let (rollout_id, attempt_id) = (attempted.rollout.rollout_id.as_str(), attempted.attempt.attempt_id.as_str());
    let sent = span(rollout_id, attempt_id);
    assert_eq!(api.post("/v1/agl/spans", sent.clone()).await, (StatusCode::CREATED, sent.clone()));
    assert_eq!(api.post("/v1/agl/spans", sent.clone()).await, (StatusCode::CREATED, Value::Null));
    // The form that it is given back in, however it was written.
    let mut pointed = sent.clone();
    (pointed["sequence_id"], pointed["start_time"], pointed["span_id"]) = (json!(7.0), json!(1.5e9 * 1e9), json!("a"));
    let reply = api.done("/v1/agl/spans", pointed).await;
    assert_eq!((&reply["sequence_id"], &reply["start_time"]), (&json!(7), &json!(1.5e9)));
    let names = json!({"rollout_id": rollout_id, "attempt_id": attempt_id});
    assert_eq!(api.done("/v1/agl/spans/next", names.clone()).await, json!({"sequence_id": 8}));
    let path = format!("/v1/agl/spans?rollout_id={rollout_id}&attempt_id=latest&name_contains=openai&limit=10");
    let page = json!({"items": [sent, reply], "limit": 10, "offset": 0, "total": 2});
    let (_, found) = api.get(&path).await;
    assert_eq!(found, page);
    // A whole number stays whole, and one that is not stays as it is.
    assert!(found["items"][0]["attributes"]["whole"].is_u64());
    assert!(found["items"][0]["attributes"]["not_whole"].is_f64());
    let search = json!({"rollout_id": rollout_id, "name": "zzz", "span_id_contains": "b7", "filter_logic": "or"});
    assert_eq!(api.done("/v1/agl/spans/search", search).await["total"], 1);
    let search = json!({"rollout_id": rollout_id, "filter_logic": "or"});
    assert_eq!(api.done("/v1/agl/spans/search", search).await["total"], 0);
    let (_, attempt) = api.get(&format!("/v1/agl/rollouts/{rollout_id}/attempts/latest")).await;
    assert_eq!(attempt["status"], "running");
    assert!(attempt["last_heartbeat_time"].is_f64());
}

#[tokio::test]
async fn resources_and_workers_answer_as_clients_expect() {
    let api = Api::new().await;
    assert_eq!(api.get("/v1/agl/resources/latest").await, (StatusCode::OK, Value::Null));
    let model = json!({"main": {"resource_type": "llm", "endpoint": "http://127.0.0.1", "model": "m"}});
    let (status, added) = api.post("/v1/agl/resources", model.clone()).await;
    assert_eq!((status, &added["version"]), (StatusCode::CREATED, &json!(1)));
    let (status, _) = api.post("/v1/agl/resources/rs-mine", model).await;
    assert_eq!(status, StatusCode::OK);
    let (_, latest) = api.get("/v1/agl/resources/latest").await;
    assert_eq!(keys(&latest), "resources_id create_time update_time version resources");
    assert_eq!(latest["resources_id"], "rs-mine");
    assert_eq!(api.get("/v1/agl/resources/nope").await, (StatusCode::OK, Value::Null));
    assert_eq!(api.get("/v1/agl/resources?limit=1").await.1["total"], 2);

    let worker = api.done("/v1/agl/workers/Worker-9", json!({"heartbeat_stats": {"cpu": 1}})).await;
    assert_eq!(
        keys(&worker),
        "worker_id status heartbeat_stats last_heartbeat_time last_dequeue_time last_busy_time last_idle_time \
         current_rollout_id current_attempt_id"
    );
    let (_, again) = api.send("POST", "/v1/agl/workers/Worker-9", "").await;
    assert_eq!(again["heartbeat_stats"], json!({"cpu": 1}));
    assert_eq!(api.get("/v1/agl/workers/nope").await, (StatusCode::OK, Value::Null));
    assert_eq!(api.get("/v1/agl/health").await.1, json!({"status": "ok"}));
    assert_eq!(api.get("/v1/agl/statistics").await.1["total_workers"], 1);
}

#[tokio::test]
async fn our_own_runner_reports_and_leaves() {
    let api = Api::new().await;
    api.done("/v1/agl/queues/rollouts/enqueue", json!({"rollouts": [{"input": 1}, {"input": 2}]})).await;
    let claimed = api.done("/v1/agl/queues/rollouts/dequeue", json!({"limit": 2, "worker_id": "w"})).await;
    let path = |claimed: &Value| {
        let [rollout_id, attempt_id] =
            [&claimed["rollout_id"], &claimed["attempt"]["attempt_id"]].map(|id| id.as_str().unwrap());
        format!("/v1/fulgurite/rollouts/{rollout_id}/attempts/{attempt_id}/report")
    };
    let names = json!({"attempts": [claimed[0]["attempt"], {"rollout_id": "no", "attempt_id": "no"}]});
    let alive = api.done("/v1/fulgurite/attempts/heartbeat", names).await;
    assert_eq!(alive.as_array().unwrap().len(), 1);
    assert!(alive[0]["last_heartbeat_time"].is_f64());
    assert_eq!(api.done(&path(&claimed[0]), json!({"status": "succeeded"})).await["status"], "succeeded");
    assert_eq!(api.done(&path(&claimed[0]), json!({"status": "failed"})).await["status"], "succeeded");
    let released = api.send("POST", "/v1/fulgurite/workers/w/release", "").await.1;
    assert_eq!((released.as_array().unwrap().len(), &released[0]["status"]), (1, &json!("unresponsive")));
}

#[tokio::test]
async fn what_is_wrong_is_said_and_nothing_is_stored() {
    let api = Api::new().await;
    let attempted = api.store.start().await;
    let rollout_id = attempted.rollout.rollout_id.as_str();
    let before = api.store.queries().statistics().await.unwrap();
    let mut no_context = span(rollout_id, &attempted.attempt.attempt_id);
    no_context.as_object_mut().unwrap().remove("context");
    for (path, body, location, kind) in [
        (
            "queues/rollouts/enqueue",
            json!({"rollouts": [{"mode": "train"}]}),
            json!(["body", "rollouts", 0, "input"]),
            "missing",
        ),
        (
            "queues/rollouts/enqueue",
            json!({"rollouts": [{"input": 1}, {"input": 1, "mode": "bogus"}]}),
            json!(["body", "rollouts", 1, "mode"]),
            "literal_error",
        ),
        (
            "queues/rollouts/enqueue",
            json!({"rollouts": [{"input": 1, "config": {"max_attempts": 0}}]}),
            json!(["body", "rollouts", 0, "config", "max_attempts"]),
            "greater_than_equal",
        ),
        ("queues/rollouts/dequeue", json!({"wait_seconds": 1e300}), json!(["body", "wait_seconds"]), "value_error"),
        ("spans", json!({"rollout_id": "x"}), json!(["body", "attempt_id"]), "missing"),
        ("spans", no_context, json!(["body", "context"]), "missing"),
        ("resources", json!({"x": {"resource_type": "bogus"}}), json!(["body", "x"]), "union_tag_invalid"),
        ("resources", json!({"x": {}}), json!(["body", "x"]), "union_tag_not_found"),
        (
            "resources",
            json!({"x": {"resource_type": "llm", "model": "m"}}),
            json!(["body", "x", "llm", "endpoint"]),
            "missing",
        ),
        ("resources", json!([]), json!(["body"]), "dict_type"),
    ] {
        let (status, reply) = api.post(&format!("/v1/agl/{path}"), body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{path}: {reply}");
        assert!(keys(&reply["detail"][0]).starts_with("type loc msg input"), "{path}: {reply}");
        assert_eq!((&reply["detail"][0]["loc"], &reply["detail"][0]["type"]), (&location, &json!(kind)), "{path}");
    }
    let (status, reply) = api.send("POST", "/v1/agl/queues/rollouts/enqueue", "not json").await;
    assert_eq!((status, &reply["detail"][0]["type"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("json_invalid")));
    for (path, body) in [
        ("rollouts/ro-no", json!({"status": "failed"})),
        ("rollouts/ro-no/attempts", json!({})),
        ("rollouts/ro-no/attempts/latest", json!({"status": "failed"})),
        ("spans", span("ro-no", "at-no")),
    ] {
        let reply = api.post(&format!("/v1/agl/{path}"), body).await;
        assert_eq!(reply, (StatusCode::NOT_FOUND, json!({"detail": "rollout not found: ro-no"})), "{path}");
    }
    assert_eq!(api.get("/v1/agl/rollouts/ro-no").await, (StatusCode::OK, Value::Null));
    assert_eq!(api.get("/v1/agl/nothing/here").await, (StatusCode::NOT_FOUND, json!({"detail": "Not Found"})));
    let status = api.post(&format!("/v1/agl/rollouts/{rollout_id}"), json!({"status": null})).await;
    let detail = "status is invalid; it cannot be a null value.";
    assert_eq!(status, (StatusCode::BAD_REQUEST, json!({"detail": detail})));

    let limited = Serving { body_limit: 100, ..Serving::default() };
    let small = Api { router: crate::served_so(api.store.store.clone(), &limited, Overdue::ByTimer), store: api.store };
    let large = json!({"rollouts": [{"input": "x".repeat(100)}]});
    let reply = small.post("/v1/agl/queues/rollouts/enqueue", large).await;
    assert_eq!(reply, (StatusCode::PAYLOAD_TOO_LARGE, json!({"detail": "The request body is too large"})));
    let after = small.store.queries().statistics().await.unwrap();
    let counts = |all: Statistics| (all.rollouts, all.attempts, all.spans, all.resources, all.workers);
    assert_eq!(counts(after), counts(before));
}

#[tokio::test]
async fn every_mistake_is_listed_where_it_is() {
    let api = Api::new().await;
    let bad_word = |word: &str, expected: &str| json!({"msg": format!("Input should be {expected}"), "input": word, "ctx": {"expected": expected}});
    let (status, reply) = api.get("/v1/agl/workers?limit=x&status_in=busy&status_in=lazy&offset=1").await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let mut lazy = bad_word("lazy", "'idle', 'busy' or 'unknown'");
    lazy["type"] = json!("literal_error");
    lazy["loc"] = json!(["query", "status_in", 1]);
    let limit = json!({"type": "int_parsing", "loc": ["query", "limit"], "input": "x",
        "msg": "Input should be a valid integer, unable to parse string as an integer"});
    assert_eq!(reply, json!({"detail": [lazy, limit]}));
    let missing = json!({"type": "missing", "loc": ["query", "rollout_id"], "msg": "Field required", "input": null});
    assert_eq!(api.get("/v1/agl/spans?limit=1").await.1, json!({ "detail": [missing] }));
    let missing = json!({"type": "missing", "loc": ["body"], "msg": "Field required", "input": null});
    assert_eq!(api.send("POST", "/v1/agl/queues/rollouts/enqueue", "").await.1, json!({ "detail": [missing] }));

    let mut wrong = span("r", "a");
    for (key, value) in [("sequence_id", json!(1.5)), ("name", json!(1)), ("events", json!([{"name": "e"}]))] {
        wrong[key] = value;
    }
    let (_, reply) = api.post("/v1/agl/spans", wrong).await;
    let found: Vec<_> = reply["detail"].as_array().unwrap().iter().map(|one| (&one["type"], &one["loc"])).collect();
    assert_eq!(
        found,
        [
            (&json!("int_from_float"), &json!(["body", "sequence_id"])),
            (&json!("string_type"), &json!(["body", "name"])),
            (&json!("missing"), &json!(["body", "events", 0, "attributes"])),
        ]
    );
    for (key, value, kind) in [
        ("sequence_id", json!(u64::MAX), "int_parsing_size"),
        ("status", json!({"status_code": {"OK": null}}), "literal_error"),
        ("status", json!(["OK", null]), "model_attributes_type"),
        ("start_time", json!("1"), "float_type"),
        ("attributes", json!(null), "dict_type"),
    ] {
        let mut wrong = span("r", "a");
        wrong[key] = value;
        let (status, reply) = api.post("/v1/agl/spans", wrong).await;
        assert_eq!((status, &reply["detail"][0]["type"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!(kind)), "{key}");
    }
    for (body, position, error) in [
        ("{\"a\": nope}", 6, "Expecting value"),
        ("", 0, ""),
        ("\n[1,", 4, "Expecting value"),
        ("[1 2]", 4, "expected `,` or `]`"),
    ] {
        let (_, reply) = api.send("POST", "/v1/agl/rollouts", body).await;
        let mistake = &reply["detail"][0];
        if body.is_empty() {
            assert_eq!(mistake["type"], "missing");
        } else {
            assert_eq!((&mistake["loc"][1], &mistake["ctx"]["error"]), (&json!(position), &json!(error)), "{body}");
        }
    }
}

#[tokio::test]
async fn a_path_says_which_methods_it_takes() {
    let api = Api::new().await;
    for path in ["/v1/agl/queues/rollouts/enqueue", "/v1/traces", "/rollout/ro-1/reward"] {
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let response = api.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{path}");
        assert_eq!(response.headers()["allow"], "POST", "{path}");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(&body[..], br#"{"detail":"Method Not Allowed"}"#, "{path}");
    }
    let (status, reply) = api.get("/v1/agl/rollouts/%ff").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(reply["detail"].as_str().unwrap().starts_with("Invalid URL"), "{reply}");
}

#[tokio::test]
async fn resources_are_found_by_id() {
    let api = Api::new().await;
    for name in ["rs-a", "rs-b", "other"] {
        api.done(&format!("/v1/agl/resources/{name}"), json!({})).await;
    }
    for (query, found) in [("resources_id=rs-a", 1), ("resources_id_contains=rs-", 2), ("resources_id=rs-", 0)] {
        assert_eq!(api.get(&format!("/v1/agl/resources?{query}")).await.1["total"], found, "{query}");
    }
}

#[tokio::test]
async fn overdue_attempts_are_ended_before_a_call_that_looks_for_them() {
    let store = TestStore::new().await;
    let quiet = Api { router: crate::routes(store.store.clone()), store };
    // Less than no time is over at once.
    let overdue = json!({"input": 1, "config": {"timeout_seconds": -1}});
    let path = |started: &Value| format!("/v1/agl/rollouts/{}", started["rollout_id"].as_str().unwrap());
    let first = quiet.done("/v1/agl/rollouts", overdue.clone()).await;
    let (_, found) = quiet.get(&path(&first)).await;
    assert_eq!(found["attempt"]["status"], "preparing");

    let api = Api {
        router: crate::served_so(quiet.store.store.clone(), &Serving::default(), Overdue::BeforeCalls),
        store: quiet.store,
    };
    let names = json!({"rollout_id": first["rollout_id"], "attempt_id": "a"});
    api.done("/v1/agl/spans/next", names).await;
    api.get("/v1/agl/workers/w").await;
    let status =
        api.store.attempts().get(first["rollout_id"].as_str().unwrap(), "latest").await.unwrap().unwrap().status;
    assert_eq!(status, fulgurite_types::AttemptStatus::Preparing);
    let (_, found) = api.get(&path(&first)).await;
    assert_eq!((&found["status"], &found["attempt"]["status"]), (&json!("failed"), &json!("timeout")));
    assert!(found["attempt"]["end_time"].is_f64());
}

#[tokio::test]
async fn whoever_gets_attempts_gets_their_keys_in_few_header_lines() {
    let api = Api::new().await;
    let rollouts = vec![json!({ "input": null }); 40];
    api.done("/v1/agl/queues/rollouts/enqueue", json!({ "rollouts": rollouts })).await;
    let dequeue = || {
        let body = Body::from(json!({ "limit": 40 }).to_string());
        let request = Request::post("/v1/agl/queues/rollouts/dequeue").body(body).unwrap();
        api.router.clone().oneshot(request)
    };
    let response = dequeue().await.unwrap();
    let lines: Vec<_> = response.headers().get_all("x-fulgurite-key").iter().cloned().collect();
    assert_eq!(lines.len(), 3);
    let keyring = Keyring { admin: None, issued: api.store.issued_keys().await.unwrap().clone() };
    let holders: Vec<_> =
        lines.iter().flat_map(|line| line.to_str().unwrap().split(',')).map(|key| keyring.holder(key)).collect();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let attempts: Vec<AttemptedRollout> = serde_json::from_slice(&bytes).unwrap();
    let expected: Vec<_> = attempts
        .into_iter()
        .map(|AttemptedRollout { attempt: Attempt { rollout_id, attempt_id, .. }, .. }| {
            Ok(KeyHolder::Attempt { rollout_id, attempt_id })
        })
        .collect();
    assert_eq!(holders, expected);
    assert!(!dequeue().await.unwrap().headers().contains_key("x-fulgurite-key"));

    let request = Request::post("/v1/agl/rollouts").body(Body::from(json!({ "input": null }).to_string())).unwrap();
    let started = api.router.clone().oneshot(request).await.unwrap();
    let holder = keyring.holder(started.headers()["x-fulgurite-key"].to_str().unwrap());
    assert!(matches!(holder, Ok(KeyHolder::Attempt { .. })), "{holder:?}");
}
