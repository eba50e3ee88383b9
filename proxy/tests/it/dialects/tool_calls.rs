//! Reasoning and tool calls over real sockets, in the formats of several families, streamed and whole.

use fulgurite_types::Message;

use crate::common::families::{FAMILIES, GPT_OSS, KIMI, QWEN3, QWEN3_5, message_below, recorded, request, tools};
use crate::common::{Script, Setup, chunks};
use fulgurite_backends::SamplingEnd;
use fulgurite_renderers::ToolWriting;
use serde_json::{Value, json};
use tokio::sync::oneshot;

fn streamed(request: &Value) -> Value {
    let mut streamed = request.clone();
    streamed["stream"] = json!(true);
    streamed
}

/// What a client makes of a stream: the message, and why it ended.
fn assembled(chunks: &[Value]) -> (Value, Value) {
    let (mut content, mut reasoning, mut calls, mut reason) = (String::new(), String::new(), Vec::new(), Value::Null);
    for chunk in chunks {
        let choice = &chunk["choices"][0];
        let delta = &choice["delta"];
        content += delta["content"].as_str().unwrap_or_default();
        reasoning += delta["reasoning_content"].as_str().unwrap_or_default();
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = call["index"].as_u64().unwrap() as usize;
            if index == calls.len() {
                assert_eq!((&call["type"], &call["function"]["arguments"]), (&json!("function"), &json!("")));
                calls.push(json!({ "id": call["id"], "type": "function", "function": call["function"] }));
            } else {
                assert_eq!(index, calls.len() - 1, "only the last call goes on");
                let arguments = calls[index]["function"]["arguments"].as_str().unwrap().to_owned();
                calls[index]["function"]["arguments"] =
                    json!(arguments + call["function"]["arguments"].as_str().unwrap());
            }
        }
        if !choice["finish_reason"].is_null() {
            reason = choice["finish_reason"].clone();
        }
    }
    let is_silent = content.is_empty() && !(calls.is_empty() && reasoning.is_empty());
    let content = if is_silent { Value::Null } else { json!(content) };
    let mut message = json!({ "role": "assistant", "content": content, "refusal": null });
    if !reasoning.is_empty() {
        message["reasoning_content"] = json!(reasoning);
    }
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    (message, reason)
}

/// The same answer whole and streamed, each as the first call of a rollout of the same seed.
async fn both_ways(
    setup: &Setup,
    request: &Value,
    sampled: &[u32],
    reason: SamplingEnd,
) -> [(Value, Value, String); 2] {
    let (whole_rollout, base) = setup.seeded_attempt(5).await;
    setup.play(Script::Answer(sampled.to_vec(), reason));
    let whole: Value = setup.post(&base, request).await.json().await.unwrap();
    let whole = (whole["choices"][0]["message"].clone(), whole["choices"][0]["finish_reason"].clone(), whole_rollout);
    let (streamed_rollout, base) = setup.seeded_attempt(5).await;
    setup.play(Script::Answer(sampled.to_vec(), reason));
    let text = setup.post(&base, &streamed(request)).await.text().await.unwrap();
    let (message, reason) = assembled(&chunks(&text));
    [whole, (message, reason, streamed_rollout)]
}

