use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs blocking work while the other tasks of this thread move to another thread.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // There is no other thread to move to.
        _ => work(),
    }
}
