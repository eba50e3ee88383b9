use std::path::PathBuf;

use crate::RunArchive;

/// Which run it is and where its files go.
#[derive(Clone, Debug)]
pub struct RunIdentity {
    /// Its id in the store.
    pub run_id: String,
    /// Names this run alone: the identities of its weights are made of it.
    pub instance: String,
    /// Everything random follows from it.
    pub seed: u64,
    /// `metrics.jsonl` and `checkpoints/` are here.
    pub directory: PathBuf,
    /// Where its checkpoints are uploaded to, if anywhere.
    pub archive: Option<RunArchive>,
}
