//! Files of a run's directory.

pub(super) mod digests;
pub(super) mod metrics_file;
pub(super) mod token_files;
