use std::path::PathBuf;

/// Which run it is and where its files go.
#[derive(Clone, Debug, PartialEq)]
pub struct RunIdentity {
    /// Its id in the store.
    pub run_id: String,
    /// Everything random follows from it.
    pub seed: u64,
    /// `metrics.jsonl` and `checkpoints/` are here.
    pub directory: PathBuf,
}
