//! `fulgurite serve`, through its real socket.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Mutex;

use crate::common::{Server, client, eventually, model_flag, run, text, tiny_model};
use serde_json::{Value, json};

fn serve(directory: &Path, context_length: usize) -> Server {
    let model = tiny_model(directory, context_length);
    Server::start(directory, ["--model", &model_flag("tiny", &model)])
}

/// A request for at most `max_tokens` tokens that asks for them as ids, too.
fn request_of(max_tokens: usize) -> Value {
    json!({
        "model": "tiny", "messages": [{ "role": "user", "content": "Say you are 17." }],
        "max_tokens": max_tokens, "logprobs": true, "return_token_ids": true,
    })
}

fn with(mut body: Value, fields: Value) -> Value {
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    body
}

/// Queues a rollout, takes it off the queue, and gives the path below which its attempt's model calls go.
fn attempt(server: &Server, metadata: Value) -> String {
    let rollout = json!({ "input": 17, "metadata": metadata });
    server.post("/v1/agl/queues/rollouts/enqueue", &json!({ "rollouts": [rollout] })).expect(201);
    let claimed = server.post("/v1/agl/queues/rollouts/dequeue", &json!({ "worker_id": "test" })).expect(200);
    let rollout_id = text(&claimed[0]["rollout_id"]);
    format!("/rollout/{rollout_id}/attempt/{}/v1", text(&claimed[0]["attempt"]["attempt_id"]))
}

/// What a client has of an answer, streamed or not.
#[derive(Clone, Debug, PartialEq)]
struct Received {
    id: String,
    content: String,
    token_ids: Vec<Value>,
    logprobs: Vec<Value>,
    finish_reason: String,
}

impl Received {
    fn whole(completion: &Value) -> Self {
        let choice = &completion["choices"][0];
        Self {
            id: text(&completion["id"]),
            content: text(&choice["message"]["content"]),
            token_ids: choice["token_ids"].as_array().unwrap().clone(),
            logprobs: logprobs(choice),
            finish_reason: text(&choice["finish_reason"]),
        }
    }

    /// `None` for a stream that broke off.
    fn streamed(events: &str) -> Option<Self> {
        let (mut content, mut token_ids, mut all_logprobs) = (String::new(), Vec::new(), Vec::new());
        let mut last = Value::Null;
        for event in events.strip_suffix("data: [DONE]\n\n")?.split_terminator("\n\n") {
            last = serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
            let choice = &last["choices"][0];
            content.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
            token_ids.extend(choice["token_ids"].as_array().into_iter().flatten().cloned());
            all_logprobs.extend(logprobs(choice));
        }
        let finish_reason = text(&last["choices"][0]["finish_reason"]);
        Some(Self { id: text(&last["id"]), content, token_ids, logprobs: all_logprobs, finish_reason })
    }

    /// What does not differ between two answers of the same tokens.
    fn content_parts(&self) -> (&str, &[Value], &[Value], &str) {
        (&self.content, &self.token_ids, &self.logprobs, &self.finish_reason)
    }
}

fn logprobs(choice: &Value) -> Vec<Value> {
    choice["logprobs"]["content"].as_array().into_iter().flatten().map(|entry| entry["logprob"].clone()).collect()
}

fn ask(server: &Server, base: &str, body: &Value) -> Received {
    Received::whole(&server.post(&format!("{base}/chat/completions"), body).expect(200))
}

fn ask_streamed(server: &Server, base: &str, body: &Value) -> Received {
    let answer = server.post(&format!("{base}/chat/completions"), &with(body.clone(), json!({ "stream": true })));
    assert_eq!(answer.status, 200, "{}", answer.text);
    Received::streamed(&answer.text).unwrap()
}

