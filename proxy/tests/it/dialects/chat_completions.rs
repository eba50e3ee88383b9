//! The proxy over real sockets, in front of a sampler that plays scripts.

use std::time::Duration;

use fulgurite_types::{Message, NewRollout, RolloutFilter};

use crate::common::{BODY_LIMIT, CONTEXT_LENGTH, Script, Setup, body, chunks, events};
use fulgurite_backends::SamplingEnd;
use fulgurite_proxy::{ProxyOptions, UnknownFields};
use serde_json::{Value, json};
use tokio::sync::oneshot;

#[tokio::test]
async fn streamed_and_whole_answers_say_the_same_and_are_recorded_alike() {
    let setup = Setup::new(vec![]).await;
    let (_, base) = setup.attempt().await;
    // Half an "ä", the other half in the next token: a character must not be cut.
    let mut answer = setup.tokens("I am 17, ä.");
    answer.push(setup.stop());
    for _ in 0..2 {
        setup.play(Script::Answer(answer.clone(), SamplingEnd::StopToken));
    }
    let whole: Value = setup.post(&base, &body()).await.json().await.unwrap();
    assert_eq!(whole["choices"][0]["message"]["content"], "I am 17, ä.");
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    assert_eq!(whole["usage"]["completion_tokens"], answer.len());

    let mut streamed = body();
    streamed["stream"] = json!(true);
    streamed["stream_options"] = json!({ "include_usage": true });
    let text = setup.post(&base, &streamed).await.text().await.unwrap();
    let chunks = chunks(&text);
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let content: String = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(content, "I am 17, ä.");
    assert!(!content.contains('\u{fffd}'));
    let usage = chunks.last().unwrap();
    assert_eq!((&usage["choices"], &usage["usage"]), (&json!([]), &whole["usage"]));
    assert_eq!(chunks[chunks.len() - 2]["choices"][0]["finish_reason"], "stop");

    // Durable before the last byte left, so nothing has to be waited for.
    let generations = setup.generations().await;
    let [first, second] = generations.as_slice() else { panic!("{generations:?}") };
    assert_eq!(first.sampled_tokens, answer);
    assert_eq!(first.generation_id, whole["id"].as_str().unwrap());
    assert_eq!(first.logprobs.as_ref().unwrap()[1], -0.5);
    assert_eq!((first.weights_versions[0].version, first.weights_versions[0].first_token), (3, 0));
    assert_eq!(
        (&first.prompt_tokens, &first.sampled_tokens, &first.logprobs, &first.request_digest),
        (&second.prompt_tokens, &second.sampled_tokens, &second.logprobs, &second.request_digest)
    );
    assert_ne!(first.seed, second.seed, "each call of a rollout has a seed of its own");
}

#[tokio::test]
async fn a_rollout_run_again_asks_for_the_same_tokens() {
    let setup = Setup::new(vec![]).await;
    let call = async |rollout: &str, attempt: &str| {
        setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
        let base = format!("{}/rollout/{rollout}/attempt/{attempt}/v1", setup.url);
        assert_eq!(setup.post(&base, &body()).await.status(), 200);
        setup.sampler.requests.lock().unwrap().last().unwrap().seed
    };
    let mut seeds = Vec::new();
    for rollout_seed in [5, 5, 6] {
        let metadata = json!({ "seed": rollout_seed }).as_object().cloned();
        let rollout = NewRollout { metadata, ..NewRollout::default() };
        let first = setup.store.rollouts().start(rollout, None).await.unwrap();
        let rollout = first.rollout.rollout_id.as_str();
        let calls = [call(rollout, &first.attempt.attempt_id).await, call(rollout, &first.attempt.attempt_id).await];
        assert_ne!(calls[0], calls[1]);
        let second = setup.store.rollouts().start_attempt(rollout, None).await.unwrap();
        assert_eq!(calls[0], call(rollout, &second.attempt.attempt_id).await);
        assert_eq!(calls[1], call(rollout, &second.attempt.attempt_id).await);
        seeds.push(calls);
    }
    assert_eq!(seeds[0], seeds[1]);
    assert_ne!(seeds[0], seeds[2]);
}

