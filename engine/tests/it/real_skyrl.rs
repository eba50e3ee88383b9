//! The engine beside a real SkyRL server that samples and trains the same weights; `tests/backends/skyrl` starts one.
//! Without it there is nothing to compare with, and these tests say so and pass.

use std::path::PathBuf;
use std::sync::Arc;

use fulgurite_types::{SamplingParameters, WeightsVersion};

use crate::common::{open, policy, request, supervised};
use crate::real_hosts::{TOLERANCE, answer, greatest_difference};
use fulgurite_backends::{
    AdamParameters, BackendError, Learner, LossFunction, SampleRequest, SampledToken, Sampler, SamplingEnd,
};
use fulgurite_tinker::wire::LoraConfig;
use fulgurite_tinker::{
    Patience, TinkerLearner, TinkerLearnerOptions, TinkerOptions, TinkerSampler, TinkerSamplerOptions, TinkerService,
};

const LORA: LoraConfig = LoraConfig { rank: 8, seed: Some(1), train_unembed: true, train_mlp: true, train_attn: true };

struct Real {
    model: PathBuf,
    sampler: Arc<TinkerSampler>,
    learner: TinkerLearner,
}

fn real() -> Option<Real> {
    let variable = |name: &str| std::env::var(name).ok();
    let (Some(url), Some(model)) = (variable("FULGURITE_TEST_SKYRL"), variable("FULGURITE_TEST_SKYRL_MODEL")) else {
        eprintln!("FULGURITE_TEST_SKYRL is not set: SkyRL is not compared with (tests/backends/skyrl starts one)");
        return None;
    };
    let options = TinkerOptions { url, api_key: None, patience: Patience::default() };
    let service = Arc::new(TinkerService::new(&options).unwrap());
    let options = TinkerSamplerOptions { base_model: model.clone(), vocabulary_size: 291, context_length: Some(512) };
    let sampler = Arc::new(TinkerSampler::new(service.clone(), options));
    let options = TinkerLearnerOptions { base_model: model.clone(), lora_config: LORA };
    let learner = TinkerLearner::new(service, options, sampler.clone());
    Some(Real { model: model.into(), sampler, learner })
}

/// The greatest difference of these tokens' logprobs from what the learner computes.
async fn difference(learner: &impl Learner, prompt: &[u32], tokens: &[SampledToken]) -> f32 {
    let sequence: Vec<u32> = prompt.iter().copied().chain(tokens.iter().map(|token| token.id)).collect();
    let logprobs = learner.forward(Arc::new([supervised(&sequence, 1.0)])).await.unwrap();
    let ours = &logprobs[0][prompt.len() - 1..];
    tokens.iter().zip(ours).map(|(token, ours)| (token.logprob - ours).abs()).fold(0.0, f32::max)
}

#[tokio::test]
async fn skyrl_and_the_engine_agree_on_every_sampled_token() {
    let Some(real) = real() else { return };
    let prompt = vec![5, 6, 7, 8];
    let mut greatest = 0.0f32;
    for seed in 0..4 {
        let sent = request(prompt.clone(), 60, seed);
        let (tokens, reason) = answer(&*real.sampler, sent.clone()).await;
        assert_eq!((tokens.len(), reason), (60, SamplingEnd::Length));
        assert_eq!(answer(&*real.sampler, sent).await.0, tokens, "the same seed gives the same tokens");
        greatest = greatest.max(greatest_difference(&real.model, &prompt, &tokens, 0).await);
    }
    eprintln!("greatest difference of a logprob between SkyRL and the engine: {greatest:e}");
    assert!(greatest < TOLERANCE, "{greatest}");
}

#[tokio::test]
async fn a_sampled_stop_token_is_the_last_token() {
    let Some(real) = real() else { return };
    let (tokens, _) = answer(&*real.sampler, request(vec![5, 6], 20, 1)).await;
    let stop = tokens[7].id;
    let first = tokens.iter().position(|token| token.id == stop).unwrap();
    let sent = SampleRequest { stop_tokens: vec![stop], ..request(vec![5, 6], 20, 1) };
    let (stopped, reason) = answer(&*real.sampler, sent).await;
    assert_eq!((stopped.len(), reason), (first + 1, SamplingEnd::StopToken));
    assert_eq!(stopped.last().unwrap().id, stop);
}

