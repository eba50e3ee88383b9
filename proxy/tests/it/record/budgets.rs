//! What the calls of an attempt may take together, and how each dialect is told that it is spent.

use fulgurite_types::{AttemptRef, AttemptUpdate, EpisodeStop, NewRollout};

use crate::common::families::{QWEN3, request};
use crate::common::{BODY_LIMIT, Script, Setup, body};
use fulgurite_backends::SamplingEnd;
use fulgurite_proxy::{Budget, ProxyOptions};
use serde_json::{Value, json};
use tokio::sync::oneshot;

async fn setup(budget: Budget) -> Setup {
    Setup::with_options(ProxyOptions { body_limit: BODY_LIMIT, seed: 1, budget, ..ProxyOptions::default() }).await
}

/// A call that is answered with so many tokens.
async fn answered(setup: &Setup, base: &str, tokens: usize) -> Value {
    let sampled = vec![setup.tokens("I")[0]; tokens];
    setup.play(Script::Answer(sampled, SamplingEnd::Length));
    let response = setup.post(base, &body()).await;
    assert_eq!(response.status(), 200);
    response.json().await.unwrap()
}

async fn refused(response: reqwest::Response, status: u16) -> Value {
    assert_eq!(response.status(), status);
    response.json::<Value>().await.unwrap()["error"].take()
}

#[tokio::test]
async fn an_attempt_makes_no_more_calls_than_it_may_also_after_a_restart() {
    let mut setup = setup(Budget { calls: Some(2), ..Budget::default() }).await;
    let (rollout, base) = setup.attempt().await;
    let (_, other) = setup.attempt().await;
    answered(&setup, &base, 1).await;
    // A failure before anything was sampled is recorded nowhere, and takes nothing.
    assert_eq!(setup.post(&base, &body()).await.status(), 503);
    let keyed = |base: &str| setup.client.post(format!("{base}/chat/completions")).header("idempotency-key", "k");
    setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
    let first: Value = keyed(&base).json(&body()).send().await.unwrap().json().await.unwrap();

    let spent = json!({
        "message": "the attempt's budget of 2 model calls is spent",
        "type": "invalid_request_error", "param": null, "code": "budget_exceeded",
    });
    assert_eq!(refused(setup.post(&base, &body()).await, 400).await, spent);
    // What was sent before is no further call.
    let again: Value = keyed(&base).json(&body()).send().await.unwrap().json().await.unwrap();
    assert_eq!(again["id"], first["id"]);
    answered(&setup, &other, 1).await;

    let old = setup.url.clone();
    setup.restart().await;
    let base = base.replace(&old, &setup.url);
    assert_eq!(refused(setup.post(&base, &body()).await, 400).await, spent);
    let anthropic = json!({ "model": "tiny", "max_tokens": 4, "messages": body()["messages"] });
    let refusal = setup.client.post(format!("{base}/messages")).json(&anthropic).send().await.unwrap();
    let expected = json!({ "type": "invalid_request_error", "message": spent["message"] });
    assert_eq!(refused(refusal, 400).await, expected);
    assert_eq!(setup.generations().await.iter().filter(|one| one.rollout_id == rollout).count(), 2);
}

#[tokio::test]
async fn why_a_call_failed_is_noted_of_its_attempt_and_is_for_nobody_else_to_say() {
    let setup = setup(Budget { calls: Some(1), ..Budget::default() }).await;
    let (rollout, base) = setup.attempt().await;
    let attempt = async || setup.store.attempts().get(&rollout, AttemptRef::Latest).await.unwrap().unwrap();
    assert_eq!(setup.post(&base, &body()).await.status(), 503);
    assert_eq!((attempt().await.host_error(), attempt().await.limit()), (Some("overloaded"), None));
    answered(&setup, &base, 1).await;
    for _ in 0..2 {
        refused(setup.post(&base, &body()).await, 400).await;
        assert_eq!(attempt().await.limit(), Some(EpisodeStop::MaxTurns));
    }
    let forged = json!({ "fulgurite_stop": "completed", "mine": 1 }).as_object().cloned();
    let update = AttemptUpdate { metadata: forged, ..AttemptUpdate::default() };
    let updated = setup.store.attempts().update(&rollout, AttemptRef::Latest, update).await.unwrap();
    let expected = json!({ "mine": 1, "fulgurite_stop": "max_turns", "fulgurite_host_error": "overloaded" });
    assert_eq!(json!(updated.metadata), expected);
}

