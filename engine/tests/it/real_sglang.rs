//! The engine beside a real SGLang that serves the same weights; `tests/backends/sglang` starts one. Without it there is
//! nothing to compare with, and these tests say so and pass.

use std::path::PathBuf;

use fulgurite_types::{Constraint, SamplingParameters, WeightsVersion};

use crate::common::request;
use crate::real_hosts::{
    RealHost, TOLERANCE, VOCABULARY, adapter_and_merged, answer, answer_across, greatest_difference,
    greatest_difference_without, hold_to_a_grammar, hold_to_a_schema, options, place_of_the_swap, replaced_by, trained,
};
use fulgurite_backends::{
    BackendError, Changeover, NewWeights, SampleEvent, SampleRequest, SampledToken, Sampler, SamplingEnd,
    SglangSampler, WeightsSource,
};
use serde_json::json;

/// Of the model's 512 the server keeps some to itself.
const CONTEXT: usize = 506;
/// The model's own end of a text, which ends every answer there.
const END: u32 = 290;

fn real() -> Option<RealHost<SglangSampler>> {
    RealHost::find("sglang", SglangSampler::new)
}

/// Answers that do not end before they must.
fn endless() -> SamplingParameters {
    SamplingParameters { logit_bias: [(END, -1000.0)].into(), ..SamplingParameters::default() }
}

fn ids(tokens: &[SampledToken]) -> Vec<u32> {
    tokens.iter().map(|token| token.id).collect()
}

#[tokio::test]
async fn sglang_and_the_engine_agree_on_every_sampled_token() {
    let Some(real) = real() else { return };
    assert_eq!(real.sampler.info().await.unwrap().context_length, CONTEXT);
    let (mut greatest, mut compared) = (0.0f32, 0);
    for seed in 0..8 {
        // One by one, or some together.
        let stream_interval = if seed % 2 == 0 { 1 } else { 16 };
        let sent = SampleRequest { top_logprobs: 3, stream_interval, ..request(vec![5, 6, 7, 8], 60, seed) };
        let (tokens, reason) = answer(&real.sampler, sent.clone()).await;
        match reason {
            SamplingEnd::Length => assert_eq!(tokens.len(), 60),
            _ => assert_eq!(tokens.last().unwrap().id, END),
        }
        for token in &tokens {
            assert_eq!(token.top_logprobs.len(), 3);
            assert!(token.top_logprobs.is_sorted_by(|a, b| a.1 >= b.1), "{token:?}");
        }
        greatest = greatest.max(greatest_difference(&real.model, &sent.prompt, &tokens, 0).await);
        compared += tokens.len();
    }
    eprintln!("greatest difference of a logprob between SGLang and the engine: {greatest:e} of {compared} tokens");
    assert!(greatest < TOLERANCE && compared > 100, "{greatest}");
}

#[tokio::test]
async fn a_sampled_stop_token_is_the_last_token() {
    let Some(real) = real() else { return };
    // Every third token or so is one of these.
    let stop_tokens: Vec<u32> = (0..VOCABULARY).step_by(3).collect();
    for seed in 0..8 {
        let sent = SampleRequest { sampling: endless(), ..request(vec![5, 6], 400, seed) };
        let (stopped, reason) = answer(&real.sampler, SampleRequest { stop_tokens: stop_tokens.clone(), ..sent }).await;
        assert_eq!(reason, SamplingEnd::StopToken);
        let (last, before) = stopped.split_last().unwrap();
        assert!(stop_tokens.contains(&last.id) && before.iter().all(|token| !stop_tokens.contains(&token.id)));
    }
}

#[tokio::test]
async fn an_answer_that_fills_the_context_is_whole() {
    let Some(real) = real() else { return };
    let prompt: Vec<u32> = (5..17).collect();
    for short_of_it in [0, 1, 2] {
        let room = CONTEXT - prompt.len() - short_of_it;
        let sent = SampleRequest { sampling: endless(), ..request(prompt.clone(), room, 1) };
        let (tokens, reason) = answer(&real.sampler, sent).await;
        assert_eq!((tokens.len(), reason), (room, SamplingEnd::Length));
    }
}

