//! The engine beside a real vLLM that serves the same weights; `tests/backends/vllm` starts one. Without it there is
//! nothing to compare with, and these tests say so and pass.

use fulgurite_types::{Constraint, SamplingParameters, WeightsVersion};

use crate::common::request;
use crate::real_hosts::{
    RealHost, TOLERANCE, adapter_and_merged, answer, answer_across, greatest_difference, hold_to_a_grammar,
    hold_to_a_schema, place_of_the_swap, replaced_by, trained,
};
use fulgurite_backends::{
    BackendError, Changeover, NewWeights, SampleRequest, SampledToken, Sampler, SamplingEnd, VllmSampler, WeightsSource,
};
use serde_json::json;

fn real() -> Option<RealHost<VllmSampler>> {
    RealHost::find("vllm", VllmSampler::new)
}

#[tokio::test]
async fn vllm_and_the_engine_agree_on_every_sampled_token() {
    let Some(real) = real() else { return };
    assert_eq!(real.sampler.info().await.unwrap().context_length, 512);
    let mut greatest = 0.0f32;
    for seed in 0..4 {
        let sent = SampleRequest { top_logprobs: 3, ..request(vec![5, 6, 7, 8], 60, seed) };
        let (tokens, reason) = answer(&real.sampler, sent.clone()).await;
        assert_eq!((tokens.len(), reason), (60, SamplingEnd::Length));
        assert!(tokens.iter().all(|token| token.top_logprobs.len() == 3));
        // Whether they are told one by one or some together.
        let together = SampleRequest { stream_interval: 16, ..sent.clone() };
        assert_eq!(answer(&real.sampler, together).await.0, tokens, "the same seed gives the same tokens");
        greatest = greatest.max(greatest_difference(&real.model, &sent.prompt, &tokens, 0).await);
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
    let sent = SampleRequest { stop_tokens: vec![stop], ..request(vec![5, 6], 20, 1) };
    let (stopped, reason) = answer(&real.sampler, sent).await;
    assert_eq!((stopped.len(), reason), (first + 1, SamplingEnd::StopToken));
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
    hold_to_a_schema(&real.sampler).await;
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
        constraint: Some(Constraint::Lark("nonsense(((".into())),
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
    real.post("update_weight_version", json!({ "new_version": "v7" })).await;
    let swap = async || {
        real.post("pause?mode=keep", json!({})).await;
        real.post("update_weight_version", json!({ "new_version": "v8" })).await;
        real.post("resume", json!({})).await;
    };
    let (tokens, _) = answer_across(&real.sampler, request(vec![5, 6], 400, 1), swap).await;
    assert_eq!(tokens.len(), 400);
    eprintln!("the weights were swapped after {} of 400 tokens", place_of_the_swap(&tokens, 7, 8));
    real.post("update_weight_version", json!({ "new_version": "default" })).await;
}

#[tokio::test]
async fn a_model_that_is_replaced_samples_from_the_new_weights_and_frozen_answers_go_on_from_them() {
    let Some(real) = real() else { return };
    let home = tempfile::tempdir().unwrap();
    let (first, second) = (trained(&real.model, home.path(), 2).await, trained(&real.model, home.path(), 4).await);
    let prompt = vec![5, 6, 7, 8];
    let drained = real.sampler(Changeover::Drain);
    drained.load_weights(&replaced_by(&first, 5)).await.unwrap();
    let (tokens, _) = answer(&drained, request(prompt.clone(), 60, 1)).await;
    assert!(tokens.iter().all(|token| token.weights_version == Some(WeightsVersion(5))));
    let (new, old) = (
        greatest_difference(&first, &prompt, &tokens, 0).await,
        greatest_difference(&real.model, &prompt, &tokens, 0).await,
    );
    eprintln!("greatest difference from the new weights {new:e}, from the old ones {old:e}");
    assert!(new < TOLERANCE && old > 100.0 * TOLERANCE);

    let in_flight = real.sampler(Changeover::InFlight);
    let swap = async || in_flight.load_weights(&replaced_by(&second, 6)).await.unwrap();
    let (tokens, _) = answer_across(&in_flight, request(prompt.clone(), 400, 1), swap).await;
    let swapped = place_of_the_swap(&tokens, 5, 6);
    let difference = greatest_difference(&second, &prompt, &tokens, swapped).await;
    eprintln!("swapped after {swapped} of {} tokens; greatest difference behind it {difference:e}", tokens.len());
    assert!(difference < TOLERANCE, "what was computed of the prompt by the old weights is gone: {difference}");
    drained.load_weights(&replaced_by(&real.model, 0)).await.unwrap();
}

#[tokio::test]
async fn an_adapter_samples_as_the_model_that_it_is_merged_into() {
    let Some(real) = real() else { return };
    let home = tempfile::tempdir().unwrap();
    let (adapter, merged) = adapter_and_merged(&real.model, home.path());
    let sampler = real.sampler(Changeover::Drain);
    let source = WeightsSource::Adapter(adapter);
    sampler.load_weights(&NewWeights { version: WeightsVersion(9), source }).await.unwrap();
    let prompt = vec![5, 6, 7, 8];
    let (tokens, _) = answer(&sampler, request(prompt.clone(), 60, 1)).await;
    assert!(tokens.iter().all(|token| token.weights_version == Some(WeightsVersion(9))));
    let (new, old) = (
        greatest_difference(&merged, &prompt, &tokens, 0).await,
        greatest_difference(&real.model, &prompt, &tokens, 0).await,
    );
    eprintln!("greatest difference from the merged weights {new:e}, from those without the adapter {old:e}");
    assert!(new < TOLERANCE && old > 10.0 * TOLERANCE);
}
