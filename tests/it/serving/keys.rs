//! Keys over real sockets: what is open without one, what the admin key opens, and what an agent's own key does.

use std::path::Path;
use std::process::Stdio;

use crate::common::{
    Process, Server, client, eventually, fulgurite, model_flag, run, text, tiny_model, wait_until_ready,
};
use fulgurite_store::{Store, StoreOptions};
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tempfile::TempDir;

pub const ADMIN: &str = "the-key-to-everything";

/// One that is long enough beyond loopback.
const LONG: &str = "the-key-to-everything-0123456789";

/// A server that has an admin key.
pub struct Guarded {
    pub server: Server,
    directory: TempDir,
}

/// What was answered.
pub struct Answered {
    pub status: u16,
    headers: HeaderMap,
    text: String,
}

impl Answered {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

/// One of two attempts that have been handed out, and its agent's key.
struct Handed {
    rollout_id: String,
    attempt_id: String,
    key: String,
}

impl Handed {
    fn path(&self) -> String {
        format!("/rollout/{}/attempt/{}", self.rollout_id, self.attempt_id)
    }
}

impl Guarded {
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// With more in its configuration.
    fn start_with(more: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        tiny_model(directory.path(), 64);
        std::fs::write(directory.path().join("admin.key"), format!("{ADMIN}\n")).unwrap();
        let config = format!("[server]\nadmin_key_file = \"admin.key\"\n{more}");
        std::fs::write(directory.path().join("config.toml"), config).unwrap();
        Self { server: serve(directory.path()), directory }
    }

    /// Another process on the same store.
    fn restart(&mut self) {
        self.server.process.terminate();
        self.server = serve(self.directory.path());
    }

    fn ask(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &Value) -> Answered {
        ask(&self.server, method, path, headers, body)
    }

    pub fn with_key(&self, method: Method, path: &str, key: &str, body: &Value) -> Answered {
        self.ask(method, path, &[("authorization", &format!("Bearer {key}"))], body)
    }

    fn admin(&self, method: Method, path: &str, body: &Value) -> Value {
        let answered = self.with_key(method, path, ADMIN, body);
        assert!((200..300).contains(&answered.status), "{path}: {} {}", answered.status, answered.text);
        answered.json()
    }

    fn hand_out_two(&self) -> [Handed; 2] {
        hand_out_two(&self.server, ADMIN)
    }

