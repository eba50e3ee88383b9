use tokio::runtime::{Handle, RuntimeFlavor};

/// Works at something long while other tasks of this thread go on on another.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // There is no other thread to go on on.
        _ => work(),
    }
}
