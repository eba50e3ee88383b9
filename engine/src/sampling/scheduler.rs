use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use metrics::{Counter, Histogram};
use rayon::prelude::*;

use crate::engine_options::EngineOptions;
use crate::sampling::decode::{DecodeScratch, Extension, extend};
use crate::sampling::generation::{ChoiceScratch, Generation};
use crate::sampling::prefix_cache::PrefixCache;
use crate::telemetry::{prefill_tokens, queue_seconds};

/// Multiplications below which a step is not worth another thread.
const MIN_WORK_PER_THREAD: usize = 1 << 20;

/// Numbers of a model from which on it is too large for the caches: then all threads work on the same generations, and
/// its weights are read once for all of them.
const TOO_LARGE_FOR_CACHES: usize = 1 << 22;

/// Continuous batching: requests join and leave the batch between steps. Works with the threads of the pool that it
/// runs in.
pub(crate) struct Scheduler {
    max_batch: usize,
    active: Vec<Generation>,
    /// For each thread the memory it decodes in.
    workers: Vec<DecodeScratch>,
    prefixes: PrefixCache,
    meters: Meters,
}

struct Meters {
    queue_seconds: Histogram,
    prefill_computed: Counter,
    prefill_cached: Counter,
}

impl Scheduler {
    pub(crate) fn new(options: EngineOptions) -> Self {
        let EngineOptions { threads, max_batch, prefix_cache_bytes, .. } = options;
        let workers = vec![DecodeScratch::default(); threads];
        let prefixes = PrefixCache::new(prefix_cache_bytes);
        let meters = Meters {
            queue_seconds: queue_seconds(),
            prefill_computed: prefill_tokens("computed"),
            prefill_cached: prefill_tokens("cached"),
        };
        Self { max_batch, active: Vec::new(), workers, prefixes, meters }
    }

    /// Works until the other end of the queue is gone.
    pub(crate) fn run(mut self, waiting: Receiver<Generation>) {
        while self.admit(&waiting) {
            self.step();
            self.active.retain(|generation| !generation.is_over());
        }
    }

    /// Moves every generation on that has not to wait for another.
    fn step(&mut self) {
        let Self { active, workers, prefixes, meters, .. } = self;
        let mut ready = ready(active, prefixes, meters);
        // Neighbours over the same weights form a batch, whatever their adapters; a batch is cut among the threads.
        for group in ready.chunk_by_mut(|left, right| Arc::ptr_eq(left.weights(), right.weights())) {
            step_group(group, workers);
        }
        for generation in ready {
            generation.give_prefix(prefixes);
        }
    }

    /// Fills the batch from the queue; waits if there is nothing else to do. False once the queue is closed.
    fn admit(&mut self, waiting: &Receiver<Generation>) -> bool {
        if self.active.is_empty() {
            match waiting.recv() {
                Ok(generation) => self.take(generation),
                Err(_) => return false,
            }
        }
        while self.active.len() < self.max_batch {
            match waiting.try_recv() {
                Ok(generation) => self.take(generation),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        self.active.retain(|generation| !generation.is_over());
        self.prefixes.evict_unused_weights();
        true
    }

    fn take(&mut self, generation: Generation) {
        self.meters.queue_seconds.record(generation.arrived.elapsed());
        self.active.push(generation);
    }
}

/// The generations that go on now, each with what the prefix cache has of its prompt. Of those whose next block is the
/// same one reads it, and the others find it in the cache afterwards.
fn ready<'a>(active: &'a mut [Generation], prefixes: &mut PrefixCache, meters: &Meters) -> Vec<&'a mut Generation> {
    let mut being_read = HashSet::new();
    let mut goes_on = |generation: &mut Generation| {
        meters.prefill_cached.increment(generation.take_prefix(prefixes) as u64);
        let weights = Arc::as_ptr(&generation.published);
        let goes_on = generation.next_step().is_none_or(|step| being_read.insert((weights, step)));
        if goes_on {
            meters.prefill_computed.increment(generation.prefill_tokens() as u64);
        }
        goes_on
    };
    active.iter_mut().filter_map(|generation| goes_on(generation).then_some(generation)).collect()
}

/// Moves every generation of a group on by one step. What a generation gets does not depend on how they are cut.
fn step_group(group: &mut [&mut Generation], workers: &mut [DecodeScratch]) {
    let Some(first) = group.first() else { return };
    let numbers = first.weights().model.layout.length;
    let threads = match numbers < TOO_LARGE_FOR_CACHES {
        true => workers.len().min(group.len()).min(1 + group.len() * numbers / MIN_WORK_PER_THREAD),
        false => 1,
    };
    let parts: Vec<_> = group.chunks_mut(group.len().div_ceil(threads)).zip(workers).collect();
    match parts.len() {
        1 => parts.into_iter().for_each(|(part, worker)| step(part, worker)),
        _ => parts.into_par_iter().for_each(|(part, worker)| step(part, worker)),
    }
}

