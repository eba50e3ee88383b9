//! The engine beside a real vLLM that serves the same weights; `tests/backends/vllm` starts one. Without it there is
//! nothing to compare with, and these tests say so and pass.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]

mod common;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use common::{open, request, supervised};
use fulgurite_backends::{
    BackendError, Constraint, Learner, RemoteOptions, SampleEvent, SampleRequest, SampledToken, Sampler,
    SamplingParameters, StopReason, VllmSampler, WeightsVersion,
};
use serde_json::json;

/// How far apart the same weights' logprobs may be when two programs compute them in f32.
const TOLERANCE: f32 = 1e-3;

struct Real {
    url: String,
    key: String,
    model: PathBuf,
    sampler: VllmSampler,
}

fn real() -> Option<Real> {
    let variable = |name: &str| std::env::var(name).ok();
    let (Some(url), Some(model)) = (variable("FULGURITE_TEST_VLLM"), variable("FULGURITE_TEST_VLLM_MODEL")) else {
        eprintln!("FULGURITE_TEST_VLLM is not set: vLLM is not compared with (tests/backends/vllm starts one)");
        return None;
    };
    let key = variable("FULGURITE_TEST_VLLM_KEY").unwrap();
    let options = RemoteOptions {
        url: url.clone(),
        model: "whatever".into(),
        vocabulary_size: 291,
        api_key: Some(key.clone()),
        silence_limit: Duration::from_secs(120),
        changeover: fulgurite_backends::Changeover::default(),
    };
    Some(Real { sampler: VllmSampler::new(&options).unwrap(), url, key, model: model.into() })
}

/// Tokens of an answer with the weights' versions in force at its end, and why it ended.
async fn answer(sampler: &dyn Sampler, request: SampleRequest) -> (Vec<SampledToken>, StopReason) {
    let mut stream = sampler.sample(request).await.unwrap();
    let mut tokens: Vec<SampledToken> = Vec::new();
    loop {
        match stream.next().await.unwrap() {
            SampleEvent::Token(token) => tokens.push(token),
            SampleEvent::WeightsVersions(versions) => {
                assert_eq!(versions.len(), tokens.len());
                tokens.iter_mut().zip(versions).for_each(|(token, version)| token.weights_version = version);
            }
            SampleEvent::Finished(reason) => return (tokens, reason),
        }
    }
}

#[tokio::test]
async fn vllm_and_the_engine_agree_on_every_sampled_token() {
    let Some(real) = real() else { return };
    assert_eq!(real.sampler.info().await.unwrap().context_length, 512);
    let learner = open(&real.model, 2).learner();
    let mut greatest = 0.0f32;
    for seed in 0..4 {
        let asked = SampleRequest { top_logprobs: 3, ..request(vec![5, 6, 7, 8], 60, seed) };
        let (tokens, reason) = answer(&real.sampler, asked.clone()).await;
        assert_eq!((tokens.len(), reason), (60, StopReason::Length));
        assert!(tokens.iter().all(|token| token.top_logprobs.len() == 3));
        assert_eq!(answer(&real.sampler, asked.clone()).await.0, tokens, "the same seed gives the same tokens");
        let sequence: Vec<u32> = asked.prompt.iter().copied().chain(tokens.iter().map(|token| token.id)).collect();
        let logprobs = learner.forward(Arc::new([supervised(&sequence, 1.0)])).await.unwrap();
        for (token, ours) in tokens.iter().zip(&logprobs[0][asked.prompt.len() - 1..]) {
            greatest = greatest.max((token.logprob - ours).abs());
        }
    }
    eprintln!("greatest difference of a logprob between vLLM and the engine: {greatest:e}");
    assert!(greatest < TOLERANCE, "{greatest}");
}

#[tokio::test]
async fn a_sampled_stop_token_is_the_last_token() {
    let Some(real) = real() else { return };
    let (tokens, _) = answer(&real.sampler, request(vec![5, 6], 20, 1)).await;
    let stop = tokens[7].id;
    let first = tokens.iter().position(|token| token.id == stop).unwrap();
    let asked = SampleRequest { stop_tokens: vec![stop], ..request(vec![5, 6], 20, 1) };
    let (stopped, reason) = answer(&real.sampler, asked).await;
    assert_eq!((stopped.len(), reason), (first + 1, StopReason::StopToken));
    assert_eq!(stopped.last().unwrap().id, stop);
}

