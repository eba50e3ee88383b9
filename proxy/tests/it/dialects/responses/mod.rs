//! OpenAI's Responses over real sockets, whole and streamed.

mod broken_calls;
mod compaction;
mod other_tools;
mod recorded;

use crate::common::families::{FAMILIES, Family, KIMI, QWEN3, message_below, recorded, tools};
use crate::common::{BODY_LIMIT, CONTEXT_LENGTH, Script, Setup};
use fulgurite_backends::SamplingEnd;
use fulgurite_proxy::ProxyOptions;
use serde_json::{Value, json};

fn plain() -> Value {
    json!({ "model": "tiny", "input": "Say you are 17." })
}

/// The tools of `common::families`, as this dialect declares them.
fn declared_tools() -> Value {
    let mut declared = tools()[0]["function"].clone();
    declared["type"] = json!("function");
    json!([declared])
}

/// What `common::families::request` asks.
fn request() -> Value {
    json!({
        "model": "tiny",
        "instructions": "Be brief.",
        "input": [{ "role": "user", "content": [{ "type": "input_text", "text": "Rain in Paris?" }] }],
        "tools": declared_tools(),
        "tool_choice": "auto",
        "store": false,
    })
}

fn with(mut body: Value, key: &str, value: Value) -> Value {
    body[key] = value;
    body
}

async fn post(setup: &Setup, base: &str, body: &Value) -> reqwest::Response {
    setup.client.post(format!("{base}/responses")).json(body).send().await.unwrap()
}

/// The events of a stream, each under its own name and with its number.
fn events(text: &str) -> Vec<Value> {
    let events: Vec<Value> = text
        .split_terminator("\n\n")
        .map(|event| {
            let (name, data) = event.split_once("\ndata: ").unwrap_or_else(|| panic!("{event:?}"));
            let data: Value = serde_json::from_str(data).unwrap();
            assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
            data
        })
        .collect();
    assert!(events.iter().enumerate().all(|(number, event)| event["sequence_number"] == number));
    events
}

/// The response that the events of a stream add up to, as OpenAI's own clients add them up; it must be the last event's.
fn assembled(events: &[Value]) -> Value {
    assert_eq!((&events[0]["type"], &events[1]["type"]), (&json!("response.created"), &json!("response.in_progress")));
    let mut output: Vec<Value> = Vec::new();
    for event in &events[2..events.len() - 1] {
        let place = event["output_index"].as_u64().unwrap() as usize;
        let name = event["type"].as_str().unwrap().strip_prefix("response.").unwrap();
        if name == "output_item.added" {
            assert_eq!(place, output.len());
            output.push(event["item"].clone());
            continue;
        }
        let item = &mut output[place];
        if name == "output_item.done" {
            assert_eq!(event["item"]["id"], item["id"]);
            for field in ["status", "encrypted_content", "action"] {
                if let Some(value) = event["item"].get(field) {
                    item[field] = value.clone();
                }
            }
            assert_eq!(&event["item"], item);
            continue;
        }
        assert_eq!(event["item_id"], item["id"]);
        let (list, text) = match name.split_once('.').unwrap().0 {
            "function_call_arguments" => ("", "arguments"),
            "custom_tool_call_input" => ("", "input"),
            name if name.starts_with("reasoning_summary") => ("summary", "text"),
            _ => ("content", "text"),
        };
        if item[list].is_null() && !list.is_empty() {
            item[list] = json!([]);
        }
        let part = if list.is_empty() { item } else { &mut item[list] };
        match name.split_once('.').unwrap() {
            ("content_part" | "reasoning_summary_part", "added") => {
                part.as_array_mut().unwrap().push(event["part"].clone());
            }
            ("content_part" | "reasoning_summary_part", "done") => assert_eq!(part[0], event["part"]),
            (_, "delta") => {
                let part = if list.is_empty() { part } else { &mut part[0] };
                part[text] = json!(part[text].as_str().unwrap().to_owned() + event["delta"].as_str().unwrap());
                if let Some(new) = event["logprobs"].as_array() {
                    part["logprobs"].as_array_mut().unwrap().extend(new.clone());
                }
            }
            (_, "done") => {
                let part = if list.is_empty() { part } else { &mut part[0] };
                assert_eq!(part[text], event[text]);
            }
            _ => panic!("{event}"),
        }
    }
    let last = events.last().unwrap();
    assert_eq!(last["type"], json!(format!("response.{}", last["response"]["status"].as_str().unwrap())));
    assert_eq!(last["response"]["output"], json!(output));
    last["response"].clone()
}

