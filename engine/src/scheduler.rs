use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use metrics::Histogram;

use crate::decode::{DecodeScratch, Extension, extend};
use crate::generation::{ChoiceScratch, Generation};
use crate::telemetry::queue_seconds;

/// Multiplications below which a step is not worth the start of another thread.
const WORTH_A_THREAD: usize = 1 << 20;

/// Continuous batching: requests join and leave the batch between steps.
pub(crate) struct Scheduler {
    max_batch: usize,
    active: Vec<Generation>,
    workers: Vec<Worker>,
    queue_seconds: Histogram,
}

/// Memory of one decoding thread.
#[derive(Default)]
struct Worker {
    decode: DecodeScratch,
    choice: ChoiceScratch,
}

impl Scheduler {
    pub(crate) fn new(threads: usize, max_batch: usize) -> Self {
        let mut workers = Vec::new();
        workers.resize_with(threads, Worker::default);
        Self { max_batch, active: Vec::new(), workers, queue_seconds: queue_seconds() }
    }

    /// Works until the other end of the queue is gone.
    pub(crate) fn run(mut self, waiting: &Receiver<Generation>) {
        while self.admit(waiting) {
            // Neighbours with the same weights form a batch; a batch is cut among the threads.
            let Self { active, workers, .. } = &mut self;
            for group in active.chunk_by_mut(|left, right| Arc::ptr_eq(&left.published, &right.published)) {
                step_group(group, workers);
            }
            self.active.retain(|generation| !generation.is_over());
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
        true
    }

    fn take(&mut self, generation: Generation) {
        self.queue_seconds.record(generation.arrived.elapsed());
        self.active.push(generation);
    }
}

/// Moves every generation of a group on by one step. What a generation gets does not depend on how they are cut.
fn step_group(group: &mut [Generation], workers: &mut [Worker]) {
    let Some(first) = group.first() else { return };
    let cost = group.len() * first.published.weights.values.len();
    let threads = workers.len().min(group.len()).min(1 + cost / WORTH_A_THREAD);
    let mut parts = group.chunks_mut(group.len().div_ceil(threads)).zip(workers);
    let Some((own_part, own_worker)) = parts.next() else { return };
    std::thread::scope(|scope| {
        for (part, worker) in parts {
            scope.spawn(move || step(part, worker));
        }
        step(own_part, own_worker);
    });
}

fn step(generations: &mut [Generation], worker: &mut Worker) {
    let Some(first) = generations.first() else { return };
    let published = first.published.clone();
    let mut extensions: Vec<Extension<'_>> = generations.iter_mut().map(Generation::extension).collect();
    extend(&published.weights, &mut extensions, &mut worker.decode);
    let rows = worker.decode.logits.chunks_exact(published.weights.model.config.vocab_size);
    for (generation, logits) in generations.iter_mut().zip(rows) {
        generation.advance(logits, &mut worker.choice);
    }
}