#[test]
fn it_says_what_it_serves_and_leaves_when_told() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = serve(directory.path(), 64);
    let health = server.get("/healthz").expect(200);
    let tiny = &health["models"]["tiny"];
    assert_eq!(
        (&health["status"], &tiny["weights_version"], &tiny["state"]),
        (&json!("ok"), &json!(0), &json!("serving"))
    );
    assert_eq!(tiny["weights_id"].as_str().map(str::len), Some(8), "{health}");
    let models = server.get("/v1/models").expect(200);
    assert_eq!((&models["data"][0]["id"], &models["data"][0]["max_model_len"]), (&json!("tiny"), &json!(64)));
    assert_eq!(server.get("/v1/agl/health").expect(200), json!({ "status": "ok" }));
    assert_eq!(server.process.terminate(), Some(0));
}

#[test]
fn what_was_streamed_is_what_is_recorded_and_a_seed_brings_it_back() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path(), 256);
    let body = request_of(24);
    let whole = ask(&server, &attempt(&server, json!({ "seed": 5 })), &body);
    let streamed = ask_streamed(&server, &attempt(&server, json!({ "seed": 5 })), &body);
    assert_eq!(whole.content_parts(), streamed.content_parts());
    let other = ask(&server, &attempt(&server, json!({ "seed": 6 })), &body);
    assert_ne!(whole.token_ids, other.token_ids);

    let triplets = server.query("triplets");
    assert_eq!(triplets.len(), 3);
    for received in [&whole, &streamed, &other] {
        let triplet = triplets.iter().find(|triplet| triplet["metadata"]["response_id"] == received.id).unwrap();
        assert_eq!(triplet["response"]["token_ids"], json!(received.token_ids));
        // The token that ends the turn is sampled and recorded, but no text that a client asked logprobs of.
        let recorded = triplet["response"]["logprobs"].as_array().unwrap();
        assert_eq!(recorded[..received.logprobs.len()], received.logprobs);
        assert!(recorded.len() - received.logprobs.len() <= 1);
    }
    for span in server.query("spans") {
        let content = text(&span["attributes"]["gen_ai.completion.0.content"]);
        assert!([&whole, &other].iter().any(|received| received.content == content), "{content}");
    }
}

#[test]
fn an_unattributed_call_gets_a_session_that_has_ended_well() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path(), 256);
    let received = ask_streamed(&server, "/v1", &request_of(8));
    let [rollout] = &server.query("rollouts")[..] else { panic!("not one rollout") };
    assert_eq!((&rollout["status"], &rollout["metadata"]["kind"]), (&json!("succeeded"), &json!("session")));
    let [triplet] = &server.query("triplets")[..] else { panic!("not one triplet") };
    assert_eq!(triplet["metadata"]["rollout_id"], rollout["rollout_id"]);
    assert_eq!(triplet["metadata"]["response_id"], received.id);
    let late = server.post(
        &format!("/rollout/{}/generation/{}/reward", text(&rollout["rollout_id"]), received.id),
        &json!({ "value": 0.5 }),
    );
    late.expect(201);
    assert_eq!(server.query("triplets")[0]["reward"], 0.5);
}

#[test]
fn sampling_parameters_do_what_they_say() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path(), 256);
    let greedy = with(request_of(12), json!({ "temperature": 0 }));
    let first = ask(&server, "/v1", &greedy);
    assert_eq!((first.token_ids.len(), first.finish_reason.as_str()), (12, "length"));
    assert_eq!(first.content_parts(), ask(&server, "/v1", &greedy).content_parts());

    let seeded = |seed: u64| ask(&server, "/v1", &with(request_of(12), json!({ "seed": seed })));
    assert_eq!(seeded(1).content_parts(), seeded(1).content_parts());
    assert_ne!(seeded(1).token_ids, seeded(2).token_ids);

    let sampled = ask(&server, "/v1", &with(request_of(64), json!({ "seed": 3 })));
    let stop: String = sampled.content.chars().skip(5).take(2).collect();
    let stopped = ask(&server, "/v1", &with(request_of(64), json!({ "seed": 3, "stop": [stop] })));
    let (before, _) = sampled.content.split_once(&stop).unwrap();
    assert_eq!((stopped.content.as_str(), stopped.finish_reason.as_str()), (before, "stop"));
    assert!(stopped.token_ids.len() < sampled.token_ids.len());

    let to_the_brim = with(request_of(100_000), json!({ "temperature": 0 }));
    let answer = server.post("/v1/chat/completions", &to_the_brim).expect(200);
    assert_eq!(answer["usage"]["total_tokens"], 256);
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
}

