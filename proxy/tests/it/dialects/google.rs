//! Google's generateContent over real sockets, whole and streamed.

use std::time::Duration;

use fulgurite_types::{Constraint, RolloutFilter};

use crate::common::families::{FAMILIES, Family, GPT_OSS, QWEN3, QWEN3_5, message_below, recorded, tools};
use crate::common::google::{assembled, events};
use crate::common::{BODY_LIMIT, CONTEXT_LENGTH, Script, Setup};
use fulgurite_backends::{Capabilities, SamplingEnd};
use fulgurite_proxy::{ProxyOptions, UnknownFields};
use serde_json::{Value, json};
use tokio::sync::oneshot;

fn plain() -> Value {
    json!({ "contents": [{ "role": "user", "parts": [{ "text": "Say you are 17." }] }] })
}

/// What `common::families::request` asks, in this dialect.
fn request() -> Value {
    let function = &tools()[0]["function"];
    json!({
        "systemInstruction": { "parts": [{ "text": "Be brief." }] },
        "contents": [{ "role": "user", "parts": [{ "text": "Rain in Paris?" }] }],
        "tools": [{ "functionDeclarations": [{
            "name": function["name"],
            "description": function["description"],
            "parameters": {
                "type": "OBJECT",
                "properties": { "city": { "type": "STRING" }, "days": { "type": "INTEGER", "format": "int32" } },
                "required": ["city"],
            },
        }] }],
        "toolConfig": { "functionCallingConfig": { "mode": "AUTO" } },
        "generationConfig": { "thinkingConfig": { "includeThoughts": true } },
    })
}

fn with(mut body: Value, key: &str, value: Value) -> Value {
    body[key] = value;
    body
}

/// The server, or an attempt's base URL, with this dialect's version.
fn beta(base: &str) -> String {
    format!("{}/v1beta", base.strip_suffix("/v1").unwrap_or(base))
}

async fn post(setup: &Setup, base: &str, method: &str, body: &Value) -> reqwest::Response {
    setup.client.post(format!("{}/models/tiny:{method}", beta(base))).json(body).send().await.unwrap()
}

async fn generate(setup: &Setup, base: &str, body: &Value) -> Value {
    post(setup, base, "generateContent", body).await.json().await.unwrap()
}

/// The same answer whole, as events and as an array, each as the first call of a rollout of the same seed, with the rollout.
async fn every_way(setup: &Setup, request: &Value, sampled: &[u32], reason: SamplingEnd) -> [(Value, String); 3] {
    let play = async || {
        setup.play(Script::Answer(sampled.to_vec(), reason));
        setup.seeded_attempt(5).await
    };
    let (whole_rollout, base) = play().await;
    let whole = generate(setup, &base, request).await;
    let (events_rollout, base) = play().await;
    let response = post(setup, &base, "streamGenerateContent?alt=sse", request).await;
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("text/event-stream"));
    let as_events = events(&response.text().await.unwrap());
    let (array_rollout, base) = play().await;
    let response = post(setup, &base, "streamGenerateContent", request).await;
    assert_eq!(response.headers()["content-type"], "application/json");
    let array: Vec<Value> = response.json().await.unwrap();
    assert_eq!(array.len(), as_events.len());
    [(whole, whole_rollout), (assembled(&as_events), events_rollout), (assembled(&array), array_rollout)]
}

/// The same but for the id, which no two responses share.
fn without_id(response: &Value) -> Value {
    let mut response = response.clone();
    let id = response.as_object_mut().unwrap().remove("responseId").unwrap();
    assert!(id.as_str().unwrap().starts_with("content-"), "{id}");
    response
}

async fn answered(family: &Family, request: &Value, sampled: &str, reason: SamplingEnd) -> (Setup, Value, String) {
    let setup = family.setup().await;
    let sampled = setup.sampled(sampled);
    let [(whole, first), others @ ..] = every_way(&setup, request, &sampled, reason).await;
    for (streamed, rollout) in others {
        assert_eq!(without_id(&whole), without_id(&streamed), "{}", family.format);
        assert_eq!(recorded(&setup, &first).await, recorded(&setup, &rollout).await, "{}", family.format);
    }
    (setup, whole, first)
}

