//! What Agent-lightning's own servers answered to a row of requests, asked again of ours.
//!
//! On purpose, ours differs from 0.3.0 in this: what does not exist is 404 with its name instead of 500 with a traceback (which
//! clients take for a reason to try again); a rollout that does not exist is found to be `null`; statistics name this
//! store and know nothing of eviction. And from 1.0 in this: an id that is not supplied begins with `ro-`; of a model
//! call, the server's endpoint is not told.

use std::collections::HashMap;

use axum::body::Body;
use fulgurite_types::{AttemptedRollout, NewGeneration};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::served::Api;
use crate::test_store::generation;

#[derive(Deserialize)]
struct Exchange {
    method: String,
    path: String,
    #[serde(default)]
    body: String,
    status: u16,
    reply: Value,
}

/// Ids that the two servers made for the same thing, theirs to ours.
#[derive(Default)]
struct Ids(HashMap<String, String>);

impl Ids {
    fn learn(&mut self, theirs: &Value, ours: &Value) {
        match (theirs, ours) {
            (Value::Object(theirs), Value::Object(ours)) => {
                for (key, theirs) in theirs {
                    self.learn(theirs, ours.get(key).unwrap_or(&Value::Null));
                }
            }
            (Value::Array(theirs), Value::Array(ours)) => {
                theirs.iter().zip(ours).for_each(|(theirs, ours)| self.learn(theirs, ours));
            }
            (Value::String(theirs), Value::String(ours)) if is_made_up(theirs) && is_made_up(ours) => {
                self.0.insert(theirs.clone(), ours.clone());
            }
            _ => {}
        }
    }

    fn translate(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours))
    }
}

fn is_made_up(id: &str) -> bool {
    let digits = id.strip_prefix("ro-").or(id.strip_prefix("at-")).or(id.strip_prefix("rs-"));
    digits.is_some_and(|digits| digits.len() >= 8 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// The requests of a file and their replies.
fn exchanges(text: &str) -> Vec<Exchange> {
    serde_json::from_str(text).unwrap()
}

/// Puts a word in place of every time of now, so that only whether there is one is compared.
fn mask_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let is_time = key.ends_with("_time") || key.ends_with("_at") || key == "timestamp";
                let now = is_time && value.as_f64().is_some_and(|time| time > 1e9);
                if now || key == "uptime" { *value = json!("now") } else { mask_times(value) }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask_times),
        _ => {}
    }
}

/// What we answer on purpose where they fail.
fn instead(exchange: &Exchange) -> Option<(u16, Value)> {
    if exchange.path == "/v1/agl/statistics" {
        let mut reply = exchange.reply.clone();
        let fields = reply.as_object_mut()?;
        fields.insert("name".into(), json!("Fulgurite"));
        fields.retain(|key, _| !key.ends_with("_bytes"));
        return Some((exchange.status, reply));
    }
    if exchange.path == "/v1/logs" {
        // They take no log records; an empty request is none of ours.
        return Some((400, Value::Null));
    }
    match exchange.reply.get("error_type")?.as_str()? {
        "ResponseValidationError" => Some((200, Value::Null)),
        "ValueError" if exchange.path.ends_with("/at-nope") => {
            Some((404, json!({"detail": "attempt not found: at-nope"})))
        }
        "ValueError" => Some((404, json!({"detail": "rollout not found: ro-nope"}))),
        other => panic!("an error that is not expected: {other}"),
    }
}

#[tokio::test]
async fn version_0_3_gets_the_same_replies() {
    let api = Api::new().await;
    let exchanges = exchanges(include_str!("../vectors/agent_lightning_0_3_replies.json"));
    assert!(exchanges.len() > 60);
    let mut ids = Ids::default();
    for exchange in exchanges {
        let (path, body) = (ids.translate(&exchange.path), ids.translate(&exchange.body));
        let name = format!("{} {path} {body}", exchange.method);
        let (status, mut ours) = if path.starts_with("/v1/agl") {
            api.send(&exchange.method, &path, Body::from(body)).await
        } else {
            // Another signal of OpenTelemetry, answered without a body.
            (api.status(&exchange.method, &path).await, Value::Null)
        };
        let (expected_status, mut theirs) = instead(&exchange).unwrap_or((exchange.status, exchange.reply));
        ids.learn(&theirs, &ours);
        theirs = serde_json::from_str(&ids.translate(&theirs.to_string())).unwrap();
        mask_times(&mut theirs);
        mask_times(&mut ours);
        assert_eq!((status.as_u16(), ours), (expected_status, theirs), "{name}");
    }
}

