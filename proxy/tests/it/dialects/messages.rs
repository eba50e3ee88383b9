//! Anthropic's Messages over real sockets, whole and streamed.

use std::time::Duration;

use fulgurite_types::RolloutFilter;

use crate::common::families::{FAMILIES, Family, QWEN3, message_below, recorded, tools};
use crate::common::messages::{assembled, events};
use crate::common::{BODY_LIMIT, CONTEXT_LENGTH, Script, Setup};
use fulgurite_backends::SamplingEnd;
use fulgurite_proxy::ProxyOptions;
use serde_json::{Value, json};
use tokio::sync::oneshot;

fn plain() -> Value {
    json!({ "model": "tiny", "max_tokens": 64000, "messages": [{ "role": "user", "content": "Say you are 17." }] })
}

/// What `common::families::request` asks, in this dialect.
pub(super) fn request() -> Value {
    let function = &tools()[0]["function"];
    json!({
        "model": "tiny",
        "max_tokens": 64000,
        "system": "Be brief.",
        "messages": [{ "role": "user", "content": "Rain in Paris?" }],
        "tools": [{
            "name": function["name"],
            "description": function["description"],
            "input_schema": function["parameters"],
        }],
        "tool_choice": { "type": "auto" },
        "thinking": { "type": "adaptive" },
    })
}

pub(super) async fn post(setup: &Setup, base: &str, body: &Value) -> reqwest::Response {
    let response = setup.client.post(format!("{base}/messages?beta=true")).json(body).send().await.unwrap();
    let id = response.headers()["request-id"].to_str().unwrap();
    assert!(id.starts_with("req_"), "{id}");
    response
}

pub(super) fn with(mut body: Value, key: &str, value: Value) -> Value {
    body[key] = value;
    body
}

/// The same answer whole and streamed, each as the first call of a rollout of the same seed, with the rollout.
async fn both_ways(setup: &Setup, request: &Value, sampled: &[u32], reason: SamplingEnd) -> [(Value, String); 2] {
    let (whole_rollout, base) = setup.seeded_attempt(5).await;
    setup.play(Script::Answer(sampled.to_vec(), reason));
    let whole: Value = post(setup, &base, request).await.json().await.unwrap();
    let (streamed_rollout, base) = setup.seeded_attempt(5).await;
    setup.play(Script::Answer(sampled.to_vec(), reason));
    let text = post(setup, &base, &with(request.clone(), "stream", json!(true))).await.text().await.unwrap();
    let events = events(&text);
    assert_eq!(events.last().unwrap(), &json!({ "type": "message_stop" }));
    [(whole, whole_rollout), (assembled(&events), streamed_rollout)]
}

/// The same but for the id, which no two responses share.
fn without_id(message: &Value) -> Value {
    let mut message = message.clone();
    let id = message.as_object_mut().unwrap().remove("id").unwrap();
    assert!(id.as_str().unwrap().starts_with("msg_"), "{id}");
    message
}

async fn answered(family: &Family, request: &Value, sampled: &str, reason: SamplingEnd) -> (Setup, Value, [String; 2]) {
    let setup = family.setup().await;
    let sampled = setup.sampled(sampled);
    let [(whole, first), (streamed, second)] = both_ways(&setup, request, &sampled, reason).await;
    assert_eq!(without_id(&whole), without_id(&streamed), "{}", family.format);
    assert_eq!(recorded(&setup, &first).await, recorded(&setup, &second).await, "{}", family.format);
    (setup, whole, [first, second])
}