fn parts(response: &Value) -> &Vec<Value> {
    response["candidates"][0]["content"]["parts"].as_array().unwrap()
}

#[tokio::test]
async fn thoughts_text_and_a_call_are_parts_whole_and_streamed() {
    for family in FAMILIES {
        let (setup, response, rollout) = answered(&family, &request(), family.turn, SamplingEnd::StopToken).await;
        let id = family.id.unwrap_or("call_0");
        let expected = json!([
            { "text": "hm", "thought": true },
            { "text": "Looking." },
            { "functionCall": { "id": id, "name": "weather", "args": { "city": "Paris", "days": 2 } } },
        ]);
        assert_eq!(json!(parts(&response)), expected, "{}", family.format);
        let generation = setup.generation_of(&rollout).await;
        let candidate = &response["candidates"][0];
        assert_eq!((&candidate["finishReason"], &candidate["index"]), (&json!("STOP"), &json!(0)));
        assert_eq!(response["responseId"], json!(generation.generation_id));
        assert_eq!(response["modelVersion"], "tiny");
        let usage = &response["usageMetadata"];
        let count = |name: &str| usage[name].as_u64().unwrap() as usize;
        assert_eq!(count("promptTokenCount"), generation.prompt_tokens.len());
        let sampled = generation.sampled_tokens.len();
        assert!(count("thoughtsTokenCount") > 0, "{usage}");
        assert_eq!(count("candidatesTokenCount") + count("thoughtsTokenCount"), sampled);
        assert_eq!(count("totalTokenCount"), generation.prompt_tokens.len() + sampled);
        // On an attempt's path a tracer gets the tokens and logprobs as they were sampled.
        assert_eq!(response["prompt_token_ids"], json!(generation.prompt_tokens));
        assert_eq!(candidate["token_ids"], json!(generation.sampled_tokens));
        let chosen = candidate["logprobsResult"]["chosenCandidates"].as_array().unwrap();
        let ids: Vec<&Value> = chosen.iter().map(|token| &token["tokenId"]).collect();
        let logprobs: Vec<f32> = chosen.iter().map(|token| token["logProbability"].as_f64().unwrap() as f32).collect();
        assert_eq!((json!(ids), Some(logprobs)), (json!(generation.sampled_tokens), generation.logprobs));
    }
}

#[tokio::test]
async fn what_was_answered_comes_back_as_the_same_message_with_or_without_ids() {
    let with_ids = FAMILIES.into_iter().map(|family| (family, true));
    for (family, keeps_ids) in with_ids.chain([(QWEN3, false), (QWEN3_5, false), (GPT_OSS, false)]) {
        let setup = family.setup().await;
        let (rollout, base) = setup.attempt().await;
        setup.play(Script::Answer(setup.sampled(family.turn), SamplingEnd::StopToken));
        let mut request = request();
        let reply = generate(&setup, &base, &request).await;
        let mut answered = message_below(&setup.attributes(&rollout).await, "gen_ai.completion.0.");
        assert_eq!(answered.remove("finish_reason"), Some(json!("tool_calls")));

        let mut content = reply["candidates"][0]["content"].clone();
        let call = &mut content["parts"][2];
        call["thoughtSignature"] = json!("c2lnbmF0dXJl");
        let id = call["functionCall"]["id"].clone();
        let mut result = json!({ "name": "weather", "response": { "output": "rain" } });
        match keeps_ids {
            true => result["id"] = id.clone(),
            false => drop(call["functionCall"].as_object_mut().unwrap().remove("id")),
        }
        request["contents"].as_array_mut().unwrap().extend([
            content,
            json!({ "role": "user", "parts": [{ "functionResponse": result }, { "text": "Well?" }] }),
        ]);
        setup.play(Script::Answer(setup.sampled(&(family.plain_turn)("It rains.")), SamplingEnd::StopToken));
        let answer = generate(&setup, &base, &request).await;
        assert_eq!(parts(&answer)[1], json!({ "text": "It rains." }), "{}", family.format);

        let attributes = setup.attributes(&rollout).await;
        assert_eq!(message_below(&attributes, "gen_ai.prompt.2."), answered, "{}", family.format);
        let expected = family.continued_after_result(&setup, &id);
        assert_eq!(setup.sampler.requests.lock().unwrap()[1].prompt, expected, "{}", family.format);
        assert_eq!(setup.store.queries().drift(&rollout).await.unwrap().continued, 1);
    }
}