fn step(generations: &mut [&mut Generation], worker: &mut DecodeScratch) {
    let Some(first) = generations.first() else { return };
    let weights = first.weights().clone();
    let mut extensions: Vec<Extension<'_>> = generations.iter_mut().map(|generation| generation.extension()).collect();
    extend(&weights, &mut extensions, worker);
    let vocabulary = weights.model.config.vocab_size;
    let alone = (MIN_WORK_PER_THREAD / vocabulary).max(1);
    let advance = |scratch: &mut ChoiceScratch, (generation, logits): (&mut &mut Generation, &[f32])| {
        generation.advance(logits, scratch);
    };
    let choices = generations.par_iter_mut().zip(worker.logits.par_chunks_exact(vocabulary));
    choices.with_min_len(alone).for_each_init(ChoiceScratch::default, advance);
}

#[cfg(test)]
mod tests {
    use fulgurite_backends::{SampleEvent, SampleRequest, SampleStream};
    use fulgurite_types::WeightsVersion;

    use super::*;
    use crate::adapters::policy::Policy;
    use crate::model::config::ModelConfig;
    use crate::model::weights::{Model, Weights};
    use crate::sampling::published::Published;
    use crate::sampling::stop_sequences::StopSequences;
    use crate::test_models::tiny_config;

    fn published() -> Arc<Published> {
        let config = ModelConfig { max_position_embeddings: 1000, ..tiny_config() };
        let weights = Arc::new(Weights::initial(Arc::new(Model::new(config)), 1));
        Arc::new(Published { version: WeightsVersion(0), policy: Policy::of(weights) })
    }

    fn generation(weights: &Arc<Published>, prompt: &[u32], max_tokens: usize) -> (Generation, SampleStream) {
        let (sender, stream) = SampleStream::channel();
        let request = SampleRequest::new(prompt.to_vec(), max_tokens, 1);
        (Generation::new(request, None, StopSequences::default(), weights.clone(), sender), stream)
    }

    /// Samples all of these at once, 20 tokens each. Tells how many tokens of prompts were computed, and the answers.
    async fn sample(
        scheduler: &mut Scheduler,
        weights: &Arc<Published>,
        prompts: &[Vec<u32>],
    ) -> (usize, Vec<Vec<u32>>) {
        let mut streams = Vec::new();
        for prompt in prompts {
            let (generation, stream) = generation(weights, prompt, 20);
            scheduler.active.push(generation);
            streams.push(stream);
        }
        let mut computed = 0;
        while !scheduler.active.is_empty() {
            let Scheduler { active, prefixes, meters, .. } = scheduler;
            computed +=
                ready(active, prefixes, meters).iter().map(|generation| generation.prefill_tokens()).sum::<usize>();
            scheduler.step();
            scheduler.active.retain(|generation| !generation.is_over());
        }
        let mut answers = Vec::new();
        for mut stream in streams {
            let mut answer = Vec::new();
            while let SampleEvent::Token(token) = stream.next().await.unwrap() {
                answer.push(token.id);
            }
            answers.push(answer);
        }
        (computed, answers)
    }

    #[tokio::test]
    async fn what_prompts_have_in_common_is_computed_once() {
        let weights = published();
        let mut scheduler = Scheduler::new(EngineOptions { threads: 2, ..EngineOptions::default() });
        let common: Vec<u32> = (0..600).map(|at| at * 7 % 37).collect();
        // Of 600 tokens 37 blocks are full, and 8 tokens are left to each.
        let (computed, answers) = sample(&mut scheduler, &weights, &vec![common.clone(); 4]).await;
        assert_eq!(computed, 600 + 3 * 8);

        // The next turn goes on from what was sampled: of 619 tokens in memory 608 are in full blocks.
        let next: Vec<u32> = common.iter().chain(&answers[0]).copied().chain([1, 2, 3]).collect();
        assert_eq!(sample(&mut scheduler, &weights, std::slice::from_ref(&next)).await.0, 623 - 608);
        // Other weights have computed nothing yet.
        assert_eq!(sample(&mut scheduler, &published(), std::slice::from_ref(&next)).await.0, 623);

        // Prompts that differ after their first block.
        let fork = |token: u32| [&[5; 16][..], &[token; 30]].concat();
        assert_eq!(sample(&mut scheduler, &weights, &[fork(1), fork(2), fork(1)]).await.0, 46 + 30 + 14);
        let mut cold = Scheduler::new(EngineOptions { prefix_cache_bytes: 0, ..EngineOptions::default() });
        assert_eq!(sample(&mut cold, &weights, &vec![fork(1); 3]).await.0, 3 * 46);
    }
}