#[tokio::test]
async fn reasoning_text_and_a_call_are_told_and_recorded_alike_whole_and_streamed() {
    for family in FAMILIES {
        let setup = family.setup().await;
        let sampled = setup.sampled(family.turn);
        let [(whole, whole_reason, first), (streamed, streamed_reason, second)] =
            both_ways(&setup, &request(), &sampled, SamplingEnd::StopToken).await;
        let id = whole["tool_calls"][0]["id"].clone();
        match family.id {
            Some(own) => assert_eq!(id, own),
            None => assert!(id.as_str().unwrap().starts_with("call_"), "{id}"),
        }
        let arguments = "{\"city\": \"Paris\", \"days\": 2}";
        let expected = json!({
            "role": "assistant",
            "content": "Looking.",
            "refusal": null,
            "reasoning_content": "hm",
            "tool_calls": [{
                "id": id, "type": "function", "function": { "name": "weather", "arguments": arguments },
            }],
        });
        assert_eq!(whole, expected, "{}", family.format);
        assert_eq!(streamed, expected, "{}", family.format);
        assert_eq!((&whole_reason, &streamed_reason), (&json!("tool_calls"), &json!("tool_calls")));

        assert_eq!(recorded(&setup, &first).await, recorded(&setup, &second).await, "{}", family.format);
        let attributes = setup.attributes(&first).await;
        for (key, value) in [
            ("gen_ai.completion.0.role", json!("assistant")),
            ("gen_ai.completion.0.content", json!("Looking.")),
            ("gen_ai.completion.0.reasoning_content", json!("hm")),
            ("gen_ai.completion.0.tool_calls.0.id", id),
            ("gen_ai.completion.0.tool_calls.0.name", json!("weather")),
            ("gen_ai.completion.0.tool_calls.0.arguments", json!(arguments)),
            ("gen_ai.completion.0.finish_reason", json!("tool_calls")),
            ("gen_ai.request.functions.0.name", json!("weather")),
            ("gen_ai.request.functions.0.parameters", json!(tools()[0]["function"]["parameters"].to_string())),
        ] {
            assert_eq!(attributes[key], value, "{}: {key}", family.format);
        }
        let generation = setup.generation_of(&first).await;
        assert_eq!((generation.sampled_tokens, generation.stop_reason.as_str()), (sampled, "stop"));
    }
}

#[tokio::test]
async fn a_turn_with_calls_results_and_reasoning_comes_back_in_the_history() {
    for family in FAMILIES {
        let setup = family.setup().await;
        let (rollout, base) = setup.attempt().await;
        setup.play(Script::Answer(setup.sampled(family.turn), SamplingEnd::StopToken));
        let mut request = request();
        let reply: Value = setup.post(&base, &request).await.json().await.unwrap();
        let reply = reply["choices"][0]["message"].clone();
        let mut answered = message_below(&setup.attributes(&rollout).await, "gen_ai.completion.0.");
        assert_eq!(answered.remove("finish_reason"), Some(json!("tool_calls")));
        let id = &reply["tool_calls"][0]["id"];
        let result = json!({ "role": "tool", "tool_call_id": id, "content": "rain" });
        request["messages"].as_array_mut().unwrap().extend([reply.clone(), result]);
        setup.play(Script::Answer(setup.sampled(&(family.plain_turn)("It rains.")), SamplingEnd::StopToken));
        let answer: Value = setup.post(&base, &request).await.json().await.unwrap();
        assert_eq!(answer["choices"][0]["message"]["content"], "It rains.", "{}", family.format);
        assert_eq!(answer["choices"][0]["message"]["reasoning_content"], "hm");
        assert_eq!(answer["choices"][0]["finish_reason"], "stop");

        // Some formats would write the turn in another way than it was sampled; it stays as it was sampled.
        let expected = setup.continued(&request["messages"], &tools(), 3, &setup.sampled(family.turn));
        assert_eq!(setup.sampler.requests.lock().unwrap()[1].prompt, expected, "{}", family.format);
        // What was answered and what came back are the same to the store, which keeps it once.
        let attributes = setup.attributes(&rollout).await;
        assert_eq!(message_below(&attributes, "gen_ai.prompt.2."), answered);
        assert_eq!(attributes["gen_ai.prompt.3.tool_call_id"], *id);
        assert_eq!(attributes["gen_ai.prompt.3.content"], "rain");
    }
}

