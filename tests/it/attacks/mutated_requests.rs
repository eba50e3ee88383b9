//! Valid requests to every kind of route, changed at random: each gets an answer in which nothing broke, and the server
//! lives on. `MUTATIONS` makes more of each, `MUTATION_SEED` others.

use std::time::Duration;

use reqwest::Method;
use reqwest::blocking::Client;
use serde_json::{Value, json};

use super::connections::raw_http::assert_no_panic;
use crate::common::{Server, model_flag, text, tiny_model};

/// Changed requests to each route.
const MUTATIONS: u64 = 16;

/// A stream of numbers that follow from a seed alone.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn one_of<T: Clone>(&mut self, among: &[T]) -> T {
        among[self.below(among.len())].clone()
    }
}

/// What nobody expects in a field.
fn odd_value(numbers: &mut Numbers) -> Value {
    let nested = (0..200).fold(json!(1), |inner, at| if at % 2 == 0 { json!([inner]) } else { json!({ "a": inner }) });
    numbers.one_of(&[
        json!(null),
        json!(true),
        json!(""),
        json!("\u{0}"),
        json!("x".repeat(20_000)),
        json!("ünïcödé \u{1f9d1}\u{200d}\u{1f680}"),
        json!("../../etc/passwd"),
        json!("'; DROP TABLE rollouts; --"),
        json!(-1),
        json!(0),
        json!(1e308),
        json!(-1e308),
        json!(1e-320),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1_u64 << 31),
        json!(0.5),
        json!([]),
        json!({}),
        json!(vec![Value::Null; 50]),
        json!([[[]]]),
        json!({ "": { "": "" } }),
        json!("9".repeat(400)),
        nested,
    ])
}

/// Whether a client is made to wait by this field, which would be no fault.
fn makes_wait(key: &str) -> bool {
    ["wait_seconds", "timeout", "timeout_seconds"].contains(&key)
}

/// Changes one place of a value.
fn change(value: &mut Value, numbers: &mut Numbers) {
    // The deeper a value, the likelier it is that something in it is changed, and not all of it.
    let goes_in = numbers.below(5) > 0;
    match value {
        Value::Object(fields) if goes_in && !fields.is_empty() => {
            let keys: Vec<String> = fields.keys().filter(|key| !makes_wait(key)).cloned().collect();
            let Some(key) = (!keys.is_empty()).then(|| numbers.one_of(&keys)) else { return };
            match numbers.below(6) {
                0 => drop(fields.remove(&key)),
                1 => {
                    let moved = fields.remove(&key).unwrap();
                    fields.insert(format!("{key}_"), moved);
                }
                _ => change(&mut fields[&key], numbers),
            }
        }
        Value::Array(items) if goes_in && !items.is_empty() => {
            let at = numbers.below(items.len());
            match numbers.below(4) {
                0 => drop(items.remove(at)),
                1 => *items = vec![items[at].clone(); 300],
                _ => change(&mut items[at], numbers),
            }
        }
        _ => *value = odd_value(numbers),
    }
}

/// Changes bytes of what is sent.
fn spoil(mut bytes: Vec<u8>, numbers: &mut Numbers) -> Vec<u8> {
    let at = numbers.below(bytes.len());
    match numbers.below(5) {
        0 => bytes.truncate(at),
        1 => bytes[at] ^= 1 << numbers.below(8),
        2 => drop(bytes.splice(at..at, [0xff, 0xfe, 0xc0])),
        3 => bytes.extend_from_within(..at),
        _ => bytes.insert(at, b"{}[]\",:0"[numbers.below(8)]),
    }
    bytes
}

/// A request that is taken as it is.
type Sample = (Method, String, Value);

