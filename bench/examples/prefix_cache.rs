//! Prints what the prefix cache saves on this machine: tokens a second of conversations and of groups, with and without.
//!
//! `cargo run --release -p fulgurite-bench --example prefix_cache [THREADS]`
#![allow(clippy::print_stdout)]

mod common;

use std::path::Path;
use std::time::Instant;

use common::{model, request};
use fulgurite_backends::{BackendError, SampleEvent, Sampler};
use fulgurite_engine::{EmbeddedSampler, Engine, EngineOptions, create_model};

const GROUP: u64 = 16;
const PROMPT: usize = 1000;
const ANSWER: usize = 50;
const TURNS: usize = 10;
const NEW_TOKENS: usize = 50;
const ROUNDS: u64 = 3;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let threads = match std::env::args().nth(1) {
        Some(threads) => threads.parse()?,
        None => EngineOptions::default().threads,
    };
    let config = model(1024, 128, 384, 4, 16);
    let home = std::env::temp_dir().join(format!("prefix-cache-{}", std::process::id()));
    create_model(&home, &config, 1)?;
    let result = compare(&home, threads).await;
    std::fs::remove_dir_all(&home)?;
    result
}

/// Turns about, so that what else the machine does hits both alike.
async fn compare(model: &Path, threads: usize) -> Result<(), Box<dyn std::error::Error>> {
    let open = |prefix_cache_bytes| {
        Engine::open(model, EngineOptions { threads, prefix_cache_bytes, ..EngineOptions::default() })
    };
    let engines = [("without", open(0)?), ("with", open(EngineOptions::default().prefix_cache_bytes)?)];
    println!("{} parameters, {threads} threads", engines[0].1.config().parameter_count());
    for round in 0..ROUNDS {
        for (name, engine) in &engines {
            let sampler = engine.sampler();
            let begin = Instant::now();
            let tokens = group(&sampler, round).await?;
            let speed = tokens as f64 / begin.elapsed().as_secs_f64();
            println!("{name:8} group of {GROUP}, prompt {PROMPT}, {ANSWER} new: {speed:.0} sampled tokens/s");
            let begin = Instant::now();
            let tokens = conversation(&sampler, round).await?;
            let speed = tokens as f64 / begin.elapsed().as_secs_f64();
            println!("{name:8} {TURNS} turns, {NEW_TOKENS} tokens and {ANSWER} new each: {speed:.0} sampled tokens/s");
        }
    }
    Ok(())
}

fn prompt(seed: u64, length: usize) -> Vec<u32> {
    (0..length as u64).map(|at| ((at * at * 31 + at * 7 + seed * 997) % 1024) as u32).collect()
}

/// Answers to one prompt. Sampled tokens alone are counted; the time holds the prompt too.
async fn group(sampler: &EmbeddedSampler, round: u64) -> Result<usize, BackendError> {
    let mut streams = Vec::new();
    for seed in 0..GROUP {
        streams.push(sampler.sample(request(prompt(round, PROMPT), ANSWER, seed)).await?);
    }
    let mut sampled = 0;
    for stream in &mut streams {
        while let SampleEvent::Token(_) = stream.next().await? {
            sampled += 1;
        }
    }
    Ok(sampled)
}

/// Turns that each go on where the one before ended.
async fn conversation(sampler: &EmbeddedSampler, round: u64) -> Result<usize, BackendError> {
    let mut tokens = prompt(round + ROUNDS, PROMPT);
    let mut sampled = 0;
    for turn in 0..TURNS as u64 {
        let mut stream = sampler.sample(request(tokens.clone(), ANSWER, turn)).await?;
        while let SampleEvent::Token(token) = stream.next().await? {
            tokens.push(token.id);
            sampled += 1;
        }
        tokens.extend(prompt(turn, NEW_TOKENS));
    }
    Ok(sampled)
}
