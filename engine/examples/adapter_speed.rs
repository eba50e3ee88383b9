//! Prints how fast the engine trains on this machine, and what memory that takes, for models of several sizes: all weights
//! with rank 0, or an adapter of another rank beside every matrix.
//!
//! `cargo run --release -p fulgurite-engine --example adapter_speed -- RANK [THREADS]`
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use fulgurite_backends::{AdamParameters, Chunk, Datum, Learner, LossFunction, LossInputs};
use fulgurite_engine::{Engine, EngineOptions, LoraOptions, ModelConfig, create_model};

const ROWS: usize = 16;
const LENGTH: usize = 64;
const MEASURED: Duration = Duration::from_secs(5);

fn config(vocab_size: usize, hidden_size: usize, num_hidden_layers: usize) -> ModelConfig {
    ModelConfig {
        architecture: Default::default(),
        vocab_size,
        hidden_size,
        intermediate_size: 3 * hidden_size,
        num_hidden_layers,
        num_attention_heads: hidden_size / 32,
        num_key_value_heads: hidden_size / 64,
        head_dim: 32,
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
    let argument = |place, default: usize| std::env::args().nth(place).map_or(Ok(default), |text| text.parse());
    let (rank, threads) = (argument(1, 0)?, argument(2, EngineOptions::default().threads)?);
    // From small to large, so that the greatest memory so far is that of the last.
    for config in [config(512, 64, 2), config(1024, 128, 4), config(4096, 256, 6), config(8192, 512, 8)] {
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
    let row = |row: usize| {
        let token = |at: usize| ((row * 7919 + at * at * 104_729) % config.vocab_size) as u32;
        Datum {
            model_input: vec![Chunk::Tokens((0..LENGTH).map(token).collect())],
            target_tokens: (1..=LENGTH).map(token).collect(),
            loss_inputs: LossInputs::Supervised { weights: vec![1.0; LENGTH] },
        }
    };
    let data: Arc<[Datum]> = (0..ROWS).map(row).collect();
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

/// What this process has had of processors, on Linux.
fn processor_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    const TICKS: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // After the command's name, which may hold anything, the times are the twelfth and thirteenth.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    let ticks = fields.map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(ticks as f64 / TICKS)
}

/// The most memory that this process has had, where the system tells (Linux).
fn peak_memory() -> Result<String, std::io::Error> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    Ok(line.map_or("unknown".to_owned(), |line| line.trim().to_owned()))
}