#[tokio::test]
async fn calls_of_later_turns_have_ids_of_their_own_and_go_on_without_them() {
    let setup = QWEN3.setup().await;
    let (rollout, base) = setup.attempt().await;
    let call = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>";
    let sampled = setup.sampled(&format!("<think>\nhm\n</think>\n\n{call}\n{call}<|im_end|>"));
    let mut request = request();
    let mut ids = Vec::new();
    for _ in 0..3 {
        setup.play(Script::Answer(sampled.clone(), SamplingEnd::StopToken));
        let mut content = generate(&setup, &base, &request).await["candidates"][0]["content"].clone();
        for part in content["parts"].as_array_mut().unwrap() {
            if let Some(call) = part.get_mut("functionCall") {
                ids.push(call.as_object_mut().unwrap().remove("id").unwrap());
            }
        }
        let result = |text: &str| json!({ "functionResponse": { "name": "weather", "response": { "output": text } } });
        let results = json!({ "role": "function", "parts": [result("rain"), result("sun")] });
        request["contents"].as_array_mut().unwrap().extend([content, results]);
    }
    assert_eq!(json!(ids), json!(["call_0", "call_1", "call_2", "call_3", "call_4", "call_5"]));
    assert_eq!(setup.store.queries().drift(&rollout).await.unwrap().continued, 2);
}

#[tokio::test]
async fn thoughts_are_for_those_who_ask_and_recorded_for_all() {
    let request = with(request(), "generationConfig", json!({}));
    let (setup, response, rollout) = answered(&QWEN3, &request, QWEN3.turn, SamplingEnd::StopToken).await;
    assert_eq!(parts(&response)[0], json!({ "text": "Looking." }));
    assert!(response["usageMetadata"]["thoughtsTokenCount"].as_u64().unwrap() > 0);
    assert_eq!(setup.attributes(&rollout).await["gen_ai.completion.0.reasoning_content"], "hm");
}

#[tokio::test]
async fn a_call_that_breaks_is_text_and_never_a_part() {
    for family in FAMILIES {
        for broken in family.broken {
            let sampled = format!("{broken}{}", family.stop);
            let (_, response, _) = answered(&family, &request(), &sampled, SamplingEnd::StopToken).await;
            let [part] = parts(&response).as_slice() else { panic!("{response}") };
            assert!(broken.contains(part["text"].as_str().unwrap()), "{response}");
        }
        let cut = family.turn.split_once(family.end_of_call).unwrap().0;
        let (_, response, _) = answered(&family, &request(), cut, SamplingEnd::Length).await;
        assert!(parts(&response).iter().all(|part| part["text"].is_string()), "{response}");
        assert_eq!(response["candidates"][0]["finishReason"], "MAX_TOKENS");
    }
}

#[tokio::test]
async fn an_answer_of_nothing_is_an_empty_text_and_a_stop_sequence_ends_one() {
    let request = with(request(), "generationConfig", json!({ "stopSequences": ["STOP", "HALT"] }));
    for (sampled, text) in [("<|im_end|>".to_owned(), ""), ((QWEN3.plain_turn)("One HALT two"), "One ")] {
        let (_, response, _) = answered(&QWEN3, &request, &sampled, SamplingEnd::StopToken).await;
        assert_eq!(json!(parts(&response)), json!([{ "text": text }]));
        assert_eq!(response["candidates"][0]["finishReason"], "STOP");
    }
}

#[tokio::test]
async fn elsewhere_logprobs_and_token_ids_are_for_those_who_ask() {
    let setup = Setup::new(vec![]).await;
    let logprobs = with(plain(), "generationConfig", json!({ "responseLogprobs": true, "logprobs": 1 }));
    let ids = with(plain(), "return_token_ids", json!(true));
    for (body, has_logprobs, has_ids) in [(plain(), false, false), (logprobs, true, false), (ids, true, true)] {
        setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
        let answer = generate(&setup, &setup.url, &body).await;
        let candidate = &answer["candidates"][0];
        assert_eq!(candidate.get("logprobsResult").is_some(), has_logprobs, "{answer}");
        assert_eq!(candidate.get("token_ids").is_some(), has_ids, "{answer}");
        assert_eq!(answer.get("prompt_token_ids").is_some(), has_ids, "{answer}");
    }
}