#[tokio::test]
async fn it_tells_how_much_of_a_prompt_it_had_in_its_cache() {
    let Some(real) = real() else { return };
    let prompt: Vec<u32> = (30..70).collect();
    let (tokens, _) = answer(&real.sampler, request(prompt.clone(), 4, 1)).await;
    let longer = request([&prompt[..], &ids(&tokens), &[7, 8]].concat(), 4, 1);
    let mut stream = real.sampler.sample(longer).await.unwrap();
    let cached = loop {
        match stream.next().await.unwrap() {
            SampleEvent::CachedPrompt(cached) => break cached,
            SampleEvent::Finished(_) => panic!("it was not told"),
            _ => {}
        }
    };
    assert!((40..46).contains(&cached), "{cached}");
}

#[tokio::test]
async fn logprobs_are_those_of_the_distribution_that_was_sampled_from() {
    let Some(real) = real() else { return };
    let with = async |sampling: SamplingParameters| {
        let sent = SampleRequest { sampling, top_logprobs: 20, ..request(vec![5, 6], 1, 3) };
        answer(&real.sampler, sent).await.0.remove(0)
    };
    let plain = with(SamplingParameters::default()).await.top_logprobs;
    let cold = with(SamplingParameters { temperature: 0.5, ..SamplingParameters::default() }).await.top_logprobs;
    let gap = |top: &[(u32, f32)], one: usize, other: usize| top[one].1 - top[other].1;
    assert!((gap(&cold, 0, 5) - 2.0 * gap(&plain, 0, 5)).abs() < TOLERANCE);
    // What stands in the prompt was not sampled.
    for penalized in [
        SamplingParameters { presence_penalty: 2.0, ..SamplingParameters::default() },
        SamplingParameters { frequency_penalty: 2.0, ..SamplingParameters::default() },
    ] {
        let penalized = with(penalized).await.top_logprobs;
        assert!(penalized.iter().zip(&plain).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < TOLERANCE));
    }
    let greedy = with(SamplingParameters { temperature: 0.0, ..SamplingParameters::default() }).await;
    assert_eq!((greedy.id, greedy.logprob), (plain[0].0, 0.0));
    let biased = SamplingParameters { logit_bias: [(77, 100.0)].into(), ..SamplingParameters::default() };
    let biased = with(biased).await;
    assert_eq!((biased.id, biased.logprob), (77, 0.0));
}

#[tokio::test]
async fn what_top_k_and_top_p_left_shares_all_of_the_probability() {
    let Some(real) = real() else { return };
    let with = async |sampling: SamplingParameters, top_logprobs| {
        let sent = SampleRequest { sampling, top_logprobs, ..request(vec![5, 6], 1, 3) };
        answer(&real.sampler, sent).await.0.remove(0)
    };
    let temperature = 1.2;
    let plain = SamplingParameters { temperature, ..SamplingParameters::default() };
    let plain = with(plain, 20).await.top_logprobs;
    let five = SamplingParameters { temperature, top_k: Some(5), ..SamplingParameters::default() };
    let most = SamplingParameters { temperature, top_k: Some(200), top_p: 0.6, ..SamplingParameters::default() };
    let before = plain.iter().scan(0.0, |sum, (_, logprob)| Some(std::mem::replace(sum, *sum + logprob.exp())));
    let holding_most = before.take_while(|sum| *sum < 0.6).count();
    assert!((2..20).contains(&holding_most), "{plain:?}");
    for (sampling, count) in [(five, 5), (most, holding_most)] {
        let chosen = with(sampling.clone(), 20).await;
        assert_eq!(chosen.top_logprobs.len(), count);
        let whole: f32 = plain[..count].iter().map(|(_, logprob)| logprob.exp()).sum();
        for ((id, logprob), (plain_id, plain)) in chosen.top_logprobs.iter().zip(&plain) {
            assert_eq!(id, plain_id);
            assert!((logprob - (plain - whole.ln())).abs() < TOLERANCE, "{logprob} {plain} {whole}");
        }
        assert!(chosen.top_logprobs.iter().any(|(id, logprob)| (*id, *logprob) == (chosen.id, chosen.logprob)));
        let unwatched = with(sampling, 0).await;
        let reported = chosen.top_logprobs.iter().find(|(id, _)| *id == unwatched.id).unwrap();
        assert!((reported.1 - unwatched.logprob).abs() < TOLERANCE);
    }
    let only = SamplingParameters { top_k: Some(1), ..SamplingParameters::default() };
    let only = with(only, 0).await;
    assert_eq!((only.id, only.logprob), (plain[0].0, 0.0));
    let alone = SamplingParameters { top_p: 0.5, ..SamplingParameters::default() };
    let refused = real.sampler.sample(SampleRequest { sampling: alone, ..request(vec![5, 6], 1, 3) }).await;
    assert!(matches!(refused, Err(BackendError::InvalidRequest { .. })), "{refused:?}");
}

