use fulgurite_client::ServerError;
use fulgurite_store::StoreError;

/// Why the record could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The store of this process failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The server that keeps it failed.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A rollout that the run waited for has been deleted.
    #[error("rollout {rollout_id} was deleted while the run needed it")]
    Deleted {
        /// Which it was.
        rollout_id: String,
    },
}
