//! Prints how fast the engine trains on this machine, and what memory that takes, for models of several sizes: all weights
//! with rank 0, or an adapter of another rank beside every matrix.
//!
//! `cargo run --release -p fulgurite-bench --example adapter_speed -- RANK [THREADS]`
#![allow(clippy::print_stdout)]

mod common;

use std::time::{Duration, Instant};

use common::{model, peak_memory, processor_seconds, rows};
use fulgurite_backends::{AdamParameters, Learner, LossFunction};
use fulgurite_engine::{Engine, EngineOptions, LoraOptions, ModelConfig, create_model};

const ROWS: usize = 16;
const LENGTH: usize = 64;
const MEASURED: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = |place, default: usize| std::env::args().nth(place).map_or(Ok(default), |text| text.parse());
    let (rank, threads) = (argument(1, 0)?, argument(2, EngineOptions::default().threads)?);
    // From small to large, so that the greatest memory so far is that of the last.
    for (vocabulary, hidden, layers) in [(512, 64, 2), (1024, 128, 4), (4096, 256, 6), (8192, 512, 8)] {
        let config = model(vocabulary, hidden, 3 * hidden, layers, 32);
        let home = std::env::temp_dir().join(format!("adapter-speed-{}", std::process::id()));
        create_model(&home, &config, 1)?;
        let measured = measure(&home, &config, rank, threads).await;
        std::fs::remove_dir_all(&home)?;
        measured?;
    }
    Ok(())
}

async fn measure(
    home: &std::path::Path,
    config: &ModelConfig,
    rank: usize,
    threads: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::open(home, EngineOptions { threads, ..EngineOptions::default() })?;
    let learner = match rank {
        0 => engine.learner(),
        rank => engine.lora_learner(&LoraOptions::new(rank, 1))?,
    };
    let data = rows(ROWS, LENGTH, config.vocab_size);
    let (mut steps, begin, processor) = (0, Instant::now(), processor_seconds()?);
    while begin.elapsed() < MEASURED {
        learner.forward_backward(data.clone(), LossFunction::CrossEntropy).await?;
        learner.optimizer_step(AdamParameters::default()).await?;
        steps += 1;
    }
    let what = if rank == 0 { "all weights".to_owned() } else { format!("an adapter of rank {rank}") };
    let speed = (steps * ROWS * LENGTH) as f64 / (processor_seconds()? - processor);
    println!(
        "{} parameters, {what}, {ROWS} x {LENGTH}, {threads} threads: {speed:.0} tokens a processor second, {} resident at most",
        config.parameter_count(),
        peak_memory()?
    );
    Ok(())
}
