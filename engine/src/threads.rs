use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::EngineError;

/// Threads that work together on what is run in the pool. How many there are changes no result.
pub(crate) fn thread_pool(name: &'static str, threads: usize) -> Result<ThreadPool, EngineError> {
    let builder = ThreadPoolBuilder::new().num_threads(threads).thread_name(move |index| format!("{name}-{index}"));
    builder.build().map_err(|error| EngineError::io("start", "threads")(std::io::Error::other(error)))
}

/// Does the parts of some work on the threads of the pool that this is called in, or one after another outside of pools.
pub(crate) fn share<T: Send>(parts: Vec<T>, work: impl Fn(T) + Send + Sync) {
    match rayon::current_thread_index() {
        Some(_) if parts.len() > 1 => parts.into_par_iter().for_each(work),
        _ => parts.into_iter().for_each(work),
    }
}

/// Cuts off the first so many numbers.
pub(crate) fn cut<'a>(numbers: &mut &'a mut [f32], count: usize) -> &'a mut [f32] {
    let (front, later) = std::mem::take(numbers).split_at_mut(count);
    *numbers = later;
    front
}