#[tokio::test]
async fn tokens_of_a_long_answer_keep_their_logprobs_where_top_k_is_asked_for() {
    let Some(real) = real() else { return };
    for (stream_interval, top_logprobs) in [(1, 0), (16, 0), (16, 4)] {
        let sampling = SamplingParameters { top_k: Some(4), ..endless() };
        let sent = SampleRequest { sampling, stream_interval, top_logprobs, ..request(vec![5, 6, 7, 8], 100, 3) };
        let (tokens, _) = answer(&real.sampler, sent).await;
        assert_eq!(tokens.len(), 100);
        // One of four has on average more than it had among all.
        let among_all = greatest_difference_without(END, &real.model, &[5, 6, 7, 8], &tokens, 0).await;
        assert!(among_all > 0.1);
        for token in tokens.iter().filter(|_| top_logprobs > 0) {
            let whole: f32 = token.top_logprobs.iter().map(|(_, logprob)| logprob.exp()).sum();
            assert!((whole - 1.0).abs() < TOLERANCE && token.top_logprobs.len() == 4, "{token:?}");
        }
    }
}

#[tokio::test]
async fn a_penalty_counts_what_was_sampled_but_for_the_last_token() {
    let Some(real) = real() else { return };
    // Two tokens and no other, which a penalty makes take turns.
    let logit_bias: std::collections::BTreeMap<u32, f32> = [(70, 200.0), (71, 200.0)].into();
    for (presence_penalty, frequency_penalty) in [(2.0, 0.0), (0.0, 2.0)] {
        let sampling = SamplingParameters {
            logit_bias: logit_bias.clone(),
            presence_penalty,
            frequency_penalty,
            ..SamplingParameters::default()
        };
        let sent = SampleRequest { sampling, top_logprobs: 2, ..request(vec![5, 6], 12, 3) };
        let (penalized, _) = answer(&real.sampler, sent).await;
        let mut counts = std::collections::BTreeMap::<u32, f32>::new();
        let mut prompt = vec![5, 6];
        for token in penalized {
            // The same distribution without the penalty.
            let plain = SamplingParameters { logit_bias: logit_bias.clone(), ..SamplingParameters::default() };
            let sent = SampleRequest { sampling: plain, top_logprobs: 2, ..request(prompt.clone(), 1, 3) };
            let (plain, _) = answer(&real.sampler, sent).await;
            let of = |token: &SampledToken, id| token.top_logprobs.iter().find(|top| top.0 == id).unwrap().1;
            let penalty = |id| {
                let count = counts.get(&id).copied().unwrap_or_default();
                presence_penalty * f32::from(count > 0.0) + frequency_penalty * count
            };
            let reported = of(&token, 70) - of(&token, 71);
            let expected = of(&plain[0], 70) - penalty(70) - of(&plain[0], 71) + penalty(71);
            assert!((reported - expected).abs() < TOLERANCE, "{reported} {expected} {counts:?}");
            // While a token is sampled the server does not know the one before it: it goes on without waiting for it.
            if let Some(known) = prompt.get(2..).and_then(<[u32]>::last) {
                *counts.entry(*known).or_default() += 1.0;
            }
            prompt.push(token.id);
        }
    }
}

