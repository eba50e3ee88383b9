//! Calls that are passed on, over real sockets, to a server that plays scripts: what goes on, what comes back, and what
//! is recorded.

use std::sync::Arc;

use fulgurite_types::StatusCode;

use crate::common::upstreams::{self, KEY, Setup, bytes, chat, chat_answer, chunk, named, streamed, with_headers};
use crate::scripted::{ScriptedReply, Step};
use fulgurite_backends::{KeyHeader, ReplicaOptions, Upstream, UpstreamDialect, UpstreamOptions};
use fulgurite_proxy::{ServedModel, UpstreamModel};
use serde_json::{Value, json};
use tokio::sync::Notify;

#[tokio::test]
async fn a_request_goes_on_as_it_came_and_its_answer_comes_back_as_it_is() {
    let answer = chat_answer("chatcmpl-1").to_string();
    let headers = "content-type: application/json\r\nx-request-id: req_7\r\nx-ratelimit-remaining: 3\r\n\
                   set-cookie: c=1\r\n";
    let setup = Setup::new(vec![with_headers(200, headers, &answer)]).await;
    let (rollout, base) = setup.attempt().await;
    let mut request = chat();
    request["temperature"] = json!(0.25);
    request["mood"] = json!({ "of": "the agent", "exactly": 0.1 });
    let sent = setup.client.post(format!("{base}/chat/completions?api-version=2")).json(&request);
    let sent = sent.bearer_auth("sk-of-the-client").header("x-title", "agent").header("x-fulgurite-trainable", "true");
    let response = sent.send().await.unwrap();

    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["x-request-id"], "req_7");
    assert_eq!(response.headers()["x-fulgurite-rollout-id"], rollout);
    assert_eq!(response.headers()["x-ratelimit-remaining"], "3");
    assert!(!response.headers().contains_key("set-cookie"));
    assert_eq!(response.text().await.unwrap(), answer);

    let passed_on = setup.server.requests.lock().unwrap()[0].clone();
    assert_eq!(passed_on.path, "/v1/chat/completions?api-version=2");
    let mut expected = request.clone();
    expected["model"] = json!("gpt-x");
    assert_eq!(passed_on.body, expected);
    let head = passed_on.head.to_lowercase();
    assert!(head.contains(&format!("authorization: bearer {KEY}")) && head.contains("x-title: agent"), "{head}");
    assert!(!head.contains("sk-of-the-client") && !head.contains("x-fulgurite"), "{head}");

    let generation = setup.generation_when(|_| true).await;
    assert_eq!((generation.generation_id.as_str(), &generation.rollout_id), ("chatcmpl-1", &rollout));
    assert_eq!((generation.model.as_str(), generation.stop_reason.as_str()), ("judge", "stop"));
    assert_eq!(
        (
            generation.defect.as_ref().map(ToString::to_string).as_deref(),
            generation.branch_reason.as_ref().map(ToString::to_string).as_deref()
        ),
        (Some("upstream"), Some("upstream"))
    );
    assert_eq!((&generation.prompt_tokens[..], &generation.sampled_tokens[..]), (&[][..], &[][..]));
    let attributes = setup.attributes(&rollout).await;
    for (key, value) in [
        ("gen_ai.operation.name", json!("chat")),
        ("gen_ai.provider.name", json!("openai")),
        ("gen_ai.request.model", json!("judge")),
        ("gen_ai.request.temperature", json!(0.25)),
        ("gen_ai.response.id", json!("chatcmpl-1")),
        ("gen_ai.response.model", json!("gpt-x-1")),
        ("gen_ai.prompt.0.content", json!("Say you are 17.")),
        ("gen_ai.completion.0.content", json!("I am 17.")),
        ("gen_ai.completion.0.finish_reason", json!("stop")),
        ("gen_ai.usage.input_tokens", json!(9)),
        ("gen_ai.usage.output_tokens", json!(5)),
        ("fulgurite.upstream.model", json!("gpt-x")),
        ("fulgurite.upstream.url", json!(setup.server.url)),
    ] {
        assert_eq!(attributes[key], value, "{key}: {attributes}");
    }
    let extra: Value = serde_json::from_str(attributes["fulgurite.request.extra"].as_str().unwrap()).unwrap();
    assert_eq!(extra, json!({ "temperature": 0.25, "mood": request["mood"] }));
    let drift = setup.store.queries().drift(&rollout).await.unwrap();
    assert_eq!(json!(drift.reasons), json!({ "upstream": 1 }));
}