#[tokio::test]
async fn a_stop_string_ends_the_answer_and_its_sampling() {
    let setup = Setup::new(vec![]).await;
    let (on_disconnect, disconnected) = oneshot::channel();
    setup.play(Script::Hang(setup.tokens("I am 17. And 18."), on_disconnect));
    let mut request = body();
    request["stop"] = json!([". And"]);
    let answer: Value = setup.post(&format!("{}/v1", setup.url), &request).await.json().await.unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "I am 17");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    disconnected.await.unwrap();
}

#[tokio::test]
async fn a_client_that_hangs_up_in_mid_stream_stops_its_sampling_and_what_was_sampled_is_kept() {
    for streamed in [true, false] {
        let setup = Setup::new(vec![]).await;
        let (_, base) = setup.attempt().await;
        let tokens = setup.tokens("I am 17");
        let (on_disconnect, disconnected) = oneshot::channel();
        setup.play(Script::Hang(tokens.clone(), on_disconnect));
        let mut request = body();
        request["stream"] = json!(streamed);
        let sending = setup.client.post(format!("{base}/chat/completions")).json(&request).send();
        if streamed {
            let mut response = sending.await.unwrap();
            response.chunk().await.unwrap().unwrap();
            drop(response);
        } else {
            let sending = tokio::spawn(sending);
            while setup.sampler.requests.lock().unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            sending.abort();
        }
        disconnected.await.unwrap();
        let generation = setup.generation_when(|generation| generation.client_disconnected).await;
        assert_eq!(generation.stop_reason.as_str(), "client_gone");
        assert_eq!(generation.sampled_tokens, tokens);
    }
}

#[tokio::test]
async fn a_backend_that_breaks_off_is_an_error_and_its_tokens_are_not_an_answer() {
    let setup = Setup::new(vec![]).await;
    let tokens = setup.tokens("I am");
    setup.play(Script::Break(tokens.clone()));
    let response = setup.post(&format!("{}/v1", setup.url), &body()).await;
    assert_eq!(response.status(), 500);
    let error: Value = response.json().await.unwrap();
    assert_eq!(error["error"]["type"], "server_error");
    let generation = setup.generation_when(|_| true).await;
    assert_eq!((generation.stop_reason.as_str(), &generation.sampled_tokens), ("error", &tokens));

    let setup = Setup::new(vec![]).await;
    setup.play(Script::Break(setup.tokens("I am")));
    let mut request = body();
    request["stream"] = json!(true);
    let text = setup.post(&format!("{}/v1", setup.url), &request).await.text().await.unwrap();
    let last: Value = serde_json::from_str(events(&text).last().unwrap()).unwrap();
    assert_eq!(last["error"]["type"], "server_error");
    assert!(!text.contains("[DONE]"));
}