/// The same answer whole and streamed, each as the first call of a rollout of the same seed, with the rollout.
async fn both_ways(setup: &Setup, request: &Value, sampled: &[u32], reason: SamplingEnd) -> [(Value, String); 2] {
    let (whole_rollout, base) = setup.seeded_attempt(5).await;
    setup.play(Script::Answer(sampled.to_vec(), reason));
    let whole: Value = post(setup, &base, request).await.json().await.unwrap();
    let (streamed_rollout, base) = setup.seeded_attempt(5).await;
    setup.play(Script::Answer(sampled.to_vec(), reason));
    let text = post(setup, &base, &with(request.clone(), "stream", json!(true))).await.text().await.unwrap();
    [(whole, whole_rollout), (assembled(&events(&text)), streamed_rollout)]
}

/// The same but for what no two responses share: their ids, which those of items are made of, and the time.
fn without_ids(response: &Value) -> Value {
    let id = response["id"].as_str().unwrap().strip_prefix("resp_").unwrap();
    let mut response: Value = serde_json::from_str(&response.to_string().replace(id, "")).unwrap();
    response.as_object_mut().unwrap().remove("created_at").unwrap();
    response
}

async fn answered(family: &Family, request: &Value, sampled: &str, reason: SamplingEnd) -> (Setup, Value, [String; 2]) {
    let setup = family.setup().await;
    let sampled = setup.sampled(sampled);
    let [(whole, first), (streamed, second)] = both_ways(&setup, request, &sampled, reason).await;
    assert_eq!(without_ids(&whole), without_ids(&streamed), "{}", family.format);
    assert_eq!(recorded(&setup, &first).await, recorded(&setup, &second).await, "{}", family.format);
    (setup, whole, [first, second])
}

/// Kind and text of each item.
fn texts_of(response: &Value) -> Vec<(&str, &str)> {
    let items = response["output"].as_array().unwrap();
    items
        .iter()
        .map(|item| {
            let kind = item["type"].as_str().unwrap();
            let text = if kind == "function_call" { &item["arguments"] } else { &item["content"][0]["text"] };
            (kind, text.as_str().unwrap())
        })
        .collect()
}

#[tokio::test]
async fn every_family_reasons_says_and_calls_whole_and_streamed() {
    for family in &FAMILIES {
        let (setup, response, rollouts) = answered(family, &request(), family.turn, SamplingEnd::StopToken).await;
        let [reasoning, message, call] = &texts_of(&response)[..] else { panic!("{response}") };
        assert_eq!((reasoning.0, reasoning.1.trim()), ("reasoning", "hm"), "{}", family.format);
        assert_eq!((message.0, message.1.trim()), ("message", "Looking."));
        assert_eq!(call.0, "function_call");
        let arguments: Value = serde_json::from_str(call.1).unwrap();
        assert_eq!(arguments, json!({ "city": "Paris", "days": 2 }));
        assert_eq!(response["output"][2]["name"], "weather");
        assert!(family.id.is_none_or(|id| response["output"][2]["call_id"] == id));
        assert_eq!((&response["status"], &response["incomplete_details"]), (&json!("completed"), &Value::Null));
        let generation = setup.generation_of(&rollouts[0]).await;
        assert_eq!(response["prompt_token_ids"], json!(generation.prompt_tokens));
        assert_eq!(response["token_ids"], json!(generation.sampled_tokens));
        let content = response["logprobs"]["content"].as_array().unwrap();
        let logprobs: Vec<f32> = content.iter().map(|entry| entry["logprob"].as_f64().unwrap() as f32).collect();
        assert_eq!(Some(logprobs), generation.logprobs);
        let usage = &response["usage"];
        assert_eq!(usage["input_tokens"], json!(generation.prompt_tokens.len()));
        assert_eq!(usage["output_tokens"], json!(generation.sampled_tokens.len()));
        assert!(usage["output_tokens_details"]["reasoning_tokens"].as_u64().unwrap() > 0);
    }
}