#[tokio::test]
async fn thinking_text_and_a_call_are_blocks_whole_and_streamed() {
    for family in FAMILIES {
        let (setup, message, [rollout, _]) = answered(&family, &request(), family.turn, SamplingEnd::StopToken).await;
        let signature = message["content"][0]["signature"].as_str().unwrap();
        assert_eq!(signature.len(), 64);
        let generation = setup.generation_of(&rollout).await;
        let call = &message["content"][2];
        let expected = json!([
            { "type": "thinking", "thinking": "hm", "signature": signature },
            { "type": "text", "text": "Looking." },
            { "type": "tool_use", "id": call["id"], "name": "weather", "input": { "city": "Paris", "days": 2 } },
        ]);
        assert_eq!(message["content"], expected);
        for (key, value) in [
            ("id", json!(generation.generation_id)),
            ("type", json!("message")),
            ("role", json!("assistant")),
            ("model", json!("tiny")),
            ("stop_reason", json!("tool_use")),
            ("stop_sequence", Value::Null),
        ] {
            assert_eq!(message[key], value, "{key}");
        }
        assert_eq!(message["usage"]["input_tokens"], generation.prompt_tokens.len());
        assert_eq!(message["usage"]["output_tokens"], generation.sampled_tokens.len());
        assert_eq!(message["prompt_token_ids"], json!(generation.prompt_tokens));
        assert_eq!(message["token_ids"], json!(generation.sampled_tokens));
        let logprobs: Vec<f32> = message["logprobs"]["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["logprob"].as_f64().unwrap() as f32)
            .collect();
        assert_eq!(Some(logprobs), generation.logprobs);
        assert_eq!(setup.attributes(&rollout).await["gen_ai.completion.0.tool_calls.0.id"], call["id"]);
    }
}

#[tokio::test]
async fn what_was_answered_comes_back_as_the_same_message_with_the_results_of_its_calls() {
    for family in FAMILIES {
        let setup = family.setup().await;
        let (rollout, base) = setup.attempt().await;
        setup.play(Script::Answer(setup.sampled(family.turn), SamplingEnd::StopToken));
        let mut request = request();
        let reply: Value = post(&setup, &base, &request).await.json().await.unwrap();
        let mut answered = message_below(&setup.attributes(&rollout).await, "gen_ai.completion.0.");
        assert_eq!(answered.remove("finish_reason"), Some(json!("tool_calls")));

        let id = &reply["content"][2]["id"];
        let cached = json!({ "type": "ephemeral" });
        request["messages"].as_array_mut().unwrap().extend([
            json!({ "role": "assistant", "content": reply["content"] }),
            json!({ "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": id, "content": [{ "type": "text", "text": "rain" }],
                  "cache_control": cached },
                { "type": "text", "text": "Well?" },
            ] }),
        ]);
        setup.play(Script::Answer(setup.sampled(&(family.plain_turn)("It rains.")), SamplingEnd::StopToken));
        let answer: Value = post(&setup, &base, &request).await.json().await.unwrap();
        assert_eq!(answer["content"][1], json!({ "type": "text", "text": "It rains." }), "{}", family.format);
        assert_eq!(answer["stop_reason"], "end_turn");

        let attributes = setup.attributes(&rollout).await;
        assert_eq!(message_below(&attributes, "gen_ai.prompt.2."), answered, "{}", family.format);
        let expected = family.continued_after_result(&setup, id);
        assert_eq!(setup.sampler.requests.lock().unwrap()[1].prompt, expected, "{}", family.format);
    }
}

#[tokio::test]
async fn thinking_is_for_those_who_ask_and_recorded_for_all() {
    for (thinking, shown) in [
        (json!(null), false),
        (json!({ "type": "disabled" }), false),
        (json!({ "type": "adaptive", "display": "omitted" }), false),
        (json!({ "type": "adaptive", "display": "summarized" }), true),
        (json!({ "type": "enabled", "budget_tokens": 1024 }), true),
    ] {
        let request = with(request(), "thinking", thinking.clone());
        let (setup, message, [rollout, _]) = answered(&QWEN3, &request, QWEN3.turn, SamplingEnd::StopToken).await;
        let first = if shown { "thinking" } else { "text" };
        assert_eq!(message["content"][0]["type"], first, "{thinking}");
        assert_eq!(setup.attributes(&rollout).await["gen_ai.completion.0.reasoning_content"], "hm");
    }
}