#[test]
fn every_bad_request_is_told_in_openais_shape_and_leaves_no_trace() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 64);
    let config = directory.path().join("config.toml");
    std::fs::write(&config, "[server]\nbody_limit_bytes = 1000\n").unwrap();
    let server =
        Server::start(directory.path(), ["--config", config.to_str().unwrap(), "--model", &model_flag("tiny", &model)]);
    let user = |content: &str| json!([{ "role": "user", "content": content }]);
    let but = |fields: Value| with(request_of(4), fields).to_string();
    let base = attempt(&server, json!({}));
    let unknown_attempt = format!("{}x/v1", base.strip_suffix("/v1").unwrap());
    let cases = [
        ("/v1", r#"{"model": "#.to_owned(), 400, "invalid_request_error", json!("invalid_json")),
        ("/v1", "[]".to_owned(), 400, "invalid_request_error", json!("invalid_json")),
        ("/v1", but(json!({ "model": "huge" })), 404, "invalid_request_error", json!("model_not_found")),
        ("/v1", but(json!({ "messages": [] })), 400, "invalid_request_error", Value::Null),
        (
            "/v1",
            but(json!({ "messages": [{ "role": "robot", "content": "" }] })),
            400,
            "invalid_request_error",
            Value::Null,
        ),
        (
            "/v1",
            but(json!({ "messages": user(&"x".repeat(100)) })),
            400,
            "invalid_request_error",
            json!("context_length_exceeded"),
        ),
        (
            "/v1",
            but(json!({ "messages": user(&"x".repeat(1000)) })),
            413,
            "invalid_request_error",
            json!("request_too_large"),
        ),
        (
            "/rollout/ro-none/attempt/at-none/v1",
            but(json!({})),
            404,
            "invalid_request_error",
            json!("rollout_not_found"),
        ),
        (&unknown_attempt, but(json!({})), 404, "invalid_request_error", json!("attempt_not_found")),
        (&base, but(json!({ "temperature": -1 })), 400, "invalid_request_error", Value::Null),
        (&base, but(json!({ "temperature": -1, "stream": true })), 400, "invalid_request_error", Value::Null),
    ];
    for (base, body, status, kind, code) in cases {
        let error = server.post_text(&format!("{base}/chat/completions"), body.clone()).expect(status);
        let error = &error["error"];
        assert_eq!((&error["type"], &error["code"]), (&json!(kind), &code), "{body}: {error}");
        assert!(!text(&error["message"]).is_empty());
        assert!(error.as_object().unwrap().contains_key("param"));
    }
    assert_eq!(server.get("/v1/chat/completions").expect(405)["error"]["code"], "method_not_allowed");
    assert_eq!(server.get("/v1/nothing").expect(404)["error"]["code"], "unknown_url");
    assert_eq!(server.query("rollouts").len(), 1, "the one that was queued");
    assert_eq!(server.query("spans"), [] as [Value; 0]);
    assert_eq!(server.query("triplets"), [] as [Value; 0]);
    // The refused calls on the attempt have used up nothing of it.
    ask(&server, &base, &request_of(4));
}