    /// Rollouts of the calls that are recorded, in their order.
    fn recorded(&self) -> Vec<String> {
        self.server.query("generations").iter().map(|generation| text(&generation["rollout_id"])).collect()
    }
}

fn serve(directory: &Path) -> Server {
    let config = directory.join("config.toml");
    let model = model_flag("tiny", &directory.join("model"));
    Server::start(directory, ["--config", config.to_str().unwrap(), "--model", &model])
}

fn ask(server: &Server, method: Method, path: &str, headers: &[(&str, &str)], body: &Value) -> Answered {
    let mut request = client().request(method, format!("{}{path}", server.url)).json(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Answered { status, headers, text: response.text().unwrap() }
}

/// Two attempts, with the keys that a dequeue's reply brings.
fn hand_out_two(server: &Server, admin: &str) -> [Handed; 2] {
    let headers = [("authorization", format!("Bearer {admin}"))];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    let queued = json!({ "rollouts": [{ "input": 1 }, { "input": 2 }] });
    assert_eq!(ask(server, Method::POST, "/v1/agl/queues/rollouts/enqueue", &headers, &queued).status, 201);
    let dequeued = ask(server, Method::POST, "/v1/agl/queues/rollouts/dequeue", &headers, &json!({ "limit": 2 }));
    let keys = dequeued.headers["x-fulgurite-key"].to_str().unwrap();
    let [first, second] = keys.split(',').collect::<Vec<_>>().try_into().unwrap();
    let attempts = dequeued.json();
    let handed = |index: usize, key: &str| Handed {
        rollout_id: text(&attempts[index]["rollout_id"]),
        attempt_id: text(&attempts[index]["attempt"]["attempt_id"]),
        key: key.to_owned(),
    };
    assert!(!dequeued.text.contains(first), "a key is in no listing");
    [handed(0, first), handed(1, second)]
}

fn call() -> Value {
    json!({ "model": "tiny", "max_tokens": 2, "messages": [{ "role": "user", "content": "Say" }] })
}

/// An attempt with a grader: its path, its agent's key, and its grader's.
fn hand_out_graded(guarded: &Guarded) -> (String, [String; 2]) {
    guarded.admin(Method::POST, "/v1/agl/queues/rollouts/enqueue", &json!({ "rollouts": [{ "input": 1 }] }));
    let body = json!({ "limit": 1, "grader": "judge" });
    let dequeued = guarded.with_key(Method::POST, "/v1/agl/queues/rollouts/dequeue", ADMIN, &body);
    let key = |name: &str| dequeued.headers[name].to_str().unwrap().to_owned();
    let attempt = &dequeued.json()[0];
    let path = format!("/rollout/{}/attempt/{}", text(&attempt["rollout_id"]), text(&attempt["attempt"]["attempt_id"]));
    (path, [key("x-fulgurite-key"), key("x-fulgurite-grader-key")])
}

#[test]
fn a_graders_calls_take_nothing_from_the_agents_budget_and_are_never_trained() {
    let mut guarded = Guarded::start_with("[proxy.budget]\ncalls = 1\n");
    let (path, [agent, grader]) = hand_out_graded(&guarded);
    let path = format!("{path}/v1/chat/completions");
    let saying = |text: &str| {
        let mut call = call();
        call["messages"][0]["content"] = json!(text);
        call
    };
    let ask = |guarded: &Guarded, key: &str, text| guarded.with_key(Method::POST, &path, key, &saying(text));
    assert_eq!(ask(&guarded, &grader, "Judge").status, 200);
    // As little counts what another process of the server recorded.
    guarded.restart();
    assert_eq!(ask(&guarded, &agent, "Play").status, 200);
    let refused = ask(&guarded, &agent, "Play on");
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!("budget_exceeded")));
    let headers = [("authorization", &*format!("Bearer {grader}")), ("x-fulgurite-trainable", "true")];
    assert_eq!(guarded.ask(Method::POST, &path, &headers, &saying("Judge again")).status, 200);
    // It names its attempt where the path does not, and no other's.
    assert_eq!(guarded.with_key(Method::POST, "/v1/chat/completions", &grader, &call()).status, 200);
    let (of_another, _) = hand_out_graded(&guarded);
    let of_another = format!("{of_another}/v1/chat/completions");
    assert_eq!(guarded.with_key(Method::POST, &of_another, &grader, &call()).status, 403);
    let defects: Vec<Value> =
        guarded.server.query("generations").iter().map(|generation| generation["defect"].clone()).collect();
    let aside = json!("auxiliary:grader");
    assert_eq!(defects, [aside.clone(), Value::Null, aside.clone(), aside]);
}