#[tokio::test]
async fn a_conversation_goes_on_after_a_call_whose_arguments_nobody_can_read() {
    let setup = QWEN3_5.setup().await;
    setup.play(Script::Answer(setup.sampled(&(QWEN3_5.plain_turn)("Sorry.")), SamplingEnd::StopToken));
    let function = json!({ "name": "weather", "arguments": "{\"city\": " });
    let mut request = request();
    request["messages"].as_array_mut().unwrap().extend([
        json!({ "role": "assistant", "content": null, "tool_calls": [{ "id": "c", "type": "function", "function": function }] }),
        json!({ "role": "tool", "tool_call_id": "c", "content": "no such city" }),
    ]);
    let answer: Value = setup.post(&format!("{}/v1", setup.url), &request).await.json().await.unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "Sorry.", "{answer}");
    let prompt = setup.renderer.tokenizer().decode(&setup.sampler.requests.lock().unwrap()[0].prompt);
    let call = "<tool_call>\n<function=weather>\n{\"city\": \n</function>\n</tool_call><|im_end|>";
    assert!(prompt.contains(call), "{prompt}");
}

#[tokio::test]
async fn broken_calls_are_text_of_the_answer_and_cannot_be_run() {
    for family in FAMILIES {
        let setup = family.setup().await;
        for broken in family.broken {
            let sampled = setup.sampled(&format!("{broken}{}", family.stop));
            let [(whole, reason, first), (streamed, streamed_reason, second)] =
                both_ways(&setup, &request(), &sampled, SamplingEnd::StopToken).await;
            let content = whole["content"].as_str().unwrap();
            assert!(content.contains("weather") && broken.contains(content), "{content}");
            assert_eq!((&whole["tool_calls"], &reason), (&Value::Null, &json!("stop")));
            assert_eq!((&streamed["content"], &streamed_reason), (&whole["content"], &json!("stop")));
            assert_nobody_can_run(&streamed["tool_calls"]);
            assert_eq!(recorded(&setup, &first).await, recorded(&setup, &second).await);
            assert_eq!(setup.attributes(&second).await["gen_ai.completion.0.content"], content);
        }
        // A call that is cut off is no call.
        let whole_turn = setup.sampled(family.turn);
        let cut = &whole_turn[..whole_turn.len() - 8];
        let [(whole, reason, first), (streamed, streamed_reason, second)] =
            both_ways(&setup, &request(), cut, SamplingEnd::Length).await;
        assert_nobody_can_run(&streamed["tool_calls"]);
        assert!(whole["content"].as_str().unwrap().starts_with("Looking."), "{whole}");
        assert_eq!((&whole["tool_calls"], &reason), (&Value::Null, &json!("length")));
        assert_eq!(streamed_reason, "length");
        assert_eq!(recorded(&setup, &first).await, recorded(&setup, &second).await);
    }
}

/// A stream cannot take back what it told of calls before they broke. Some clients complete arguments that are cut off, and
/// take none for an empty object; what closes nothing they cannot read either.
fn assert_nobody_can_run(calls: &Value) {
    for calls in calls.as_array().into_iter().flatten() {
        let arguments = calls["function"]["arguments"].as_str().unwrap();
        assert!(arguments.ends_with(",]") || arguments.ends_with(",}"), "{arguments}");
    }
}

#[tokio::test]
async fn a_conversation_goes_on_after_a_call_that_broke_while_it_was_streamed() {
    for family in FAMILIES {
        let setup = family.setup().await;
        let (rollout, base) = setup.attempt().await;
        let sampled = setup.sampled(&format!("{}{}", family.broken[1], family.stop));
        setup.play(Script::Answer(sampled.clone(), SamplingEnd::StopToken));
        let text = setup.post(&base, &streamed(&request())).await.text().await.unwrap();
        let (mut reply, _) = assembled(&chunks(&text));
        let id = reply["tool_calls"][0]["id"].clone();
        assert!(id.is_string(), "{}: the call was told of: {reply}", family.format);
        // As a client has it that keeps what it was told and answers what it could not run.
        let mut request = request();
        let result = json!({ "role": "tool", "tool_call_id": id, "content": "no JSON" });
        request["messages"].as_array_mut().unwrap().extend([reply.clone(), result]);
        setup.play(Script::Answer(setup.sampled(&(family.plain_turn)("Sorry.")), SamplingEnd::StopToken));
        assert_eq!(setup.post(&base, &request).await.status(), 200, "{}", family.format);

        reply.as_object_mut().unwrap().remove("tool_calls");
        let mut history = request["messages"].clone();
        (history[2], history[3]) = (reply, json!({ "role": "user", "content": "no JSON" }));
        let expected = setup.continued(&history, &tools(), 3, &sampled);
        assert_eq!(setup.sampler.requests.lock().unwrap()[1].prompt, expected, "{}", family.format);
        let drift = setup.store.queries().drift(&rollout).await.unwrap();
        assert_eq!((drift.continued, &drift.calls[1].reason), (1, &None), "{}", family.format);
    }
}