#[tokio::test]
async fn a_body_that_needs_no_change_goes_on_to_the_byte() {
    let setup = Setup::new(vec![with_headers(200, "", &chat_answer("c").to_string())]).await;
    let text = "{ \"model\" : \"gpt-x\", \"messages\":[ ], \"n\": 1.0 }";
    // The name that the upstream knows it by is another model's here.
    let url = upstreams::serve(
        &setup.store,
        vec![upstreams::upstream_model(
            "gpt-x",
            "gpt-x",
            UpstreamDialect::OpenAi,
            vec![format!("{}/v1", setup.server.url)],
        )],
    )
    .await;
    let response = setup.client.post(format!("{url}/v1/chat/completions")).body(text).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let named = response.headers()["x-fulgurite-rollout-id"].to_str().unwrap();
    assert_eq!(setup.generation_when(|_| true).await.rollout_id, named, "of a call that names nobody");
    let head = setup.server.heads().pop().unwrap();
    assert!(head.to_lowercase().contains(&format!("content-length: {}", text.len())), "{head}");
}

#[tokio::test]
async fn a_stream_leaves_as_it_comes_and_its_end_once_it_is_recorded() {
    let go_on = Arc::new(Notify::new());
    let first = [
        ": PROCESSING\n\n".to_owned(),
        format!("data: {}\n\n", chunk(json!({ "role": "assistant", "content": "I am" }), None)),
    ]
    .concat();
    let usage = json!({ "id": "chatcmpl-1", "choices": [], "usage": { "prompt_tokens": 9, "completion_tokens": 5 } });
    let rest = format!(
        "data: {}\n\ndata: {}\n\ndata: {usage}\n\ndata: [DONE]\n\n",
        chunk(json!({ "content": " 17.", "smell": "fresh" }), None),
        chunk(json!({}), Some("stop")),
    );
    // Cut in the middle of an event, which leaves whole.
    let (one, other) = rest.split_at(20);
    let steps = vec![bytes(&first), Step::Wait(go_on.clone()), bytes(one), bytes(other), Step::End];
    let setup = Setup::new(vec![ScriptedReply::Stream(steps)]).await;
    let (rollout, base) = setup.attempt().await;
    let mut response = setup.post(&format!("{base}/chat/completions"), &streamed(chat())).await;
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("text/event-stream"));

    let mut text = String::new();
    while text.len() < first.len() {
        text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
    }
    assert_eq!(text, first, "before anything else has come");
    assert_eq!(setup.generations().await, []);
    go_on.notify_one();
    while !text.contains("[DONE]") {
        text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
    }
    assert_eq!(setup.generations().await.len(), 1, "before its end leaves");
    assert_eq!(text, [first, rest].concat());
    assert_eq!(response.chunk().await.unwrap(), None);

    let attributes = setup.attributes(&rollout).await;
    for (key, value) in [
        ("gen_ai.completion.0.role", json!("assistant")),
        ("gen_ai.completion.0.content", json!("I am 17.")),
        ("gen_ai.completion.0.finish_reason", json!("stop")),
        ("gen_ai.request.is_stream", json!(true)),
        ("gen_ai.usage.output_tokens", json!(5)),
    ] {
        assert_eq!(attributes[key], value, "{key}: {attributes}");
    }
    let generation = setup.generation_when(|_| true).await;
    assert!(!generation.client_disconnected);
    assert_eq!(generation.generation_id, "chatcmpl-1");
}

#[tokio::test]
async fn a_stream_that_ends_without_saying_so_is_whole_once_its_answer_is() {
    let steps = vec![Step::Event(chunk(json!({ "content": "hi" }), Some("length"))), Step::End];
    let setup = Setup::new(vec![ScriptedReply::Stream(steps)]).await;
    let text = setup.post(&format!("{}/v1/chat/completions", setup.url), &streamed(chat())).await.text().await.unwrap();
    assert!(!text.contains("error"), "{text}");
    assert_eq!(setup.generation_when(|_| true).await.stop_reason.as_str(), "length");
}

