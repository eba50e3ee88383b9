//! What answers must be: JSON of a schema, a call, no more than one call. What reaches the model's host of it, and what
//! is refused.

use fulgurite_types::Constraint;

use crate::common::families::{FAMILIES, KIMI, request, tools};
use crate::common::{Script, Setup};
use fulgurite_backends::{Capabilities, SamplingEnd};
use serde_json::{Value, json};
use tokio::sync::oneshot;

fn every_constraint() -> Capabilities {
    Capabilities { json_schema: true, lark: true, ..Capabilities::default() }
}

fn schema() -> Value {
    json!({ "type": "object", "properties": { "days": { "type": "integer" } }, "required": ["days"] })
}

/// The constraint that a request to a path has come to at the host, and what the proxy says of the request.
async fn constraint(setup: &Setup, path: &str, body: &Value) -> Result<Option<Constraint>, (String, Value)> {
    setup.play(Script::Answer(setup.renderer.stop_tokens().to_vec(), SamplingEnd::StopToken));
    let response = setup.client.post(format!("{}/v1/{path}", setup.url)).json(body).send().await.unwrap();
    let status = response.status().as_u16();
    let reply: Value = response.json().await.unwrap();
    setup.sampler.scripts.lock().unwrap().clear();
    if status != 200 {
        assert_eq!(status, 400, "{reply}");
        return Err((reply["error"]["message"].as_str().unwrap().to_owned(), reply["error"]["param"].clone()));
    }
    let sampling = setup.sampler.requests.lock().unwrap().pop().unwrap().sampling;
    let recorded = setup.generations().await.pop().unwrap().sampling;
    assert_eq!(
        recorded,
        fulgurite_types::RecordedSampling::from(&sampling),
        "what was masked is recorded with the tokens"
    );
    Ok(sampling.constraint)
}

fn chat(fields: Value) -> Value {
    let mut body = json!({ "model": "tiny", "messages": [{ "role": "user", "content": "Rain in Paris?" }] });
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    body
}

#[tokio::test]
async fn every_dialect_asks_for_the_same_json_and_the_same_call() {
    let setup = Setup::of_family_on("qwen3_disable_thinking", "qwen3", every_constraint()).await;
    let messages = json!([{ "role": "user", "content": "Rain in Paris?" }]);
    let schema = schema();
    let flat = json!({ "type": "json_schema", "name": "n", "schema": schema });
    let by_json = [
        (
            "chat/completions",
            chat(
                json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "n", "schema": schema } } }),
            ),
        ),
        ("responses", json!({ "model": "tiny", "input": messages, "text": { "format": flat } })),
        (
            "messages",
            json!({ "model": "tiny", "max_tokens": 9, "messages": messages, "output_config": { "format": flat } }),
        ),
        ("messages", json!({ "model": "tiny", "max_tokens": 9, "messages": messages, "output_format": flat })),
    ];
    for (path, body) in by_json {
        assert_eq!(constraint(&setup, path, &body).await, Ok(Some(Constraint::JsonSchema(schema.clone()))), "{path}");
    }
    let plain_json = chat(json!({ "response_format": { "type": "json_object" } }));
    let object = Constraint::JsonSchema(json!({ "type": "object" }));
    assert_eq!(constraint(&setup, "chat/completions", &plain_json).await, Ok(Some(object)));

    let parameters = tools()[0]["function"]["parameters"].clone();
    let flat = json!([{ "type": "function", "name": "weather", "parameters": parameters }]);
    let anthropic = json!([{ "name": "weather", "input_schema": parameters }]);
    let named = json!({ "type": "function", "name": "weather" });
    let message = |choice: Value| json!({ "model": "tiny", "max_tokens": 9, "messages": messages, "tools": anthropic, "tool_choice": choice });
    let response = |choice: Value| json!({ "model": "tiny", "input": messages, "tools": flat, "tool_choice": choice });
    let mut seen = Vec::new();
    for (path, body) in [
        ("chat/completions", chat(json!({ "tools": tools(), "tool_choice": "required" }))),
        ("responses", response(json!("required"))),
        ("responses", response(named)),
        ("messages", message(json!({ "type": "any" }))),
        ("messages", message(json!({ "type": "tool", "name": "weather" }))),
    ] {
        match constraint(&setup, path, &body).await {
            Ok(Some(Constraint::Lark(grammar))) => seen.push(grammar),
            other => panic!("{path}: {other:?}"),
        }
    }
    assert!(seen[0].contains("weather") && seen.iter().all(|grammar| *grammar == seen[0]), "{seen:?}");
    let once = message(json!({ "type": "any", "disable_parallel_tool_use": true }));
    match constraint(&setup, "messages", &once).await {
        Ok(Some(Constraint::Lark(grammar))) => assert!(grammar.len() < seen[0].len()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_host_is_asked_for_what_it_can_and_else_the_field_is_refused() {
    let schemas = Capabilities { json_schema: true, ..Capabilities::default() };
    let form =
        json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "n", "schema": schema() } } });
    let refused = |field: &str| Err((format!("{field} is not supported by this model's host"), json!(field)));
    // A model that need not reason can be kept to a schema alone; one that has begun to cannot.
    let setup = Setup::of_family_on("qwen3", "qwen3", schemas.clone()).await;
    let read_constraint = constraint(&setup, "chat/completions", &chat(form.clone())).await;
    assert_eq!(read_constraint, Ok(Some(Constraint::JsonSchema(schema()))));
    let call = chat(json!({ "tools": tools(), "tool_choice": "required" }));
    assert_eq!(constraint(&setup, "chat/completions", &call).await, refused("tool_choice"));
    let reasoning = Setup::of_family_on("qwen3_5", "qwen3", schemas).await;
    assert_eq!(constraint(&reasoning, "chat/completions", &chat(form.clone())).await, refused("response_format"));
    let nothing = Setup::of_family("qwen3", "qwen3").await;
    assert_eq!(constraint(&nothing, "chat/completions", &chat(form)).await, refused("response_format"));
}