#[tokio::test]
async fn every_bad_request_gets_openais_error_and_stores_nothing() {
    let setup = Setup::new(vec![]).await;
    let long = "17 ".repeat(CONTEXT_LENGTH);
    let with = |key: &str, value: Value| {
        let mut body = body();
        body[key] = value;
        body.to_string()
    };
    let here = format!("{}/v1", setup.url);
    let (rollout, known) = setup.attempt().await;
    let unknown_attempt = format!("{}/rollout/{rollout}/attempt/at-none/v1", setup.url);
    let unknown_rollout = format!("{}/rollout/ro-none/attempt/at-none/v1", setup.url);
    for (base, body, status, code, parameter) in [
        (&here, "{".to_owned(), 400, json!("invalid_json"), Value::Null),
        (&here, "[]".to_owned(), 400, json!("invalid_json"), Value::Null),
        (&here, String::new(), 400, json!("invalid_json"), Value::Null),
        (&here, with("model", json!("huge")), 404, json!("model_not_found"), json!("model")),
        (&here, with("messages", json!([])), 400, Value::Null, json!("messages")),
        (
            &here,
            with("messages", json!([{ "role": "wizard", "content": "x" }])),
            400,
            Value::Null,
            json!("messages[0].role"),
        ),
        (
            &known,
            with("messages", json!([{ "role": "user", "content": long }])),
            400,
            json!("context_length_exceeded"),
            json!("messages"),
        ),
        (&here, with("user", json!("x".repeat(BODY_LIMIT))), 413, json!("request_too_large"), Value::Null),
        (&unknown_rollout, with("user", json!("x")), 404, json!("rollout_not_found"), Value::Null),
        (&unknown_attempt, with("user", json!("x")), 404, json!("attempt_not_found"), Value::Null),
        (&known, with("user", json!("no script left")), 503, json!("overloaded"), Value::Null),
        (&here, with("user", json!("no script left")), 503, json!("overloaded"), Value::Null),
    ] {
        let response = setup.client.post(format!("{base}/chat/completions")).body(body.clone()).send().await.unwrap();
        let found = response.status().as_u16();
        let answer: Value = response.json().await.unwrap();
        let shown = body.chars().take(200).collect::<String>();
        assert_eq!((found, &answer["error"]["code"]), (status, &code), "{shown}: {answer}");
        assert_eq!(answer["error"]["param"], parameter, "{shown}: {answer}");
        assert!(answer["error"]["message"].as_str().is_some_and(|message| !message.is_empty()));
    }
    assert_eq!(setup.generations().await, []);
    let rollouts = setup.store.rollouts().query(&RolloutFilter::default()).await.unwrap();
    assert_eq!(rollouts.total, 1, "only the one that the test made");
}

#[tokio::test]
async fn an_attempt_that_has_ended_takes_no_more_calls() {
    use fulgurite_types::{AttemptStatus, AttemptUpdate};
    let setup = Setup::new(vec![]).await;
    let (rollout, base) = setup.attempt().await;
    setup.store.attempts().update(&rollout, "latest", AttemptUpdate::status(AttemptStatus::Failed)).await.unwrap();
    let response = setup.post(&base, &body()).await;
    assert_eq!(response.status(), 410);
    assert_eq!(setup.generations().await, []);
}

