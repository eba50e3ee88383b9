//! What a trainer that is another process asks for.

use axum::http::StatusCode;
use fulgurite_store::{KeyHolder, Keyring};
use fulgurite_types::{Generation, NewRollout, PackedGeneration, session_rollout_id};
use serde_json::{Value, json};

use crate::served::Api;
use crate::test_store::generation;

/// Generations `a`, `b` and `c` of one attempt, with 2, 3 and 1 sampled tokens; its rollout's id.
async fn with_generations(api: &Api) -> String {
    let attempted = api.store.start().await;
    for (id, sampled) in [("a", &[1, 2][..]), ("b", &[1, 2, 3]), ("c", &[1])] {
        api.store.recording().record(generation(id, &attempted, &[9], sampled)).await.unwrap();
    }
    attempted.rollout.rollout_id
}

#[tokio::test]
async fn generations_come_in_pages_and_to_the_bit() {
    let api = Api::new().await;
    let rollout_id = with_generations(&api).await;
    let mut read: Vec<Generation> = Vec::new();
    let mut offset = json!(0);
    let mut pages = 0;
    while !offset.is_null() {
        let path = format!("/v1/fulgurite/generations?rollout_id={rollout_id}&limit=2&offset={offset}");
        let (status, page) = api.get(&path).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        for item in page["items"].as_array().unwrap() {
            let packed: PackedGeneration = serde_json::from_value(item.clone()).unwrap();
            read.push(packed.try_into().unwrap());
        }
        offset = page["next_offset"].clone();
        pages += 1;
    }
    assert_eq!(pages, 2);
    assert_eq!(read, api.store.generations().matching(&Default::default()).await.unwrap());
    let (_, none) = api.get("/v1/fulgurite/generations?rollout_id=another").await;
    assert_eq!(none, json!({ "items": [], "next_offset": null }));
    for wrong in ["limit=0", "limit=1001", "offset=-1", "limit=x"] {
        let (status, detail) = api.get(&format!("/v1/fulgurite/generations?{wrong}")).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{wrong}: {detail}");
        assert_eq!(detail["detail"][0]["loc"][0], "query");
    }
}

#[tokio::test]
async fn records_of_rollouts_come_in_the_order_of_their_ids_and_not_of_too_many() {
    let api = Api::new().await;
    let rollout_id = with_generations(&api).await;
    let path = "/v1/fulgurite/rollouts/records";
    let (status, reply) = api.post(path, json!({ "rollout_ids": ["none", rollout_id] })).await;
    assert_eq!((status, &reply["items"][0]), (StatusCode::OK, &Value::Null), "{reply}");
    assert_eq!(reply["items"][1]["rollout"]["rollout_id"], rollout_id);
    assert_eq!(reply["items"][1]["generations"].as_array().unwrap().len(), 3);
    // A session's own name is an id as well.
    let session =
        NewRollout { rollout_id: Some(session_rollout_id("x-session-id", b"visit 7")), ..NewRollout::default() };
    let session = api.store.rollouts().start(session, None).await.unwrap().rollout.rollout_id;
    let (status, reply) = api.post(path, json!({ "rollout_ids": ["visit 8", "visit 7"] })).await;
    assert_eq!((status, &reply["items"][0]), (StatusCode::OK, &Value::Null), "{reply}");
    assert_eq!(reply["items"][1]["rollout"]["rollout_id"], session);
    let (status, reply) = api.post(path, json!({ "rollout_ids": vec!["none"; 1001] })).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{reply}");
    assert_eq!(reply["detail"][0]["loc"], json!(["body", "rollout_ids"]));
}

fn step(cursor: u64) -> Value {
    json!({
        "step": 2, "weights_version": 2, "metrics": { "reward": 0.1 },
        "uses": [{ "generation_id": "a", "cause": "trained", "tokens": 2 }],
        "checkpoint": { "directory": "checkpoints/2", "state": { "cursor": cursor } },
    })
}