#[tokio::test]
async fn a_stream_tells_all_that_is_certain_before_the_turn_ends() {
    for family in FAMILIES {
        let setup = family.setup().await;
        let (rollout, base) = setup.attempt().await;
        let sampled = setup.sampled(family.turn.split_once(family.end_of_call).unwrap().0);
        let (on_disconnect, disconnected) = oneshot::channel();
        setup.play(Script::Hang(sampled.clone(), on_disconnect));
        let mut response = setup.post(&base, &streamed(&request())).await;
        let mut text = String::new();
        // The sampler waits for us to go: what arrives now arrives before the end.
        let (message, chunks) = loop {
            text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
            let chunks: Vec<Value> =
                crate::common::events(&text).iter().filter_map(|event| serde_json::from_str(event).ok()).collect();
            let (message, reason) = assembled(&chunks);
            assert_eq!(reason, Value::Null);
            if message.to_string().contains("days") {
                break (message, chunks);
            }
        };
        drop(response);
        disconnected.await.unwrap();
        assert_eq!((&message["reasoning_content"], &message["content"]), (&json!("hm"), &json!("Looking.")));
        assert_eq!(message["tool_calls"][0]["function"]["name"], "weather");
        let arguments = |chunk: &&Value| {
            let arguments = &chunk["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"];
            arguments.as_str().is_some_and(|arguments| !arguments.is_empty())
        };
        assert!(chunks.iter().filter(arguments).count() > 1, "{}: {text}", family.format);
        let generation = setup.generation_when(|generation| generation.client_disconnected).await;
        assert_eq!((generation.rollout_id, generation.sampled_tokens), (rollout.clone(), sampled));
        let content = setup.attributes(&rollout).await["gen_ai.completion.0.content"].clone();
        assert!(content.as_str().unwrap().starts_with("Looking."), "{content}");
    }
}

#[tokio::test]
async fn a_stop_string_ends_the_visible_text_and_nothing_else() {
    let family = QWEN3;
    let setup = family.setup().await;
    let call = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"STOP\"}}\n</tool_call>";
    let mut request = request();
    request["stop"] = json!(["STOP"]);
    let sampled = setup.sampled(&format!("<think>\nSTOP\n</think>\n\nSo.\n{call}<|im_end|>"));
    for (message, reason, _) in both_ways(&setup, &request, &sampled, SamplingEnd::StopToken).await {
        assert_eq!((&message["reasoning_content"], &message["content"]), (&json!("STOP"), &json!("So.")));
        assert_eq!(message["tool_calls"][0]["function"]["arguments"], "{\"city\": \"STOP\"}");
        assert_eq!(reason, "tool_calls");
    }
    let sampled = setup.sampled(&format!("<think>\nSTOP\n</think>\n\nOne STOP two\n{call}<|im_end|>"));
    let [whole, streamed] = both_ways(&setup, &request, &sampled, SamplingEnd::StopToken).await;
    for (message, reason, rollout) in [&whole, &streamed] {
        assert_eq!((&message["content"], &message["tool_calls"]), (&json!("One "), &Value::Null));
        assert_eq!(reason, "stop");
        let generation = setup.generation_of(rollout).await;
        assert!(generation.sampled_tokens.len() < sampled.len(), "nothing behind the stop string is sampled");
        assert!(sampled.starts_with(&generation.sampled_tokens));
    }
    assert_eq!(recorded(&setup, &whole.2).await, recorded(&setup, &streamed.2).await);
}

