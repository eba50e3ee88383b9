//! Schemas and bodies that are small on the wire and cost a server much: each is refused by name or answered, and the
//! server goes on.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::common::{HttpAnswer, Server, client, eventually, model_flag, tiny_model};

fn serve(directory: &Path) -> Server {
    let model = tiny_model(directory, 2048);
    Server::start(directory, ["--model", &model_flag("tiny", &model)])
}

fn chat(schema: &Value) -> Value {
    json!({
        "model": "tiny", "max_tokens": 2, "messages": [{ "role": "user", "content": "Say" }],
        "response_format": { "type": "json_schema", "json_schema": { "name": "n", "schema": schema } },
    })
}

/// Posts a chat whose answer is to meet the schema.
fn ask(server: &Server, schema: &Value) -> HttpAnswer {
    server.post("/v1/chat/completions", &chat(schema))
}

/// The words with which a schema is refused, after which the server answers others.
fn refused(server: &Server, schema: &Value) -> String {
    let error = ask(server, schema).expect(400)["error"].clone();
    assert_eq!(error["type"], "invalid_request_error", "{error}");
    server.get("/healthz").expect(200);
    error["message"].as_str().unwrap().to_owned()
}

fn object(properties: usize) -> Value {
    let properties: Map<String, Value> =
        (0..properties).map(|place| (format!("p{place}"), json!({ "type": "string" }))).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// A definition that refers to the next, and so on.
fn chain(links: usize) -> Value {
    let link = |place: usize| match place + 1 < links {
        true => json!({ "$ref": format!("#/$defs/d{}", place + 1) }),
        false => json!({ "type": "string" }),
    };
    let definitions: Map<String, Value> = (0..links).map(|place| (format!("d{place}"), link(place))).collect();
    json!({ "$ref": "#/$defs/d0", "$defs": definitions })
}

#[test]
fn a_schema_of_8000_properties_does_not_end_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    let words = refused(&server, &object(8000));
    assert!(words.contains("JSON values, over the limit of 4096 (engine.grammar_values)"), "{words}");
    // As deep as the limit allows; and what people send.
    let deep = ask(&server, &object(2000));
    assert!([200, 400].contains(&deep.status), "{}", deep.text);
    ask(&server, &object(400)).expect(200);
}

#[test]
fn a_chain_of_references_does_not_end_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    for links in [1000, 2000] {
        // It may be taken or refused: the server must outlive it.
        let answered = ask(&server, &chain(links));
        assert!([200, 400].contains(&answered.status), "{links}: {}", answered.text);
        server.get("/healthz").expect(200);
    }
    let words = refused(&server, &chain(9000));
    assert!(words.contains("over the limit of"), "{words}");
}

#[test]
fn a_divisor_of_a_million_does_not_take_a_processor_for_a_minute() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    for divisor in [999_983_u64, 4_294_967_291] {
        let before = processor_seconds(&server);
        let words = refused(&server, &json!({ "type": "integer", "multipleOf": divisor }));
        assert!(words.contains("engine.grammar_"), "{words}");
        let seconds = processor_seconds(&server) - before;
        assert!(seconds < 5.0, "{seconds} processor seconds for {divisor}");
    }
    ask(&server, &json!({ "type": "integer", "multipleOf": 5 })).expect(200);
}

#[test]
fn a_schema_whose_client_has_left_is_not_worked_at_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    let body = chat(&json!({ "type": "integer", "multipleOf": 999_979 })).to_string();
    for _ in 0..20 {
        let impatient = client().post(format!("{}/v1/chat/completions", server.url)).body(body.clone());
        let left = impatient.timeout(std::time::Duration::from_millis(20)).send();
        drop(left);
    }
    // Whoever comes after them is answered, and then nothing is left to work at.
    ask(&server, &json!({ "type": "boolean" })).expect(200);
    eventually("the server to rest", || {
        let before = processor_seconds(&server);
        std::thread::sleep(std::time::Duration::from_millis(300));
        (processor_seconds(&server) - before < 0.1).then_some(())
    });
}

#[test]
fn a_tools_schema_is_bounded_as_an_answers_is() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    let mut body = chat(&json!({}));
    body.as_object_mut().unwrap().remove("response_format");
    let tool = json!({ "type": "function", "function": { "name": "f", "parameters": object(8000) } });
    body["tools"] = json!([tool]);
    body["tool_choice"] = json!("required");
    let error = server.post("/v1/chat/completions", &body).expect(400)["error"].clone();
    assert_eq!(error["type"], "invalid_request_error", "{error}");
    server.get("/healthz").expect(200);
}

#[test]
fn a_body_that_is_nested_100000_deep_is_400_in_every_dialect() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let body = format!("{{\"model\":\"tiny\",\"messages\":{nested},\"max_tokens\":1}}");
    for (path, statuses) in [
        ("/v1/chat/completions", &[400][..]),
        ("/v1/completions", &[400]),
        ("/v1/responses", &[400]),
        ("/v1/messages", &[400]),
        ("/v1/messages/count_tokens", &[400]),
        ("/v1/agl/queues/rollouts/enqueue", &[400, 422]),
        ("/v1/traces", &[400, 415]),
        ("/api/v1/asample", &[400, 422]),
        ("/api/v1/forward_backward", &[400, 422]),
    ] {
        let answered = server.post_text(path, body.clone());
        assert!(statuses.contains(&answered.status), "{path}: {} {}", answered.status, answered.text);
    }
    server.get("/healthz").expect(200);
}

/// What the server's process has taken so far.
fn processor_seconds(server: &Server) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/stat", server.process.id())).unwrap();
    let fields: Vec<&str> = status.rsplit(')').next().unwrap().split_whitespace().collect();
    // User and system time, in hundredths of a second.
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}
