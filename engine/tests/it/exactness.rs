//! Law: the sampler's logprob of a token is the learner's, bit for bit, whatever runs beside it.

use std::sync::Arc;

use fulgurite_types::WeightsVersion;

use crate::common::{answer, create, files, open, options, policy, request, sequence, supervised, tiny_config, train};
use fulgurite_backends::{AdamParameters, Learner, LossFunction, SampledToken, Sampler};
use fulgurite_engine::{
    Architecture, ElementType, EmbeddedSampler, Engine, EngineOptions, LoraOptions, ModelConfig, convert_model,
};
use proptest::prelude::*;

fn bits(logprobs: &[f32]) -> Vec<u32> {
    logprobs.iter().map(|logprob| logprob.to_bits()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_samplers_logprobs_are_the_learners_to_the_bit(
        seed in 0..1000_u64,
        lengths in proptest::collection::vec((1..50_usize, 1..40_usize), 1..20),
        sampler_threads in 1..4_usize,
        architecture in proptest::sample::select(&Architecture::ALL),
        lora_rank in proptest::option::of(1..5_usize),
        temperature in proptest::sample::select(&[1.0_f32, 0.7, 1.3]),
    ) {
        let (_home, directory) = create(&ModelConfig { architecture, ..tiny_config() }, seed);
        let engine = open(&directory, sampler_threads);
        let sampler = engine.sampler();
        let learner = match lora_rank {
            Some(rank) => engine.lora_learner(&LoraOptions::new(rank, seed)).unwrap(),
            None => engine.learner(),
        };
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            // Far from the even distribution of fresh weights.
            let data: Arc<[_]> = (0..4).map(|row| supervised(&sequence(seed + row, 30, 41), 1.0)).collect();
            for _ in 0..6 {
                learner.forward_backward(data.clone(), LossFunction::CrossEntropy).await.unwrap();
                let quick = AdamParameters { learning_rate: 0.02, ..AdamParameters::default() };
                learner.optimizer_step(quick).await.unwrap();
            }
            learner.publish_weights(WeightsVersion(1)).await.unwrap();
            learner.set_sampling_temperature(temperature).await.unwrap();

            let prompts: Vec<Vec<u32>> =
                lengths.iter().enumerate().map(|(at, &(prompt, _))| sequence(at as u64 + 7 * seed, prompt, 41)).collect();
            let running: Vec<_> = lengths.iter().zip(&prompts).enumerate().map(|(at, (&(_, limit), prompt))| {
                let (sampler, prompt) = (sampler.clone(), prompt.clone());
                let mut request = request(prompt, limit, at as u64);
                request.sampling.temperature = temperature;
                tokio::spawn(async move { answer(&sampler, request).await.0 })
            }).collect();
            let mut answers = Vec::new();
            for running in running {
                answers.push(running.await.unwrap());
            }

            let data: Arc<[_]> = prompts.iter().zip(&answers).map(|(prompt, answer)| policy(prompt, answer, 1.0)).collect();
            let forward = learner.forward(data.clone()).await.unwrap();
            let trained = learner.forward_backward(data, LossFunction::ImportanceSampling).await.unwrap();
            for (row, (prompt, answer)) in prompts.iter().zip(&answers).enumerate() {
                let sampled: Vec<f32> = answer.iter().map(|token| token.logprob).collect();
                assert_eq!(bits(&sampled), bits(&forward[row][prompt.len() - 1..]));
                assert_eq!(bits(&sampled), bits(&trained.logprobs[row][prompt.len() - 1..]));
            }
            // Every ratio is exactly 1: the loss is minus the number of tokens.
            let tokens: usize = answers.iter().map(Vec::len).sum();
            assert_eq!(trained.loss_sum, -(tokens as f64));
        });
    }
}