/// Requests to every kind of route, of which none waits and none ends what others use.
fn samples(server: &Server) -> Vec<Sample> {
    let ask = json!({ "role": "user", "content": "Say you are 17." });
    let [r, other] = [0, 1].map(|number| {
        let started = server.post("/v1/agl/rollouts", &json!({ "input": { "number": number } })).expect(201);
        (text(&started["rollout_id"]), text(&started["attempt"]["attempt_id"]))
    });
    let (rollout, attempt) = r;
    let path = format!("/rollout/{rollout}/attempt/{attempt}/v1");
    let chat = json!({ "model": "tiny", "messages": [ask], "max_tokens": 3 });
    server.post(&format!("{path}/chat/completions"), &chat).expect(200);
    let generation = text(&server.query("generations")[0]["generation_id"]);
    let session = server.post("/api/v1/create_session", &json!({ "tags": [], "sdk_version": "0.34.0" })).expect(200);
    let session = text(&session["session_id"]);
    let run = json!({ "run_id": "run-1", "name": "run", "seed": 1, "config": {} });
    let schema = json!({ "type": "json_schema", "json_schema": { "name": "n", "schema": {
        "type": "object", "properties": { "a": { "enum": [1, 2] }, "b": { "type": "string", "maxLength": 3 } } } } });
    let span = json!({
        "rollout_id": rollout, "attempt_id": attempt, "sequence_id": 900, "span_id": "00000000000000aa",
        "trace_id": "0af7651916cd43dd8448eb211c80319c", "parent_id": null, "name": "work", "status": { "status_code": "OK" },
        "attributes": { "a": [1, 2], "b": "text" }, "events": [], "links": [], "start_time": 1.0, "end_time": 2.0,
        "context": null, "parent": null, "resource": { "attributes": {}, "schema_url": "" },
    });
    let traces = json!({ "resourceSpans": [{ "resource": { "attributes": [
        { "key": "agentlightning.rollout_id", "value": { "stringValue": rollout } },
        { "key": "agentlightning.attempt_id", "value": { "stringValue": attempt } },
        { "key": "agentlightning.span_sequence_id", "value": { "intValue": "7" } } ] },
        "scopeSpans": [{ "spans": [{ "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "00000000000000bb",
            "name": "s", "startTimeUnixNano": "1", "endTimeUnixNano": "2" }] }] }] });
    let post = |path: &str, body: Value| (Method::POST, path.to_owned(), body);
    let of_rollout = |rest: &str| format!("/v1/agl/rollouts/{rollout}{rest}");
    vec![
        post(
            &format!("{path}/chat/completions"),
            json!({
            "model": "tiny", "messages": [{ "role": "system", "content": "Be brief." }, ask], "max_tokens": 3, "n": 1,
            "temperature": 0.7, "top_p": 0.9, "seed": 7, "stop": ["x"], "logprobs": true, "top_logprobs": 2,
            "logit_bias": { "5": 1.0 }, "presence_penalty": 0.1, "metadata": { "a": "b" } }),
        ),
        post(
            "/v1/chat/completions",
            json!({ "model": "tiny", "stream": true, "stream_options": { "include_usage": true },
            "max_completion_tokens": 3, "messages": [ask, { "role": "assistant", "content": "17" },
                { "role": "user", "content": [{ "type": "text", "text": "Again." }] }] }),
        ),
        post(
            "/v1/chat/completions",
            json!({ "model": "tiny", "messages": [ask], "max_tokens": 5, "response_format": schema }),
        ),
        post("/v1/completions", json!({ "model": "tiny", "prompt": "Say", "max_tokens": 3, "echo": false })),
        post(
            "/v1/responses",
            json!({ "model": "tiny", "max_output_tokens": 3, "instructions": "Be brief.", "input": [
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "Hello" }] }] }),
        ),
        post(
            "/v1/messages",
            json!({ "model": "tiny", "max_tokens": 3, "system": [{ "type": "text", "text": "Be brief." }],
            "messages": [{ "role": "user", "content": [{ "type": "text", "text": "Hello" }] }], "stop_sequences": ["x"] }),
        ),
        post(
            "/v1/messages/count_tokens",
            json!({ "model": "tiny", "messages": [{ "role": "user", "content": "Hello" }] }),
        ),
        post(&format!("/proxy/rollout/{rollout}/attempt/{attempt}/mode/train/openai/v1/chat/completions"), chat),
        // Of the name of the next one: a second final reward under another is refused.
        post(&format!("/rollout/{rollout}/reward"), json!({ "value": 0.5, "name": "strict" })),
        post(
            &format!("/rollout/{rollout}/attempt/{attempt}/reward"),
            json!({ "value": 1.0, "name": "strict", "components": { "exact": 0.0 } }),
        ),
        post(&format!("/rollout/{rollout}/generation/{generation}/reward"), json!({ "value": 0.25 })),
        post(
            "/v1/agl/queues/rollouts/enqueue",
            json!({ "rollouts": [{ "input": { "a": 1 }, "mode": "train",
            "metadata": { "b": [1] }, "config": { "max_attempts": 2, "retry_condition": ["failed"] } }] }),
        ),
        post("/v1/agl/queues/rollouts/dequeue", json!({ "limit": 1, "worker_id": "w", "wait_seconds": 0 })),
        post(
            "/v1/agl/rollouts",
            json!({ "input": "x", "mode": "val", "resources_id": null, "config": {}, "metadata": {} }),
        ),
        post(
            "/v1/agl/rollouts/search",
            json!({ "status_in": ["queuing", "running"], "limit": 3, "offset": 0,
            "sort_by": "start_time", "sort_order": "desc", "filter_logic": "and" }),
        ),
        post(&of_rollout(""), json!({ "metadata": { "c": 1 }, "mode": "test" })),
        post(&of_rollout("/attempts/search"), json!({ "limit": 3, "sort_by": "sequence_id" })),
        post(
            &format!("/v1/agl/rollouts/{}/attempts/{}", other.0, other.1),
            json!({ "metadata": { "a": 1 }, "worker_id": "w" }),
        ),
        post("/v1/agl/waits/rollouts", json!({ "rollout_ids": [rollout], "timeout": 0 })),
        post("/v1/agl/workers/w", json!({ "heartbeat_stats": { "cpu": 0.5 } })),
        post("/v1/agl/workers/search", json!({ "limit": 3, "status_in": ["idle"] })),
        post(
            "/v1/agl/resources",
            json!({ "p": { "resource_type": "prompt_template", "template": "{x}",
            "engine": "f-string" } }),
        ),
        post("/v1/agl/spans", span),
        post("/v1/agl/spans/next", json!({ "rollout_id": rollout, "attempt_id": attempt })),
        post("/v1/agl/spans/search", json!({ "rollout_id": rollout, "limit": 3, "sort_by": "start_time" })),
        post("/v1/traces", traces),
        post("/v1/fulgurite/runs", run),
        post(
            "/v1/fulgurite/attempts/heartbeat",
            json!({ "attempts": [{ "rollout_id": rollout, "attempt_id": attempt }] }),
        ),
        post("/v1/fulgurite/keys/model-calls", json!({ "seconds": 60 })),
        post("/api/rollouts", json!([{ "input": { "a": 1 }, "is_train": true, "config": { "timeout_seconds": 60 } }])),
        post(
            &format!("/api/rollouts/{rollout}/attempt/{attempt}/events"),
            json!({ "event_type": "note", "data": { "value": 1 } }),
        ),
        post(
            "/api/v1/create_session",
            json!({ "tags": ["a"], "sdk_version": "0.34.0", "user_metadata": { "b": "c" } }),
        ),
        post("/api/v1/session_heartbeat", json!({ "session_id": session })),
        post(
            "/api/v1/create_sampling_session",
            json!({ "session_id": session, "sampling_session_seq_id": 0, "base_model": "tiny" }),
        ),
        post(
            "/api/v1/asample",
            json!({ "base_model": "tiny", "num_samples": 1, "prompt": { "chunks": [
            { "type": "encoded_text", "tokens": [5, 6, 7] }] }, "sampling_params": { "max_tokens": 3, "temperature": 1.0 } }),
        ),
        post(
            "/api/v1/create_model",
            json!({ "session_id": session, "model_seq_id": 0, "base_model": "tiny",
            "lora_config": { "rank": 2 } }),
        ),
        post("/api/v1/sessions/search", json!({ "limit": 3, "user_metadata": {} })),
    ]
}