/// What both servers were asked, answered alike.
fn model_call(attempted: &AttemptedRollout) -> NewGeneration {
    let attributes = json!({
        "gen_ai.request.temperature": 1.0, "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "hi",
        "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.finish_reason": "stop",
        "gen_ai.completion.0.content": "This is a fixed answer from the fake upstream.",
    });
    NewGeneration {
        model: "fake-model".into(),
        attributes: attributes.as_object().cloned().unwrap(),
        logprobs: Some(vec![-0.25, -0.25]),
        start_time: 1.8e9,
        end_time: 1.8e9 + 0.5,
        ..generation("chatcmpl-fake-648", attempted, &[1000, 1001, 1002], &[5000, 5001])
    }
}

/// Takes out of the events what only one of the servers can know, and what their model made up.
fn comparable(path: &str, mut events: Value) -> Value {
    for event in events.as_array_mut().unwrap() {
        let data = &mut event["data"];
        if let Some(response) = data.get_mut("response") {
            for made_up in [json!(["created"]), json!(["usage"]), json!(["choices", 0, "logprobs"])] {
                remove(response, made_up.as_array().unwrap());
            }
        }
        for (field, value) in [("model_version", json!(0)), ("latency_ms", json!(0)), ("usage", json!(0))] {
            if data.get(field).is_some() {
                data[field] = value;
            }
        }
        if let Some(server) = data.get_mut("server") {
            *server = json!({"model": server["model"]});
        }
        if let Some(request) = data.get_mut("request").and_then(Value::as_object_mut) {
            request.retain(|key, _| !matches!(key.as_str(), "return_token_ids" | "logprobs"));
        }
        if path.ends_with("format=triplet") && data.get("response_token_ids").is_some() {
            // Their example was made with an answer of three tokens.
            data["response_token_ids"] = json!(data["response_token_ids"].is_array());
            data["response_log_probs"] = json!(data["response_log_probs"][0]);
        }
    }
    events
}

fn remove(value: &mut Value, path: &[Value]) {
    match path {
        [Value::String(key)] => {
            value.as_object_mut().unwrap().shift_remove(key);
        }
        [Value::String(key), rest @ ..] => remove(&mut value[key], rest),
        [index, rest @ ..] => remove(&mut value[index.as_u64().unwrap() as usize], rest),
        [] => {}
    }
}

#[tokio::test]
async fn version_1_0_gets_the_same_replies() {
    let api = Api::new().await;
    for exchange in exchanges(include_str!("../vectors/agent_lightning_1_0_replies.json")) {
        let Exchange { method, path, body, status: expected_status, reply: mut theirs } = exchange;
        let name = format!("{method} {path} {body}");
        let adds_reward = path == "/api/rollouts/r1/attempt/0/events";
        if adds_reward {
            let rollout = api.store.rollouts().get("r1").await.unwrap().unwrap().0;
            let attempt = api.store.attempts().open("r1", "0").await.unwrap();
            api.store.recording().record(model_call(&AttemptedRollout { rollout, attempt })).await.unwrap();
        }
        if method == "DELETE" {
            assert_eq!(api.status(&method, &path).await.as_u16(), expected_status, "{name}");
            continue;
        }
        let (status, mut ours) = api.send(&method, &path, Body::from(body)).await;
        if method == "POST" && path == "/api/rollouts" {
            assert!(ours[1]["rollout_id"].as_str().unwrap().starts_with("ro-"));
            theirs[1]["rollout_id"] = ours[1]["rollout_id"].clone();
        }
        if path.contains("/events") && method == "GET" {
            (theirs, ours) = (comparable(&path, theirs), comparable(&path, ours));
        }
        mask_times(&mut theirs);
        mask_times(&mut ours);
        assert_eq!((status.as_u16(), ours), (expected_status, theirs), "{name}");
    }
}
