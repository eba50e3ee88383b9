//! Models that are paused, and given new weights, over real sockets.

use std::time::Duration;

use fulgurite_types::{NewRollout, WeightsVersion};

use crate::common::{Script, Setup, body, chunks};
use fulgurite_backends::SamplingEnd;
use fulgurite_proxy::ProxyOptions;
use serde_json::{Value, json};
use tokio::sync::oneshot;

async fn ask(setup: &Setup, what: &str, body: &Value) -> (u16, Value) {
    let url = format!("{}/v1/fulgurite/models/{what}", setup.url);
    let response = setup.client.post(url).json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

async fn state(setup: &Setup) -> Value {
    setup.client.get(format!("{}/v1/fulgurite/models/tiny", setup.url)).send().await.unwrap().json().await.unwrap()
}

async fn until_held(setup: &Setup, held: u64) {
    while state(setup).await["held"] != json!(held) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn answer(setup: &Setup) -> Script {
    Script::Answer(vec![setup.stop()], SamplingEnd::StopToken)
}

#[tokio::test]
async fn a_paused_models_calls_wait_with_signs_of_life_and_are_answered_once_it_goes_on() {
    let setup =
        Setup::with_options(ProxyOptions { keep_alive: Duration::from_millis(1), ..ProxyOptions::default() }).await;
    let (status, paused) = ask(&setup, "tiny/pause", &json!({ "reason": "new weights", "drain": true })).await;
    assert_eq!((status, &paused["paused"], &paused["reason"]), (200, &json!(true), &json!("new weights")));
    setup.play(answer(&setup));
    setup.play(answer(&setup));
    let base = format!("{}/v1", setup.url);
    let mut streamed = body();
    streamed["stream"] = json!(true);
    let whole = tokio::spawn({
        let (client, url) = (setup.client.clone(), format!("{base}/chat/completions"));
        async move { client.post(url).json(&body()).send().await.unwrap().status().as_u16() }
    });
    let mut stream = setup.post(&base, &streamed).await;
    assert_eq!(stream.status(), 200);
    let mut text = String::new();
    while !text.contains(": keep-alive\n\n") {
        text += str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap();
    }
    until_held(&setup, 2).await;
    assert!(setup.sampler.requests.lock().unwrap().is_empty(), "nothing reaches the host");
    let (status, new) = ask(&setup, "tiny/weights", &json!({ "version": 4, "model": "/weights/4" })).await;
    assert_eq!((status, &new["weights_version"]), (200, &json!(4)), "{new}");

    let (_, resumed) = ask(&setup, "tiny/resume", &json!({})).await;
    assert_eq!(resumed["paused"], json!(false));
    text += &stream.text().await.unwrap();
    assert!(!chunks(&text.replace(": keep-alive\n\n", "")).is_empty());
    assert_eq!(whole.await.unwrap(), 200);
    for generation in setup.generations().await {
        assert_eq!(generation.weights_versions.first().map(|it| it.version), Some(4), "{generation:?}");
    }
    let after = state(&setup).await;
    assert_eq!((&after["held"], &after["in_flight"]), (&json!(0), &json!(0)));
}

#[tokio::test]
async fn a_pause_that_drains_waits_for_calls_under_way() {
    let setup = Setup::new(vec![]).await;
    let (on_disconnect, _) = oneshot::channel();
    setup.play(Script::Hang(vec![], on_disconnect));
    let under_way = tokio::spawn({
        let (client, url) = (setup.client.clone(), format!("{}/v1/chat/completions", setup.url));
        async move { client.post(url).json(&body()).send().await }
    });
    while state(&setup).await["in_flight"] != json!(1) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let drain = json!({ "drain": true });
    let mut drained = std::pin::pin!(ask(&setup, "tiny/pause", &drain));
    let early = tokio::time::timeout(Duration::from_millis(50), &mut drained).await;
    assert!(early.is_err(), "{early:?}");
    under_way.abort();
    let (status, state) = drained.await;
    assert_eq!((status, &state["in_flight"]), (200, &json!(0)));
}

#[tokio::test]
async fn whoever_leaves_while_held_never_reaches_the_host() {
    let setup = Setup::new(vec![]).await;
    ask(&setup, "tiny/pause", &json!({})).await;
    let waiting = tokio::spawn({
        let (client, url) = (setup.client.clone(), format!("{}/v1/chat/completions", setup.url));
        async move { client.post(url).json(&body()).send().await }
    });
    until_held(&setup, 1).await;
    waiting.abort();
    until_held(&setup, 0).await;
    ask(&setup, "tiny/resume", &json!({})).await;
    assert!(setup.sampler.requests.lock().unwrap().is_empty());
    assert!(setup.generations().await.is_empty(), "nothing was sampled, so that there is nothing to record");
}

#[tokio::test]
async fn only_the_gateway_refuses_while_paused_and_its_pause_holds_the_others() {
    let setup = Setup::new(vec![]).await;
    let rollout = setup.store.rollouts().enqueue(vec![NewRollout::default()]).await.unwrap().remove(0).rollout_id;
    let gateway = format!("{}/proxy/rollout/{rollout}/attempt/0/mode/train/openai/v1", setup.url);
    ask(&setup, "tiny/pause", &json!({ "reason": "maintenance" })).await;
    let refused = setup.post(&gateway, &body()).await;
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &"5".parse().unwrap()));
    let reply: Value = refused.json().await.unwrap();
    assert_eq!(reply["reason"], json!("maintenance"), "{reply}");
    ask(&setup, "tiny/resume", &json!({})).await;

    setup.client.post(format!("{}/proxy/pause", setup.url)).send().await.unwrap();
    assert_eq!(state(&setup).await["paused"], json!(true));
    setup.client.post(format!("{}/proxy/resume", setup.url)).send().await.unwrap();
    assert_eq!(state(&setup).await["paused"], json!(false));
    setup.play(answer(&setup));
    assert_eq!(setup.post(&gateway, &body()).await.status(), 200);
}

