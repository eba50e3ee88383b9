//! Prints how many tokens a second the engine trains and samples on this machine.
//!
//! `cargo run --release -p fulgurite-bench --example engine_speed [THREADS]`
#![allow(clippy::print_stdout)]

mod common;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::{model, request, rows};
use fulgurite_backends::{AdamParameters, BackendError, Learner, LossFunction, SampleEvent, Sampler};
use fulgurite_engine::{Engine, EngineOptions, ModelConfig, create_model};

const BATCH: usize = 64;
const LENGTH: usize = 40;
const PROMPT: usize = 19;
const ANSWER: usize = 45;
const MEASURED: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let threads = match std::env::args().nth(1) {
        Some(threads) => threads.parse()?,
        None => EngineOptions::default().threads,
    };
    for config in [model(304, 64, 256, 2, 16), model(1024, 128, 384, 4, 16)] {
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
    let data = rows(BATCH, LENGTH, vocabulary);
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
            let prompt = (0..PROMPT).map(|at| (at as u32 * 31 + seed as u32) % 300).collect();
            streams.push(engine.sampler().sample(request(prompt, ANSWER, seed)).await?);
        }
        for stream in &mut streams {
            while let SampleEvent::Token(_) = stream.next().await? {
                tokens += 1;
            }
        }
    }
    Ok(tokens as f64 / begin.elapsed().as_secs_f64())
}