#[tokio::test]
async fn what_else_is_served() {
    let setup = Setup::new(vec![]).await;
    let get = async |path: &str| {
        let response = setup.client.get(format!("{}{path}", setup.url)).send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    assert_eq!(get("/healthz").await.1["status"], "ok");
    for path in ["/v1/models", "/rollout/r/attempt/a/v1/models"] {
        let (status, models) = get(path).await;
        assert_eq!((status, &models["object"], &models["data"][0]["id"]), (200, &json!("list"), &json!("tiny")));
        assert_eq!(get(&format!("{path}/tiny")).await, (200, models["data"][0].clone()));
        let (status, error) = get(&format!("{path}/some/other")).await;
        assert_eq!((status, &error["error"]["code"]), (404, &json!("model_not_found")));
    }
    let anthropic = async |path: &str| {
        let request = setup.client.get(format!("{}{path}", setup.url)).header("anthropic-version", "2023-06-01");
        request.send().await.unwrap().json::<Value>().await.unwrap()
    };
    assert_eq!(anthropic("/v1/models/tiny").await, anthropic("/v1/models").await["data"][0]);
    assert_eq!(anthropic("/v1/models/other").await["error"]["type"], "not_found_error");
    let (status, error) = get("/v1/nothing").await;
    assert_eq!((status, &error["error"]["code"]), (404, &json!("unknown_url")));
    for path in ["/v1/chat/completions", "/v1/completions"] {
        let (status, error) = get(path).await;
        assert_eq!((status, &error["error"]["code"]), (405, &json!("method_not_allowed")));
    }
    assert_eq!(get("/").await.0, 404);
}

#[tokio::test]
async fn a_call_that_names_no_rollout_gets_a_session_of_its_own() {
    let setup = Setup::new(vec![]).await;
    setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
    assert_eq!(setup.post(&format!("{}/v1", setup.url), &body()).await.status(), 200);
    let generation = setup.generation_when(|_| true).await;
    let (rollout, _) = setup.store.rollouts().get(&generation.rollout_id).await.unwrap().unwrap();
    assert_eq!(rollout.metadata.unwrap()["kind"], "session");
}

#[tokio::test]
async fn whoever_asks_whether_somebody_is_there_is_answered() {
    let setup = Setup::new(vec![]).await;
    let attempt = "/rollout/r/attempt/a";
    for path in ["/".to_owned(), attempt.to_owned(), format!("{attempt}/"), format!("{attempt}/v1")] {
        let response = setup.client.head(format!("{}{path}", setup.url)).send().await.unwrap();
        assert_eq!(response.status(), 200, "HEAD {path}");
    }
    for path in ["", "/", "/v1", "/v1/"] {
        let response = setup.client.get(format!("{}{attempt}{path}", setup.url)).send().await.unwrap();
        assert_eq!((response.status().as_u16(), response.text().await.unwrap().as_str()), (200, ""), "GET {path}");
    }
    let (rollout, base) = setup.attempt().await;
    setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
    let without_version = base.strip_suffix("/v1").unwrap();
    assert_eq!(setup.post(without_version, &body()).await.status(), 200);
    assert_eq!(setup.generation_when(|_| true).await.rollout_id, rollout);
}

/// Thinks unless it is told not to, as Qwen3 does.
const SWITCHED: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n\
    {% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}";

#[tokio::test]
async fn what_a_request_tells_the_models_template_is_told_to_it_and_its_conversation_goes_on() {
    let mut setup = Setup::of_template(SWITCHED).await;
    let (rollout, base) = setup.attempt().await;
    let arguments = json!({ "enable_thinking": false });
    let adapted = setup.renderer.with_template_arguments(arguments.as_object().unwrap()).unwrap();
    let mut request = json!({ "model": "tiny", "messages": body()["messages"], "chat_template_kwargs": arguments });
    let mut sampled = Vec::new();
    for turn in 0..3 {
        if turn == 2 {
            setup.restart().await;
        }
        let base = format!("{}/{}", setup.url, base.splitn(4, '/').nth(3).unwrap());
        sampled = [setup.tokens("I am 17."), vec![setup.stop()]].concat();
        setup.play(Script::Answer(sampled.clone(), SamplingEnd::StopToken));
        let answer: Value = setup.post(&base, &request).await.json().await.unwrap();
        let next = json!({ "role": "user", "content": "Once more." });
        request["messages"].as_array_mut().unwrap().extend([answer["choices"][0]["message"].clone(), next]);
    }
    let messages: Vec<Message> = serde_json::from_value(body()["messages"].clone()).unwrap();
    let prompts: Vec<Vec<u32>> =
        setup.sampler.requests.lock().unwrap().iter().map(|request| request.prompt.to_vec()).collect();
    assert_eq!(prompts[0], adapted.render_prompt(&messages, &[]).unwrap().tokens);
    assert_ne!(prompts[0], setup.renderer.render_prompt(&messages, &[]).unwrap().tokens);
    for [before, after] in prompts.array_windows() {
        assert!(after.starts_with(&[before.clone(), sampled.clone()].concat()));
    }
    let drift = setup.store.queries().drift(&rollout).await.unwrap();
    assert_eq!(drift.continued, 2, "{drift:?}");
    assert_eq!(
        setup.attributes(&rollout).await["fulgurite.request.extra"],
        json!({ "chat_template_kwargs": arguments }).to_string()
    );
}

#[tokio::test]
async fn wishes_about_reasoning_reach_a_template_that_knows_them_and_what_has_no_effect_is_named() {
    let setup = Setup::of_template(SWITCHED).await;
    let messages: Vec<Message> = serde_json::from_value(body()["messages"].clone()).unwrap();
    let off = json!({ "enable_thinking": false });
    let off = setup.renderer.with_template_arguments(off.as_object().unwrap()).unwrap();
    let chat = json!({ "model": "tiny", "messages": body()["messages"] });
    let with = |mut body: Value, fields: Value| {
        body.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap());
        body
    };
    let responses = json!({ "model": "tiny", "input": "x" });
    let anthropic = json!({ "model": "tiny", "messages": [{ "role": "user", "content": "x" }], "max_tokens": 9 });
    let user = [Message::text("user", "x")];
    for (path, request, is_off, ignored) in [
        ("chat/completions", with(chat.clone(), json!({ "reasoning_effort": "none" })), true, None),
        (
            "chat/completions",
            with(chat.clone(), json!({ "verbosity": "low", "frobnicate": 1, "user": "u", "min_p": 0 })),
            false,
            Some("verbosity, frobnicate"),
        ),
        ("responses", with(responses, json!({ "reasoning": { "effort": "none" }, "store": false })), true, None),
        ("messages", with(anthropic.clone(), json!({ "thinking": { "type": "disabled" } })), true, None),
        (
            "messages",
            with(anthropic, json!({ "context_management": { "edits": [] }, "metadata": { "user_id": "u" } })),
            false,
            Some("context_management"),
        ),
    ] {
        setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
        let response = setup.client.post(format!("{}/v1/{path}", setup.url)).json(&request).send().await.unwrap();
        let named = response.headers().get("x-fulgurite-ignored").map(|value| value.to_str().unwrap().to_owned());
        assert_eq!((response.status().as_u16(), named.as_deref()), (200, ignored), "{path} {request}");
        let shown = if path == "chat/completions" { &messages[..] } else { &user[..] };
        let renderer = if is_off { &off } else { &setup.renderer };
        let prompt = setup.sampler.requests.lock().unwrap().last().unwrap().prompt.to_vec();
        assert_eq!(prompt, renderer.render_prompt(shown, &[]).unwrap().tokens, "{path} {request}");
    }
}