#[tokio::test]
async fn an_answer_is_held_to_a_schema() {
    let Some(real) = real() else { return };
    let tokens = hold_to_a_schema(&real.sampler).await;
    assert!(tokens.iter().skip(1).all(|token| token.logprob > -TOLERANCE), "one letter decides: {tokens:?}");
}

#[tokio::test]
async fn an_answer_is_held_to_a_grammar_with_control_tokens() {
    let Some(real) = real() else { return };
    hold_to_a_grammar(&real.sampler).await;
}

#[tokio::test]
async fn what_the_server_refuses_is_the_callers_to_put_right() {
    let Some(real) = real() else { return };
    let sampling = SamplingParameters {
        constraint: Some(Constraint::JsonSchema(json!({ "type": 7 }))),
        ..SamplingParameters::default()
    };
    let mut stream = real.sampler.sample(SampleRequest { sampling, ..request(vec![5, 6], 4, 3) }).await.unwrap();
    let refused = stream.next().await;
    assert!(matches!(refused, Err(BackendError::InvalidRequest { .. })), "{refused:?}");
    let refused = real.sampler_with_key(None).info().await;
    assert!(matches!(refused, Err(BackendError::Configuration { .. })), "{refused:?}");
}

#[tokio::test]
async fn weights_that_are_swapped_in_mid_generation_are_told_token_by_token() {
    let Some(real) = real() else { return };
    let label = async |version: &str| {
        real.post("update_weight_version", json!({ "new_version": version, "abort_all_requests": false })).await;
    };
    label("v7").await;
    let sent = SampleRequest { sampling: endless(), ..request(vec![5, 6], 400, 1) };
    let swap = async || {
        real.post("pause_generation", json!({ "mode": "in_place" })).await;
        label("v8").await;
        real.post("continue_generation", json!({})).await;
    };
    let (tokens, _) = answer_across(&real.sampler, sent, swap).await;
    assert_eq!(tokens.len(), 400);
    eprintln!("the weights were swapped after {} of 400 tokens", place_of_the_swap(&tokens, 7, 8));
    label("default").await;
}

#[tokio::test]
async fn a_model_that_is_replaced_samples_from_the_new_weights_and_frozen_answers_go_on_from_them() {
    let Some(real) = real() else { return };
    let home = tempfile::tempdir().unwrap();
    let (first, second) = (trained(&real.model, home.path(), 2).await, trained(&real.model, home.path(), 4).await);
    let prompt = vec![5, 6, 7, 8];
    let request_of = |max_tokens| SampleRequest { sampling: endless(), ..request(prompt.clone(), max_tokens, 1) };
    let drained = real.sampler(Changeover::Drain);
    drained.load_weights(&replaced_by(&first, 5)).await.unwrap();
    let (tokens, _) = answer(&drained, request_of(60)).await;
    assert!(tokens.iter().all(|token| token.weights_version == Some(WeightsVersion(5))));
    let (new, old) = (
        greatest_difference_without(END, &first, &prompt, &tokens, 0).await,
        greatest_difference_without(END, &real.model, &prompt, &tokens, 0).await,
    );
    eprintln!("greatest difference from the new weights {new:e}, from the old ones {old:e}");
    assert!(new < TOLERANCE && old > 100.0 * TOLERANCE);

    let in_flight = real.sampler(Changeover::InFlight);
    let swap = async || in_flight.load_weights(&replaced_by(&second, 6)).await.unwrap();
    let (tokens, _) = answer_across(&in_flight, request_of(400), swap).await;
    assert_eq!(tokens.len(), 400);
    let swapped = place_of_the_swap(&tokens, 5, 6);
    let before = greatest_difference_without(END, &first, &prompt, &tokens[..swapped], 0).await;
    let difference = greatest_difference_without(END, &second, &prompt, &tokens, swapped).await;
    eprintln!(
        "swapped after {swapped} of {} tokens; greatest difference before it {before:e}, behind it {difference:e}",
        tokens.len()
    );
    assert!(before < TOLERANCE && difference < TOLERANCE, "what was computed by the old weights is gone: {difference}");
    drained.load_weights(&replaced_by(&real.model, 0)).await.unwrap();
}