#[test]
fn weights_that_calls_name_are_open_to_the_admin_key_alone_as_the_api_that_saves_them_is() {
    let guarded = Guarded::start();
    let [Handed { key: agent, .. }, _] = guarded.hand_out_two();
    let result = |path: &str, body: Value| {
        let submitted = guarded.admin(Method::POST, &format!("/api/v1/{path}"), &body);
        guarded.admin(Method::POST, "/api/v1/retrieve_future", &json!({ "request_id": submitted["request_id"] }))
    };
    let session = guarded.admin(Method::POST, "/api/v1/create_session", &json!({}))["session_id"].clone();
    let create =
        json!({ "session_id": session, "model_seq_id": 0, "base_model": "tiny", "lora_config": { "rank": 4 } });
    let model = result("create_model", create)["model_id"].clone();
    let save = json!({ "model_id": model, "path": "a", "seq_id": 1 });
    let saved = text(&result("save_weights_for_sampler", save)["path"]);
    let of = |name: &str| {
        let mut call = call();
        call["model"] = json!(name);
        call
    };
    for (path, call) in [("/v1/chat/completions", of(&saved)), ("/oai/api/v1/chat/completions", of("tinker://x"))] {
        let refused = guarded.with_key(Method::POST, path, &agent, &call);
        assert_eq!((refused.status, &refused.json()["error"]["code"]), (403, &json!("insufficient_permissions")));
        assert!(!refused.text.contains(&saved), "{}", refused.text);
    }
    let shown = format!("/v1/models/{}", saved.replace('/', "%2F"));
    assert_eq!(guarded.with_key(Method::GET, &shown, &agent, &Value::Null).status, 403);
    assert_eq!(guarded.with_key(Method::POST, "/v1/chat/completions", &agent, &of("tiny")).status, 200);
    assert_eq!(guarded.with_key(Method::POST, "/v1/chat/completions", ADMIN, &of(&saved)).status, 200);
    assert_eq!(guarded.with_key(Method::GET, &shown, ADMIN, &Value::Null).status, 200);
    let models: Vec<Value> =
        guarded.server.query("generations").iter().map(|generation| generation["model"].clone()).collect();
    assert_eq!(models, [json!("tiny"), json!(saved)]);
}

#[test]
fn without_a_key_only_signs_of_life_are_answered_and_each_dialect_says_so() {
    let guarded = Guarded::start();
    for (method, path) in [(Method::GET, "/healthz"), (Method::HEAD, "/"), (Method::HEAD, "/rollout/r/attempt/a/v1")] {
        assert_eq!(guarded.ask(method, path, &[], &Value::Null).status, 200, "{path}");
    }
    let words = "Invalid or missing API key: send it as `Authorization: Bearer KEY` or `x-api-key: KEY`";
    let openai = json!({ "error": { "message": words, "type": "invalid_request_error", "param": null, "code": "invalid_api_key" } });
    let detail = json!({ "detail": words });
    let otlp = json!({ "message": words });
    for (path, expected) in [
        ("/v1/chat/completions", &openai),
        ("/v1/completions", &openai),
        ("/v1/responses", &openai),
        ("/rollout/r/attempt/a/v1/chat/completions", &openai),
        ("/proxy/rollout/r/attempt/a/mode/train/openai/v1/chat/completions", &openai),
        ("/no/such/route", &openai),
        ("/rollout/r/reward", &detail),
        ("/rollout/r/attempt/a/reward", &detail),
        ("/v1/agl/rollouts", &detail),
        ("/v1/agl/no/such/route", &detail),
        ("/v1/fulgurite/attempts/heartbeat", &detail),
        ("/api/rollouts", &detail),
        ("/api/models", &detail),
        ("/proxy/pause", &detail),
        ("/v1/traces", &otlp),
    ] {
        for headers in
            [&[][..], &[("authorization", "Bearer fgr-bm90.aGluZw")], &[("x-api-key", "the-key-to-everythin")]]
        {
            let refused = guarded.ask(Method::POST, path, headers, &call());
            assert_eq!((refused.status, &refused.json()), (401, expected), "{path}");
            assert_eq!(refused.headers["www-authenticate"], "Bearer", "{path}");
        }
    }
    let anthropic = guarded.ask(Method::POST, "/v1/messages", &[("x-api-key", "wrong")], &call());
    assert_eq!(anthropic.status, 401);
    assert_eq!(anthropic.json()["error"], json!({ "type": "authentication_error", "message": words }));
    for path in ["/rollout/r/drift", "/v1/models", "/v1/agl/statistics", "/proxy/state", "/api/rollouts"] {
        assert_eq!(guarded.ask(Method::GET, path, &[], &Value::Null).status, 401, "{path}");
    }
    assert!(guarded.server.query("rollouts").is_empty(), "what is refused changes nothing");
}

