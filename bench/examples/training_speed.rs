//! Prints how many tokens the learner trains in a second, and in a second of processor time.
//!
//! `cargo run --release -p fulgurite-bench --example training_speed -- SHAPE [THREADS [SECONDS]]`, with a shape of
//! `fulgurite-bench engine`.
#![allow(clippy::print_stdout)]

mod common;

use std::time::Instant;

use common::{processor_seconds, rows, shape};
use fulgurite_backends::{AdamParameters, Learner, LossFunction};
use fulgurite_engine::EmbeddedLearner;

const SEQUENCES: usize = 8;
const LENGTH: usize = 256;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let config = shape(&arguments.next().unwrap_or_default())?;
    let threads = arguments.next().map_or(Ok(1), |threads| threads.parse())?;
    let least: f64 = arguments.next().map_or(Ok(3.0), |seconds| seconds.parse())?;
    let learner = EmbeddedLearner::with_initial_weights("", &config, 1, threads)?;
    let data = rows(SEQUENCES, LENGTH, config.vocab_size);
    let step = async || {
        learner.forward_backward(data.clone(), LossFunction::CrossEntropy).await?;
        learner.optimizer_step(AdamParameters::default()).await
    };
    // The first finds memory and fills caches.
    step().await?;
    let (began, processor, mut tokens) = (Instant::now(), processor_seconds()?, 0);
    while began.elapsed().as_secs_f64() < least {
        step().await?;
        tokens += SEQUENCES * LENGTH;
    }
    let (wall, processor) = (began.elapsed().as_secs_f64(), processor_seconds()? - processor);
    println!("{:.0} tokens/s, {:.0} in a processor's second", tokens as f64 / wall, tokens as f64 / processor);
    Ok(())
}
