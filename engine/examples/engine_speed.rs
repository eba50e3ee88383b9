//! Prints how many tokens a second the engine trains and samples on this machine.
//!
//! `cargo run --release -p fulgurite-engine --example engine_speed [THREADS]`
#![allow(clippy::print_stdout)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulgurite_backends::{
    AdamParameters, BackendError, Chunk, Datum, Learner, LossFunction, LossInputs, SampleEvent, SampleRequest, Sampler,
    SamplingParameters,
};
use fulgurite_engine::{Engine, EngineOptions, ModelConfig, create_model};

const BATCH: usize = 64;
const LENGTH: usize = 40;
const PROMPT: usize = 19;
const ANSWER: usize = 45;
const MEASURED: Duration = Duration::from_secs(3);

fn config(vocab_size: usize, hidden_size: usize, intermediate_size: usize, num_hidden_layers: usize) -> ModelConfig {
    ModelConfig {
        architecture: Default::default(),
        vocab_size,
        hidden_size,
        intermediate_size,
        num_hidden_layers,
        num_attention_heads: hidden_size / 16,
        num_key_value_heads: hidden_size / 32,
        head_dim: 16,
        max_position_embeddings: 256,
        rms_norm_eps: 1e-6,
        rope_theta: 10_000.0,
        rope_scaling: Default::default(),
        tie_word_embeddings: true,
        other: Default::default(),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let threads = match std::env::args().nth(1) {
        Some(threads) => threads.parse()?,
        None => EngineOptions::default().threads,
    };
    for config in [config(304, 64, 256, 2), config(1024, 128, 384, 4)] {
        let home = std::env::temp_dir().join(format!("engine-speed-{}", std::process::id()));
        create_model(&home, &config, 1)?;
        let result = measure(&home, &config, threads).await;
        std::fs::remove_dir_all(&home)?;
        result?;
    }
    Ok(())
}

async fn measure(home: &PathBuf, config: &ModelConfig, threads: usize) -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::open(home, EngineOptions { threads, ..EngineOptions::default() })?;
    println!("{} parameters, {threads} threads", config.parameter_count());
    println!("  training, {BATCH} x {LENGTH}: {:.0} tokens/s", training(&engine).await?);
    for batch in [1, 16, 64] {
        let speed = sampling(&engine, batch).await?;
        println!("  sampling, {batch} at once, prompt {PROMPT}, {ANSWER} new: {speed:.0} tokens/s");
    }
    Ok(())
}

/// Forward, backward and optimizer step.
async fn training(engine: &Engine) -> Result<f64, BackendError> {
    let (learner, vocabulary) = (engine.learner(), engine.config().vocab_size);
    let row = |row: usize| {
        let token = |at: usize| ((row * 7919 + at * at * 104_729) % vocabulary) as u32;
        Datum {
            model_input: vec![Chunk::Tokens((0..LENGTH).map(token).collect())],
            target_tokens: (1..=LENGTH).map(token).collect(),
            loss_inputs: LossInputs::Supervised { weights: vec![1.0; LENGTH] },
        }
    };
    let data: Arc<[Datum]> = (0..BATCH).map(row).collect();
    let begin = Instant::now();
    let mut tokens = 0;
    while begin.elapsed() < MEASURED {
        learner.forward_backward(data.clone(), LossFunction::CrossEntropy).await?;
        learner.optimizer_step(AdamParameters::default()).await?;
        tokens += BATCH * LENGTH;
    }
    Ok(tokens as f64 / begin.elapsed().as_secs_f64())
}

/// Sampled tokens alone are counted; the time holds the prompts too.
async fn sampling(engine: &Engine, batch: usize) -> Result<f64, BackendError> {
    let begin = Instant::now();
    let mut tokens = 0;
    while begin.elapsed() < MEASURED {
        let mut streams = Vec::new();
        for seed in 0..batch as u64 {
            let request = SampleRequest {
                prompt: (0..PROMPT).map(|at| (at as u32 * 31 + seed as u32) % 300).collect(),
                max_tokens: ANSWER,
                sampling: SamplingParameters::default(),
                stop_tokens: vec![],
                stop_sequences: vec![],
                seed,
                top_logprobs: 0,
                affinity: None,
            };
            streams.push(engine.sampler().sample(request).await?);
        }
        for stream in &mut streams {
            while let SampleEvent::Token(_) = stream.next().await? {
                tokens += 1;
            }
        }
    }
    Ok(tokens as f64 / begin.elapsed().as_secs_f64())
}