#[test]
fn the_admin_key_opens_everything_however_it_is_sent() {
    let guarded = Guarded::start();
    // printf any:the-key-to-everything | base64
    let basic = "Basic YW55OnRoZS1rZXktdG8tZXZlcnl0aGluZw==";
    for header in [("authorization", "Bearer the-key-to-everything"), ("x-api-key", ADMIN), ("authorization", basic)] {
        for path in ["/v1/agl/health", "/v1/models", "/api/models", "/proxy/state"] {
            assert_eq!(guarded.ask(Method::GET, path, &[header], &Value::Null).status, 200, "{path} {header:?}");
        }
        assert_eq!(guarded.ask(Method::POST, "/v1/chat/completions", &[header], &call()).status, 200);
    }
    let [one, _] = guarded.hand_out_two();
    guarded.admin(Method::POST, &format!("{}/v1/chat/completions", one.path()), &call());
    guarded.admin(Method::POST, &format!("{}/reward", one.path()), &json!({ "value": 1.0 }));
    assert_eq!(guarded.recorded()[3], one.rollout_id);
    // A harness may send a key of its own beside ours.
    let both = [("authorization", "Bearer sk-something"), ("x-api-key", ADMIN)];
    assert_eq!(guarded.ask(Method::POST, "/v1/messages", &both, &call()).status, 200);
}

#[test]
fn googles_clients_send_their_key_in_a_header_of_their_own_or_in_the_query() {
    let guarded = Guarded::start();
    let [one, other] = guarded.hand_out_two();
    let body = json!({ "contents": [{ "parts": [{ "text": "Say" }] }], "generationConfig": { "maxOutputTokens": 2 } });
    let path = "/v1beta/models/tiny:generateContent";
    let by_header = [("x-goog-api-key", one.key.as_str())];
    let in_query = format!("?key={}", one.key);
    for (path, headers) in [
        (path.to_owned(), &by_header[..]),
        (format!("{path}{in_query}"), &[]),
        (format!("{}{path}{in_query}", one.path()), &[]),
        (format!("/v1/models/tiny:generateContent{in_query}"), &[]),
    ] {
        assert_eq!(guarded.ask(Method::POST, &path, headers, &body).status, 200, "{path}");
    }
    assert_eq!(guarded.recorded(), vec![one.rollout_id.clone(); 4]);
    for (path, headers, status, name) in [
        (path.to_owned(), &[][..], 401, "UNAUTHENTICATED"),
        (path.to_owned(), &[("x-goog-api-key", "wrong")], 401, "UNAUTHENTICATED"),
        (format!("{path}?key=wrong"), &[], 401, "UNAUTHENTICATED"),
        (format!("{}{path}{in_query}", other.path()), &[], 403, "PERMISSION_DENIED"),
    ] {
        let refused = guarded.ask(Method::POST, &path, headers, &body);
        let error = &refused.json()["error"];
        assert_eq!(
            (refused.status, &error["code"], &error["status"]),
            (status, &json!(status), &json!(name)),
            "{path}"
        );
    }
    // The queries of other dialects are passed on, and hold no key.
    let elsewhere = guarded.ask(Method::POST, &format!("/v1/chat/completions?key={ADMIN}"), &[], &call());
    assert_eq!(elsewhere.status, 401);
}

#[test]
fn tinkers_prefixes_are_other_names_of_the_same_calls() {
    let guarded = Guarded::start();
    let [one, _] = guarded.hand_out_two();
    let by_key = [("x-api-key", one.key.as_str())];
    assert_eq!(guarded.with_key(Method::POST, "/oai/api/v1/chat/completions", &one.key, &call()).status, 200);
    let message = guarded.ask(Method::POST, "/anthropic/api/v1/messages", &by_key, &call());
    assert_eq!((message.status, &message.json()["type"]), (200, &json!("message")));
    let body = json!({ "model": "tiny", "messages": [{ "role": "user", "content": "Say" }] });
    let counted = guarded.ask(Method::POST, "/anthropic/api/v1/messages/count_tokens", &by_key, &body);
    assert_eq!((counted.status, counted.json()["input_tokens"].is_u64()), (200, true));
    assert_eq!(guarded.recorded(), vec![one.rollout_id.clone(); 2]);
    assert_eq!(guarded.with_key(Method::GET, "/oai/api/v1/models", &one.key, &Value::Null).status, 200);
    // The prefix ends in the version already.
    assert_eq!(guarded.with_key(Method::POST, "/oai/api/v1/v1/chat/completions", ADMIN, &call()).status, 404);
    for (path, name) in [("/oai/api/v1/chat/completions", "code"), ("/anthropic/api/v1/messages", "type")] {
        let refused = guarded.ask(Method::POST, path, &[], &call());
        let expected = if name == "code" { "invalid_api_key" } else { "authentication_error" };
        assert_eq!((refused.status, &refused.json()["error"][name]), (401, &json!(expected)), "{path}");
    }
}