#[tokio::test]
async fn a_call_of_a_custom_tool_is_recorded_whole_and_streamed() {
    let call = json!({ "id": "c", "type": "custom", "custom": { "name": "f", "input": "x = 1" } });
    let mut answer = chat_answer("chatcmpl-1");
    answer["choices"][0]["message"] = json!({ "role": "assistant", "content": null, "tool_calls": [call] });
    answer["choices"][0]["finish_reason"] = json!("tool_calls");
    let started = json!({ "index": 0, "id": "c", "type": "custom", "custom": { "name": "f", "input": "x" } });
    let more = json!({ "index": 0, "custom": { "input": " = 1" } });
    let steps = vec![
        Step::Event(chunk(json!({ "role": "assistant", "content": null, "tool_calls": [started] }), None)),
        Step::Event(chunk(json!({ "tool_calls": [more] }), Some("tool_calls"))),
        Step::End,
    ];
    let setup = Setup::new(vec![ScriptedReply::Json(200, answer), ScriptedReply::Stream(steps)]).await;
    for request in [chat(), streamed(chat())] {
        let (rollout, base) = setup.attempt().await;
        let text = setup.post(&format!("{base}/chat/completions"), &request).await.text().await.unwrap();
        assert!(!text.contains("error"), "{text}");
        let span = setup.spans(&rollout).await.pop().unwrap();
        assert_eq!(span.status.status_code, StatusCode::Ok);
        assert_eq!(span.attributes["gen_ai.completion.0.finish_reason"], "tool_calls");
        let extra: Value =
            serde_json::from_str(span.attributes["gen_ai.completion.0.extra"].as_str().unwrap()).unwrap();
        assert_eq!(extra["other_parts"][0]["custom"], call["custom"]);
    }
    let generations = setup.generations().await;
    assert_eq!(generations.iter().map(|one| one.stop_reason.as_str()).collect::<Vec<_>>(), ["stop", "stop"]);
}

fn message() -> Value {
    json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-1", "content": [
        { "type": "thinking", "thinking": "hm", "signature": "s" },
        { "type": "text", "text": "Let me look." },
        { "type": "tool_use", "id": "toolu_1", "name": "look", "input": { "at": 17 } },
    ], "stop_reason": "tool_use", "stop_sequence": null, "usage": { "input_tokens": 4, "cache_read_input_tokens": 5, "output_tokens": 6 } })
}

fn message_events() -> Vec<Value> {
    let delta = |index: u64, delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
    let begins =
        |index: u64, block: Value| json!({ "type": "content_block_start", "index": index, "content_block": block });
    let mut started = message();
    started["content"] = json!([]);
    started["stop_reason"] = Value::Null;
    vec![
        json!({ "type": "message_start", "message": started }),
        json!({ "type": "ping" }),
        begins(0, json!({ "type": "thinking", "thinking": "" })),
        delta(0, json!({ "type": "thinking_delta", "thinking": "hm" })),
        begins(1, json!({ "type": "text", "text": "" })),
        delta(1, json!({ "type": "text_delta", "text": "Let me look." })),
        begins(2, json!({ "type": "tool_use", "id": "toolu_1", "name": "look", "input": {} })),
        delta(2, json!({ "type": "input_json_delta", "partial_json": "{\"at\":17}" })),
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 6 } }),
        json!({ "type": "message_stop" }),
    ]
}

