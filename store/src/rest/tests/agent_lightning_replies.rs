//! What Agent-lightning's own server (0.3.0) answered to a row of requests, asked again of ours.
//!
//! On purpose, ours differs in this: what does not exist is 404 with its name instead of 500 with a traceback (which
//! clients take for a reason to try again); a rollout that does not exist is found to be `null`; statistics name this
//! store and know nothing of eviction.

use std::collections::HashMap;

use axum::body::Body;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Api;

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

/// Puts a word in place of every time of now, so that only whether there is one is compared.
fn mask_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let now = key.ends_with("_time") && value.as_f64().is_some_and(|time| time > 1e9);
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
async fn the_same_requests_get_the_same_replies() {
    let api = Api::new().await;
    let text = include_str!("../../../tests/vectors/agent_lightning_0_3_replies.json");
    let exchanges: Vec<Exchange> = serde_json::from_str(text).unwrap();
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
