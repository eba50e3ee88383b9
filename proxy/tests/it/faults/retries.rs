//! Requests that are sent again, over real sockets: a retry is no turn.

use fulgurite_types::{WeightsFrom, WeightsVersion};

use crate::common::{Script, Setup, body, chunks};
use fulgurite_backends::SamplingEnd;
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// Posts, with the retry count and the key that are given.
async fn send(setup: &Setup, base: &str, body: &Value, retries: u32, key: Option<&str>) -> reqwest::Response {
    let mut request = setup.client.post(format!("{base}/chat/completions")).json(body);
    request = request.header("x-stainless-retry-count", retries);
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    request.send().await.unwrap()
}

async fn reply(setup: &Setup, base: &str, retries: u32, key: Option<&str>) -> Value {
    send(setup, base, &body(), retries, key).await.json().await.unwrap()
}

fn answer(setup: &Setup, text: &str) -> Script {
    Script::Answer([setup.tokens(text), vec![setup.stop()]].concat(), SamplingEnd::StopToken)
}

fn streamed() -> Value {
    let mut body = body();
    body["stream"] = json!(true);
    body
}

/// A stream that its client leaves after the first piece, with these tokens sampled.
async fn broken(setup: &Setup, base: &str, text: &str) -> String {
    let (on_disconnect, disconnected) = oneshot::channel();
    setup.play(Script::Hang(setup.tokens(text), on_disconnect));
    let mut response = send(setup, base, &streamed(), 0, None).await;
    let piece = response.chunk().await.unwrap().unwrap();
    drop(response);
    disconnected.await.unwrap();
    let piece = String::from_utf8(piece.to_vec()).unwrap();
    let chunk: Value = serde_json::from_str(piece.lines().next().unwrap().strip_prefix("data: ").unwrap()).unwrap();
    chunk["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn identical_requests_are_new_samples_even_after_a_whole_answer() {
    let setup = Setup::new(vec![]).await;
    let (_, base) = setup.attempt().await;
    for text in ["I am 17", "Say you"] {
        setup.play(answer(&setup, text));
        assert_eq!(reply(&setup, &base, 0, None).await["choices"][0]["message"]["content"], text);
    }
    assert_eq!(setup.generations().await.len(), 2);
}

#[tokio::test]
async fn a_retry_of_an_answered_request_is_the_same_answer() {
    for restarted in [false, true] {
        let mut setup = Setup::new(vec![]).await;
        let (rollout, base) = setup.attempt().await;
        setup.play(answer(&setup, "I am 17"));
        let first = reply(&setup, &base, 0, None).await;
        let base = match restarted {
            true => {
                let old = setup.url.clone();
                setup.restart().await;
                base.replace(&old, &setup.url)
            }
            false => base,
        };
        let again = reply(&setup, &base, 1, None).await;
        assert_eq!((&again["id"], &again["choices"]), (&first["id"], &first["choices"]), "restarted: {restarted}");
        assert_eq!((&again["usage"], &again["prompt_token_ids"]), (&first["usage"], &first["prompt_token_ids"]));
        let text = send(&setup, &base, &streamed(), 1, None).await.text().await.unwrap();
        let text: String =
            chunks(&text).iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
        assert_eq!(text, "I am 17");
        assert_eq!(setup.generations().await.len(), 1);
        assert!(!setup.generation_of(&rollout).await.client_disconnected);
    }
}

#[tokio::test]
async fn a_key_is_one_answer_and_no_other_body() {
    let setup = Setup::new(vec![]).await;
    let (_, base) = setup.attempt().await;
    setup.play(answer(&setup, "I am 17"));
    let first = reply(&setup, &base, 0, Some("k")).await;
    assert_eq!(reply(&setup, &base, 0, Some("k")).await["id"], first["id"]);
    let mut other = body();
    other["temperature"] = json!(0.5);
    let refused = send(&setup, &base, &other, 0, Some("k")).await;
    assert_eq!(refused.status(), 400);
    assert_eq!(refused.json::<Value>().await.unwrap()["error"]["code"], "idempotency_key_reused");
    setup.play(answer(&setup, "Say you"));
    assert_ne!(reply(&setup, &base, 0, Some("other")).await["id"], first["id"]);
}

#[tokio::test]
async fn a_stream_that_broke_goes_on_where_it_was_when_it_is_asked_for_again() {
    for restarted in [false, true] {
        let mut setup = Setup::new(vec![]).await;
        let (rollout, mut base) = setup.attempt().await;
        let id = broken(&setup, &base, "I am").await;
        let partial = setup.generation_when(|generation| generation.client_disconnected).await;
        assert_eq!((partial.stop_reason.as_str(), &partial.generation_id), ("client_gone", &id));
        if restarted {
            let old = setup.url.clone();
            setup.restart().await;
            base = base.replace(&old, &setup.url);
        }
        // A client may send it again unstreamed.
        setup.play(answer(&setup, " 17"));
        let again = reply(&setup, &base, 0, None).await;
        assert_eq!((&again["id"], &again["choices"][0]["message"]["content"]), (&json!(id), &json!("I am 17")));
        let whole = setup.generation_of(&rollout).await;
        assert_eq!(
            whole.branch_reason.as_ref().map(ToString::to_string).as_deref(),
            Some("first_turn"),
            "as it was recorded when it began"
        );
        assert_eq!(setup.attributes(&rollout).await["fulgurite.departure.reason"], "first_turn");
        assert_eq!(setup.generations().await.len(), 1);
        assert_eq!(
            (whole.stop_reason.as_str(), whole.client_disconnected, whole.sequence_id),
            ("stop", false, partial.sequence_id)
        );
        assert_eq!(whole.sampled_tokens, [setup.tokens("I am"), setup.tokens(" 17"), vec![setup.stop()]].concat());
        let prompt = setup.sampler.requests.lock().unwrap().last().unwrap().prompt.clone();
        assert_eq!(prompt, [whole.prompt_tokens.clone(), setup.tokens("I am")].concat());
        // Once it was taken whole, the same body is a new sample.
        setup.play(answer(&setup, "Say you"));
        assert_ne!(reply(&setup, &base, 0, None).await["id"], json!(id));
    }
}

#[tokio::test]
async fn a_resume_that_fails_can_be_asked_for_again() {
    let setup = Setup::new(vec![]).await;
    let (rollout, base) = setup.attempt().await;
    let id = broken(&setup, &base, "I am").await;
    setup.generation_when(|generation| generation.client_disconnected).await;
    let mut parts = vec![setup.tokens("I am")];
    // The host takes nothing at first, and then it breaks.
    for (part, status) in [(vec![], 503), (setup.tokens(" 1"), 500)] {
        if !part.is_empty() {
            setup.play(Script::Break(part.clone()));
        }
        assert_eq!(send(&setup, &base, &body(), 0, None).await.status(), status);
        parts.push(part);
        let left = setup.generation_of(&rollout).await;
        assert_eq!((left.stop_reason.as_str(), left.client_disconnected), ("client_gone", true));
        assert_eq!((left.generation_id, left.sampled_tokens), (id.clone(), parts.concat()));
    }
    setup.play(answer(&setup, "7"));
    let again = reply(&setup, &base, 0, None).await;
    assert_eq!((&again["id"], &again["choices"][0]["message"]["content"]), (&json!(id), &json!("I am 17")));
    parts.push([setup.tokens("7"), vec![setup.stop()]].concat());
    let whole = setup.generation_when(|generation| !generation.client_disconnected).await;
    assert_eq!((whole.stop_reason.as_str(), &whole.sampled_tokens), ("stop", &parts.concat()));
    let logprobs = parts.iter().flat_map(|part| (1..=part.len()).map(|index| -0.25 * index as f32)).collect();
    assert_eq!(whole.logprobs, Some(logprobs));
    let prompt = setup.sampler.requests.lock().unwrap().last().unwrap().prompt.clone();
    assert_eq!(prompt, [whole.prompt_tokens, parts[..3].concat()].concat());
}

#[tokio::test]
async fn the_weights_of_what_follows_a_break_are_not_those_of_what_came_before() {
    let setup = Setup::new(vec![]).await;
    let (_, base) = setup.attempt().await;
    broken(&setup, &base, "I am").await;
    setup.generation_when(|generation| generation.client_disconnected).await;
    setup.play(Script::OfWeights([setup.tokens(" 17"), vec![setup.stop()]].concat(), WeightsVersion(4)));
    assert_eq!(reply(&setup, &base, 0, None).await["choices"][0]["message"]["content"], "I am 17");
    let whole = setup.generation_when(|generation| !generation.client_disconnected).await;
    let changed = [(3, 0), (4, setup.tokens("I am").len())];
    assert_eq!(whole.weights_versions, changed.map(|(version, first_token)| WeightsFrom { version, first_token }));
}

#[tokio::test]
async fn whoever_sends_a_request_again_while_it_is_answered_listens_to_the_same_answer() {
    let setup = Setup::new(vec![]).await;
    let (_, base) = setup.attempt().await;
    let (on_disconnect, disconnected) = oneshot::channel();
    setup.play(Script::Hang(setup.tokens("I am"), on_disconnect));
    let mut first = send(&setup, &base, &streamed(), 0, None).await;
    first.chunk().await.unwrap().unwrap();
    let mut second = send(&setup, &base, &streamed(), 1, None).await;
    let piece = String::from_utf8(second.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    assert!(piece.contains("chatcmpl-"));
    drop(first);
    // The other still listens, so it is still sampled.
    assert_eq!(setup.sampler.requests.lock().unwrap().len(), 1);
    drop(second);
    disconnected.await.unwrap();
    setup.generation_when(|generation| generation.client_disconnected).await;
}

#[tokio::test]
async fn a_retry_of_a_request_that_failed_is_sampled() {
    let setup = Setup::new(vec![]).await;
    let (_, base) = setup.attempt().await;
    setup.play(Script::Break(setup.tokens("I am")));
    assert_eq!(send(&setup, &base, &body(), 0, None).await.status(), 500);
    setup.play(answer(&setup, "I am 17"));
    assert_eq!(reply(&setup, &base, 1, None).await["choices"][0]["message"]["content"], "I am 17");
}

/// As a client's library sends a request again until it is answered.
async fn retried(setup: &Setup, base: &str) -> Value {
    let mut retries = 1;
    loop {
        let response = send(setup, base, &body(), retries, None).await;
        if response.status() == 200 {
            return response.json().await.unwrap();
        }
        retries += 1;
    }
}

#[tokio::test]
async fn each_of_several_identical_requests_that_failed_is_sampled_by_its_own_retry() {
    let setup = Setup::new(vec![]).await;
    let (_, base) = setup.attempt().await;
    setup.play(answer(&setup, "I am 17"));
    let answered = reply(&setup, &base, 0, None).await;
    for _ in 0..2 {
        assert_eq!(send(&setup, &base, &body(), 0, None).await.status(), 503);
    }
    for text in ["Say you", "I am"] {
        setup.play(answer(&setup, text));
        assert_eq!(retried(&setup, &base).await["choices"][0]["message"]["content"], text);
    }
    assert_eq!(retried(&setup, &base).await["id"], answered["id"]);
    assert_eq!(setup.generations().await.len(), 3);
}

#[tokio::test]
async fn a_session_that_broke_goes_on_as_the_same_session() {
    let setup = Setup::new(vec![]).await;
    let base = format!("{}/v1", setup.url);
    let id = broken(&setup, &base, "I am").await;
    setup.generation_when(|generation| generation.client_disconnected).await;
    setup.play(answer(&setup, " 17"));
    assert_eq!(reply(&setup, &base, 0, None).await["id"], json!(id));
    setup.generation_when(|generation| !generation.client_disconnected).await;
}
