//! Prints what a step of DPO costs over one of supervised fine-tuning on the same tokens, both measured in turns, by the
//! clock and in a processor's time, which other programs disturb less.
//!
//! `cargo run --release -p fulgurite-bench --example preference_speed -- SHAPE [THREADS [SECONDS]]`, with a shape of
//! `fulgurite-bench engine`. A step of DPO is the reference's logprobs, the loss and its gradient, and the optimizer.
#![allow(clippy::print_stdout)]

mod common;

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use common::{processor_seconds, rows, shape};
use fulgurite_backends::{
    AdamParameters, ComparedAnswer, Comparison, Comparisons, Learner, LossFunction, PreferenceLoss, datum_score,
};
use fulgurite_engine::EmbeddedLearner;
use fulgurite_types::{Datum, LossInputs};

const PAIRS: usize = 8;
const LENGTH: usize = 128;

/// Sequences of which the second half is trained.
fn data(vocabulary: usize) -> Arc<[Datum]> {
    let mut data = rows(2 * PAIRS, LENGTH, vocabulary).to_vec();
    for datum in &mut data {
        if let LossInputs::Supervised { weights } = &mut datum.loss_inputs {
            weights.fill(1.0);
            weights[..LENGTH / 2].fill(0.0);
        }
    }
    data.into()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let config = shape(&arguments.next().unwrap_or_default())?;
    let threads = arguments.next().map_or(Ok(1), |threads| threads.parse())?;
    let least: f64 = arguments.next().map_or(Ok(5.0), |seconds| seconds.parse())?;
    let learner = EmbeddedLearner::with_initial_weights("", &config, 1, threads)?;
    learner.keep_reference().await?;
    let data = data(config.vocab_size);
    let supervised = async || {
        learner.forward_backward(data.clone(), LossFunction::CrossEntropy).await?;
        learner.optimizer_step(AdamParameters::default()).await
    };
    let preferred = async || {
        let reference = learner.forward_reference(data.clone()).await?;
        let score = |datum: usize| datum_score(&data[datum], &reference[datum]).logprob;
        let answer = |data: Range<usize>| Some(ComparedAnswer { reference: score(data.start), data });
        let pair = |pair: usize| Comparison {
            chosen: answer(2 * pair..2 * pair + 1),
            rejected: answer(2 * pair + 1..2 * pair + 2),
        };
        let loss = PreferenceLoss::Dpo { beta: 0.1, label_smoothing: 0.0 };
        let comparisons = Comparisons {
            loss,
            others: Vec::new(),
            scale: 1.0 / PAIRS as f64,
            likelihood_scale: 0.0,
            list: (0..PAIRS).map(pair).collect(),
        };
        learner.forward_backward_comparisons(data.clone(), Arc::new(comparisons)).await?;
        learner.optimizer_step(AdamParameters::default()).await
    };
    // The first find memory and fill caches.
    supervised().await?;
    preferred().await?;
    let (mut wall, mut processor, mut rounds) = ([0.0; 2], [0.0; 2], 0);
    while wall[0] + wall[1] < least || rounds < 3 {
        let (began, spent) = (Instant::now(), processor_seconds()?);
        supervised().await?;
        let (between, then) = (began.elapsed().as_secs_f64(), processor_seconds()?);
        preferred().await?;
        wall[0] += between;
        wall[1] += began.elapsed().as_secs_f64() - between;
        processor[0] += then - spent;
        processor[1] += processor_seconds()? - then;
        rounds += 1;
    }
    for (name, [sft, dpo]) in [("wall", wall), ("processor", processor)] {
        let (sft, dpo) = (sft / f64::from(rounds), dpo / f64::from(rounds));
        let tokens = 2 * PAIRS * LENGTH;
        println!("{name}: sft {sft:.4} s, dpo {dpo:.4} s a step of {tokens} tokens: {:.2} times", dpo / sft);
    }
    Ok(())
}