#[test]
fn a_client_that_hangs_up_in_mid_stream_stops_the_sampling() {
    const CONTEXT: usize = 1 << 16;
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path(), CONTEXT);
    let body = json!({
        "model": "tiny", "messages": [{ "role": "user", "content": "hi" }], "temperature": 0, "stream": true,
    })
    .to_string();
    let mut socket = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    write!(
        socket,
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len(),
    )
    .unwrap();
    let mut reader = BufReader::new(socket);
    let mut line = String::new();
    while !line.starts_with("data: ") {
        line.clear();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "the stream ended before its first event");
    }
    drop(reader);

    let span = eventually("the record of the call", || server.query("spans").pop());
    let attributes = &span["attributes"];
    assert_eq!(attributes["gen_ai.completion.0.finish_reason"], "client_gone");
    let sampled = attributes["gen_ai.usage.output_tokens"].as_u64().unwrap() as usize;
    assert!((1..CONTEXT / 2).contains(&sampled), "sampled {sampled} of up to {CONTEXT} tokens");
    let [triplet] = &server.query("triplets")[..] else { panic!("not one triplet") };
    assert_eq!(triplet["response"]["token_ids"].as_array().unwrap().len(), sampled);
    assert_ne!(triplet["metadata"]["exclusion"], Value::Null, "what nobody received is not trained");
    ask(&server, "/v1", &request_of(4));
}

/// Calls until the server is gone, and notes every answer that has come in whole.
fn call_until_killed(url: &str, base: &str, streamed: bool, received: &Mutex<HashMap<String, Received>>) {
    let body = with(request_of(40), json!({ "stream": streamed })).to_string();
    let client = client();
    loop {
        let request = client.post(format!("{url}{base}/chat/completions")).header("content-type", "application/json");
        // Any failure is the kill; an answer of which a part is missing was not received.
        let Ok(mut response) = request.body(body.clone()).send() else { return };
        assert_eq!(response.status(), 200);
        let mut answer = String::new();
        let broken = response.read_to_string(&mut answer).is_err();
        let whole = if streamed {
            Received::streamed(&answer)
        } else if broken {
            None
        } else {
            Some(Received::whole(&serde_json::from_str(&answer).unwrap()))
        };
        let Some(whole) = whole else { return };
        received.lock().unwrap().insert(whole.id.clone(), whole);
    }
}

#[test]
fn a_killed_server_has_kept_every_answer_that_was_received_once() {
    let directory = tempfile::tempdir().unwrap();
    let model = model_flag("tiny", &tiny_model(directory.path(), 256));
    let received = Mutex::new(HashMap::new());
    let mut attempts = Vec::new();
    for round in 1..=2 {
        let mut server = Server::start(directory.path(), ["--model", &model]);
        if attempts.is_empty() {
            attempts.extend((0..4).map(|_| attempt(&server, json!({}))));
        }
        let url = server.url.clone();
        std::thread::scope(|scope| {
            for caller in 0..8 {
                let base = attempts.get(caller / 2).map_or("/v1", String::as_str);
                let (url, received) = (&url, &received);
                scope.spawn(move || call_until_killed(url, base, caller % 2 == 0, received));
            }
            let enough = round * 150;
            eventually("answers", || (received.lock().unwrap().len() >= enough).then_some(()));
            server.process.kill();
        });
    }
    let server = Server::start(directory.path(), ["--model", &model]);
    for base in attempts.iter().map(String::as_str).chain(["/v1"]) {
        let after = ask(&server, base, &request_of(4));
        received.lock().unwrap().insert(after.id.clone(), after);
    }

    let triplets = server.query("triplets");
    let mut recorded = HashMap::new();
    for triplet in &triplets {
        let twice = recorded.insert(text(&triplet["metadata"]["response_id"]), &triplet["response"]["token_ids"]);
        assert_eq!(twice, None, "{triplet}");
    }
    for (id, answer) in received.lock().unwrap().iter() {
        assert_eq!(recorded.get(id), Some(&&json!(answer.token_ids)), "{id}");
    }
    let spans = server.query("spans");
    let ids: HashSet<String> = spans.iter().map(|span| text(&span["attributes"]["gen_ai.response.id"])).collect();
    assert_eq!((spans.len(), ids.len()), (triplets.len(), triplets.len()));
}