/// The record of a call is the one of the same call through Chat Completions, and the next prompt has the same tokens.
#[tokio::test]
async fn a_conversation_is_the_same_as_through_chat() {
    for family in &FAMILIES {
        let (setup, response, [rollout, _]) = answered(family, &request(), family.turn, SamplingEnd::StopToken).await;
        let base = |rollout: &str, attempt: &str| format!("{}/rollout/{rollout}/attempt/{attempt}/v1", setup.url);
        let attempt = setup.generation_of(&rollout).await.attempt_id;
        let call_id = &response["output"][2]["call_id"];
        let result = json!({ "type": "function_call_output", "call_id": call_id, "output": "Rain." });

        // The next turn, in the three ways in which a client can go on.
        let mut items = request()["input"].as_array().cloned().unwrap();
        items.extend(response["output"].as_array().cloned().unwrap());
        items.push(result.clone());
        let resent = with(request(), "input", json!(items));
        let by_id = with(with(request(), "input", json!([result])), "previous_response_id", response["id"].clone());
        let reference = |item: &Value| json!({ "type": "item_reference", "id": item["id"] });
        let mut items = request()["input"].as_array().cloned().unwrap();
        items.extend(response["output"].as_array().unwrap().iter().map(reference));
        items.push(result.clone());
        // All text of a response is in its first message; another adds nothing, wherever it stands.
        let first = response["output"][1]["id"].as_str().unwrap();
        items.push(reference(&json!({ "id": format!("{}_1", first.strip_suffix("_0").unwrap()) })));
        let referred = with(request(), "input", json!(items));
        let mut prompts = Vec::new();
        for body in [&resent, &by_id, &referred] {
            setup.play(Script::Answer(setup.sampled(&(family.plain_turn)("Rain.")), SamplingEnd::StopToken));
            let next: Value = post(&setup, &base(&rollout, &attempt), body).await.json().await.unwrap();
            assert_eq!(texts_of(&next).last().unwrap().0, "message", "{next}");
            prompts.push(next["prompt_token_ids"].clone());
        }

        let (chat_rollout, chat_base) = setup.seeded_attempt(5).await;
        setup.play(Script::Answer(setup.sampled(family.turn), SamplingEnd::StopToken));
        let chat = crate::common::families::request();
        let answer: Value = setup.post(&chat_base, &chat).await.json().await.unwrap();
        assert_eq!(answer["prompt_token_ids"], response["prompt_token_ids"], "{}", family.format);
        let message = &answer["choices"][0]["message"];
        let mut messages = chat["messages"].as_array().cloned().unwrap();
        messages.push(message.clone());
        let id = &message["tool_calls"][0]["id"];
        messages.push(json!({ "role": "tool", "tool_call_id": id, "content": "Rain." }));
        setup.play(Script::Answer(setup.sampled(&(family.plain_turn)("Rain.")), SamplingEnd::StopToken));
        let next: Value = setup.post(&chat_base, &with(chat, "messages", json!(messages))).await.json().await.unwrap();
        for prompt in &prompts {
            assert_eq!(*prompt, next["prompt_token_ids"], "{}", family.format);
        }

        // Attributes differ in the calls' ids alone, which are derived from the request.
        let (ours, chats) = (setup.attributes(&rollout).await, setup.attributes(&chat_rollout).await);
        for prefix in ["gen_ai.prompt.", "gen_ai.completion.", "gen_ai.request.functions."] {
            let renamed = |attributes: &Value, id: &Value| {
                json!(message_below(attributes, prefix)).to_string().replace(id.as_str().unwrap(), "ID")
            };
            assert_eq!(renamed(&ours, call_id), renamed(&chats, id), "{}", family.format);
        }
    }
}