#[tokio::test]
async fn a_run_is_recorded_and_what_is_told_twice_counts_once() {
    let api = Api::new().await;
    with_generations(&api).await;
    let new = json!({ "run_id": "run", "name": "n", "config": { "a": 1.5 }, "seed": u64::MAX });
    let run = api.done("/v1/fulgurite/runs", new.clone()).await;
    assert_eq!(api.done("/v1/fulgurite/runs", new).await, run);
    let other = json!({ "run_id": "run", "name": "n", "config": {}, "seed": 1 });
    let (status, detail) = api.post("/v1/fulgurite/runs", other).await;
    assert_eq!((status, &detail["detail"]), (StatusCode::CONFLICT, &json!("run already exists: run")));
    assert_eq!(api.get("/v1/fulgurite/runs").await.1, json!([run]));
    assert_eq!(api.get("/v1/fulgurite/runs/run").await.1, run);
    assert_eq!(api.get("/v1/fulgurite/runs/none").await.0, StatusCode::NOT_FOUND);

    let recorded = api.done("/v1/fulgurite/runs/run/steps", step(7)).await;
    assert_eq!(api.done("/v1/fulgurite/runs/run/steps", step(7)).await, recorded);
    assert_eq!(api.get("/v1/fulgurite/runs/run/steps").await.1, json!([recorded]));
    let (status, detail) = api.post("/v1/fulgurite/runs/run/steps", step(8)).await;
    assert_eq!((status, &detail["detail"]), (StatusCode::CONFLICT, &json!("step already exists: 2 of run run")));
    let (_, checkpoints) = api.get("/v1/fulgurite/runs/run/checkpoints").await;
    assert_eq!((checkpoints.as_array().unwrap().len(), &checkpoints[0]["state"]["cursor"]), (1, &json!(7)));

    let uses = json!({ "uses": [{ "generation_id": "c", "cause": "evaluation", "tokens": 1 }] });
    for _ in 0..2 {
        assert_eq!(api.empty("/v1/fulgurite/runs/run/uses", &uses).await, StatusCode::NO_CONTENT);
    }
    let (_, unaccounted) = api.get("/v1/fulgurite/runs/run/unaccounted").await;
    assert_eq!((unaccounted.as_array().unwrap().len(), &unaccounted[0]["generation_id"]), (1, &json!("b")));
    let ledger = |reply: Value| -> Vec<String> {
        reply.as_array().unwrap().iter().map(|row| format!("{} {}", row["cause"], row["tokens"])).collect()
    };
    let expected = ["\"evaluation\" 1", "\"trained\" 2", "\"other\" 3"];
    assert_eq!(ledger(api.get("/v1/fulgurite/runs/run/ledger").await.1), expected);
    let rewind = json!({ "to_step": 1 });
    assert_eq!(api.empty("/v1/fulgurite/runs/run/rewind", &rewind).await, StatusCode::NO_CONTENT);
    assert_eq!(api.get("/v1/fulgurite/runs/run/steps").await.1, json!([]));
    let expected = ["\"after_last_checkpoint\" 2", "\"evaluation\" 1", "\"other\" 3"];
    assert_eq!(ledger(api.get("/v1/fulgurite/runs/run/ledger").await.1), expected);
}

#[tokio::test]
async fn a_run_that_makes_no_sense_is_refused_with_its_mistake() {
    let api = Api::new().await;
    for (path, body, place) in [
        ("runs", json!({ "name": "n", "config": {}, "seed": 1 }), json!(["body", "run_id"])),
        ("runs", json!({ "run_id": "r", "name": "n", "config": {}, "seed": 1, "more": 1 }), json!(["body", "more"])),
        ("runs/r/steps", json!({ "step": 1 }), json!(["body", "weights_version"])),
        ("runs/r/uses", json!({ "uses": [{ "cause": "trained" }] }), json!(["body", "uses", 0, "generation_id"])),
        ("runs/r/rewind", json!({ "to_step": -1 }), json!(["body", "to_step"])),
        ("keys/model-calls", json!({ "seconds": 0 }), json!(["body", "seconds"])),
    ] {
        let (status, detail) = api.post(&format!("/v1/fulgurite/{path}"), body).await;
        assert_eq!((status, &detail["detail"][0]["loc"]), (StatusCode::UNPROCESSABLE_ENTITY, &place), "{path}");
    }
    let (status, detail) = api
        .post(
            "/v1/fulgurite/runs",
            json!({
                "run_id": "r", "name": "n", "config": {}, "seed": -1,
            }),
        )
        .await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{detail}");
    let (status, detail) = api.post("/v1/fulgurite/runs/r/rewind", json!({ "to_step": 1 })).await;
    assert_eq!((status, &detail["detail"]), (StatusCode::NOT_FOUND, &json!("run not found: r")));
}

#[tokio::test]
async fn rewards_of_an_attempt_are_listed_in_their_order() {
    let api = Api::new().await;
    let rollout_id = with_generations(&api).await;
    for (path, value) in [("generation/a/reward", 0.25), ("reward", 0.1)] {
        api.done(&format!("/rollout/{rollout_id}/{path}"), json!({ "value": value, "components": { "x": 2 } })).await;
    }
    let path = format!("/v1/fulgurite/rollouts/{rollout_id}/attempts/latest/rewards");
    let (_, rewards) = api.get(&path).await;
    let rewards: Vec<fulgurite_types::RecordedReward> = serde_json::from_value(rewards).unwrap();
    let values: Vec<_> = rewards.iter().map(|it| (it.generation_id.as_deref(), it.reward.value)).collect();
    assert_eq!(values, [(Some("a"), 0.25), (None, 0.1)]);
    assert_eq!(rewards, api.store.rewards().of_attempt(&rollout_id, "latest").await.unwrap());
    let (_, rewarded) = api.get("/v1/fulgurite/rewarded-attempts?after=0&limit=5").await;
    assert_eq!(
        (rewarded["items"].as_array().unwrap().len(), &rewarded["items"][0]["rollout_id"]),
        (1, &json!(rollout_id))
    );
    let after = &rewarded["next_after"];
    let (_, none) = api.get(&format!("/v1/fulgurite/rewarded-attempts?after={after}")).await;
    assert_eq!(none, json!({ "items": [], "next_after": after }));
    let (status, _) = api.get("/v1/fulgurite/rewarded-attempts?limit=0").await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn a_key_to_model_calls_is_issued() {
    let api = Api::new().await;
    let issued = api.done("/v1/fulgurite/keys/model-calls", json!({ "seconds": 60 })).await;
    let keyring = Keyring { admin: None, issued: api.store.issued_keys().await.unwrap().clone() };
    assert_eq!(keyring.holder(issued["key"].as_str().unwrap()), Ok(KeyHolder::ModelCalls));
}