#[tokio::test]
async fn fields_that_are_not_known_are_refused_where_that_is_configured() {
    let options = ProxyOptions { unknown_fields: UnknownFields::Refuse, ..ProxyOptions::default() };
    let setup = Setup::with_options(options).await;
    let mut request = body();
    request["frobnicate"] = json!(1);
    let response = setup.post(&format!("{}/v1", setup.url), &request).await;
    let (status, error) = (response.status().as_u16(), response.json::<Value>().await.unwrap());
    assert_eq!((status, &error["error"]["param"]), (400, &json!("frobnicate")), "{error}");
    setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
    request.as_object_mut().unwrap().remove("frobnicate");
    // A wish is never refused: agents send them with every call.
    request["reasoning_effort"] = json!("low");
    assert_eq!(setup.post(&format!("{}/v1", setup.url), &request).await.status(), 200);
}

#[tokio::test]
async fn arguments_for_a_template_are_refused_where_there_is_none() {
    let setup = Setup::new(vec![]).await;
    let mut request = body();
    request["chat_template_kwargs"] = json!({ "enable_thinking": false });
    let response = setup.post(&format!("{}/v1", setup.url), &request).await;
    let (status, error) = (response.status().as_u16(), response.json::<Value>().await.unwrap());
    assert_eq!((status, &error["error"]["param"]), (400, &json!("chat_template_kwargs")), "{error}");
    assert_eq!(setup.generations().await, []);
}

#[tokio::test]
async fn a_prompt_that_is_too_long_is_told_in_the_words_that_harnesses_look_for() {
    let setup = Setup::new(vec![]).await;
    let mut request = body();
    request["messages"][0]["content"] = json!("17 ".repeat(CONTEXT_LENGTH));
    let messages: Vec<Message> = serde_json::from_value(request["messages"].clone()).unwrap();
    let tokens = setup.renderer.render_prompt(&messages, &[]).unwrap().tokens.len();
    let answer: Value = setup.post(&format!("{}/v1", setup.url), &request).await.json().await.unwrap();
    let expected = format!(
        "This model's maximum context length is {CONTEXT_LENGTH} tokens. However, your messages resulted in {tokens} \
         tokens. Please reduce the length of the messages."
    );
    assert_eq!(answer["error"]["message"], expected);
}
