//! The child process in which this program's own engine is measured.

use std::io::{BufRead, stdin};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fulgurite_backends::{AdamParameters, Learner, LossFunction, SampleEvent, SampleRequest, Sampler};
use fulgurite_engine::{EmbeddedLearner, Engine, EngineOptions, square_product};
use fulgurite_types::{Chunk, Datum, LossInputs};
use serde_json::json;
use tokio::task::JoinSet;

use super::arguments::EngineHostArguments;
use super::work::{Request, Work};
use crate::output;

/// Seed of fresh weights.
const SEED: u64 = 1;

/// `fulgurite-bench engine-host`: does what standard input asks for, one request a line, and says after each how much
/// that was and how long it took.
pub async fn bench_engine_host(arguments: EngineHostArguments) -> Result<()> {
    output::line(json!({ "version": env!("CARGO_PKG_VERSION") }));
    let mut host = Host { arguments, sampler: None, learner: None, pieces: 0 };
    for line in stdin().lock().lines() {
        let Request { work, seconds } = serde_json::from_str(&line?)?;
        output::line(host.measure(work, Duration::from_secs_f64(seconds)).await?);
    }
    Ok(())
}

struct Host {
    arguments: EngineHostArguments,
    /// Made when they are first asked for: nobody asks one process for both.
    sampler: Option<Engine>,
    learner: Option<Arc<EmbeddedLearner>>,
    /// Pieces of work so far: each has tokens of its own.
    pieces: usize,
}

impl Host {
    /// Does it once, and again until so much time is over.
    async fn measure(&mut self, work: Work, least: Duration) -> Result<serde_json::Value> {
        let EngineHostArguments { shape, threads } = self.arguments;
        let (config, nowhere) = (shape.config(), Path::new(""));
        let options = EngineOptions { threads, prefix_cache_bytes: 0, ..EngineOptions::default() };
        let mut multiply = None;
        match work {
            Work::Multiply { size } => multiply = Some(square_product(size, threads)?),
            Work::Sample { .. } if self.sampler.is_none() => {
                self.sampler = Some(Engine::with_initial_weights(nowhere, &config, SEED, options)?);
            }
            Work::Train { .. } | Work::Group { .. } if self.learner.is_none() => {
                let learner = EmbeddedLearner::with_initial_weights(nowhere, &config, SEED, threads)?;
                self.learner = Some(Arc::new(learner));
            }
            _ => {}
        }
        let (began, mut amount) = (Instant::now(), 0);
        while amount == 0 || began.elapsed() < least {
            self.pieces += 1;
            match work {
                Work::Sample { batch, prompt, new } => self.sample(batch, prompt, new).await?,
                Work::Train { sequences, length } => self.train(sequences, 0, length).await?,
                Work::Group { members, prompt, answer } => self.train(members, prompt, answer).await?,
                Work::Multiply { .. } => multiply.iter_mut().for_each(|multiply| multiply()),
            }
            amount += work.amount();
        }
        Ok(json!({ "amount": amount, "seconds": began.elapsed().as_secs_f64() }))
    }

    /// Tokens that no other piece of work has.
    fn tokens(&self, row: usize, count: usize) -> Vec<u32> {
        let vocabulary = self.arguments.shape.config().vocab_size;
        (0..count).map(|at| ((self.pieces * 7919 + row * 104_729 + at * 31) % vocabulary) as u32).collect()
    }

    async fn sample(&self, batch: usize, prompt: usize, new: usize) -> Result<()> {
        let sampler = self.sampler.as_ref().context("nothing to sample from")?.sampler();
        let mut streams = JoinSet::new();
        for row in 0..batch {
            let request = SampleRequest::new(self.tokens(row, prompt), new, row as u64);
            let mut stream = sampler.sample(request).await?;
            streams.spawn(async move {
                let mut sampled = 0;
                while let SampleEvent::Token(_) = stream.next().await? {
                    sampled += 1;
                }
                anyhow::Ok(sampled)
            });
        }
        while let Some(sampled) = streams.join_next().await {
            let sampled = sampled??;
            if sampled != new {
                bail!("an answer has {sampled} tokens in place of {new}");
            }
        }
        Ok(())
    }

    /// One step over sequences that have their first `common` positions in common and train the other `length`: gradients of
    /// the summed cross entropy, clipped, and AdamW.
    async fn train(&self, sequences: usize, common: usize, length: usize) -> Result<()> {
        let learner = self.learner.as_ref().context("nothing to train")?;
        let datum = |row| {
            let tokens = [self.tokens(sequences, common), self.tokens(row, length + 1)].concat();
            Datum {
                model_input: vec![Chunk::Tokens(tokens[..common + length].to_vec())],
                target_tokens: tokens[1..].to_vec(),
                loss_inputs: LossInputs::Supervised { weights: [vec![0.0; common], vec![1.0; length]].concat() },
            }
        };
        let data: Arc<[Datum]> = (0..sequences).map(datum).collect();
        learner.forward_backward(data, LossFunction::CrossEntropy).await?;
        learner.optimizer_step(AdamParameters::default()).await?;
        Ok(())
    }
}