#[tokio::test]
async fn logprobs_are_those_of_the_distribution_that_was_sampled_from() {
    let Some(real) = real() else { return };
    let with = |sampling: SamplingParameters| SampleRequest { sampling, top_logprobs: 2, ..request(vec![5, 6], 1, 3) };
    let plain = answer(&real.sampler, with(SamplingParameters::default())).await.0;
    let cold = SamplingParameters { temperature: 0.5, ..SamplingParameters::default() };
    let cold = answer(&real.sampler, with(cold)).await.0;
    let gap = |tokens: &[SampledToken]| tokens[0].top_logprobs[0].1 - tokens[0].top_logprobs[1].1;
    assert!((gap(&cold) - 2.0 * gap(&plain)).abs() < TOLERANCE, "{} {}", gap(&cold), gap(&plain));
    let greedy = SamplingParameters { temperature: 0.0, ..SamplingParameters::default() };
    assert_eq!(answer(&real.sampler, with(greedy)).await.0[0].logprob, 0.0);
    let biased = SamplingParameters { logit_bias: [(77, 100.0)].into(), ..SamplingParameters::default() };
    assert_eq!(answer(&real.sampler, with(biased)).await.0[0].id, 77);
}

#[tokio::test]
async fn an_answer_is_held_to_a_schema() {
    let Some(real) = real() else { return };
    let sampling = SamplingParameters {
        constraint: Some(Constraint::JsonSchema(json!({ "type": "boolean" }))),
        ..SamplingParameters::default()
    };
    let (tokens, reason) = answer(&real.sampler, SampleRequest { sampling, ..request(vec![5, 6], 40, 3) }).await;
    assert_eq!(reason, StopReason::StopToken, "{tokens:?}");
}

#[tokio::test]
async fn what_the_server_refuses_is_the_callers_to_put_right() {
    let Some(real) = real() else { return };
    let sampling = SamplingParameters {
        constraint: Some(Constraint::Lark("nonsense(((".into())),
        ..SamplingParameters::default()
    };
    let mut stream = real.sampler.sample(SampleRequest { sampling, ..request(vec![5, 6], 4, 3) }).await.unwrap();
    let refused = stream.next().await;
    assert!(matches!(refused, Err(BackendError::InvalidRequest { .. })), "{refused:?}");
    let keyless = RemoteOptions {
        url: real.url,
        model: "whatever".into(),
        vocabulary_size: 291,
        api_key: None,
        silence_limit: Duration::from_secs(120),
        changeover: fulgurite_backends::Changeover::default(),
    };
    let refused = VllmSampler::new(&keyless).unwrap().info().await;
    assert!(matches!(refused, Err(BackendError::Configuration { .. })), "{refused:?}");
}

#[tokio::test]
async fn weights_that_are_swapped_in_mid_generation_are_told_token_by_token() {
    let Some(real) = real() else { return };
    let client = reqwest::Client::new();
    let post = async |path: &str, body: serde_json::Value| {
        let url = format!("{}/{path}", real.url);
        client.post(url).bearer_auth(&real.key).json(&body).send().await.unwrap().error_for_status().unwrap();
    };
    post("update_weight_version", json!({ "new_version": "v7" })).await;
    let mut stream = real.sampler.sample(request(vec![5, 6], 400, 1)).await.unwrap();
    let mut tokens = 0;
    let versions = loop {
        match stream.next().await.unwrap() {
            SampleEvent::Token(_) => tokens += 1,
            SampleEvent::WeightsVersions(versions) => break versions,
            SampleEvent::Finished(_) => panic!("the versions were not told"),
        }
        if tokens == 10 {
            post("pause?mode=keep", json!({})).await;
            post("update_weight_version", json!({ "new_version": "v8" })).await;
            post("resume", json!({})).await;
        }
    };
    assert_eq!((versions.len(), tokens), (400, 400));
    let swapped = versions.iter().position(|version| *version == Some(WeightsVersion(8))).unwrap();
    eprintln!("the weights were swapped after {swapped} of 400 tokens");
    assert!(swapped >= 10);
    assert!(versions[..swapped].iter().all(|version| *version == Some(WeightsVersion(7))));
    assert!(versions[swapped..].iter().all(|version| *version == Some(WeightsVersion(8))));
    post("update_weight_version", json!({ "new_version": "default" })).await;
}