#[tokio::test]
async fn answers_have_tokens_of_their_own_also_after_a_restart() {
    let mut setup = setup(Budget { sampled_tokens: Some(5), ..Budget::default() }).await;
    let (rollout, base) = setup.attempt().await;
    answered(&setup, &base, 3).await;
    let old = setup.url.clone();
    setup.restart().await;
    let base = base.replace(&old, &setup.url);
    answered(&setup, &base, 2).await;
    assert_eq!(setup.sampler.requests.lock().unwrap().last().unwrap().max_tokens, 2);
    let refusal = refused(setup.post(&base, &body()).await, 400).await;
    assert_eq!(refusal["message"], "the attempt's budget of 5 sampled tokens is spent");
    let attempt = setup.store.attempts().get(&rollout, AttemptRef::Latest).await.unwrap().unwrap();
    assert_eq!(attempt.limit(), Some(EpisodeStop::MaxSampledTokens));
}

#[tokio::test]
async fn prompts_and_answers_count_and_the_last_answer_ends_where_the_tokens_do() {
    let mut setup = setup(Budget { tokens: Some(64), ..Budget::default() }).await;
    let (_, base) = setup.attempt().await;
    let first = answered(&setup, &base, 2).await;
    let prompt = first["usage"]["prompt_tokens"].as_u64().unwrap() as usize;
    assert!(2 * prompt + 4 < 64 && 3 * prompt + 4 > 64, "{prompt}");
    let old = setup.url.clone();
    setup.restart().await;
    let base = base.replace(&old, &setup.url);
    // Of the second call's answer this is all that may be sampled.
    let left = 64 - 2 * prompt - 2;
    answered(&setup, &base, 2).await;
    assert_eq!(setup.sampler.requests.lock().unwrap()[1].max_tokens, left);

    let maximum = left - 2 - 1;
    let refusal = refused(setup.post(&base, &body()).await, 400).await;
    let message = format!(
        "This model's maximum context length is {maximum} tokens. However, your messages resulted in {prompt} tokens. \
         Please reduce the length of the messages. No more is left of the attempt's budget of 64 tokens."
    );
    let expected = json!({
        "message": message, "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded",
    });
    assert_eq!(refusal, expected);
    let anthropic = json!({ "model": "tiny", "max_tokens": 4, "messages": body()["messages"] });
    let refusal = setup.client.post(format!("{base}/messages")).json(&anthropic).send().await.unwrap();
    let message = format!("prompt is too long: {prompt} tokens > {maximum} maximum");
    assert_eq!(refused(refusal, 400).await, json!({ "type": "invalid_request_error", "message": message }));
}

/// Calls attempts that have a little time, and then longer, until the model's host is asked in time. It gives these tokens
/// and no end.
async fn until_its_time_is_over(setup: &Setup, tokens: &[u32]) -> reqwest::Response {
    let mut seconds = 0.1;
    loop {
        let metadata = json!({ "fulgurite_budget": { "seconds": seconds } }).as_object().cloned();
        let started =
            setup.store.rollouts().start(NewRollout { metadata, ..NewRollout::default() }, None).await.unwrap();
        let base =
            format!("{}/rollout/{}/attempt/{}/v1", setup.url, started.rollout.rollout_id, started.attempt.attempt_id);
        let (on_disconnect, disconnected) = oneshot::channel();
        setup.play(Script::Hang(tokens.to_vec(), on_disconnect));
        let response = setup.post(&base, &body()).await;
        if setup.sampler.scripts.lock().unwrap().pop_front().is_none() {
            disconnected.await.unwrap();
            return response;
        }
        seconds *= 2.0;
    }
}