#[tokio::test]
async fn tokens_that_were_cached_are_counted() {
    let setup = Setup::new(vec![]).await;
    setup.play(Script::Cached(vec![setup.stop()], 3));
    let answer = generate(&setup, &setup.url, &plain()).await;
    assert_eq!(answer["usageMetadata"]["cachedContentTokenCount"], 3);
}

#[tokio::test]
async fn the_sampler_gets_what_was_asked_and_the_answer_its_form() {
    let every = Capabilities { json_schema: true, lark: true, top_logprobs: 20, ..Capabilities::default() };
    let setup = Setup::of_family_on("qwen3_disable_thinking", "qwen3", every).await;
    let days = json!({ "type": "object", "properties": { "days": { "type": "integer" } }, "required": ["days"] });
    let googles = json!({ "type": "OBJECT", "properties": { "days": { "type": "INTEGER" } }, "required": ["days"] });
    for (name, schema) in [("responseSchema", googles), ("responseJsonSchema", days.clone())] {
        setup.play(Script::Answer(setup.renderer.stop_tokens().to_vec(), SamplingEnd::StopToken));
        let mut config = json!({ "responseMimeType": "application/json", "temperature": 0.5, "maxOutputTokens": 7 });
        config[name] = schema;
        generate(&setup, &setup.url, &with(plain(), "generationConfig", config)).await;
        let sampled_request = setup.sampler.requests.lock().unwrap().pop().unwrap();
        assert_eq!(sampled_request.sampling.constraint, Some(Constraint::JsonSchema(days.clone())), "{name}");
        assert_eq!((sampled_request.sampling.temperature, sampled_request.max_tokens), (0.5, 7));
    }
    setup.play(Script::Answer(setup.renderer.stop_tokens().to_vec(), SamplingEnd::StopToken));
    let forced = json!({ "functionCallingConfig": { "mode": "ANY", "allowedFunctionNames": ["weather"] } });
    generate(&setup, &setup.url, &with(request(), "toolConfig", forced)).await;
    let sampled_request = setup.sampler.requests.lock().unwrap().pop().unwrap();
    assert!(sampled_request.sampling.constraint.is_some());
}

#[tokio::test]
async fn what_has_no_effect_is_told_and_what_says_nothing_is_not() {
    let setup = Setup::new(vec![]).await;
    let mut body = plain();
    let sent = json!({
        "safetySettings": [{ "category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE" }],
        "cached_content": "cachedContents/c",
        "frobnicate": 1,
        "generationConfig": { "candidateCount": 1, "thinkingConfig": { "thinkingBudget": 0 }, "style": "bold" },
    });
    body.as_object_mut().unwrap().extend(sent.as_object().unwrap().clone());
    setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
    let response = post(&setup, &setup.url, "generateContent", &body).await;
    assert_eq!(response.status(), 200);
    let ignored = response.headers()["x-fulgurite-ignored"].to_str().unwrap();
    let mut ignored: Vec<&str> = ignored.split(',').map(str::trim).collect();
    ignored.sort_unstable();
    let budget = "generationConfig.thinkingConfig.thinkingBudget";
    assert_eq!(ignored, ["cachedContent", "frobnicate", "generationConfig.style", budget]);

    let strict = ProxyOptions { unknown_fields: UnknownFields::Refuse, ..ProxyOptions::default() };
    let setup = Setup::with_options(strict).await;
    let response = post(&setup, &setup.url, "generateContent", &with(plain(), "frobnicate", json!(1))).await;
    assert_eq!(response.status(), 400);
}

#[tokio::test]
async fn a_prompt_is_counted_as_it_is_sampled() {
    let setup = QWEN3.setup().await;
    let (_, base) = setup.attempt().await;
    let wrapped = json!({ "generateContentRequest": with(request(), "model", json!("models/tiny")) });
    let mut counted = Vec::new();
    for body in [request(), wrapped] {
        let response = post(&setup, &base, "countTokens", &body).await;
        counted.push(response.json::<Value>().await.unwrap());
    }
    assert_eq!(setup.generations().await, []);
    setup.play(Script::Answer(setup.sampled(QWEN3.turn), SamplingEnd::StopToken));
    let answer = generate(&setup, &base, &request()).await;
    let expected = json!({ "totalTokens": answer["usageMetadata"]["promptTokenCount"] });
    assert_eq!(counted, [expected.clone(), expected]);
}