#[test]
fn a_rollouts_key_says_whose_a_call_is_and_opens_its_calls_and_rewards_alone() {
    let mut guarded = Guarded::start();
    let [one, other] = guarded.hand_out_two();
    // Keys outlive the process that made them.
    guarded.restart();

    let own = |path: &str, body: &Value| guarded.with_key(Method::POST, path, &one.key, body);
    assert_eq!(own("/v1/chat/completions", &call()).status, 200);
    assert_eq!(own(&format!("{}/v1/chat/completions", one.path()), &call()).status, 200);
    assert_eq!(guarded.ask(Method::POST, "/v1/messages", &[("x-api-key", &one.key)], &call()).status, 200);
    let gateway = |handed: &Handed| format!("/proxy{}/mode/train/openai/v1/chat/completions", handed.path());
    assert_eq!(own(&gateway(&one), &call()).status, 200);
    assert_eq!(guarded.recorded(), vec![one.rollout_id.clone(); 4]);
    assert_eq!(guarded.with_key(Method::GET, "/v1/models", &one.key, &Value::Null).status, 200);
    let value = json!({ "value": 0.5 });
    for path in [format!("{}/reward", one.path()), format!("/rollout/{}/reward", one.rollout_id)] {
        assert_eq!(own(&path, &value).status, 201, "{path}");
    }

    let words =
        format!("the API key is of the rollout `{}`, and opens nothing of `{}`", one.rollout_id, other.rollout_id);
    let openai = json!({ "error": {
        "message": words, "type": "invalid_request_error", "param": null, "code": "insufficient_permissions",
    } });
    for path in [format!("{}/v1/chat/completions", other.path()), gateway(&other)] {
        let refused = own(&path, &call());
        assert_eq!((refused.status, refused.json()), (403, openai.clone()), "{path}");
    }
    let by_header = [("x-api-key", one.key.as_str()), ("x-rollout-id", &other.rollout_id)];
    let refused = guarded.ask(Method::POST, "/v1/chat/completions", &by_header, &call());
    assert_eq!((refused.status, refused.json()), (403, openai));
    let refused = own(&format!("{}/v1/messages", other.path()), &call());
    assert_eq!(
        (refused.status, &refused.json()["error"]),
        (403, &json!({ "type": "permission_error", "message": words }))
    );
    for path in [
        format!("/rollout/{}/reward", other.rollout_id),
        format!("{}/reward", other.path()),
        // The same id, spelled as only a decoded path shows.
        format!("/rollout/{}/reward", other.rollout_id.replace('-', "%2D")),
    ] {
        let refused = own(&path, &value);
        assert_eq!((refused.status, refused.json()), (403, json!({ "detail": words })), "{path}");
    }
    let admin_only = json!({ "detail": "the API key of a rollout does not open this: the admin key does" });
    for path in ["/v1/agl/queues/rollouts/dequeue", "/v1/agl/spans", "/api/rollouts", "/proxy/pause"] {
        let refused = own(path, &json!({}));
        assert_eq!((refused.status, refused.json()), (403, admin_only.clone()), "{path}");
    }
    let drift = format!("/rollout/{}/drift", one.rollout_id);
    assert_eq!(guarded.with_key(Method::GET, &drift, &one.key, &Value::Null).status, 403);
    assert_eq!(guarded.recorded().len(), 4, "what is refused changes nothing");
    assert!(guarded.server.query("rewards").iter().all(|reward| reward["rollout_id"] == one.rollout_id));
}