#[tokio::test]
async fn a_turn_that_text_ends_is_not_sampled_further() {
    let setup = Setup::of_family("role_colon", "qwen3").await;
    let (on_disconnect, disconnected) = oneshot::channel();
    setup.play(Script::Hang(setup.sampled(" Paris.\n\nUser: And"), on_disconnect));
    let request = json!({ "model": "tiny", "messages": [{ "role": "user", "content": "Where?" }] });
    let answer: Value = setup.post(&format!("{}/v1", setup.url), &request).await.json().await.unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "Paris.");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    disconnected.await.unwrap();
}

#[tokio::test]
async fn a_model_that_is_to_call_no_tool_is_not_shown_any() {
    let setup = QWEN3.setup().await;
    setup.play(Script::Answer(setup.sampled(&(QWEN3.plain_turn)("No idea.")), SamplingEnd::StopToken));
    let mut request = request();
    request["tool_choice"] = json!("none");
    let answer: Value = setup.post(&format!("{}/v1", setup.url), &request).await.json().await.unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "No idea.");
    let messages: Vec<Message> = serde_json::from_value(request["messages"].clone()).unwrap();
    let expected = setup.renderer.render_prompt(&messages, &[]).unwrap().tokens;
    assert_eq!(setup.sampler.requests.lock().unwrap()[0].prompt, expected);
}

#[tokio::test]
async fn ids_of_calls_differ_from_call_to_call_and_are_the_same_when_a_rollout_is_run_again() {
    let setup = QWEN3.setup().await;
    let id = async |base: &str, seed: Option<u64>, question: &str| {
        setup.play(Script::Answer(setup.sampled(QWEN3.turn), SamplingEnd::StopToken));
        let mut request = request();
        request["seed"] = json!(seed);
        request["messages"][1]["content"] = json!(question);
        let reply: Value = setup.post(base, &request).await.json().await.unwrap();
        reply["choices"][0]["message"]["tool_calls"][0]["id"].as_str().unwrap().to_owned()
    };
    let ((_, first), (_, again)) = (setup.seeded_attempt(5).await, setup.seeded_attempt(5).await);
    let ids = [id(&first, None, "a").await, id(&first, None, "a").await];
    assert_ne!(ids[0], ids[1]);
    assert_eq!(ids, [id(&again, None, "a").await, id(&again, None, "a").await]);
    // Sessions of one call each, whose seed is the client's.
    let here = format!("{}/v1", setup.url);
    assert_ne!(id(&here, Some(1), "a").await, id(&here, Some(1), "b").await);
}

/// What the strictest clients validate: pydantic-ai a whole reply, OpenAI's own helpers a stream.
#[tokio::test]
async fn every_field_that_a_strict_client_needs_is_there() {
    let setup = QWEN3.setup().await;
    let here = format!("{}/v1", setup.url);
    let sampled = setup.sampled(QWEN3.turn);
    let mut request = request();
    request["stream_options"] = json!({ "include_usage": true });
    setup.play(Script::Answer(sampled.clone(), SamplingEnd::StopToken));
    let whole: Value = setup.post(&here, &request).await.json().await.unwrap();
    setup.play(Script::Answer(sampled.clone(), SamplingEnd::StopToken));
    let chunks = chunks(&setup.post(&here, &streamed(&request)).await.text().await.unwrap());
    assert_eq!(whole["object"], "chat.completion");
    assert_eq!(whole["usage"]["completion_tokens"], sampled.len());
    for reply in chunks.iter().chain([&whole]) {
        assert!(reply["id"].as_str().is_some_and(|id| id.starts_with("chatcmpl-")), "{reply}");
        assert!(reply["created"].is_u64() && reply["model"] == "tiny", "{reply}");
        for choice in reply["choices"].as_array().unwrap() {
            assert_eq!(choice["index"], 0);
            assert!(choice.as_object().unwrap().contains_key("finish_reason"));
        }
    }
    assert!(chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk" && chunk["id"] == chunks[0]["id"]));
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let call = &whole["choices"][0]["message"]["tool_calls"][0];
    assert!(call["id"].is_string() && call["type"] == "function" && call["function"]["arguments"].is_string());
    let first = chunks.iter().find_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].get(0)).unwrap();
    assert!(first["index"] == 0 && first["type"] == "function" && first["id"].is_string(), "{first}");
    assert_eq!(chunks.last().unwrap()["usage"], whole["usage"]);
}

