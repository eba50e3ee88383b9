//! Prints what a model directory takes on this machine: to be opened, to be sampled from with one and 16 streams, and to
//! train an adapter of rank 16 over it on sequences of the lengths that are told.
//!
//! `cargo run --release -p fulgurite-bench --example model_speed -- MODEL_DIR THREADS [LENGTH...]`
#![allow(clippy::print_stdout)]

mod common;

use std::time::Instant;

use common::{peak_memory, processor_seconds, request, rows};
use fulgurite_backends::{AdamParameters, Learner, LossFunction, SampleEvent, Sampler};
use fulgurite_engine::{Engine, EngineOptions, LoraOptions, inspect_model};

const PROMPT: usize = 32;
const ANSWER: usize = 16;
const RANK: usize = 16;

type Measured<T> = Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Measured<()> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("which model directory?")?;
    let threads = arguments.next().ok_or("how many threads?")?.parse()?;
    let lengths = arguments.map(|length| length.parse()).collect::<Result<Vec<usize>, _>>()?;
    let need = inspect_model(directory.as_ref())?.memory;
    println!("weights as they are held: {} MiB", need.weights >> 20);
    let begin = Begin::now()?;
    let engine =
        Engine::open(&directory, EngineOptions { threads, prefix_cache_bytes: 0, ..EngineOptions::default() })?;
    begin.tell("opened")?;
    for streams in [1, 16] {
        sample(&engine, streams).await?;
    }
    for length in lengths {
        train(&engine, length).await?;
    }
    Ok(())
}

async fn sample(engine: &Engine, streams: u64) -> Measured<()> {
    let begin = Begin::now()?;
    let mut running = Vec::new();
    for seed in 0..streams {
        let prompt = (0..PROMPT as u32).map(|at| at * 31 + seed as u32).collect();
        running.push(engine.sampler().sample(request(prompt, ANSWER, seed)).await?);
    }
    for stream in &mut running {
        while let SampleEvent::Token(_) = stream.next().await? {}
    }
    begin.tell(&format!("{streams} streams, prompts of {PROMPT}, {ANSWER} tokens each"))
}

async fn train(engine: &Engine, length: usize) -> Measured<()> {
    let learner = engine.lora_learner(&LoraOptions::new(RANK, 1))?;
    let begin = Begin::now()?;
    learner.forward_backward(rows(1, length, engine.config().vocab_size), LossFunction::CrossEntropy).await?;
    learner.optimizer_step(AdamParameters::default()).await?;
    begin.tell(&format!("a step of an adapter of rank {RANK} on {length} tokens"))
}

/// When something began, by the clock and by what the process had had of processors.
struct Begin(Instant, f64);

impl Begin {
    fn now() -> Measured<Self> {
        Ok(Self(Instant::now(), processor_seconds()?))
    }

    fn tell(&self, what: &str) -> Measured<()> {
        let (wall, processor) = (self.0.elapsed().as_secs_f64(), processor_seconds()? - self.1);
        println!("{what}: {wall:.2} s, {processor:.2} processor seconds, {} resident at most", peak_memory()?);
        Ok(())
    }
}