#[test]
fn a_rollouts_key_begins_no_other_attempt() {
    let guarded = Guarded::start();
    let [one, _] = guarded.hand_out_two();
    let other = format!("/rollout/{}/attempt/other", one.rollout_id);
    let gateway = format!("/proxy{other}/mode/train/openai/v1/chat/completions");
    let unknown = guarded.with_key(Method::POST, &format!("{other}/v1/chat/completions"), &one.key, &call());
    assert_eq!(unknown.status, 404);
    let refused = guarded.with_key(Method::POST, &gateway, &one.key, &call());
    assert_eq!((refused.status, refused.json()), (404, unknown.json()));
    let latest = || {
        let rollout = guarded.admin(Method::GET, &format!("/v1/agl/rollouts/{}", one.rollout_id), &Value::Null);
        text(&rollout["attempt"]["attempt_id"])
    };
    assert_eq!(latest(), one.attempt_id, "what is refused changes nothing");

    guarded.admin(Method::POST, &gateway, &call());
    assert_eq!(latest(), "other");
    // It is there now.
    assert_eq!(guarded.with_key(Method::POST, &gateway, &one.key, &call()).status, 200);
    assert_eq!(guarded.recorded(), vec![one.rollout_id.clone(); 2]);
}

#[test]
fn a_rollouts_key_reads_no_other_rollouts_responses() {
    let guarded = Guarded::start();
    let [one, other] = guarded.hand_out_two();
    let body = json!({ "model": "tiny", "max_output_tokens": 2, "input": "Say" });
    let response = guarded.with_key(Method::POST, "/v1/responses", &one.key, &body).json();
    let path = format!("/v1/responses/{}", text(&response["id"]));
    assert_eq!(guarded.with_key(Method::GET, &path, &one.key, &Value::Null).status, 200);
    assert_eq!(guarded.with_key(Method::GET, &path, &other.key, &Value::Null).status, 404);
    let continued = json!({ "model": "tiny", "input": "Say", "previous_response_id": response["id"] });
    let refused = guarded.with_key(Method::POST, "/v1/responses", &other.key, &continued);
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!("previous_response_not_found")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_key_is_told_so_and_one_to_model_calls_opens_no_more_than_those() {
    let guarded = tokio::task::spawn_blocking(Guarded::start).await.unwrap();
    let store = Store::open(&guarded.server.store, StoreOptions::default()).await.unwrap();
    let issued = store.issued_keys().await.unwrap();
    let (over, models) = (issued.model_calls_key(0), issued.model_calls_key(3600));
    tokio::task::spawn_blocking(move || {
        let refused = guarded.with_key(Method::POST, "/v1/chat/completions", &over, &call());
        let message = text(&refused.json()["error"]["message"]);
        assert_eq!(refused.status, 401);
        assert!(message.starts_with("the API key expired at 1"), "{message}");

        let [one, _] = guarded.hand_out_two();
        let path = format!("{}/v1/chat/completions", one.path());
        assert_eq!(guarded.with_key(Method::POST, &path, &models, &call()).status, 200);
        assert_eq!(guarded.recorded(), std::slice::from_ref(&one.rollout_id));
        for path in [format!("{}/reward", one.path()), "/v1/agl/rollouts".to_owned()] {
            let refused = guarded.with_key(Method::POST, &path, &models, &json!({ "value": 1.0 }));
            assert_eq!(refused.status, 403, "{path}");
        }
        let gateway = format!("/proxy/rollout/{}/attempt/other/mode/train/openai/v1/chat/completions", one.rollout_id);
        assert_eq!(guarded.with_key(Method::POST, &gateway, &models, &call()).status, 200);
        assert_eq!(guarded.recorded().len(), 2);
    })
    .await
    .unwrap();
}

#[test]
fn without_an_admin_key_every_key_is_taken_and_ours_still_says_whose_a_call_is() {
    let directory = tempfile::tempdir().unwrap();
    let model = model_flag("tiny", &tiny_model(directory.path(), 64));
    let server = Server::start(directory.path(), ["--model", &model]);
    let [one, other] = hand_out_two(&server, "whatever");
    for (path, key) in [
        ("/v1/chat/completions".to_owned(), one.key.as_str()),
        (format!("{}/v1/chat/completions", other.path()), &one.key),
        (format!("{}/v1/chat/completions", other.path()), "sk-anything"),
        ("/v1/chat/completions".to_owned(), "sk-anything"),
    ] {
        assert_eq!(ask(&server, Method::POST, &path, &[("x-api-key", key)], &call()).status, 200);
    }
    let generations = server.query("generations");
    let rollouts: Vec<&Value> = generations.iter().map(|generation| &generation["rollout_id"]).collect();
    assert_eq!(rollouts[..3], [&json!(one.rollout_id), &json!(other.rollout_id), &json!(other.rollout_id)]);
    assert!(![&one.rollout_id, &other.rollout_id].map(|id| json!(id)).contains(rollouts[3]), "a session");
}

#[test]
fn with_an_admin_key_the_server_listens_everywhere_and_a_key_that_is_none_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let (ready, log) = (directory.path().join("ready.json"), directory.path().join("log"));
    let command = || {
        let mut command = fulgurite(["serve", "--listen", "0.0.0.0:0", "--store"]);
        command.arg(directory.path().join("store.db")).arg("--ready-file").arg(&ready);
        command.stdout(Stdio::null()).stderr(std::fs::File::create(&log).unwrap());
        command
    };
    let mut open = command();
    open.env("FULGURITE_ADMIN_KEY", LONG);
    let mut process = Process::spawn(open);
    let url = wait_until_ready(&mut process, &ready, &log);
    let status_with =
        |key: &str| client().get(format!("{url}/v1/agl/health")).bearer_auth(key).send().unwrap().status();
    assert_eq!((status_with(LONG).as_u16(), status_with("other").as_u16()), (200, 401));
    process.terminate();

    for (key, expected) in [
        ("", "error: server.listen is 0.0.0.0:0: without an admin key the server listens on loopback addresses only"),
        ("two words", "error: the environment variable FULGURITE_ADMIN_KEY\n  caused by: admin key: must be one word"),
    ] {
        let mut closed = command();
        closed.env("FULGURITE_ADMIN_KEY", key);
        assert_eq!(Process::spawn(closed).exit_code(), Some(1));
        let logged = std::fs::read_to_string(&log).unwrap();
        assert!(logged.starts_with(expected) && !logged.contains("two words"), "{logged}");
    }
}