#[tokio::test]
async fn an_answer_ends_where_the_attempts_time_does() {
    let setup = setup(Budget::default()).await;
    let tokens = setup.tokens("I am");
    let response = until_its_time_is_over(&setup, &tokens).await;
    assert_eq!(response.status(), 200);
    let answer: Value = response.json().await.unwrap();
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    assert_eq!(answer["choices"][0]["message"]["content"], "I am");
    let generation = setup.generation_when(|_| true).await;
    assert_eq!((generation.stop_reason.as_str(), generation.sampled_tokens), ("length", tokens));
    assert!(!generation.client_disconnected);
}

#[tokio::test]
async fn an_answer_that_had_not_begun_when_the_time_was_over_is_refused() {
    let setup = setup(Budget::default()).await;
    let refusal = refused(until_its_time_is_over(&setup, &[]).await, 400).await;
    assert_eq!(refusal["code"], "budget_exceeded");
    assert!(setup.generations().await.is_empty());
}

#[tokio::test]
async fn calls_at_once_share_what_is_left() {
    let setup = setup(Budget { tokens: Some(64), ..Budget::default() }).await;
    let (_, base) = setup.attempt().await;
    let (on_disconnect, disconnected) = oneshot::channel();
    setup.play(Script::Hang(setup.tokens("I"), on_disconnect));
    let limited =
        |max_tokens: usize| json!({ "model": "tiny", "max_tokens": max_tokens, "messages": body()["messages"] });
    let first = tokio::spawn({
        let (client, url) = (setup.client.clone(), format!("{base}/chat/completions"));
        let limits = limited(4);
        async move { client.post(url).json(&limits).send().await }
    });
    while setup.sampler.requests.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
    let second: Value = setup.post(&base, &limited(40)).await.json().await.unwrap();
    let prompt = second["usage"]["prompt_tokens"].as_u64().unwrap() as usize;
    let limits: Vec<usize> = setup.sampler.requests.lock().unwrap().iter().map(|limits| limits.max_tokens).collect();
    assert_eq!(limits, [4, 64 - 4 - 2 * prompt]);
    first.abort();
    disconnected.await.unwrap();
}

#[tokio::test]
async fn an_answer_that_was_broken_off_goes_on_as_far_as_the_tokens_do() {
    for is_spent in [false, true] {
        let setup = setup(Budget { calls: Some(2), tokens: Some(64), ..Budget::default() }).await;
        let (_, base) = setup.attempt().await;
        let first = setup.tokens("I am");
        let (on_disconnect, disconnected) = oneshot::channel();
        setup.play(Script::Hang(first.clone(), on_disconnect));
        let mut streamed = body();
        streamed["stream"] = json!(true);
        let mut response = setup.post(&base, &streamed).await;
        response.chunk().await.unwrap().unwrap();
        drop(response);
        disconnected.await.unwrap();
        let broken = setup.generation_when(|generation| generation.client_disconnected).await;

        let left = 64 - 2 * broken.prompt_tokens.len() - first.len();
        let spent = if is_spent { left } else { 3 };
        let other = json!({ "model": "tiny", "max_tokens": spent, "messages": body()["messages"] });
        setup.play(Script::Answer(vec![first[0]; spent], SamplingEnd::Length));
        assert_eq!(setup.post(&base, &other).await.status(), 200);

        let more = vec![first[0]; left - spent];
        if !is_spent {
            setup.play(Script::Answer(more.clone(), SamplingEnd::Length));
        }
        let answer: Value = setup.post(&base, &body()).await.json().await.unwrap();
        assert_eq!(
            (&answer["id"], &answer["choices"][0]["finish_reason"]),
            (&json!(broken.generation_id), &json!("length"))
        );
        assert_eq!(answer["choices"][0]["token_ids"], json!([first, more].concat()));
        let limits: Vec<usize> =
            setup.sampler.requests.lock().unwrap().iter().map(|limits| limits.max_tokens).collect();
        let expected = [64 - broken.prompt_tokens.len(), spent, left - spent];
        assert_eq!(limits, expected[..if is_spent { 2 } else { 3 }]);
        assert_eq!(refused(setup.post(&base, &other).await, 400).await["code"], "budget_exceeded");
    }
}