#[tokio::test]
async fn a_model_goes_on_once_all_who_paused_it_have_let_it() {
    let setup = Setup::new(vec![]).await;
    let gateway =
        async |what: &str| drop(setup.client.post(format!("{}/proxy/{what}", setup.url)).send().await.unwrap());
    ask(&setup, "tiny/pause", &json!({ "reason": "maintenance" })).await;
    gateway("pause").await;
    gateway("resume").await;
    let paused = state(&setup).await;
    assert_eq!((&paused["paused"], &paused["reason"]), (&json!(true), &json!("maintenance")));
    gateway("pause").await;
    let (_, paused) = ask(&setup, "tiny/resume", &json!({})).await;
    assert_eq!((&paused["paused"], &paused["reason"]), (&json!(true), &Value::Null));
    gateway("resume").await;
    assert_eq!(state(&setup).await["paused"], json!(false));
}

#[tokio::test]
async fn what_is_wrong_with_new_weights_is_told_and_changes_nothing() {
    let setup = Setup::new(vec![]).await;
    for (what, body, status, word) in [
        ("other/weights", json!({ "version": 4, "model": "/w" }), 404, "does not exist here"),
        ("tiny/weights", json!({ "version": 4 }), 400, "one of `model`, `adapter` and `kept` must say"),
        ("tiny/weights", json!({ "version": 4, "model": "/w", "adapter": "/w" }), 400, "one of `model`, `adapter`"),
        ("tiny/weights", json!({ "version": 4, "modle": "/w" }), 400, "there is no key `modle`; did you mean `model`?"),
        ("tiny/weights", json!({ "version": 4, "model": 5 }), 400, "model is 5, but must be a string"),
        ("tiny/weights", json!([]), 400, "it is a list, but must be an object"),
        ("tiny/weights", json!({ "version": "four", "model": "/w" }), 400, "must be a whole number"),
        (
            "tiny/weights",
            json!({ "version": u64::MAX, "model": "/w" }),
            400,
            "a version is 9223372036854775807 at most",
        ),
        ("tiny/weights", json!({ "version": 4, "adapter": "/w" }), 422, "whole models only"),
        ("tiny/pause", json!({ "drian": true }), 400, "drian"),
        ("other/pause", json!({}), 404, "does not exist here"),
    ] {
        let (answered, reply) = ask(&setup, what, &body).await;
        let message = reply["error"]["message"].as_str().unwrap();
        assert!(answered == status && message.contains(word), "{what}: {answered} {reply}");
    }
    assert_eq!(*setup.sampler.weights.lock().unwrap(), WeightsVersion(3));
    assert_eq!(state(&setup).await["paused"], json!(false));
}