#[test]
fn what_cannot_be_served_is_a_clear_error() {
    let directory = tempfile::tempdir().unwrap();
    let store = format!("sqlite://{}", directory.path().join("store.db").display());
    let serve_store = |store: &str, arguments: &[&str]| {
        let ran = run(["serve", "--store", store].iter().chain(arguments));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{ran:?}");
        ran.stderr
    };
    let serve = |arguments: &[&str]| serve_store(&store, arguments);
    insta::assert_snapshot!(serve(&["--listen", "0.0.0.0:0"]), @"error: server.listen is 0.0.0.0:0: without an admin key the server listens on loopback addresses only (FULGURITE_ADMIN_KEY, server.admin_key_env or server.admin_key_file sets one)");
    insta::assert_snapshot!(serve(&["--listen", "nowhere"]), @r"
    error: cannot listen on nowhere (server.listen)
      caused by: invalid socket address
    ");
    insta::assert_snapshot!(serve(&["--listen", "127.0.0.1:0", "--model", "tiny=embedded:/no/such/model"]), @r"
    error: model `tiny`
      caused by: there is no model at /no/such/model
    ");
    let model = tiny_model(directory.path(), 128);
    let weights = model.join("model.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&weights, bytes).unwrap();
    let damaged = serve(&["--listen", "127.0.0.1:0", "--model", &model_flag("tiny", &model)]);
    let parts = ["model `tiny`", "model.safetensors is not what was saved: its SHA-256 is", "remove fulgurite.sha256"];
    assert!(parts.iter().all(|part| damaged.contains(part)), "{damaged}");
    insta::assert_snapshot!(serve(&["--listen", "127.0.0.1:0", "--model", "tiny=/no/such/model"]), @"error: --model tiny=/no/such/model: expected NAME=embedded:DIRECTORY|FILE.gguf[,renderer=NAME], NAME=vllm|sglang|llama-cpp|tinker:URL,path=DIRECTORY[,renderer=NAME][,api_key_env=VARIABLE] or NAME=openai|anthropic:URL[,upstream_model=NAME][,api_key_env=VARIABLE]");
    insta::assert_snapshot!(serve(&["--listen", "127.0.0.1:0", "--watchdog-interval=-1"]), @"error: server.watchdog_interval is -1, but must be a number of seconds above 0 (0 looks before each call)");
    insta::assert_snapshot!(serve_store("sqlite:///no/such/directory/store.db", &[]), @r"
    error: cannot open the store sqlite:///no/such/directory/store.db
      caused by: the database failed: error returned from database: (code: 14) unable to open database file
    ");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let error = serve(&["--listen", &address]).replace(&address, "[address]");
    insta::assert_snapshot!(error, @r"
    error: cannot listen on [address] (server.listen)
      caused by: Address already in use (os error 98)
    ");
}

#[test]
fn the_stores_api_is_agent_lightnings() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), [] as [&str; 0]);
    let config = json!({ "max_attempts": 2, "retry_condition": ["failed"] });
    let ids = server.enqueue([json!({ "n": 1 }), json!("two")], &config);

    let claimed = server.post("/v1/agl/queues/rollouts/dequeue", &json!({ "worker_id": "w" })).expect(200);
    assert_eq!((&claimed[0]["rollout_id"], &claimed[0]["status"]), (&json!(ids[0]), &json!("preparing")));
    assert_eq!((&claimed[0]["input"], &claimed[0]["attempt"]["worker_id"]), (&json!({ "n": 1 }), &json!("w")));
    let first = text(&claimed[0]["attempt"]["attempt_id"]);
    let of_first = format!("/v1/agl/rollouts/{}/attempts/{first}", ids[0]);
    assert_eq!(server.post(&of_first, &json!({ "status": "failed" })).expect(200)["status"], "failed");
    let found = server.get(&format!("/v1/agl/rollouts/{}", ids[0])).expect(200);
    assert_eq!((&found["status"], &found["attempt"]["attempt_id"]), (&json!("requeuing"), &json!(first)));

    let both = server.post("/v1/agl/queues/rollouts/dequeue", &json!({ "limit": 9, "worker_id": "w" })).expect(200);
    let order: Vec<&Value> = both.as_array().unwrap().iter().map(|claimed| &claimed["rollout_id"]).collect();
    assert_eq!(order, [ids[1].as_str(), ids[0].as_str()], "the failed one waits behind the queue");
    let second = text(&both[1]["attempt"]["attempt_id"]);
    let rewarded = server.post(&format!("/rollout/{}/attempt/{second}/reward", ids[0]), &json!({ "value": 0.25 }));
    assert_eq!(rewarded.expect(201)["attempt_id"], json!(second));
    let latest = format!("/v1/agl/rollouts/{}/attempts/latest", ids[0]);
    assert_eq!(server.post(&latest, &json!({ "status": "succeeded" })).expect(200)["attempt_id"], json!(second));
    // Agent-lightning's own route takes a late word; ours does not.
    let late = format!("/v1/fulgurite/rollouts/{}/attempts/{second}/report", ids[0]);
    assert_eq!(server.post(&late, &json!({ "status": "failed" })).expect(200)["status"], "succeeded");

    let waited = server.post("/v1/agl/waits/rollouts", &json!({ "rollout_ids": ids, "timeout": 0 })).expect(200);
    assert_eq!(waited.as_array().unwrap().len(), 1, "{waited}");
    assert_eq!((&waited[0]["rollout_id"], &waited[0]["status"]), (&json!(ids[0]), &json!("succeeded")));
    assert_eq!(server.get(&format!("/v1/agl/spans?rollout_id={}", ids[0])).expect(200)["total"], 1);
    assert_eq!(
        server.query("rollouts").iter().find(|rollout| rollout["rollout_id"] == ids[0]).unwrap()["reward"],
        0.25
    );
    assert_eq!(server.post("/v1/agl/queues/rollouts/dequeue", &Value::Null).expect(200), json!([]));
}

#[test]
fn the_stores_api_says_what_is_missing_or_malformed() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), [] as [&str; 0]);
    let value = json!({ "value": 1.0 });
    for (path, body) in [
        ("/v1/agl/rollouts/ro-none/attempts/latest", json!({ "status": "failed" })),
        ("/v1/agl/rollouts/ro-none", json!({ "status": "failed" })),
        ("/v1/agl/no/such/route", Value::Null),
        ("/v1/fulgurite/rollouts/ro-none/attempts/at-none/report", json!({ "status": "failed" })),
        ("/rollout/ro-none/reward", value.clone()),
        ("/rollout/ro-none/attempt/at-none/reward", value.clone()),
        ("/rollout/ro-none/generation/none/reward", value),
    ] {
        assert!(server.post(path, &body).expect(404)["detail"].is_string(), "{path}");
    }
    // Here Agent-lightning's client expects null.
    assert_eq!(server.get("/v1/agl/rollouts/ro-none").expect(200), Value::Null);
    let wrong =
        server.post("/v1/agl/queues/rollouts/enqueue", &json!({ "rollouts": [{ "mode": "train" }] })).expect(422);
    assert_eq!(wrong["detail"][0]["loc"], json!(["body", "rollouts", 0, "input"]), "{wrong}");
    server.post_text("/v1/agl/queues/rollouts/enqueue", "{").expect(422);
    assert_eq!(server.query("rollouts"), [] as [Value; 0]);
}

/// A page of 2 MiB takes so long to clear that one call of a hundred waited for milliseconds.
#[test]
#[cfg(target_os = "linux")]
fn calls_do_not_wait_for_huge_pages_where_no_model_needs_them() {
    let huge_pages = |server: &Server| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.process.id())).unwrap();
        status.lines().find_map(|line| line.strip_prefix("THP_enabled:")).map(|value| value.trim().to_owned())
    };
    let (alone, with_model) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let alone = Server::start(alone.path(), [""; 0]);
    // Older systems do not say.
    if let Some(enabled) = huge_pages(&alone) {
        let same = std::fs::read_to_string("/proc/self/status").unwrap().contains("THP_enabled:\t1");
        assert_eq!(enabled, "0");
        assert_eq!(huge_pages(&serve(with_model.path(), 64)).as_deref(), Some(if same { "1" } else { "0" }));
    }
}
