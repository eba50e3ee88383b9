//! Agent-lightning's gateway (1.0) over real sockets.

use fulgurite_store::{EVENT_DATA, EVENT_TYPE};
use fulgurite_types::{AttemptStatus, NewRollout, SpanFilter};

use crate::common::{BODY_LIMIT, Script, Setup, body, chunks};
use crate::scripted::{ScriptedReply, ScriptedServer};
use fulgurite_backends::SamplingEnd;
use fulgurite_proxy::ProxyOptions;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::oneshot;

async fn send(setup: &Setup, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let request = setup.client.request(method, format!("{}{path}", setup.url));
    let response = request.json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

async fn enqueue(setup: &Setup) -> String {
    let rollouts = setup.store.rollouts().enqueue(vec![NewRollout::default()]).await.unwrap();
    rollouts[0].rollout_id.clone()
}

fn base(rollout: &str, mode: &str) -> String {
    format!("/proxy/rollout/{rollout}/attempt/0/mode/{mode}/openai/v1")
}

#[tokio::test]
async fn the_mode_says_the_temperature_and_the_first_call_begins_the_attempt() {
    let options = ProxyOptions {
        body_limit: BODY_LIMIT,
        train_temperature: 0.75,
        val_temperature: 0.0,
        token_ids_on_attributed_path: false,
        ..ProxyOptions::default()
    };
    let setup = Setup::with_options(options).await;
    let rollout = enqueue(&setup).await;
    let mut request = body();
    request["temperature"] = json!(1.5);
    request["model"] = json!("whatever the agent calls it");
    for (mode, temperature) in [("train", 0.75), ("val", 0.0)] {
        setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
        let path = format!("{}/chat/completions", base(&rollout, mode));
        let (status, reply) = send(&setup, Method::POST, &path, &request).await;
        assert_eq!((status, &reply["model"]), (200, &json!("tiny")), "{reply}");
        // Asked for in the agent's name, whatever the config says of other paths.
        assert_eq!(reply["choices"][0]["token_ids"], json!([setup.stop()]));
        assert_eq!(setup.sampler.requests.lock().unwrap().last().unwrap().sampling.temperature, temperature);
    }
    setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
    let path = format!("{}/completions", base(&rollout, "train"));
    let (status, reply) = send(&setup, Method::POST, &path, &json!({ "prompt": "hi" })).await;
    assert_eq!((status, &reply["object"]), (200, &json!("text_completion")), "no model need be named: {reply}");
    let path = format!("{}/responses", base(&rollout, "train"));
    let mut previous = Value::Null;
    for text in ["hi", "and?"] {
        setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
        let request = json!({ "input": text, "previous_response_id": previous });
        let (status, reply) = send(&setup, Method::POST, &path, &request).await;
        assert_eq!((status, &reply["token_ids"]), (200, &json!([setup.stop()])), "{reply}");
        assert_eq!(setup.sampler.requests.lock().unwrap().last().unwrap().sampling.temperature, 0.75);
        previous = reply["id"].clone();
    }
    for generation in setup.generations().await {
        assert_eq!((&generation.rollout_id, generation.attempt_id.as_str()), (&rollout, "0"));
    }
}

#[tokio::test]
async fn it_streams() {
    let setup = Setup::new(vec![]).await;
    let rollout = enqueue(&setup).await;
    setup.play(Script::Answer(setup.tokens("I am 17."), SamplingEnd::Length));
    let mut request = body();
    request["stream"] = json!(true);
    let url = format!("{}{}/chat/completions", setup.url, base(&rollout, "train"));
    let text = setup.client.post(url).json(&request).send().await.unwrap().text().await.unwrap();
    assert_eq!(chunks(&text).last().unwrap()["choices"][0]["finish_reason"], "length");
}

#[tokio::test]
async fn what_is_wrong_is_told_as_the_gateway_tells_it_and_begins_nothing() {
    let setup = Setup::new(vec![]).await;
    let rollout = enqueue(&setup).await;
    let known = base(&rollout, "train");
    for (path, body, status, detail) in [
        (format!("{}/chat/completions", base(&rollout, "test")), "{}", 404, "Unsupported proxy mode: test"),
        (format!("{known}/embeddings"), "{}", 404, "Unsupported upstream path: embeddings"),
        (format!("{}/chat/completions", base("nope", "val")), "{}", 404, "Rollout not found: nope"),
        (format!("{known}/chat/completions"), "{", 400, "the request body is not JSON"),
    ] {
        let response = setup.client.post(format!("{}{path}", setup.url)).body(body).send().await.unwrap();
        let found = response.status().as_u16();
        let error: Value = response.json().await.unwrap();
        assert_eq!(found, status, "{path}: {error}");
        assert!(error["detail"].as_str().unwrap().starts_with(detail), "{path}: {error}");
    }
    // What a model server would refuse is refused in its words.
    let (status, error) = send(&setup, Method::POST, &format!("{known}/chat/completions"), &json!({})).await;
    assert_eq!((status, &error["error"]["type"]), (400, &json!("invalid_request_error")));
    let (status, error) = send(&setup, Method::GET, &format!("{known}/chat/completions"), &json!({})).await;
    assert_eq!((status, error), (405, json!({ "detail": "Method Not Allowed" })));
    assert_eq!(setup.store.attempts().of_rollout(&rollout).await.unwrap(), []);
}

#[tokio::test]
async fn a_paused_gateway_sends_calls_away_and_lets_those_under_way_end() {
    let setup = Setup::new(vec![]).await;
    let rollout = enqueue(&setup).await;
    let url = format!("{}{}/chat/completions", setup.url, base(&rollout, "train"));
    let open = json!({ "paused": false, "retry_after_seconds": 5, "reason": null, "inflight": 0 });
    assert_eq!(send(&setup, Method::GET, "/proxy/state", &Value::Null).await, (200, open));

    let (on_disconnect, disconnected) = oneshot::channel();
    setup.play(Script::Hang(setup.tokens("I am"), on_disconnect));
    let mut streamed = body();
    streamed["stream"] = json!(true);
    let mut under_way = setup.client.post(&url).json(&streamed).send().await.unwrap();
    under_way.chunk().await.unwrap().unwrap();
    let pause = json!({ "retry_after_seconds": 3, "reason": "weights" });
    let paused = json!({ "paused": true, "retry_after_seconds": 3, "reason": "weights", "inflight": 1 });
    assert_eq!(send(&setup, Method::POST, "/proxy/pause", &pause).await, (200, paused));

    let refused = setup.client.post(&url).json(&body()).send().await.unwrap();
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "3");
    assert_eq!(refused.headers()["x-agl-paused"], "true");
    let refusal: Value = refused.json().await.unwrap();
    assert_eq!(refusal, json!({ "error": "gateway paused", "reason": "weights" }));
    // Only the gateway's own paths refuse; other calls are held.
    let (_, elsewhere) = setup.attempt().await;
    setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
    let call = setup.client.post(format!("{elsewhere}/chat/completions")).json(&body()).send();
    let held = tokio::spawn(call);
    let model = "/v1/fulgurite/models/tiny";
    while send(&setup, Method::GET, model, &Value::Null).await.1["held"] != 1 {}

    drop(under_way);
    disconnected.await.unwrap();
    setup.generation_of(&rollout).await;
    let resumed = json!({ "paused": false, "retry_after_seconds": 3, "reason": null, "inflight": 0 });
    let mut state = send(&setup, Method::POST, "/proxy/resume", &Value::Null).await;
    while state.1["inflight"] != 0 {
        state = send(&setup, Method::GET, "/proxy/state", &Value::Null).await;
    }
    assert_eq!(state, (200, resumed));
    assert_eq!(held.await.unwrap().unwrap().status(), 200);
    setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
    assert_eq!(setup.client.post(&url).json(&body()).send().await.unwrap().status(), 200);
    assert_eq!(send(&setup, Method::POST, "/proxy/pause", &json!({ "retry_after_seconds": -1 })).await.0, 422);
}