#[test]
fn where_the_config_looks_for_the_admin_key_there_must_be_one() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("config.toml");
    let fail = |server: &str| {
        std::fs::write(&config, format!("[server]\nlisten = \"127.0.0.1:0\"\n{server}\n")).unwrap();
        run(["serve", "--config", config.to_str().unwrap()]).failure(directory.path())
    };
    insta::assert_snapshot!(fail("admin_key_env = \"NO_SUCH_VARIABLE\""), @r"
    error: the environment variable NO_SUCH_VARIABLE (server.admin_key_env)
      caused by: environment variable not found
    ");
    insta::assert_snapshot!(fail("admin_key_file = \"nothing.key\""), @r"
    error: cannot read [directory]/nothing.key (server.admin_key_file)
      caused by: No such file or directory (os error 2)
    ");
    insta::assert_snapshot!(fail("admin_key_file = \"a\"\nadmin_key_env = \"B\""), @"error: set one of server.admin_key_env and server.admin_key_file");
    std::fs::write(directory.path().join("empty.key"), "\n").unwrap();
    insta::assert_snapshot!(fail("admin_key_file = \"empty.key\""), @r"
    error: [directory]/empty.key (server.admin_key_file)
      caused by: admin key: must be one word of visible ASCII
    ");
}

#[test]
fn the_runner_asks_with_the_admin_key_and_its_agents_have_their_own_alone() {
    let guarded = Guarded::start();
    let queued = json!({ "rollouts": [{ "input": 1 }, { "input": 2 }] });
    guarded.admin(Method::POST, "/v1/agl/queues/rollouts/enqueue", &queued);
    let agent = "import json, os, urllib.request\n\
        def post(url, body):\n    \
            request = urllib.request.Request(url, json.dumps(body).encode(), {\n        \
                'content-type': 'application/json', 'authorization': 'Bearer ' + os.environ['OPENAI_API_KEY']})\n    \
            return json.load(urllib.request.urlopen(request))\n\
        assert 'FULGURITE_ADMIN_KEY' not in os.environ\n\
        post(os.environ['OPENAI_BASE_URL'] + '/chat/completions', {'model': 'tiny', 'max_tokens': 2, 'messages': [\n    \
            {'role': 'user', 'content': 'Say'}]})\n\
        post(os.environ['FULGURITE_REWARD_URL'], {'value': int(os.environ['FULGURITE_TASK'])})";
    let runner = |key: Option<&str>| {
        let mut command = fulgurite(["run", "--server", &guarded.server.url, "--until-idle", "--json", "--"]);
        command.args(["python3", "-c", agent]);
        if let Some(key) = key {
            command.env("FULGURITE_ADMIN_KEY", key);
        }
        crate::common::Ran::from(command.output().unwrap())
    };
    let refused = runner(None);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("401"), "{}", refused.stderr);
    assert_eq!(runner(Some(ADMIN)).json_lines().pop().unwrap()["succeeded"], 2);
    let mut rewards: Vec<f64> =
        guarded.server.query("rollouts").iter().map(|rollout| rollout["reward"].as_f64().unwrap()).collect();
    rewards.sort_by(f64::total_cmp);
    assert_eq!(rewards, [1.0, 2.0]);
    assert_eq!(guarded.recorded().len(), 2);
}

#[test]
fn no_key_and_no_prompt_is_in_the_log_nor_in_what_is_exported() {
    let mut guarded = Guarded::start();
    let [one, _] = guarded.hand_out_two();
    guarded.server.process.terminate();
    let directory = tempfile::tempdir().unwrap();
    let (ready, log) = (directory.path().join("ready.json"), directory.path().join("log"));
    let mut command = fulgurite(["serve", "--listen", "127.0.0.1:0", "--store", &guarded.server.store]);
    command.arg("--ready-file").arg(&ready).arg("--config").arg(guarded.directory.path().join("config.toml"));
    command.args(["--model", &model_flag("tiny", &guarded.directory.path().join("model"))]);
    command.env("FULGURITE_LOG", "debug").env("RUST_LOG", "debug").stdout(std::fs::File::create(&log).unwrap());
    command.stderr(std::fs::File::options().append(true).open(&log).unwrap());
    let mut process = Process::spawn(command);
    let url = wait_until_ready(&mut process, &ready, &log);
    let secret = "a-prompt-that-is-nobodys-business";
    let body = json!({ "model": "tiny", "max_tokens": 2, "messages": [{ "role": "user", "content": secret }] });
    for key in [ADMIN, &one.key, "fgr-bm90.aGluZw"] {
        client().post(format!("{url}/v1/chat/completions")).bearer_auth(key).json(&body).send().unwrap();
    }
    process.terminate();
    let logged = eventually("the refusal in the log", || {
        let logged = std::fs::read_to_string(&log).unwrap();
        logged.contains("a request was refused").then_some(logged)
    });
    let archive = directory.path().join("all.jsonl");
    let exported = run(["export", "--store", &guarded.server.store, "--to", archive.to_str().unwrap()]);
    assert_eq!(exported.code, Some(0), "{}", exported.stderr);
    let archived = std::fs::read_to_string(&archive).unwrap();
    assert!(archived.contains(&one.rollout_id));
    for key in [ADMIN, &one.key, "fgr-"] {
        assert!(!logged.contains(key) && !archived.contains(key), "{key}");
    }
    assert!(!logged.contains(secret));
}
