use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::EngineError;
use crate::kernels::{PackedMatrix, multiply};

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

/// Prepares the product of two square matrices on so many threads, in the way in which models are multiplied. Each call
/// of what is returned carries it out: `2 * size³` floating-point operations.
pub fn square_product(size: usize, threads: usize) -> Result<impl FnMut(), EngineError> {
    let pool = thread_pool("fulgurite-product", threads)?;
    let (left, mut product) = (vec![1.0; size * size], vec![0.0; size * size]);
    let mut right = PackedMatrix::default();
    right.pack(&left, size, size);
    Ok(move || pool.install(|| multiply(&left, size, &right, &mut product)))
}