/// What came of a request. Its body is read to the end.
fn send(client: &Client, server: &Server, (method, path, _): &Sample, body: Vec<u8>, what: &str) -> u16 {
    let request =
        client.request(method.clone(), format!("{}{path}", server.url)).header("content-type", "application/json");
    let sent = String::from_utf8_lossy(&body).chars().take(3000).collect::<String>();
    let response = request.body(body).send().unwrap_or_else(|error| panic!("{what} to {path}: {error:?}\n{sent}"));
    let status = response.status().as_u16();
    let answer = response.text().unwrap_or_else(|error| panic!("{what} to {path}: {error:?}\n{sent}"));
    assert!(status < 500 || [501, 503, 507].contains(&status), "{what} to {path}: {status} {answer}\n{sent}");
    status
}

#[test]
fn requests_that_were_changed_at_random_break_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 256);
    let server = Server::start(directory.path(), ["--model", &model_flag("tiny", &model)]);
    let client = Client::builder().timeout(Duration::from_secs(120)).build().unwrap();
    let number = |name: &str, usual: u64| std::env::var(name).map_or(usual, |value| value.parse().unwrap());
    let mut numbers = Numbers(number("MUTATION_SEED", 1));
    let samples = samples(&server);
    for sample in &samples {
        let status = send(&client, &server, sample, sample.2.to_string().into_bytes(), "what is valid");
        assert!(status < 300, "{} is refused as it is: {status}", sample.1);
    }
    let mut refused = 0;
    for sample in &samples {
        for _ in 0..number("MUTATIONS", MUTATIONS) {
            let mut value = sample.2.clone();
            for _ in 0..=numbers.below(2) {
                change(&mut value, &mut numbers);
            }
            let mut body = value.to_string().into_bytes();
            if numbers.below(5) == 0 {
                body = spoil(body, &mut numbers);
            }
            refused += u64::from(send(&client, &server, sample, body, "what was changed") >= 400);
        }
        server.get("/healthz").expect(200);
    }
    // Changes that change nothing would break nothing either.
    assert!(refused > samples.len() as u64, "only {refused} were refused");
    server.post(&samples[7].1, &samples[7].2).expect(200);
    assert_no_panic(directory.path());
}