#[tokio::test]
async fn a_call_that_breaks_is_text_and_no_block_that_anybody_can_run() {
    for family in FAMILIES {
        for broken in family.broken {
            let sampled = format!("{broken}{}", family.stop);
            let (_, message, _) = answered(&family, &request(), &sampled, SamplingEnd::StopToken).await;
            let [block] = message["content"].as_array().unwrap().as_slice() else { panic!("{message}") };
            assert!(broken.contains(block["text"].as_str().unwrap()), "{message}");
            assert_eq!(message["stop_reason"], "end_turn");
        }
        let cut = family.turn.split_once(family.end_of_call).unwrap().0;
        let (_, message, _) = answered(&family, &request(), cut, SamplingEnd::Length).await;
        let kinds: Vec<&Value> = message["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
        assert_eq!((json!(kinds), &message["stop_reason"]), (json!(["thinking", "text"]), &json!("max_tokens")));
    }
}

#[tokio::test]
async fn calls_text_between_them_and_no_arguments() {
    let call = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>";
    let sampled = format!("<think>\nhm\n</think>\n\nOne.\n{call}\nTwo.\n{call}<|im_end|>");
    let (_, message, _) = answered(&QWEN3, &request(), &sampled, SamplingEnd::StopToken).await;
    let content = message["content"].as_array().unwrap();
    let blocks: Vec<&Value> = content.iter().map(|block| block.get("text").unwrap_or(&block["type"])).collect();
    let (first, second) = (&content[2], &content[content.len() - 1]);
    assert_eq!((blocks[0], blocks[2]), (&json!("thinking"), &json!("tool_use")));
    assert!(blocks.iter().any(|blocks| blocks.as_str().unwrap().contains("Two.")), "{blocks:?}");
    assert_eq!((&first["input"], &second["input"]), (&json!({}), &json!({})));
    assert_ne!(first["id"], second["id"]);
}

#[tokio::test]
async fn an_answer_of_nothing_is_an_empty_text() {
    for (sampled, text) in [("<think>\nhm\n</think>\n\n<|im_end|>", ""), ("<|im_end|>", ""), (" \n<|im_end|>", " \n")] {
        let request = with(request(), "thinking", json!(null));
        let (_, message, _) = answered(&QWEN3, &request, sampled, SamplingEnd::StopToken).await;
        assert_eq!(message["content"], json!([{ "type": "text", "text": text }]));
        assert_eq!(message["stop_reason"], "end_turn");
    }
}

#[tokio::test]
async fn a_stop_sequence_is_told() {
    let request = with(request(), "stop_sequences", json!(["STOP", "HALT"]));
    let sampled = (QWEN3.plain_turn)("One HALT two");
    let (_, message, _) = answered(&QWEN3, &request, &sampled, SamplingEnd::StopToken).await;
    assert_eq!(message["content"][1]["text"], "One ");
    assert_eq!((&message["stop_reason"], &message["stop_sequence"]), (&json!("stop_sequence"), &json!("HALT")));
}

#[tokio::test]
async fn elsewhere_token_ids_are_for_those_who_ask() {
    let setup = Setup::new(vec![]).await;
    for wants_ids in [json!(null), json!(true)] {
        setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
        let request = with(plain(), "return_token_ids", wants_ids.clone());
        let answer: Value = post(&setup, &format!("{}/v1", setup.url), &request).await.json().await.unwrap();
        for key in ["prompt_token_ids", "token_ids", "logprobs"] {
            assert_eq!(answer.get(key).is_some(), wants_ids == json!(true), "{key}");
        }
    }
}

/// The fields that Claude Code 2.1 sends.
#[tokio::test]
async fn what_agents_always_send_is_taken_and_what_is_not_honoured_is_recorded() {
    let setup = QWEN3.setup().await;
    let (rollout, base) = setup.attempt().await;
    let cached = json!({ "type": "ephemeral" });
    let mut request = request();
    request["system"] = json!([
        { "type": "text", "text": "You are an agent." },
        { "type": "text", "text": "Be brief.", "cache_control": cached },
    ]);
    request["messages"] = json!([
        { "role": "user", "content": [{ "type": "text", "text": "Rain in Paris?", "cache_control": cached }] },
        { "role": "system", "content": "Today is Monday." },
    ]);
    let search = json!({ "type": "web_search_20250305", "name": "web_search", "max_uses": 8 });
    request["tools"].as_array_mut().unwrap().push(search.clone());
    let unknown = json!({
        "context_management": { "edits": [{ "type": "clear_thinking_20251015", "keep": "all" }] },
        "output_config": { "effort": "medium" },
        "metadata": { "user_id": "u" },
        "service_tier": "auto",
        "thinking": { "type": "adaptive" },
    });
    request.as_object_mut().unwrap().extend(unknown.as_object().cloned().unwrap());
    setup.play(Script::Answer(setup.sampled(QWEN3.turn), SamplingEnd::StopToken));
    // The client knows a base without a version, and puts it there itself.
    let without_version = base.strip_suffix("/v1").unwrap();
    for (at, expected) in [(base.as_str(), 200), (without_version, 529)] {
        assert_eq!(post(&setup, at, &request).await.status(), expected);
    }
    let attributes = setup.attributes(&rollout).await;
    let json_of = |key: &str| serde_json::from_str::<Value>(attributes[key].as_str().unwrap()).unwrap();
    assert_eq!(json_of("fulgurite.request.ignored_tools"), json!([search]));
    assert_eq!(json_of("fulgurite.request.extra"), unknown);
    assert_eq!(attributes["gen_ai.request.functions.0.name"], "weather");
    assert_eq!(attributes.get("gen_ai.request.functions.1.name"), None);
    for (index, role) in ["system", "user", "system"].iter().enumerate() {
        assert_eq!(attributes[format!("gen_ai.prompt.{index}.role")], *role);
    }
    let request = setup.sampler.requests.lock().unwrap()[0].clone();
    assert_eq!(request.prompt.len() + request.max_tokens, 4096, "as much as there is room for");
}

#[tokio::test]
async fn a_prompt_is_counted_as_it_is_sampled() {
    let setup = QWEN3.setup().await;
    let mut body = request();
    body.as_object_mut().unwrap().remove("max_tokens");
    let counted =
        setup.client.post(format!("{}/v1/messages/count_tokens", setup.url)).json(&body).send().await.unwrap();
    let counted: Value = counted.json().await.unwrap();
    assert_eq!(setup.generations().await, []);
    setup.play(Script::Answer(setup.sampled(QWEN3.turn), SamplingEnd::StopToken));
    let message: Value = post(&setup, &format!("{}/v1", setup.url), &request()).await.json().await.unwrap();
    assert_eq!(counted, json!({ "input_tokens": message["usage"]["input_tokens"] }));
}

#[tokio::test]
async fn a_conversation_that_ends_with_the_assistant_is_counted() {
    let setup = QWEN3.setup().await;
    let messages = json!([{ "role": "user", "content": "Hi" }, { "role": "assistant", "content": "Hello." }]);
    let body = json!({ "model": "tiny", "messages": messages });
    let counted =
        setup.client.post(format!("{}/v1/messages/count_tokens", setup.url)).json(&body).send().await.unwrap();
    assert_eq!(counted.status(), 200);
    let messages: Vec<_> = serde_json::from_value(messages).unwrap();
    let rendered = setup.renderer.render_prompt(&messages, &[]).unwrap();
    assert_eq!(counted.json::<Value>().await.unwrap(), json!({ "input_tokens": rendered.tokens.len() }));
}

#[tokio::test]
async fn a_stream_that_breaks_off_ends_with_an_error_and_a_quiet_one_gives_signs_of_life() {
    let setup =
        Setup::with_options(ProxyOptions { keep_alive: Duration::from_millis(1), ..ProxyOptions::default() }).await;
    let here = format!("{}/v1", setup.url);
    let request = with(plain(), "stream", json!(true));
    setup.play(Script::Break(setup.tokens("I am")));
    let response = post(&setup, &here, &request).await;
    let id = response.headers()["request-id"].to_str().unwrap().to_owned();
    let parsed = events(&response.text().await.unwrap());
    let expected = json!({
        "type": "error",
        "error": { "type": "api_error", "message": "the model host failed: it broke" },
        "request_id": id,
    });
    assert_eq!((&parsed[0]["type"], parsed.last().unwrap()), (&json!("message_start"), &expected));

    let (on_disconnect, disconnected) = oneshot::channel();
    setup.play(Script::Hang(vec![], on_disconnect));
    let mut response = post(&setup, &here, &request).await;
    let mut text = String::new();
    while !text.contains("event: ping\n") {
        text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
    }
    assert!(text.starts_with("event: message_start\n"), "{text}");
    drop(response);
    disconnected.await.unwrap();
}

#[tokio::test]
async fn every_bad_request_gets_anthropics_error_and_stores_nothing() {
    let setup = Setup::new(vec![]).await;
    let here = format!("{}/v1", setup.url);
    let unknown = format!("{}/rollout/ro-none/attempt/at-none/v1", setup.url);
    let with_content = |content: Value| with(plain(), "messages", json!([{ "role": "user", "content": content }]));
    let block = |block: Value| with_content(json!([block]));
    let history = |content: Value| {
        let assistant = json!({ "role": "assistant", "content": content });
        with(plain(), "messages", json!([assistant, { "role": "user", "content": "?" }]))
    };
    let (image, document) = (json!({ "type": "image", "source": {} }), json!({ "type": "document", "source": {} }));
    let pdf =
        json!({ "type": "document", "source": { "type": "base64", "media_type": "application/pdf", "data": "x" } });
    let tool = json!([{ "name": "f", "input_schema": {} }]);
    let result = |content: Value| json!({ "type": "tool_result", "tool_use_id": "t", "content": content });
    let long = "17 ".repeat(CONTEXT_LENGTH);
    for (base, body, status, kind, words) in [
        (&here, json!([]), 400, "invalid_request_error", "must be a JSON object"),
        (&here, with(plain(), "max_tokens", json!(null)), 400, "invalid_request_error", "max_tokens is required"),
        (&here, with(plain(), "max_tokens", json!(0)), 400, "invalid_request_error", "max_tokens must be at least 1"),
        (
            &here,
            with(plain(), "max_tokens", json!("x")),
            400,
            "invalid_request_error",
            "max_tokens is \"x\", but must be a whole number",
        ),
        (&here, with(plain(), "temperature", json!(3)), 400, "invalid_request_error", "temperature is 3"),
        (&here, with(plain(), "stop_sequences", json!([""])), 400, "invalid_request_error", "stop_sequences: a stop"),
        (&here, with(plain(), "model", json!("huge")), 404, "not_found_error", "`huge` does not exist"),
        (&here, with(plain(), "messages", json!([])), 400, "invalid_request_error", "messages must hold"),
        (&here, with(plain(), "system", json!(3)), 400, "invalid_request_error", "system: expected a string"),
        (&here, with(plain(), "system", json!([image])), 400, "invalid_request_error", "system[0].type is `image`"),
        (&here, with_content(json!(3)), 400, "invalid_request_error", "messages[0].content: expected a string"),
        (&here, with_content(json!([])), 400, "invalid_request_error", "messages[0].content must hold"),
        (&here, block(json!({})), 400, "invalid_request_error", "messages[0].content[0].type must be"),
        (&here, block(json!({ "type": "text" })), 400, "invalid_request_error", "messages[0].content[0].text must be"),
        (&here, block(image.clone()), 400, "invalid_request_error", "`image`, but this model reads text alone"),
        (&here, block(document), 400, "invalid_request_error", "`document`, but this model reads text alone"),
        (&here, block(pdf.clone()), 400, "invalid_request_error", "content[0].source.type is `base64`, but this model"),
        (&here, block(result(json!([pdf]))), 400, "invalid_request_error", "content[0].source.type is `base64`"),
        (&here, block(json!({ "type": "tool_use" })), 400, "invalid_request_error", "is `tool_use`, which cannot"),
        (&here, block(result(json!([image]))), 400, "invalid_request_error", "content[0].content[0].type is `image`"),
        (&here, block(result(json!(7))), 400, "invalid_request_error", "messages[0].content[0].content: expected"),
        (&here, block(json!({ "type": "tool_result" })), 400, "invalid_request_error", "tool_use_id must be a string"),
        (
            &here,
            history(json!([{ "type": "tool_use", "id": "t", "name": "f", "input": "x" }])),
            400,
            "invalid_request_error",
            "messages[0].content[0].input must be an object",
        ),
        (
            &here,
            history(json!([{ "type": "server_tool_use", "id": "t", "name": "web_search", "input": {} }])),
            400,
            "invalid_request_error",
            "is `server_tool_use`",
        ),
        (
            &here,
            with(plain(), "messages", json!([{ "role": "assistant", "content": "I" }])),
            400,
            "invalid_request_error",
            "must not end with the assistant's",
        ),
        (
            &here,
            with(plain(), "messages", json!([{ "role": "tool", "content": "I" }])),
            400,
            "invalid_request_error",
            "messages[0].role is `tool`",
        ),
        (&here, with(plain(), "tools", tool), 400, "invalid_request_error", "chatml format cannot declare tools"),
        (
            &here,
            with(plain(), "tool_choice", json!({ "type": "any" })),
            400,
            "invalid_request_error",
            "there are no tools",
        ),
        (&here, with(plain(), "thinking", json!({ "type": "deep" })), 400, "invalid_request_error", "not known"),
        (
            &here,
            with(plain(), "output_config", json!({ "format": { "type": "json_schema" } })),
            400,
            "invalid_request_error",
            "output_config.format.schema must be a JSON schema",
        ),
        (&here, with(plain(), "mcp_servers", json!([{}])), 400, "invalid_request_error", "mcp_servers are not"),
        (&here, with(plain(), "min_p", json!(0.1)), 400, "invalid_request_error", "min_p is not supported"),
        (&here, with_content(json!(long)), 400, "invalid_request_error", "prompt is too long: "),
        (&here, with_content(json!("x".repeat(BODY_LIMIT))), 413, "request_too_large", "over the limit"),
        (&unknown, plain(), 404, "not_found_error", "there is no rollout"),
        (&here, plain(), 529, "overloaded_error", "at its limit"),
    ] {
        let response = post(&setup, base, &body).await;
        let (found, id) = (response.status().as_u16(), response.headers()["request-id"].to_str().unwrap().to_owned());
        let error: Value = response.json().await.unwrap();
        let message = error["error"]["message"].as_str().unwrap().to_owned();
        let expected = json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": id });
        assert_eq!((found, &error), (status, &expected));
        assert!(message.contains(words), "{words}: {message}");
    }
    assert_eq!(setup.generations().await, []);
    assert_eq!(setup.store.rollouts().query(&RolloutFilter::default()).await.unwrap().total, 0);
}

#[tokio::test]
async fn what_else_is_served_speaks_the_clients_dialect() {
    let setup = Setup::new(vec![]).await;
    let get = async |path: &str| {
        let request = setup.client.get(format!("{}{path}", setup.url)).header("anthropic-version", "2023-06-01");
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    for path in ["/v1/models", "/rollout/r/attempt/a/v1/models", "/rollout/r/attempt/a/models"] {
        let (status, models) = get(path).await;
        assert_eq!((status, &models["has_more"]), (200, &json!(false)));
        assert_eq!((&models["first_id"], &models["last_id"]), (&json!("tiny"), &json!("tiny")));
        let model = &models["data"][0];
        assert_eq!(
            (&model["type"], &model["id"], &model["display_name"]),
            (&json!("model"), &json!("tiny"), &json!("tiny"))
        );
        assert_eq!(model["max_input_tokens"], CONTEXT_LENGTH);
        assert!(model["created_at"].is_string());
    }
    for (path, status, kind) in [
        ("/v1/nothing", 404, "not_found_error"),
        ("/v1/messages", 405, "invalid_request_error"),
        ("/v1/chat/completions", 405, "invalid_request_error"),
    ] {
        let (found, error) = get(path).await;
        assert_eq!((found, &error["error"]["type"]), (status, &json!(kind)), "{path}");
        assert_eq!(error["type"], "error");
    }
    // Nobody else asks for this, so that the dialect is known without the header.
    let response = setup.client.get(format!("{}/v1/messages", setup.url)).send().await.unwrap();
    assert_eq!(response.json::<Value>().await.unwrap()["type"], "error");
}

/// Takes what the system says first and nowhere else, as Qwen3.5's does.
const SYSTEM_FIRST: &str = "{% for message in messages %}{% if message.role == 'system' and not loop.first %}\
    {{ raise_exception('System message must be at the beginning.') }}{% endif %}<|im_start|>{{ message.role }}\n\
    {{ message.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

#[tokio::test]
async fn what_claude_code_says_as_the_system_late_reaches_a_model_whose_template_takes_it_only_first() {
    let setup = Setup::of_template(SYSTEM_FIRST).await;
    let (rollout, base) = setup.attempt().await;
    let mut request = json!({
        "model": "tiny", "max_tokens": 8, "system": [{ "type": "text", "text": "s" }],
        "messages": [{ "role": "user", "content": "17" }, { "role": "system", "content": "Say." }],
    });
    for _ in 0..2 {
        setup.play(Script::Answer([setup.tokens("am"), vec![setup.stop()]].concat(), SamplingEnd::StopToken));
        let answered = post(&setup, &base, &request).await;
        assert_eq!(answered.status(), 200);
        let answer: Value = answered.json().await.unwrap();
        let next = [
            json!({ "role": "assistant", "content": answer["content"] }),
            json!({ "role": "system", "content": "Once more." }),
            json!({ "role": "user", "content": "I" }),
        ];
        request["messages"].as_array_mut().unwrap().extend(next);
    }
    let prompt = setup.sampler.requests.lock().unwrap()[1].prompt.clone();
    let reminder = |text: &str| format!("<system-reminder>\n{text}\n</system-reminder>");
    let expected = format!(
        "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\n17\n\n{}<|im_end|>\n<|im_start|>assistant\nam<|im_end|>\n\
         <|im_start|>user\n{}\n\nI<|im_end|>\n<|im_start|>assistant\n",
        reminder("Say."),
        reminder("Once more.")
    );
    assert_eq!(setup.renderer.tokenizer().decode(&prompt), expected);
    assert_eq!(setup.store.queries().drift(&rollout).await.unwrap().continued, 1);
}
