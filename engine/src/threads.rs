use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::EngineError;

/// Threads that work together on what is run in the pool. How many there are changes no result.
pub(crate) fn thread_pool(name: &'static str, threads: usize) -> Result<ThreadPool, EngineError> {
    let builder = ThreadPoolBuilder::new().num_threads(threads).thread_name(move |index| format!("{name}-{index}"));
    builder.build().map_err(|error| EngineError::io("start", "threads")(std::io::Error::other(error)))
}