#[tokio::test]
async fn a_tool_call_of_an_answer_that_was_broken_off_and_went_on_counts_once() {
    for restarted in [false, true] {
        let mut setup = QWEN3.setup().await;
        let metadata = json!({ "fulgurite_budget": { "tool_calls": 2 } }).as_object().cloned();
        let started =
            setup.store.rollouts().start(NewRollout { metadata, ..NewRollout::default() }, None).await.unwrap();
        let path = format!("/rollout/{}/attempt/{}/v1", started.rollout.rollout_id, started.attempt.attempt_id);
        // It breaks off behind its whole call, of which its client has seen the beginning.
        let turn = setup.sampled(QWEN3.turn);
        let (first, rest) = turn.split_at(turn.len() - 1);
        let (on_disconnect, disconnected) = oneshot::channel();
        setup.play(Script::Hang(first.to_vec(), on_disconnect));
        let mut streamed = request();
        streamed["stream"] = json!(true);
        let mut response = setup.post(&format!("{}{path}", setup.url), &streamed).await;
        response.chunk().await.unwrap().unwrap();
        drop(response);
        disconnected.await.unwrap();
        setup.generation_when(|generation| generation.client_disconnected).await;
        if restarted {
            setup.restart().await;
        }
        let base = format!("{}{path}", setup.url);
        setup.play(Script::Answer(rest.to_vec(), SamplingEnd::StopToken));
        let whole: Value = setup.post(&base, &request()).await.json().await.unwrap();
        assert_eq!(whole["choices"][0]["message"]["tool_calls"].as_array().map(Vec::len), Some(1), "{whole}");
        assert_eq!(setup.generations().await.len(), 1);
        // One of two is made, in however many parts it came.
        setup.play(Script::Answer(turn.clone(), SamplingEnd::StopToken));
        assert_eq!(setup.post(&base, &request()).await.status(), 200, "restarted: {restarted}");
        let refusal = refused(setup.post(&base, &request()).await, 400).await;
        assert_eq!(refusal["message"], "the attempt's budget of 2 tool calls is spent");
    }
}

#[tokio::test]
async fn a_rollouts_own_budget_is_kept_and_one_that_cannot_be_read_is_told() {
    let setup = setup(Budget { calls: Some(1), ..Budget::default() }).await;
    let attempt = async |budget: Value| {
        let metadata = json!({ "fulgurite_budget": budget }).as_object().cloned();
        let started =
            setup.store.rollouts().start(NewRollout { metadata, ..NewRollout::default() }, None).await.unwrap();
        format!("{}/rollout/{}/attempt/{}/v1", setup.url, started.rollout.rollout_id, started.attempt.attempt_id)
    };
    let over = attempt(json!({ "seconds": 0.0 })).await;
    let refusal = refused(setup.post(&over, &body()).await, 400).await;
    assert_eq!(refusal["message"], "the attempt's budget of 0 seconds is spent");
    let wrong = attempt(json!({ "turns": 3 })).await;
    assert_eq!(refused(setup.post(&wrong, &body()).await, 400).await["code"], "invalid_budget");
    let generous = attempt(json!({ "calls": 9 })).await;
    answered(&setup, &generous, 1).await;
    assert_eq!(refused(setup.post(&generous, &body()).await, 400).await["code"], "budget_exceeded");
}

#[tokio::test]
async fn sessions_have_no_budget() {
    let setup = setup(Budget { calls: Some(0), ..Budget::default() }).await;
    answered(&setup, &format!("{}/v1", setup.url), 1).await;
    let session = setup.client.post(format!("{}/v1/chat/completions", setup.url)).header("x-fulgurite-session", "s");
    setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
    assert_eq!(session.json(&body()).send().await.unwrap().status(), 200);
}