#[tokio::test]
async fn an_adapter_samples_as_the_model_that_it_is_merged_into() {
    let Some(real) = real() else { return };
    let home = tempfile::tempdir().unwrap();
    let (adapter, merged) = adapter_and_merged(&real.model, home.path());
    let sampler = real.sampler(Changeover::Drain);
    for version in [9, 10] {
        let source = WeightsSource::Adapter(adapter.clone());
        sampler.load_weights(&NewWeights { version: WeightsVersion(version), source }).await.unwrap();
        let prompt = vec![5, 6, 7, 8];
        let sent = SampleRequest { sampling: endless(), ..request(prompt.clone(), 60, 1) };
        let (tokens, _) = answer(&sampler, sent).await;
        assert!(tokens.iter().all(|token| token.weights_version == Some(WeightsVersion(version))));
        let (new, old) = (
            greatest_difference_without(END, &merged, &prompt, &tokens, 0).await,
            greatest_difference_without(END, &real.model, &prompt, &tokens, 0).await,
        );
        eprintln!("greatest difference from the merged weights {new:e}, from those without the adapter {old:e}");
        assert!(new < TOLERANCE && old > 10.0 * TOLERANCE);
    }
}

/// A server that takes logprobs before the temperature, prefers biased answers that a text ends, streams increments
/// and has another grammar.
#[tokio::test]
async fn an_odd_server_is_asked_for_what_it_can_tell() {
    let variable = |name: &str| std::env::var(name).ok();
    let Some(url) = variable("FULGURITE_TEST_ODD_SGLANG") else { return };
    let model = PathBuf::from(variable("FULGURITE_TEST_SGLANG_MODEL").unwrap());
    let key = variable("FULGURITE_TEST_SGLANG_KEY");
    let sampler = SglangSampler::new(&options(&url, key.as_deref(), Changeover::Drain)).unwrap();
    assert!(!sampler.info().await.unwrap().capabilities.lark);
    let mut compared = 0;
    for seed in 0..8 {
        let sent = request(vec![5, 6, 7, 8], 60, seed);
        let (tokens, _) = answer(&sampler, sent.clone()).await;
        let greatest = greatest_difference(&model, &sent.prompt, &tokens, 0).await;
        assert!(greatest < TOLERANCE, "its preferences are taken back: {greatest}");
        compared += tokens.len();
    }
    assert!(compared > 100);
    let cold = SamplingParameters { temperature: 0.5, ..SamplingParameters::default() };
    let refused = sampler.sample(SampleRequest { sampling: cold.clone(), ..request(vec![5, 6], 4, 3) }).await;
    assert!(refused.unwrap_err().to_string().contains("SGLANG_RETURN_ORIGINAL_LOGPROB"));
    // What top-k left is told after the temperature all the same.
    let sampling = SamplingParameters { top_k: Some(2), ..cold };
    let sent = SampleRequest { sampling, top_logprobs: 2, ..request(vec![5, 6], 1, 3) };
    let cold = answer(&sampler, sent).await.0.remove(0);
    let plain = SampleRequest { top_logprobs: 2, ..request(vec![5, 6], 1, 3) };
    let plain = answer(&sampler, plain).await.0.remove(0);
    let gap = |token: &SampledToken| token.top_logprobs[0].1 - token.top_logprobs[1].1;
    assert!((gap(&cold) - 2.0 * gap(&plain)).abs() < TOLERANCE);
}