#[tokio::test]
async fn what_cannot_be_honoured_or_written_is_refused_by_name_and_stores_nothing() {
    let (chatml, kimi) = (Setup::new(vec![]).await, KIMI.setup().await);
    let (qwen3_5, gpt_oss) = (QWEN3_5.setup().await, GPT_OSS.setup().await);
    let plain = || json!({ "model": "tiny", "messages": [{ "role": "user", "content": "hi" }] });
    let with = |key: &str, value: Value| {
        let mut body = request();
        body[key] = value;
        body
    };
    let history = |message: Value| {
        let mut body = plain();
        body["messages"].as_array_mut().unwrap().push(message);
        body
    };
    let call =
        |arguments: &str| json!({ "id": "c", "type": "function", "function": { "name": "f", "arguments": arguments } });
    let named = |name: &str| json!({ "type": "function", "function": { "name": name } });
    let mut with_tools = plain();
    with_tools["tools"] = tools();
    for (setup, body, parameter, words) in [
        (&chatml, with_tools, "tools", "the chatml format cannot declare tools"),
        (
            &chatml,
            history(json!({ "role": "assistant", "content": null, "tool_calls": [call("{}")] })),
            "messages",
            "message 1: the chatml format cannot write tool calls",
        ),
        (&qwen3_5, with("tools", json!([{ "type": "web_search" }])), "tools[0].type", "is `web_search`"),
        (&qwen3_5, with("tool_choice", json!("required")), "tool_choice", "not supported by this model's host"),
        (&qwen3_5, with("tool_choice", named("weather")), "tool_choice", "not supported by this model's host"),
        (&qwen3_5, with("tool_choice", named("sing")), "tool_choice", "`sing`, which is not declared in tools"),
        (&kimi, with("parallel_tool_calls", json!(false)), "parallel_tool_calls", "stand in a section of their own"),
        (&qwen3_5, with("functions", json!([{ "name": "f" }])), "functions", "declare the functions as tools"),
        (
            &gpt_oss,
            history(json!({ "role": "tool", "content": "7" })),
            "messages[1].tool_call_id",
            "must name the call that the message answers",
        ),
        (
            &gpt_oss,
            history(json!({ "role": "tool", "tool_call_id": "nobody", "content": "7" })),
            "messages",
            "message 1: the result of a tool needs",
        ),
    ] {
        let response = setup.post(&format!("{}/v1", setup.url), &body).await;
        let status = response.status().as_u16();
        let error: Value = response.json().await.unwrap();
        let error = &error["error"];
        assert_eq!((status, &error["type"]), (400, &json!("invalid_request_error")), "{error}");
        assert_eq!(error["param"], parameter, "{error}");
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
        assert_eq!(setup.generations().await, []);
    }
}