#[tokio::test]
async fn a_distribution_other_than_the_models_own_is_refused_since_its_logprobs_are_not_told() {
    let Some(real) = real() else { return };
    let with = |sampling| real.sampler.sample(SampleRequest { sampling, ..request(vec![5, 6], 20, 1) });
    for sampling in [
        SamplingParameters { temperature: 0.5, ..SamplingParameters::default() },
        SamplingParameters { top_k: Some(3), ..SamplingParameters::default() },
        SamplingParameters { top_p: 0.5, ..SamplingParameters::default() },
    ] {
        let refused = with(sampling).await;
        assert!(matches!(refused, Err(BackendError::InvalidRequest { .. })), "{refused:?}");
    }
    let greedy = SamplingParameters { temperature: 0.0, ..SamplingParameters::default() };
    with(greedy).await.unwrap();
}

#[tokio::test]
async fn what_the_service_trains_is_sampled_from_kept_and_loaded() {
    let Some(real) = real() else { return };
    let prompt = vec![5, 6, 7, 8];
    let row: Vec<u32> = (0..40).map(|at| (at * 7) % 290).collect();
    let data = || -> Arc<[_]> { Arc::new([supervised(&row, 1.0)]) };
    let ours = open(&real.model, 2).learner();
    let (theirs, mine) = (real.learner.forward(data()).await.unwrap(), ours.forward(data()).await.unwrap());
    let greatest = theirs[0].iter().zip(&mine[0]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    eprintln!("greatest difference of a logprob before the first step: {greatest:e}");
    assert!(greatest < TOLERANCE);

    let mut losses = Vec::new();
    for _ in 0..4 {
        losses.push(real.learner.forward_backward(data(), LossFunction::CrossEntropy).await.unwrap().loss_sum);
        let parameters = AdamParameters { learning_rate: 0.02, ..AdamParameters::default() };
        let step = real.learner.optimizer_step(parameters).await.unwrap();
        assert!(step.gradient_norm > 0.0, "{step:?}");
    }
    eprintln!("losses {losses:?}");
    assert!(losses.is_sorted_by(|a, b| a > b));
    let expected: f64 = -mine[0].iter().copied().map(f64::from).sum::<f64>();
    assert!((losses[0] - expected).abs() < 1e-2, "{} {expected}", losses[0]);

    real.learner.publish_weights(WeightsVersion(4)).await.unwrap();
    let (tokens, _) = answer(&*real.sampler, request(prompt.clone(), 60, 1)).await;
    assert!(tokens.iter().all(|token| token.weights_version == Some(WeightsVersion(4))));
    let difference_new = difference(&real.learner, &prompt, &tokens).await;
    let difference_old = greatest_difference(&real.model, &prompt, &tokens, 0).await;
    eprintln!(
        "greatest difference from the trained weights {difference_new:e}, from the first ones {difference_old:e}"
    );
    assert!(difference_new < TOLERANCE && difference_old > 10.0 * TOLERANCE);

    // One step of the loss that rollouts are trained by, on what was just sampled.
    let data: Arc<[_]> = Arc::new([policy(&prompt, &tokens, 1.0)]);
    let pass = real.learner.forward_backward(data.clone(), LossFunction::ImportanceSampling).await.unwrap();
    eprintln!("loss of what was just sampled {}", pass.loss_sum);
    assert!((pass.loss_sum + 60.0).abs() < 0.1, "the ratio is 1 for each of 60 tokens: {}", pass.loss_sum);
    let home = tempfile::tempdir().unwrap();
    let checkpoint = home.path().join("checkpoint");
    real.learner.optimizer_step(AdamParameters::default()).await.unwrap();
    real.learner.save_checkpoint(&checkpoint).await.unwrap();
    let before = real.learner.forward(data.clone()).await.unwrap();
    for _ in 0..2 {
        real.learner.forward_backward(data.clone(), LossFunction::ImportanceSampling).await.unwrap();
        real.learner.optimizer_step(AdamParameters { learning_rate: 0.02, ..AdamParameters::default() }).await.unwrap();
    }
    assert_ne!(real.learner.forward(data.clone()).await.unwrap(), before);
    real.learner.load_checkpoint(&checkpoint).await.unwrap();
    let loaded = real.learner.forward(data).await.unwrap();
    let apart = loaded[0].iter().zip(&before[0]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(apart < 1e-5, "{apart}");
}