/// The store keeps an answer once that comes back with the same attributes.
#[tokio::test]
async fn an_answer_comes_back_as_it_was_recorded() {
    let (setup, response, [rollout, _]) = answered(&QWEN3, &request(), QWEN3.turn, SamplingEnd::StopToken).await;
    let mut answered = message_below(&setup.attributes(&rollout).await, "gen_ai.completion.0.");
    answered.remove("finish_reason").unwrap();
    let attempt = setup.generation_of(&rollout).await.attempt_id;
    let base = format!("{}/rollout/{rollout}/attempt/{attempt}/v1", setup.url);
    let mut items = request()["input"].as_array().cloned().unwrap();
    items.extend(response["output"].as_array().cloned().unwrap());
    let call_id = &response["output"][2]["call_id"];
    items.push(json!({ "type": "function_call_output", "call_id": call_id, "output": "7" }));
    setup.play(Script::Answer(setup.sampled(&(QWEN3.plain_turn)("7")), SamplingEnd::StopToken));
    post(&setup, &base, &with(request(), "input", json!(items))).await;
    let attributes = setup.attributes(&rollout).await;
    assert_eq!(attributes["gen_ai.prompt.3.content"], "7");
    assert_eq!(message_below(&attributes, "gen_ai.prompt.2."), answered);
}

#[tokio::test]
async fn a_response_says_what_it_was_asked() {
    let setup = Setup::new(vec![]).await;
    let namespace = json!({ "type": "namespace", "name": "git", "tools": [] });
    let mut body = plain();
    for (key, value) in [
        ("temperature", json!(0.5)),
        ("metadata", json!({ "a": "b" })),
        ("reasoning", json!({ "effort": "low" })),
        ("tools", json!([{ "type": "web_search" }, namespace])),
        ("tool_choice", json!("none")),
        ("store", json!(false)),
        ("client_metadata", json!({ "session": "s" })),
    ] {
        body[key] = value;
    }
    setup.play(Script::Answer([setup.tokens("I am 17"), vec![setup.stop()]].concat(), SamplingEnd::StopToken));
    let (rollout, base) = setup.attempt().await;
    let response: Value = post(&setup, &base, &body).await.json().await.unwrap();
    for field in ["temperature", "metadata", "reasoning", "tools", "tool_choice", "store"] {
        assert_eq!(response[field], body[field], "{field}");
    }
    assert_eq!((&response["object"], &response["model"]), (&json!("response"), &json!("tiny")));
    assert_eq!((&response["error"], &response["top_p"]), (&Value::Null, &json!(1.0)));
    assert_eq!(response["text"], json!({ "format": { "type": "text" } }));
    let attributes = setup.attributes(&rollout).await;
    assert_eq!(attributes["fulgurite.request.ignored_tools"], json!([{ "type": "web_search" }]).to_string());
    let extra: Value = serde_json::from_str(attributes["fulgurite.request.extra"].as_str().unwrap()).unwrap();
    assert_eq!(extra["client_metadata"], body["client_metadata"]);

    let found: Value = setup
        .client
        .get(format!("{base}/responses/{}", response["id"].as_str().unwrap()))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    for field in ["id", "status", "output", "model", "metadata", "temperature", "tool_choice", "created_at"] {
        assert_eq!(found[field], response[field], "{field}");
    }
    assert_eq!(found["usage"]["total_tokens"], response["usage"]["total_tokens"]);
}

#[tokio::test]
async fn logprobs_are_of_the_text_and_only_for_those_who_ask() {
    let requested = with(request(), "include", json!(["message.output_text.logprobs"]));
    let (setup, response, _) = answered(&QWEN3, &requested, QWEN3.turn, SamplingEnd::StopToken).await;
    let logprobs = response["output"][1]["content"][0]["logprobs"].as_array().unwrap();
    let text: String = logprobs.iter().map(|entry| entry["token"].as_str().unwrap()).collect();
    assert_eq!(text.trim(), "Looking.");
    drop(setup);
    let (_, response, _) = answered(&QWEN3, &request(), QWEN3.turn, SamplingEnd::StopToken).await;
    assert_eq!(response["output"][1]["content"][0]["logprobs"], json!([]));
}