#[tokio::test]
async fn messages_go_on_to_who_speaks_anthropics_dialect_whole_and_streamed() {
    let events: String = message_events().iter().map(named).collect();
    let headers = "content-type: application/json\r\nrequest-id: req_of_theirs\r\n";
    let setup = Setup::new(vec![with_headers(200, headers, &message().to_string())]).await;
    setup.play(ScriptedReply::Stream(vec![bytes(events.replace("msg_1", "msg_2")), Step::End]));
    let request = json!({ "model": "claude", "max_tokens": 9, "system": "Be brief.", "messages": [
        { "role": "user", "content": [{ "type": "text", "text": "look" }] },
    ], "tools": [{ "name": "look", "input_schema": { "type": "object" } }, { "type": "web_search_1", "name": "web_search" }],
        "thinking": { "type": "enabled", "budget_tokens": 1024 } });
    let mut recorded = Vec::new();
    for request in [request.clone(), streamed(request)] {
        let (rollout, base) = setup.attempt().await;
        let sent = setup.client.post(format!("{base}/messages")).json(&request).header("x-api-key", "sk-of-the-client");
        let response = sent.header("anthropic-version", "2023-06-01").send().await.unwrap();
        assert_eq!(response.status(), 200);
        match request["stream"] == true {
            true => assert_eq!(response.text().await.unwrap(), events.replace("msg_1", "msg_2")),
            false => {
                assert_eq!(response.headers()["request-id"], "req_of_theirs");
                assert_eq!(response.json::<Value>().await.unwrap(), message());
            }
        }
        let attributes = setup.attributes(&rollout).await;
        let is_of_messages = |key: &&str| key.contains("gen_ai.prompt") || key.contains("gen_ai.completion");
        let mut of_messages: Vec<(String, Value)> = (attributes.as_object().unwrap().iter())
            .filter(|(key, _)| is_of_messages(&key.as_str()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        of_messages.sort_by(|one, other| one.0.cmp(&other.0));
        recorded.push(of_messages);
        assert_eq!(attributes["gen_ai.usage.input_tokens"], 9);
        assert_eq!(attributes["gen_ai.usage.cache_read.input_tokens"], 5);
        assert_eq!(attributes["gen_ai.usage.output_tokens"], 6);
        assert_eq!(attributes["gen_ai.provider.name"], "anthropic");
    }
    assert_eq!(recorded[0], recorded[1]);
    let recorded: serde_json::Map<String, Value> = recorded.remove(0).into_iter().collect();
    for (key, value) in [
        ("gen_ai.prompt.0.content", "Be brief."),
        ("gen_ai.prompt.1.content", "look"),
        ("gen_ai.completion.0.content", "Let me look."),
        ("gen_ai.completion.0.reasoning_content", "hm"),
        ("gen_ai.completion.0.tool_calls.0.name", "look"),
        ("gen_ai.completion.0.tool_calls.0.arguments", "{\"at\":17}"),
        ("gen_ai.completion.0.finish_reason", "tool_calls"),
    ] {
        assert_eq!(recorded[key], value, "{key}");
    }
    let head = setup.server.heads()[0].to_lowercase();
    assert!(head.contains(&format!("x-api-key: {KEY}")) && head.contains("anthropic-version: 2023-06-01"), "{head}");
    assert!(!head.contains("sk-of-the-client"), "{head}");
}

/// What 64 bits do not hold, as models in Python write it.
const DIGITS: &str = "123456789012345678901234567890";

#[tokio::test]
async fn integers_of_any_length_go_on_come_back_and_are_recorded_with_their_digits() {
    let call = |digits: &str| {
        format!("{{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"look\",\"input\":{{\"at\":{digits}}}}}")
    };
    let answer = |id: &str| {
        let content = call(DIGITS);
        format!(
            "{{\"id\":\"{id}\",\"content\":[{content}],\"stop_reason\":\"tool_use\",\"usage\":{{\"input_tokens\":1}}}}"
        )
    };
    let started = json!({ "type": "tool_use", "id": "t", "name": "look", "input": {} });
    let delta = json!({ "type": "input_json_delta", "partial_json": format!("{{\"at\":{DIGITS}}}") });
    let events = [
        json!({ "type": "message_start", "message": { "id": "msg_2", "content": [], "usage": { "input_tokens": 1 } } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": started }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 3 } }),
        json!({ "type": "message_stop" }),
    ];
    let events: String = events.iter().map(named).collect();
    let headers = "content-type: application/json\r\n";
    let setup = Setup::new(vec![with_headers(200, headers, &answer("msg_1"))]).await;
    setup.play(ScriptedReply::Stream(vec![bytes(&events), Step::End]));
    // What differs in a digit alone is no retry.
    setup.play(with_headers(200, headers, &answer("msg_3")));
    let other = DIGITS.replace("789", "788");
    let (rollout, base) = setup.attempt().await;
    for (digits, stream, retries) in [(DIGITS, false, "0"), (DIGITS, true, "0"), (&other, false, "1")] {
        let history = call(digits);
        let body = format!(
            "{{\"model\":\"claude\",\"max_tokens\":9,\"stream\":{stream},\"messages\":[\
             {{\"role\":\"user\",\"content\":\"look\"}},{{\"role\":\"assistant\",\"content\":[{history}]}},\
             {{\"role\":\"user\",\"content\":[{{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":\"x\"}}]}}]}}"
        );
        let sent = setup.client.post(format!("{base}/messages")).body(body).header("content-type", "application/json");
        let sent = sent.header("anthropic-version", "2023-06-01").header("x-stainless-retry-count", retries);
        let response = sent.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(response.text().await.unwrap().contains(DIGITS));
        let passed_on = setup.server.requests.lock().unwrap().last().unwrap().bytes.clone();
        let passed_on = String::from_utf8(passed_on).unwrap();
        assert!(passed_on.contains(&format!("\"at\":{digits}")), "{passed_on}");
        let attributes = setup.attributes(&rollout).await;
        for (attribute, digits) in [("prompt.1", digits), ("completion.0", DIGITS)] {
            let arguments = format!("gen_ai.{attribute}.tool_calls.0.arguments");
            assert_eq!(attributes[&arguments], format!("{{\"at\": {digits}}}"), "{attributes}");
        }
    }
    // Also where the model's name is not the upstream's, so that the body is written anew.
    setup.play(with_headers(200, headers, &chat_answer("c").to_string()));
    let body = format!("{{\"model\":\"judge\",\"messages\":[],\"mood\":{{\"of\":{DIGITS}}}}}");
    let sent = setup.client.post(format!("{base}/chat/completions")).body(body).send().await.unwrap();
    assert_eq!(sent.status(), 200);
    let passed_on =
        setup.server.requests.lock().unwrap().iter().map(|request| request.bytes.clone()).collect::<Vec<_>>();
    assert_eq!(passed_on.len(), 4);
    let expected = format!("{{\"model\":\"gpt-x\",\"messages\":[],\"mood\":{{\"of\":{DIGITS}}}}}");
    assert_eq!(String::from_utf8_lossy(&passed_on[3]), expected);
}

#[tokio::test]
async fn a_key_goes_on_in_the_header_that_its_upstream_takes() {
    let setup = Setup::new(vec![ScriptedReply::Json(200, message())]).await;
    let options = UpstreamOptions {
        urls: vec![setup.server.url.clone()],
        dialect: UpstreamDialect::Anthropic,
        api_key: Some(KEY.to_owned()),
        key_header: Some(KeyHeader::Authorization),
        replicas: ReplicaOptions::default(),
    };
    let upstream = Arc::new(Upstream::new(&options).unwrap());
    let model = UpstreamModel { name: "claude".into(), upstream_name: "claude".into(), upstream };
    let url = upstreams::serve(&setup.store, vec![ServedModel::Upstream(model)]).await;
    let request = json!({ "model": "claude", "max_tokens": 9, "messages": [{ "role": "user", "content": "look" }] });
    assert_eq!(setup.post(&format!("{url}/v1/messages"), &request).await.status(), 200);
    let head = setup.server.heads()[0].to_lowercase();
    assert!(head.contains(&format!("authorization: bearer {KEY}")) && !head.contains("x-api-key"), "{head}");
}

#[tokio::test]
async fn a_compaction_is_made_by_the_upstream_which_alone_can_read_it() {
    let reply = json!({ "id": "resp_1", "object": "response.compaction", "created_at": 17, "output": [
        { "id": "msg_1", "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "Who?" }] },
        { "id": "cmp_1", "type": "compaction", "encrypted_content": "gAAAAABp" },
    ], "usage": { "input_tokens": 9, "output_tokens": 5, "total_tokens": 14 } });
    let setup = Setup::new(vec![ScriptedReply::Json(200, reply.clone())]).await;
    let (rollout, base) = setup.attempt().await;
    let request = json!({ "model": "judge", "input": "Who?" });
    let whole = setup.post(&format!("{base}/responses/compact"), &request).await.json::<Value>().await.unwrap();
    assert_eq!(whole, reply);
    assert_eq!(setup.server.requests.lock().unwrap()[0].path, "/v1/responses/compact");
    let spans = setup.spans(&rollout).await;
    assert_eq!(spans[0].attributes["gen_ai.prompt.0.content"], "Who?");
    assert_eq!(spans[0].attributes["gen_ai.usage.output_tokens"], 5);
}

#[tokio::test]
async fn responses_go_on_whole_and_streamed_and_are_asked_for_again_there() {
    let response = |id: &str| {
        json!({ "id": id, "object": "response", "status": "completed", "model": "gpt-x-1", "output": [
            { "type": "reasoning", "id": "rs_1", "summary": [{ "type": "summary_text", "text": "hm" }] },
            { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "I am 17.", "annotations": [] }] },
        ], "usage": { "input_tokens": 9, "output_tokens": 5, "total_tokens": 14 } })
    };
    let events: String = [
        json!({ "type": "response.created", "response": { "id": "resp_2", "status": "in_progress", "output": [] } }),
        json!({ "type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "I am 17." }),
        json!({ "type": "response.completed", "response": response("resp_2") }),
    ]
    .iter()
    .map(named)
    .collect();
    let setup = Setup::new(vec![
        ScriptedReply::Json(200, response("resp_1")),
        ScriptedReply::Stream(vec![bytes(&events), Step::End]),
        ScriptedReply::Json(200, response("resp_1")),
    ])
    .await;
    let request = json!({ "model": "judge", "instructions": "Be brief.", "input": "Who?", "store": true });
    let (rollout, base) = setup.attempt().await;
    let whole = setup.post(&format!("{base}/responses"), &request).await.json::<Value>().await.unwrap();
    assert_eq!(whole, response("resp_1"));
    let stream = setup.post(&format!("{base}/responses"), &streamed(request)).await.text().await.unwrap();
    assert_eq!(stream, events);
    for generation in setup.generations().await {
        assert_eq!(
            (generation.stop_reason.as_str(), generation.defect.as_ref().map(ToString::to_string).as_deref()),
            ("stop", Some("upstream"))
        );
    }
    for span in setup.spans(&rollout).await {
        for (key, value) in [
            ("gen_ai.prompt.0.content", json!("Be brief.")),
            ("gen_ai.prompt.1.content", json!("Who?")),
            ("gen_ai.completion.0.content", json!("I am 17.")),
            ("gen_ai.completion.0.reasoning_content", json!("hm")),
            ("gen_ai.usage.input_tokens", json!(9)),
        ] {
            assert_eq!(span.attributes[key], value, "{key}");
        }
    }
    let again = setup.client.get(format!("{base}/responses/resp_1?include=x")).send().await.unwrap();
    assert_eq!(again.json::<Value>().await.unwrap(), response("resp_1"));
    let sent = setup.server.requests.lock().unwrap().pop().unwrap();
    assert_eq!((sent.method.as_str(), sent.path.as_str()), ("GET", "/v1/responses/resp_1?include=x"));
    let unknown = setup.client.get(format!("{base}/responses/resp_9")).send().await.unwrap();
    assert_eq!(unknown.status(), 404);
}

#[tokio::test]
async fn completions_embeddings_and_counts_go_on_too() {
    let setup = Setup::new(vec![
        ScriptedReply::Json(
            200,
            json!({ "id": "cmpl-1", "choices": [{ "index": 0, "text": "17.", "finish_reason": "length" }] }),
        ),
        ScriptedReply::Json(
            200,
            json!({ "object": "list", "data": [{ "embedding": [0.5] }], "usage": { "prompt_tokens": 3 } }),
        ),
        ScriptedReply::Json(200, json!({ "input_tokens": 12 })),
    ])
    .await;
    let (rollout, base) = setup.attempt().await;
    let posted = async |path: &str, body: Value| {
        setup.post(&format!("{base}/{path}"), &body).await.json::<Value>().await.unwrap()
    };
    let completion = posted("completions", json!({ "model": "judge", "prompt": "I am" })).await;
    assert_eq!(completion["choices"][0]["text"], "17.");
    let embeddings = posted("embeddings", json!({ "model": "judge", "input": "I am" })).await;
    assert_eq!(embeddings["data"][0]["embedding"], json!([0.5]));
    let count = posted("messages/count_tokens", json!({ "model": "claude", "messages": [] })).await;
    assert_eq!(count, json!({ "input_tokens": 12 }));

    let spans = setup.spans(&rollout).await;
    let statuses: Vec<_> = spans.iter().map(|span| (span.name.as_str(), span.status.status_code)).collect();
    assert_eq!(statuses, [("openai.completion", StatusCode::Ok), ("openai.embeddings", StatusCode::Ok)]);
    assert_eq!(spans[1].attributes["gen_ai.usage.input_tokens"], 3);
    // Nothing but the completion is an answer.
    assert_eq!(setup.generations().await.len(), 1);
    let paths: Vec<String> = setup.server.requests.lock().unwrap().iter().map(|request| request.path.clone()).collect();
    assert_eq!(paths, ["/v1/completions", "/v1/embeddings", "/v1/messages/count_tokens"]);
}

#[tokio::test]
async fn what_a_chat_has_no_words_for_is_recorded_as_it_came() {
    let setup = Setup::new(vec![ScriptedReply::Json(200, message()), ScriptedReply::Json(200, chat_answer("c"))]).await;
    let (rollout, base) = setup.attempt().await;
    let image = json!([{ "type": "image", "source": { "type": "url", "url": "http://x/y.png" } }]);
    let request = json!({ "model": "claude", "max_tokens": 9, "messages": [{ "role": "user", "content": image }] });
    assert_eq!(setup.post(&format!("{base}/messages"), &request).await.status(), 200);
    let attributes = setup.attributes(&rollout).await;
    assert_eq!(attributes["gen_ai.prompt.0.content"], image.to_string());
    // No messages at all: the upstream knows what that means.
    let request = json!({ "model": "judge", "messages": "hi" });
    assert_eq!(setup.post(&format!("{base}/chat/completions"), &request).await.status(), 200);
    let attributes = setup.attributes(&rollout).await;
    assert_eq!(attributes["fulgurite.request.extra"], "{\"messages\":\"hi\"}");
}

#[tokio::test]
async fn a_call_of_nobody_is_a_session_of_its_own_and_answers_of_one_id_are_kept_apart() {
    let setup =
        Setup::new(vec![ScriptedReply::Json(200, chat_answer("same")), ScriptedReply::Json(200, chat_answer("same"))])
            .await;
    for _ in 0..2 {
        assert_eq!(setup.post(&format!("{}/v1/chat/completions", setup.url), &chat()).await.status(), 200);
    }
    let generations = setup.generations().await;
    assert_eq!(generations.len(), 2);
    assert_eq!(generations[0].generation_id, "same");
    assert_ne!(generations[0].rollout_id, generations[1].rollout_id);
    assert_eq!(setup.attributes(&generations[1].rollout_id).await["gen_ai.response.id"], "same");
    let (rollout, attempt) = setup.store.rollouts().get(&generations[0].rollout_id).await.unwrap().unwrap();
    assert_eq!((rollout.status.as_str(), attempt.unwrap().status.as_str()), ("succeeded", "succeeded"));
}

#[tokio::test]
async fn models_are_listed_and_a_dialect_that_an_upstream_does_not_speak_is_refused_by_name() {
    let setup = Setup::new(vec![]).await;
    let list: Value = setup.client.get(format!("{}/v1/models", setup.url)).send().await.unwrap().json().await.unwrap();
    let names: Vec<&Value> = list["data"].as_array().unwrap().iter().map(|model| &model["id"]).collect();
    assert_eq!(names, ["claude", "judge"]);
    for (path, model, words) in [
        ("messages", "judge", "speaks the dialect `openai`; /v1/messages is of `anthropic`"),
        ("messages/count_tokens", "judge", "/v1/messages/count_tokens is of `anthropic`"),
        ("chat/completions", "claude", "speaks the dialect `anthropic`; /v1/chat/completions is of `openai`"),
        ("responses", "claude", "/v1/responses is of `openai`"),
        ("embeddings", "claude", "/v1/embeddings is of `openai`"),
    ] {
        let response = setup.post(&format!("{}/v1/{path}", setup.url), &json!({ "model": model })).await;
        assert_eq!(response.status(), 400);
        let error: Value = response.json().await.unwrap();
        assert!(error["error"]["message"].as_str().unwrap().contains(words), "{error}");
        assert_eq!(error["type"] == "error", path.starts_with("messages"), "{error}");
    }
    assert_eq!(setup.server.connections(), 0);
}