#[tokio::test]
async fn registered_servers_are_listed_beside_the_models_served_here() {
    let setup = Setup::new(vec![]).await;
    let rollout = enqueue(&setup).await;
    let served = json!({ "model": "tiny", "endpoint": null, "version": 3 });
    let remote = |version: u64| json!({ "model": "huge", "endpoint": "http://127.0.0.1:9/v1", "version": version });
    let unnumbered = json!([{ "model": "huge", "endpoint": "http://127.0.0.1:9/v1" }]);
    assert_eq!(send(&setup, Method::POST, "/api/models", &unnumbered).await, (201, json!([remote(0)])));
    assert_eq!(send(&setup, Method::POST, "/api/models", &json!([remote(2)])).await, (201, json!([remote(2)])));
    let listed = send(&setup, Method::GET, "/api/models", &Value::Null).await;
    assert_eq!(listed, (200, json!([served, remote(2)])));

    // With two models, an agent's own name for one says nothing.
    let mut request = body();
    request["model"] = json!("gpt");
    let path = format!("{}/chat/completions", base(&rollout, "train"));
    let (status, error) = send(&setup, Method::POST, &path, &request).await;
    assert_eq!((status, &error["detail"]), (503, &json!("No server for model gpt: name one of huge, tiny")));
    assert_eq!(setup.store.attempts().of_rollout(&rollout).await.unwrap(), []);

    assert_eq!(send(&setup, Method::DELETE, "/api/models", &Value::Null).await, (200, json!({ "status": "ok" })));
    assert_eq!(send(&setup, Method::GET, "/api/models", &Value::Null).await, (200, json!([served])));
    let (status, error) = send(&setup, Method::POST, "/api/models", &json!([{ "model": "x" }])).await;
    assert_eq!((status, &error["detail"][0]["loc"]), (422, &json!(["body", 0])));
    let unusable = json!([{ "model": "x", "endpoint": "http://h/v1" }, { "model": "y", "endpoint": "nowhere" }]);
    let (status, error) = send(&setup, Method::POST, "/api/models", &unusable).await;
    assert_eq!((status, &error["detail"][0]["loc"]), (422, &json!(["body", 1, "endpoint"])));
    assert_eq!(send(&setup, Method::GET, "/api/models", &Value::Null).await.1, json!([served]), "all or none");
}