#[tokio::test]
async fn what_a_format_cannot_say_is_refused_by_name() {
    let form = json!({ "response_format": { "type": "json_object" } });
    let pattern = json!([{ "type": "function", "function": { "name": "f", "parameters": {
        "type": "object", "properties": { "day": { "type": "string", "pattern": "^[a-z]+$" } },
    } } }]);
    let call = |tools: Value| json!({ "tools": tools, "tool_choice": "required" });
    for (format, tokenizer, fields, field, words) in [
        ("role_colon", "qwen3", form, "response_format", "a text ends its turns"),
        ("qwen3_5", "qwen3", call(pattern), "tool_choice", "`day`: text cannot be kept to its `pattern`"),
        (
            "qwen3",
            "qwen3",
            call(json!([{ "type": "function", "function": { "name": "two words" } }])),
            "tool_choice",
            "the tool `two words` cannot be told by its name",
        ),
        ("qwen3", "qwen3", json!({ "tool_choice": "required" }), "tool_choice", "there are no tools"),
    ] {
        let setup = Setup::of_family_on(format, tokenizer, every_constraint()).await;
        let (message, param) = constraint(&setup, "chat/completions", &chat(fields)).await.unwrap_err();
        assert_eq!(param, field, "{message}");
        assert!(message.starts_with(field) && message.contains(words), "{message}");
        assert_eq!(setup.generations().await, []);
    }
}

#[tokio::test]
async fn an_answer_of_one_call_ends_behind_it_as_the_model_said_it() {
    for family in FAMILIES.into_iter().filter(|family| family.format != KIMI.format) {
        let setup = family.setup().await;
        let (on_disconnect, disconnected) = oneshot::channel();
        let turn = setup.sampled(family.turn);
        let call = turn.strip_suffix(&[setup.sampled(family.stop)[0]]).unwrap_or(&turn);
        setup.play(Script::Hang(
            [call, &setup.sampled("\n<tool_call>\n{\"name\": \"weather\"")].concat(),
            on_disconnect,
        ));
        let mut request = request();
        request["parallel_tool_calls"] = json!(false);
        let reply: Value = setup.post(&format!("{}/v1", setup.url), &request).await.json().await.unwrap();
        let choice = &reply["choices"][0];
        assert_eq!(choice["message"]["tool_calls"].as_array().map(Vec::len), Some(1), "{}: {reply}", family.format);
        assert_eq!(choice["message"]["content"].as_str().map(str::trim), Some("Looking."));
        assert_eq!(choice["finish_reason"], "tool_calls");
        disconnected.await.unwrap();
        let generation = setup.generations().await.pop().unwrap();
        assert!(generation.sampled_tokens.starts_with(call), "{}", family.format);
        assert!(generation.sampling.0.get("constraint").is_none(), "nothing was masked");
    }
}

#[tokio::test]
async fn an_answer_that_was_kept_to_a_schema_begins_anew_when_it_is_asked_for_again() {
    let setup = Setup::of_family_on("qwen3_disable_thinking", "qwen3", every_constraint()).await;
    let (_, base) = setup.attempt().await;
    let mut body = chat(json!({ "response_format": { "type": "json_object" }, "stream": true }));
    let (on_disconnect, disconnected) = oneshot::channel();
    setup.play(Script::Hang(setup.tokens("{\"days\""), on_disconnect));
    let mut left = setup.post(&base, &body).await;
    left.chunk().await.unwrap().unwrap();
    drop(left);
    disconnected.await.unwrap();
    let partial = setup.generation_when(|generation| generation.client_disconnected).await;
    assert!(!partial.sampled_tokens.is_empty());

    let whole = [setup.tokens("{\"days\": 2}"), vec![setup.stop()]].concat();
    setup.play(Script::Answer(whole.clone(), SamplingEnd::StopToken));
    body["stream"] = json!(false);
    let request = setup.client.post(format!("{base}/chat/completions")).header("x-stainless-retry-count", 1);
    let reply: Value = request.json(&body).send().await.unwrap().json().await.unwrap();
    assert_eq!(reply["choices"][0]["message"]["content"], "{\"days\": 2}");
    let generation = setup.generation_when(|generation| !generation.client_disconnected).await;
    assert_eq!(generation.sampled_tokens, whole);
    let requests = setup.sampler.requests.lock().unwrap();
    assert_eq!(requests[0].prompt, requests[1].prompt);
}

#[tokio::test]
async fn calls_that_stand_in_a_section_are_limited_by_the_grammar_alone() {
    let setup = Setup::of_family_on(KIMI.format, KIMI.tokenizer, every_constraint()).await;
    let grammar = async |single: bool| {
        let fields = json!({ "tools": tools(), "tool_choice": "required", "parallel_tool_calls": !single });
        match constraint(&setup, "chat/completions", &chat(fields)).await {
            Ok(Some(Constraint::Lark(grammar))) => grammar,
            other => panic!("{other:?}"),
        }
    };
    let (single, many) = (grammar(true).await, grammar(false).await);
    assert_eq!((single.contains(")*"), many.contains(")*")), (false, true));
}