/// Prompts that begin as others do: each goes on from so many tokens of an earlier one and its answer.
fn prompts_with_shared_beginnings(seed: u64, shape: &[(usize, usize, usize)]) -> Vec<Vec<u32>> {
    let mut prompts: Vec<Vec<u32>> = Vec::new();
    for (at, &(earlier, shared, own)) in shape.iter().enumerate() {
        let mut prompt = prompts.get(earlier % shape.len()).cloned().unwrap_or_default();
        prompt.truncate(shared);
        prompt.extend(sequence(seed + at as u64, own, 41));
        prompts.push(prompt);
    }
    prompts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_cached_prefix_changes_no_bit(
        seed in 0..1000_u64,
        shape in proptest::collection::vec((0..12_usize, 0..300_usize, 1..70_usize), 1..12),
        limit in 1..40_usize,
        at_once in 1..12_usize,
        threads in 1..4_usize,
        // Blocks that there is room for, from none to enough.
        blocks in proptest::sample::select(vec![0_usize, 1, 5, 20, 1000]),
        architecture in proptest::sample::select(&Architecture::ALL),
    ) {
        let config = ModelConfig { architecture, max_position_embeddings: 1000, ..tiny_config() };
        let (_home, directory) = create(&config, seed);
        let block_bytes = 2 * config.num_hidden_layers * 16 * config.num_key_value_heads * config.head_dim * 4;
        let with_cache = |prefix_cache_bytes| EngineOptions { prefix_cache_bytes, ..options(threads) };
        let cold = Engine::open(&directory, with_cache(0)).unwrap();
        let warm = Engine::open(&directory, with_cache(blocks * block_bytes)).unwrap();
        let prompts = prompts_with_shared_beginnings(seed, &shape);
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let learner = cold.learner();
            for (batch, prompts) in prompts.chunks(at_once).enumerate() {
                let running: Vec<_> = prompts.iter().enumerate().map(|(at, prompt)| {
                    let (sampler, prompt) = (warm.sampler(), prompt.clone());
                    tokio::spawn(async move { conversation(&sampler, prompt, limit, (batch + at) as u64).await })
                }).collect();
                for (at, (running, prompt)) in running.into_iter().zip(prompts).enumerate() {
                    let with_cache = running.await.unwrap();
                    let without = conversation(&cold.sampler(), prompt.clone(), limit, (batch + at) as u64).await;
                    assert_eq!(with_cache, without);
                    for (prompt, answer) in with_cache {
                        let forward = learner.forward([policy(&prompt, &answer, 1.0)].into()).await.unwrap();
                        let sampled: Vec<f32> = answer.iter().map(|token| token.logprob).collect();
                        assert_eq!(bits(&sampled), bits(&forward[0][prompt.len() - 1..]));
                    }
                }
            }
        });
    }
}

/// Three turns, of which each goes on where the one before ended: prompts and answers.
async fn conversation(
    sampler: &Arc<EmbeddedSampler>,
    mut prompt: Vec<u32>,
    limit: usize,
    seed: u64,
) -> Vec<(Vec<u32>, Vec<SampledToken>)> {
    let mut turns = Vec::new();
    for turn in 0..3 {
        let (tokens, _) = answer(sampler, request(prompt.clone(), limit, seed)).await;
        let next: Vec<u32> = prompt.iter().copied().chain(tokens.iter().map(|token| token.id)).collect();
        turns.push((prompt, tokens));
        prompt = next;
        prompt.extend(sequence(turn, 5, 41));
    }
    turns
}

#[tokio::test]
async fn an_answer_does_not_depend_on_what_runs_beside_it() {
    let (_home, directory) = create(&tiny_config(), 3);
    let engine = open(&directory, 2);
    let sampler = engine.sampler();
    let alone = answer(&sampler, request(sequence(5, 9, 41), 30, 11)).await;
    let others: Vec<_> = (0..12)
        .map(|at| {
            let sampler = sampler.clone();
            tokio::spawn(async move { answer(&sampler, request(sequence(at, 3 + at as usize, 41), 25, at)).await })
        })
        .collect();
    let again = answer(&sampler, request(sequence(5, 9, 41), 30, 11)).await;
    for other in others {
        other.await.unwrap();
    }
    assert_eq!(alone, again);
    assert_ne!(alone, answer(&sampler, request(sequence(5, 9, 41), 30, 12)).await);
    assert_eq!(sampler.weights_version(), Some(WeightsVersion(0)));
}

/// Weights that are bfloat16 in their file are held so; everything comes out as from the same numbers in 32 bits.
#[tokio::test]
async fn weights_held_in_two_bytes_give_the_same_bits() {
    let (home, directory) = create(&ModelConfig { tie_word_embeddings: false, ..tiny_config() }, 5);
    let [halves, wide] = ["halves", "wide"].map(|name| home.path().join(name));
    convert_model(&directory, &halves, ElementType::Bf16).unwrap();
    convert_model(&halves, &wide, ElementType::F32).unwrap();
    let mut found = Vec::new();
    for directory in [halves, wide] {
        let engine = open(&directory, 2);
        let prompt = sequence(5, 9, 41);
        let (answered, _) = answer(&engine.sampler(), request(prompt.clone(), 30, 11)).await;
        let mut saved = Vec::new();
        for (name, learner) in
            [("adapter", engine.lora_learner(&LoraOptions::new(3, 1)).unwrap()), ("all", engine.learner())]
        {
            let forward = learner.forward([policy(&prompt, &answered, 1.0)].into()).await.unwrap();
            let sampled: Vec<f32> = answered.iter().map(|token| token.logprob).collect();
            assert_eq!(bits(&sampled), bits(&forward[0][prompt.len() - 1..]));
            train(&learner, 0..3, AdamParameters::default()).await;
            let path = directory.join(name);
            learner.save_checkpoint(&path).await.unwrap();
            saved.extend(files(&path).into_iter().filter(|(name, _)| name.ends_with(".safetensors")));
        }
        found.push((answered, saved));
    }
    assert!(found[0] == found[1]);
}