#[tokio::test]
async fn calls_of_a_registered_model_are_passed_on_and_recorded_with_the_tokens_that_it_tells() {
    let answer = json!({ "id": "chatcmpl-1", "model": "huge", "prompt_token_ids": [1, 2], "choices": [{
        "index": 0, "message": { "role": "assistant", "content": "17." }, "finish_reason": "stop", "token_ids": [3, 4],
        "logprobs": { "content": [{ "token": "17", "logprob": -0.5 }, { "token": ".", "logprob": -0.25 }] },
    }], "usage": { "prompt_tokens": 2, "completion_tokens": 2 } });
    let replied = answer.clone();
    let server = ScriptedServer::start(move |_| ScriptedReply::Json(200, replied.clone())).await;
    let setup = Setup::new(vec![]).await;
    let rollout = enqueue(&setup).await;
    let endpoint = format!("{}/v1", server.url);
    let registered = json!([{ "model": "huge", "endpoint": endpoint }]);
    assert_eq!(send(&setup, Method::POST, "/api/models", &registered).await.0, 201);
    let mut request = body();
    request["model"] = json!("huge");
    request["temperature"] = json!(0.1);
    let path = format!("{}/chat/completions", base(&rollout, "train"));
    assert_eq!(send(&setup, Method::POST, &path, &request).await, (200, answer));
    let sent = server.posts("/v1/chat/completions").pop().unwrap();
    let expected = json!({ "model": "huge", "messages": request["messages"], "temperature": 1.0, "return_token_ids": true, "logprobs": true });
    assert_eq!(sent, expected);

    let generation = setup.generation_of(&rollout).await;
    assert_eq!(
        (generation.attempt_id.as_str(), generation.defect.as_ref().map(ToString::to_string).as_deref()),
        ("0", Some("upstream"))
    );
    assert_eq!((generation.prompt_tokens, generation.sampled_tokens), (vec![1, 2], vec![3, 4]));
    assert_eq!(generation.logprobs, Some(vec![-0.5, -0.25]));
    let state = send(&setup, Method::GET, "/proxy/state", &Value::Null).await;
    assert_eq!(state.1["inflight"], 0);
}

/// The data of the events that failed calls of a rollout have left.
async fn failed_calls(setup: &Setup, rollout: &str) -> Vec<Value> {
    let filter = SpanFilter { rollout_id: rollout.to_owned(), ..SpanFilter::default() };
    let spans = setup.store.spans().query(&filter).await.unwrap().items;
    let events = spans.iter().filter(|span| span.attributes.get(EVENT_TYPE) == Some(&json!("model_request")));
    events.map(|span| serde_json::from_str(span.attributes[EVENT_DATA].as_str().unwrap()).unwrap()).collect()
}

#[tokio::test]
async fn a_failed_call_leaves_its_status_and_its_request_whole_and_one_that_is_answered_nothing() {
    let setup = Setup::new(vec![]).await;
    let rollout = enqueue(&setup).await;
    let path = format!("{}/chat/completions", base(&rollout, "train"));
    let mut request = body();
    // One that the model host breaks off, and one that is refused for what it asks.
    let mut wrong = request.clone();
    wrong["max_tokens"] = json!("many");
    let mut broken = request.clone();
    broken["user"] = json!("another");
    setup.play(Script::Break(setup.tokens("I am")));
    let (status_broken, reply_broken) = send(&setup, Method::POST, &path, &broken).await;
    let (status_wrong, reply_wrong) = send(&setup, Method::POST, &path, &wrong).await;
    let failed = failed_calls(&setup, &rollout).await;
    assert_eq!(failed.len(), 2, "{failed:?}");
    for (event, sent, status, reply) in
        [(&failed[0], &broken, status_broken, reply_broken), (&failed[1], &wrong, status_wrong, reply_wrong)]
    {
        assert!(status >= 400, "{reply}");
        assert_eq!((&event["http_status"], &event["status"]), (&json!(status), &json!("error")));
        assert_eq!((&event["response"], &event["model"]), (&reply, &json!("tiny")));
        for key in ["messages", "user", "max_tokens"] {
            assert_eq!(event["request"][key], sent[key], "{key}");
        }
        assert_eq!(event["request"]["return_token_ids"], json!(true), "as the gateway passed it on");
    }
    setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
    let (status, reply) = send(&setup, Method::POST, &path, &request).await;
    assert_eq!(status, 200, "{reply}");
    // A call of an attempt that has ended is no part of it.
    let ended = fulgurite_types::AttemptUpdate::status(AttemptStatus::Failed);
    setup.store.attempts().update(&rollout, "0", ended).await.unwrap();
    request["user"] = json!("late");
    assert!(send(&setup, Method::POST, &path, &request).await.0 >= 400);
    assert_eq!(failed_calls(&setup, &rollout).await.len(), 2);
}
