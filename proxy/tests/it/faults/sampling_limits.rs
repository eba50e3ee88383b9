//! A model's host that takes too long: its answer is broken off, and each dialect is told.

use std::time::Duration;

use crate::common::{BODY_LIMIT, Script, Setup, body};
use fulgurite_backends::SamplingEnd;
use fulgurite_proxy::{ProxyOptions, SamplingLimits};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// Only the limits that are tested end a call.
const NEVER: Duration = Duration::from_secs(3600);
const AT_ONCE: Duration = Duration::from_millis(20);

async fn setup(sampling_limits: SamplingLimits) -> Setup {
    let options = ProxyOptions { body_limit: BODY_LIMIT, seed: 1, sampling_limits, ..ProxyOptions::default() };
    Setup::with_options(options).await
}

#[tokio::test]
async fn a_host_that_says_nothing_is_given_up_and_nothing_is_recorded() {
    let setup =
        setup(SamplingLimits { first_token: AT_ONCE, silence: NEVER, whole: NEVER, host_patience: Duration::ZERO })
            .await;
    let (_, base) = setup.attempt().await;
    let (on_disconnect, disconnected) = oneshot::channel();
    setup.play(Script::Hang(vec![], on_disconnect));
    let response = setup.post(&base, &body()).await;
    assert_eq!(response.status(), 504);
    let error = json!({ "error": {
        "message": "the first token did not come within 0.02 seconds (proxy.first_token_seconds)",
        "type": "server_error", "param": null, "code": "sampler_timeout",
    } });
    assert_eq!(response.json::<Value>().await.unwrap(), error);
    disconnected.await.unwrap();
    assert!(setup.generations().await.is_empty());
}

#[tokio::test]
async fn what_was_sampled_before_the_host_fell_silent_is_recorded_and_the_stream_ends_in_an_error() {
    let setup =
        setup(SamplingLimits { first_token: NEVER, silence: AT_ONCE, whole: NEVER, host_patience: Duration::ZERO })
            .await;
    let (_, base) = setup.attempt().await;
    let (on_disconnect, disconnected) = oneshot::channel();
    setup.play(Script::Hang(setup.tokens("I am"), on_disconnect));
    let request = json!({ "model": "tiny", "stream": true, "max_tokens": 9, "messages": body()["messages"] });
    let response = setup.client.post(format!("{base}/messages")).json(&request).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let text = response.text().await.unwrap();
    let expected = "{\"type\":\"timeout_error\",\"message\":\"the next token did not come within 0.02 seconds";
    assert!(text.contains("event: error\n") && text.contains(expected), "{text}");
    disconnected.await.unwrap();
    let generation = setup.generation_when(|_| true).await;
    assert_eq!((generation.stop_reason.as_str(), generation.sampled_tokens), ("error", setup.tokens("I am")));
}

#[tokio::test]
async fn a_whole_answer_has_its_time_however_much_of_it_comes() {
    let setup =
        setup(SamplingLimits { first_token: NEVER, silence: NEVER, whole: AT_ONCE, host_patience: Duration::ZERO })
            .await;
    let (_, base) = setup.attempt().await;
    let (on_disconnect, disconnected) = oneshot::channel();
    setup.play(Script::Hang(setup.tokens("I"), on_disconnect));
    let reply: Value = setup.post(&base, &body()).await.json().await.unwrap();
    let expected = "the end of the answer did not come within 0.02 seconds (proxy.call_seconds)";
    assert_eq!(reply["error"]["message"], expected);
    disconnected.await.unwrap();
}

#[tokio::test]
async fn tokens_may_come_together_where_nobody_reads_along_and_none_may_end_the_answer() {
    let stream_interval = async |silence: Duration, fields: Value| {
        let setup =
            setup(SamplingLimits { first_token: NEVER, silence, whole: NEVER, host_patience: Duration::ZERO }).await;
        let (_, base) = setup.attempt().await;
        setup.play(Script::Answer(setup.tokens("I am"), SamplingEnd::Length));
        let mut request = body();
        request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        assert_eq!(setup.post(&base, &request).await.status(), 200);
        setup.sampler.requests.lock().unwrap()[0].stream_interval
    };
    assert_eq!(stream_interval(NEVER, json!({})).await, 16);
    assert_eq!(stream_interval(NEVER, json!({ "stream": true })).await, 1);
    assert_eq!(stream_interval(NEVER, json!({ "stop": ["am"] })).await, 1, "the host does not know of it");
    assert_eq!(stream_interval(Duration::from_secs(4), json!({})).await, 4, "one a second is not silence");
    assert_eq!(stream_interval(AT_ONCE, json!({})).await, 1);
}