/// ChatML that shows no tools and says who the model is unless somebody else does, as SmolLM2's does.
const NO_TOOLS: &str = "\
{%- for message in messages %}
    {%- if loop.first and message.role != 'system' %}{{- '<|im_start|>system\\nYou are Tiny.<|im_end|>\\n' }}{%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

#[tokio::test]
async fn tools_that_the_template_leaves_out_are_told_of_beside_the_answer() {
    let setup = Setup::of_template(NO_TOOLS).await;
    let declared = json!([{ "name": "weather", "input_schema": { "type": "object" } }]);
    let question = json!([{ "role": "user", "content": "hi" }]);
    let chat = json!({ "model": "tiny", "messages": question, "tools": tools() });
    let messages = json!({ "model": "tiny", "messages": question, "tools": declared, "max_tokens": 9 });
    for (path, body) in [("chat/completions", &chat), ("messages", &messages)] {
        for body in [body.clone(), streamed(body)] {
            let warning = async |body: &Value| {
                setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
                let response = setup.client.post(format!("{}/v1/{path}", setup.url)).json(body).send().await.unwrap();
                assert_eq!(response.status(), 200);
                let warning =
                    response.headers().get("x-fulgurite-warning").map(|value| value.to_str().unwrap().to_owned());
                // Its call is recorded once the answer is whole.
                response.text().await.unwrap();
                warning
            };
            let warned = warning(&body).await.unwrap();
            assert!(warned.contains("`tiny` shows no tools") && warned.contains("tools = \"preamble\""), "{warned}");
            let mut without = body.clone();
            without.as_object_mut().unwrap().remove("tools");
            assert_eq!(warning(&without).await, None);
        }
    }
    // The record says it of each call, for whoever looks for why a run does not learn.
    let mut unseen: Vec<Value> = Vec::new();
    for generation in setup.generations().await {
        let attributes = setup.attributes(&generation.rollout_id).await;
        unseen.push(attributes["fulgurite.request.unseen_tools"].clone());
    }
    assert_eq!(json!(unseen), json!([1, null, 1, null, 1, null, 1, null]));
}

#[tokio::test]
async fn a_conversation_with_tools_in_words_goes_on_token_by_token_whole_and_streamed() {
    let setup = Setup::of_template_and(NO_TOOLS, ToolWriting::Preamble).await;
    let sampled = [
        setup.tokens(
            "Looking.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>",
        ),
        vec![setup.stop()],
    ]
    .concat();
    let question = json!([{ "role": "user", "content": "Rain?" }]);
    let request = json!({ "model": "tiny", "messages": question, "tools": tools() });
    let [(whole, reason, rollout), (streamed, streamed_reason, _)] =
        both_ways(&setup, &request, &sampled, SamplingEnd::StopToken).await;
    assert_eq!((&whole, &reason), (&streamed, &streamed_reason));
    assert_eq!((&whole["content"], &reason), (&json!("Looking."), &json!("tool_calls")));
    assert_eq!(whole["tool_calls"][0]["function"]["name"], "weather");
    let first = setup.sampler.requests.lock().unwrap()[0].prompt.clone();
    let shown = setup.renderer.tokenizer().decode(&first);
    assert!(shown.contains("<tools>\n{\"type\": \"function\"") && shown.contains("\"weather\""), "{shown}");

    let attempt = setup.store.attempts().of_rollout(&rollout).await.unwrap()[0].attempt_id.clone();
    let base = format!("{}/rollout/{rollout}/attempt/{attempt}/v1", setup.url);
    let result = json!({ "role": "tool", "tool_call_id": whole["tool_calls"][0]["id"], "content": "dry" });
    let second = json!([question[0], whole, result]);
    setup.play(Script::Answer([setup.tokens("No."), vec![setup.stop()]].concat(), SamplingEnd::StopToken));
    let response = setup.post(&base, &json!({ "model": "tiny", "messages": second, "tools": tools() })).await;
    assert_eq!(response.headers().get("x-fulgurite-warning"), None);
    let answer: Value = response.json().await.unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "No.");
    let prompt = setup.sampler.requests.lock().unwrap().last().unwrap().prompt.clone();
    assert_eq!(prompt, setup.continued(&second, &tools(), 2, &sampled));
    let after = setup.renderer.tokenizer().decode(&prompt[first.len() + sampled.len()..]);
    assert_eq!(after, "\n<|im_start|>user\n<tool_response>\ndry\n</tool_response><|im_end|>\n<|im_start|>assistant\n");
    let calls = setup.generations().await;
    let goes_on = calls.iter().find(|call| call.rollout_id == rollout && call.parent_id.is_some()).unwrap();
    assert_eq!(goes_on.branch_reason, None);
}