#[tokio::test]
async fn a_stream_that_breaks_off_ends_with_an_error_and_a_quiet_one_gives_signs_of_life() {
    let setup =
        Setup::with_options(ProxyOptions { keep_alive: Duration::from_millis(1), ..ProxyOptions::default() }).await;
    let expected =
        json!({ "error": { "code": 500, "message": "the model host failed: it broke", "status": "INTERNAL" } });
    setup.play(Script::Break(setup.tokens("I am")));
    let mut broken = post(&setup, &setup.url, "streamGenerateContent?alt=sse", &plain()).await;
    let mut pieces = Vec::new();
    while let Some(piece) = broken.chunk().await.unwrap() {
        pieces.push(String::from_utf8(piece.to_vec()).unwrap());
    }
    assert_eq!(events(&pieces.concat()).last(), Some(&expected));
    // By itself, where Google's client for JavaScript looks for it.
    assert_eq!(serde_json::from_str::<Value>(pieces.last().unwrap()).unwrap(), expected);
    setup.play(Script::Break(setup.tokens("I am")));
    let broken = post(&setup, &setup.url, "streamGenerateContent", &plain()).await;
    assert_eq!(broken.json::<Vec<Value>>().await.unwrap().last(), Some(&expected));

    for (method, begins) in [("streamGenerateContent?alt=sse", "\n\n"), ("streamGenerateContent", "[\n\n")] {
        let (on_disconnect, disconnected) = oneshot::channel();
        setup.play(Script::Hang(vec![], on_disconnect));
        let mut response = post(&setup, &setup.url, method, &plain()).await;
        let mut text = String::new();
        while text.len() < begins.len() {
            text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
        }
        assert!(text.starts_with(begins), "{text:?}");
        drop(response);
        disconnected.await.unwrap();
    }
}

#[tokio::test]
async fn every_bad_request_gets_googles_error_and_stores_nothing() {
    let setup = Setup::new(vec![]).await;
    let here = setup.url.clone();
    let unknown = format!("{here}/rollout/ro-none/attempt/at-none/v1");
    let with_part = |part: Value| with(plain(), "contents", json!([{ "parts": [part] }]));
    let config = |name: &str, value: Value| with(plain(), "generationConfig", json!({ name: value }));
    let tool = |name: &str| with(plain(), "tools", json!([{ name: {} }]));
    let function = json!([{ "functionDeclarations": [{ "name": "f" }] }]);
    let long = "17 ".repeat(CONTEXT_LENGTH);
    for (base, body, status, kind, field, words) in [
        (&here, json!([]), 400, "INVALID_ARGUMENT", None, "must be a JSON object"),
        (&here, json!({}), 400, "INVALID_ARGUMENT", Some("contents"), "at least one content"),
        (&here, with(plain(), "contents", json!("Hi")), 400, "INVALID_ARGUMENT", Some("contents[0]"), "an object"),
        (
            &here,
            with_part(json!({ "text": 17 })),
            400,
            "INVALID_ARGUMENT",
            Some("contents[0].parts[0].text"),
            "a string",
        ),
        (
            &here,
            with_part(json!({ "inlineData": { "mimeType": "image/png", "data": "" } })),
            400,
            "INVALID_ARGUMENT",
            Some("contents[0].parts[0].inlineData"),
            "text alone",
        ),
        (
            &here,
            config("temperature", json!(3)),
            400,
            "INVALID_ARGUMENT",
            Some("generationConfig.temperature"),
            "between 0 and 2",
        ),
        (
            &here,
            config("candidateCount", json!(2)),
            400,
            "INVALID_ARGUMENT",
            Some("generationConfig.candidateCount"),
            "other than 1",
        ),
        (&here, tool("googleSearch"), 400, "INVALID_ARGUMENT", Some("tools[0].googleSearch"), "is not supported"),
        (&here, tool("code_execution"), 400, "INVALID_ARGUMENT", Some("tools[0].codeExecution"), "is not supported"),
        (&here, tool("urlContext"), 400, "INVALID_ARGUMENT", Some("tools[0].urlContext"), "is not supported"),
        (
            &here,
            with(plain(), "tools", function),
            400,
            "INVALID_ARGUMENT",
            Some("tools"),
            "chatml format cannot declare tools",
        ),
        (&here, with(plain(), "model", json!("huge")), 400, "INVALID_ARGUMENT", Some("model"), "the path names `tiny`"),
        (
            &here,
            with_part(json!({ "text": long })),
            400,
            "INVALID_ARGUMENT",
            Some("contents"),
            "exceeds the maximum number of tokens allowed (63).",
        ),
        (&here, with_part(json!({ "text": "x".repeat(BODY_LIMIT) })), 413, "INVALID_ARGUMENT", None, "over the limit"),
        (&unknown, plain(), 404, "NOT_FOUND", None, "there is no rollout"),
        (&here, plain(), 503, "UNAVAILABLE", None, "at its limit"),
    ] {
        for method in ["generateContent", "streamGenerateContent?alt=sse"] {
            let response = post(&setup, base, method, &body).await;
            let found = response.status().as_u16();
            let error = response.json::<Value>().await.unwrap()["error"].clone();
            assert_eq!((found, &error["code"], &error["status"]), (status, &json!(status), &json!(kind)), "{error}");
            assert!(error["message"].as_str().unwrap().contains(words), "{words}: {error}");
            assert_eq!(error["details"][0]["fieldViolations"][0]["field"].as_str(), field, "{error}");
        }
    }
    assert_eq!(setup.generations().await, []);
    assert_eq!(setup.store.rollouts().query(&RolloutFilter::default()).await.unwrap().total, 0);
}

