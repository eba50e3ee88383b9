//! Models and requests for the tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulgurite_backends::{
    AdamParameters, Learner, LossFunction, SampleEvent, SampleRequest, SampledToken, Sampler, SamplingEnd,
};
use fulgurite_engine::{EmbeddedLearner, Engine, EngineOptions, ModelConfig, create_model};
use fulgurite_types::{Chunk, Datum, LossInputs};
use tempfile::TempDir;

/// Two layers; hardly a dimension is a multiple of the vectors' width.
pub fn tiny_config() -> ModelConfig {
    ModelConfig {
        architecture: Default::default(),
        vocab_size: 41,
        hidden_size: 24,
        intermediate_size: 37,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: 18,
        max_position_embeddings: 96,
        rms_norm_eps: 1e-6,
        rope_theta: 10_000.0,
        rope_scaling: Default::default(),
        tie_word_embeddings: true,
        head: Default::default(),
        other: Default::default(),
    }
}

/// A fresh model in a directory of its own.
pub fn create(config: &ModelConfig, seed: u64) -> (TempDir, PathBuf) {
    let home = TempDir::new().unwrap();
    let directory = home.path().join("model");
    create_model(&directory, config, seed).unwrap();
    (home, directory)
}

pub fn options(threads: usize) -> EngineOptions {
    EngineOptions { threads, queue_limit: 64, max_batch: 16, ..EngineOptions::default() }
}

pub fn open(directory: &PathBuf, threads: usize) -> Engine {
    Engine::open(directory, options(threads)).unwrap()
}

pub fn request(prompt: Vec<u32>, max_tokens: usize, seed: u64) -> SampleRequest {
    SampleRequest::new(prompt, max_tokens, seed)
}

/// Every token of an answer, and why it ended.
pub async fn answer(sampler: &Arc<impl Sampler + ?Sized>, request: SampleRequest) -> (Vec<SampledToken>, SamplingEnd) {
    let mut stream = sampler.sample(request).await.unwrap();
    let mut tokens = Vec::new();
    loop {
        match stream.next().await.unwrap() {
            SampleEvent::Token(token) => tokens.push(token),
            SampleEvent::CachedPrompt(_) => {}
            SampleEvent::Finished(reason) => return (tokens, reason),
            SampleEvent::WeightsVersions(_) => panic!("each token has said its weights"),
        }
    }
}

/// A row that trains every token of `sequence` after the first with `weight`.
pub fn supervised(sequence: &[u32], weight: f32) -> Datum {
    let positions = sequence.len() - 1;
    Datum {
        model_input: vec![Chunk::Tokens(sequence[..positions].to_vec())],
        target_tokens: sequence[1..].to_vec(),
        loss_inputs: LossInputs::Supervised { weights: vec![weight; positions] },
    }
}

/// A row that trains the sampled `answer` to `prompt` with one advantage.
pub fn policy(prompt: &[u32], answer: &[SampledToken], advantage: f32) -> Datum {
    let sequence: Vec<u32> = prompt.iter().copied().chain(answer.iter().map(|token| token.id)).collect();
    let observed = prompt.len() - 1;
    let zeros = || std::iter::repeat_n(0.0, observed);
    Datum {
        model_input: vec![Chunk::Tokens(sequence[..sequence.len() - 1].to_vec())],
        target_tokens: sequence[1..].to_vec(),
        loss_inputs: LossInputs::Policy {
            logprobs: zeros().chain(answer.iter().map(|token| token.logprob)).collect(),
            advantages: zeros().chain(answer.iter().map(|_| advantage)).collect(),
            mask: zeros().chain(answer.iter().map(|_| 1.0)).collect(),
        },
    }
}

/// A pseudo-random sequence of token ids.
pub fn sequence(seed: u64, length: usize, vocabulary: u32) -> Vec<u32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as u32 % vocabulary
    };
    (0..length).map(|_| next()).collect()
}

/// Some sequences of several lengths, others for each seed.
pub fn rows(seed: u64) -> Arc<[Datum]> {
    (0..7).map(|row| supervised(&sequence(seed + row, 5 + 6 * row as usize, 41), 1.0)).collect()
}

/// A step on the rows of each of these seeds.
pub async fn train(learner: &EmbeddedLearner, steps: std::ops::Range<u64>, parameters: AdamParameters) {
    for step in steps {
        learner.forward_backward(rows(step), LossFunction::CrossEntropy).await.unwrap();
        learner.optimizer_step(parameters).await.unwrap();
    }
}

/// The files of a directory by name, byte for byte.
pub fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}