#[tokio::test]
async fn reasoning_is_given_as_it_was_asked_for() {
    let mut requested = with(request(), "reasoning", json!({ "summary": "auto" }));
    requested["include"] = json!(["reasoning.encrypted_content"]);
    let (setup, response, [rollout, _]) = answered(&KIMI, &requested, KIMI.turn, SamplingEnd::StopToken).await;
    let reasoning = &response["output"][0];
    assert_eq!(reasoning["summary"], json!([{ "type": "summary_text", "text": "hm" }]));
    assert_eq!(reasoning.get("content"), None);
    // A client that keeps nothing but what it cannot read still goes on from the same message.
    let attempt = setup.generation_of(&rollout).await.attempt_id;
    let base = format!("{}/rollout/{rollout}/attempt/{attempt}/v1", setup.url);
    let mut items = request()["input"].as_array().cloned().unwrap();
    items.extend(response["output"].as_array().cloned().unwrap());
    items[1]["summary"] = json!([]);
    items.push(json!({ "role": "user", "content": "And tomorrow?" }));
    setup.play(Script::Answer(setup.sampled(&(KIMI.plain_turn)("Sun.")), SamplingEnd::StopToken));
    post(&setup, &base, &with(request(), "input", json!(items))).await;
    let attributes = setup.attributes(&rollout).await;
    assert_eq!(attributes["gen_ai.prompt.2.reasoning_content"], "hm");
}

#[tokio::test]
async fn logprobs_of_a_broken_call_are_those_of_its_text() {
    let requested = with(request(), "include", json!(["message.output_text.logprobs"]));
    for family in &FAMILIES {
        for broken in family.broken {
            let sampled = format!("{broken}{}", family.stop);
            let (_, response, _) = answered(family, &requested, &sampled, SamplingEnd::StopToken).await;
            let parts = response["output"].as_array().unwrap().iter().filter(|item| item["type"] == "message");
            let part = parts.map(|item| &item["content"][0]).next_back().unwrap();
            let entries = part["logprobs"].as_array().unwrap();
            let tokens: String = entries.iter().map(|entry| entry["token"].as_str().unwrap()).collect();
            // gpt-oss' end of a message, which breaks one of its calls, is counted as its text's.
            let tokens = tokens.strip_suffix("<|end|>").unwrap_or(&tokens);
            assert_eq!(Some(tokens), part["text"].as_str(), "{}", family.format);
        }
    }
}

#[tokio::test]
async fn an_answer_at_its_limit_is_incomplete() {
    let setup = Setup::new(vec![]).await;
    let [(whole, _), (streamed, _)] =
        both_ways(&setup, &with(plain(), "max_output_tokens", json!(3)), &setup.tokens("I am"), SamplingEnd::Length)
            .await;
    assert_eq!(without_ids(&whole), without_ids(&streamed));
    assert_eq!(whole["status"], "incomplete");
    assert_eq!(whole["incomplete_details"], json!({ "reason": "max_output_tokens" }));
    assert_eq!((&whole["output"][0]["status"], texts_of(&whole)[0]), (&json!("incomplete"), ("message", "I am")));
}

#[tokio::test]
async fn an_answer_that_says_nothing_is_an_empty_message() {
    let setup = Setup::new(vec![]).await;
    let [(whole, _), (streamed, _)] = both_ways(&setup, &plain(), &[setup.stop()], SamplingEnd::StopToken).await;
    assert_eq!(without_ids(&whole), without_ids(&streamed));
    assert_eq!(texts_of(&whole), [("message", "")]);
}