#[tokio::test]
async fn models_and_what_is_not_there_are_told_in_this_dialect() {
    let setup = Setup::new(vec![]).await;
    let ask = async |method: reqwest::Method, path: &str| {
        let request = setup.client.request(method, format!("{}{path}", setup.url)).json(&plain());
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    let model = json!({
        "name": "models/tiny",
        "displayName": "tiny",
        "supportedGenerationMethods": ["generateContent", "countTokens"],
        "inputTokenLimit": CONTEXT_LENGTH,
        "outputTokenLimit": CONTEXT_LENGTH,
    });
    for base in ["/v1beta", "/rollout/r/attempt/a/v1beta"] {
        let listed = ask(reqwest::Method::GET, &format!("{base}/models?pageSize=50")).await;
        assert_eq!(listed, (200, json!({ "models": [model] })));
        assert_eq!(ask(reqwest::Method::GET, &format!("{base}/models/tiny")).await, (200, model.clone()));
    }
    for (method, path, status, kind) in [
        (reqwest::Method::GET, "/v1beta/models/huge", 404, "NOT_FOUND"),
        (reqwest::Method::POST, "/v1beta/models/huge:generateContent", 404, "NOT_FOUND"),
        (reqwest::Method::POST, "/v1beta/models/huge:countTokens", 404, "NOT_FOUND"),
        (reqwest::Method::POST, "/v1beta/models/tiny:embedContent", 404, "NOT_FOUND"),
        (reqwest::Method::POST, "/v1beta/models/tiny", 404, "NOT_FOUND"),
        (reqwest::Method::POST, "/v1beta/files", 404, "NOT_FOUND"),
        (reqwest::Method::PUT, "/v1beta/models/tiny:generateContent", 405, "UNIMPLEMENTED"),
        (reqwest::Method::POST, "/v1beta/models/tiny:streamGenerateContent?alt=proto", 400, "INVALID_ARGUMENT"),
    ] {
        let (found, error) = ask(method.clone(), path).await;
        assert_eq!((found, &error["error"]["status"]), (status, &json!(kind)), "{method} {path}: {error}");
    }
    // The stable version's path has the same methods, and nobody else posts there.
    setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
    let (status, answer) = ask(reqwest::Method::POST, "/v1/models/tiny:generateContent").await;
    assert_eq!((status, &answer["modelVersion"]), (200, &json!("tiny")));
    let (status, error) = ask(reqwest::Method::POST, "/v1/models/tiny").await;
    assert_eq!((status, &error["error"]["type"]), (405, &json!("invalid_request_error")));
}