#[tokio::test]
async fn a_stream_that_breaks_ends_with_a_failed_response_and_an_error() {
    let setup = Setup::new(vec![]).await;
    setup.play(Script::Break(setup.tokens("I am")));
    let text =
        post(&setup, &format!("{}/v1", setup.url), &with(plain(), "stream", json!(true))).await.text().await.unwrap();
    let events = events(&text);
    let [.., failed, error] = &events[..] else { panic!("{text}") };
    assert_eq!((&failed["type"], &failed["response"]["status"]), (&json!("response.failed"), &json!("failed")));
    assert!(failed["response"]["error"]["message"].as_str().unwrap().contains("it broke"));
    assert_eq!((&error["type"], &error["code"]), (&json!("error"), &Value::Null));
}

/// As Codex does: what it was told of a response that broke stays in its history, before the one that it got instead.
#[tokio::test]
async fn a_conversation_goes_on_token_by_token_behind_a_response_that_broke() {
    let setup = QWEN3.setup().await;
    let (rollout, base) = setup.attempt().await;
    let mut items = request()["input"].as_array().cloned().unwrap();
    let started = QWEN3.turn.split_once("Paris").unwrap().0;
    let scripts = [
        Script::Break(setup.sampled(started)),
        Script::Answer(setup.sampled(QWEN3.turn), SamplingEnd::StopToken),
        Script::Answer(setup.sampled(&(QWEN3.plain_turn)("Sun.")), SamplingEnd::StopToken),
    ];
    for script in scripts {
        setup.play(script);
        let requested = with(with(request(), "input", json!(items)), "stream", json!(true));
        let parsed = events(&post(&setup, &base, &requested).await.text().await.unwrap());
        let whole = parsed.iter().filter(|event| event["type"] == "response.output_item.done");
        items.extend(whole.map(|event| event["item"].clone()).filter(|item| item["status"] != "incomplete"));
        let call = items.last().filter(|item| item["type"] == "function_call").map(|item| item["call_id"].clone());
        if let Some(call_id) = call {
            items.push(json!({ "type": "function_call_output", "call_id": call_id, "output": "Rain." }));
        }
    }
    let kinds: Vec<&str> = items.iter().filter_map(|item| item["type"].as_str()).collect();
    let turn = ["reasoning", "message", "reasoning", "message", "function_call", "function_call_output"];
    assert_eq!(kinds, [&turn[..], &["reasoning", "message"]].concat());
    let calls = setup.store.queries().drift(&rollout).await.unwrap().calls;
    assert_eq!((&calls[2].continues, &calls[2].reason), (&Some(calls[1].generation_id.clone()), &None));
}

#[tokio::test]
async fn previous_responses_are_those_of_the_same_rollout() {
    let setup = Setup::new(vec![]).await;
    let say = |text: &str| Script::Answer([setup.tokens(text), vec![setup.stop()]].concat(), SamplingEnd::StopToken);
    let (_, base) = setup.attempt().await;
    let (_, other) = setup.attempt().await;
    let here = format!("{}/v1", setup.url);
    let mut ids = Vec::new();
    for base in [&base, &here] {
        setup.play(say("I am"));
        let response: Value = post(&setup, base, &with(plain(), "input", json!("Say"))).await.json().await.unwrap();
        ids.push(response["id"].as_str().unwrap().to_owned());
    }
    for (base, id, is_found) in [
        (&base, &ids[0], true),
        (&other, &ids[0], false),
        (&here, &ids[0], false),
        (&here, &ids[1], true),
        (&base, &ids[1], false),
        (&base, &"resp_no".to_owned(), false),
    ] {
        setup.play(say("17"));
        let body = with(with(plain(), "input", json!("17?")), "previous_response_id", json!(id));
        let response = post(&setup, base, &body).await;
        assert_eq!(response.status(), if is_found { 200 } else { 400 }, "{base} {id}");
        let answer: Value = response.json().await.unwrap();
        if is_found {
            assert_eq!(texts_of(&answer), [("message", "17")]);
        } else {
            setup.sampler.scripts.lock().unwrap().clear();
            assert_eq!(answer["error"]["code"], "previous_response_not_found");
            assert_eq!(answer["error"]["param"], "previous_response_id");
        }
        let found = setup.client.get(format!("{base}/responses/{id}")).send().await.unwrap();
        assert_eq!(found.status(), if is_found { 200 } else { 404 }, "{base} {id}");
    }
}

/// Instructions are of one request; a later one that goes on from its response brings its own or none.
#[tokio::test]
async fn instructions_are_not_taken_over() {
    let (setup, response, [rollout, _]) =
        answered(&QWEN3, &with(request(), "tools", json!([])), &(QWEN3.plain_turn)("Rain."), SamplingEnd::StopToken)
            .await;
    let attempt = setup.generation_of(&rollout).await.attempt_id;
    let base = format!("{}/rollout/{rollout}/attempt/{attempt}/v1", setup.url);
    let mut previous = response["id"].clone();
    for (instructions, expected) in [
        (json!("Be long."), vec!["system", "user", "assistant", "user"]),
        (json!(null), vec!["user", "assistant", "user", "assistant", "user"]),
        (json!(null), vec!["user", "assistant", "user", "assistant", "user", "assistant", "user"]),
    ] {
        let body =
            json!({ "model": "tiny", "input": "more", "instructions": instructions, "previous_response_id": previous });
        setup.play(Script::Answer(setup.sampled(&(QWEN3.plain_turn)("Yes.")), SamplingEnd::StopToken));
        let response: Value = post(&setup, &base, &body).await.json().await.unwrap();
        previous = response["id"].clone();
        let attributes = setup.attributes(&rollout).await;
        let role = |index: usize| attributes[format!("gen_ai.prompt.{index}.role")].as_str();
        assert_eq!((0..).map_while(role).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test]
async fn what_cannot_be_is_refused_in_openais_words() {
    let setup = Setup::new(vec![]).await;
    let here = format!("{}/v1", setup.url);
    for (body, status, parameter) in [
        (json!({ "model": "other", "input": "x" }), 404, json!("model")),
        (with(plain(), "background", json!(true)), 400, json!("background")),
        (with(plain(), "input", json!("x ".repeat(CONTEXT_LENGTH))), 400, json!("input")),
        (with(plain(), "input", json!("x".repeat(BODY_LIMIT))), 413, json!(null)),
        (
            with(plain(), "input", json!([{ "role": "user", "content": [{ "type": "input_image" }] }])),
            400,
            json!("input[0].content[0].type"),
        ),
        // What this model's format cannot write.
        (
            with(
                plain(),
                "input",
                json!([{ "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" }]),
            ),
            400,
            json!("input"),
        ),
    ] {
        let response = post(&setup, &here, &body).await;
        assert_eq!(response.status(), status);
        let error: Value = response.json().await.unwrap();
        assert_eq!(error["error"]["param"], parameter, "{error}");
    }
    for (method, path, status) in [
        (reqwest::Method::GET, "responses", 405),
        (reqwest::Method::PUT, "responses/resp_1", 405),
        (reqwest::Method::DELETE, "responses/resp_1", 404),
        (reqwest::Method::POST, "responses/resp_1/cancel", 404),
        (reqwest::Method::GET, "responses/resp_1/input_items", 404),
    ] {
        let response = setup.client.request(method, format!("{here}/{path}")).send().await.unwrap();
        assert_eq!(response.status(), status, "{path}");
        assert!(response.json::<Value>().await.unwrap()["error"]["message"].is_string());
    }
    assert!(setup.generations().await.is_empty());
}

#[tokio::test]
async fn token_ids_are_for_those_who_ask() {
    let options = ProxyOptions { token_ids_on_attributed_path: false, ..ProxyOptions::default() };
    let setup = Setup::with_options(options).await;
    for requested in [false, true] {
        setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
        let (_, base) = setup.attempt().await;
        let response: Value =
            post(&setup, &base, &with(plain(), "return_token_ids", json!(requested))).await.json().await.unwrap();
        for field in ["prompt_token_ids", "token_ids", "logprobs"] {
            assert_eq!(response.get(field).is_some(), requested, "{field}");
        }
    }
}
