//! Checkpoints in an object store (S3, or what speaks its API) beside the run's directory.
//!
//! Every object of a run is below `PREFIX/RUN_ID/`. A directory there is whole once it has its manifest, which is written
//! last and names every file with its digest; what has none is of a process that died, and counts for nothing.

mod checkpoint_archive;
mod error;
mod manifest;
mod open_archive;

pub use self::checkpoint_archive::{CheckpointArchive, RunArchive};
pub use self::error::ArchiveError;
pub(crate) use self::manifest::Manifest;
pub(crate) use self::open_archive::check_url;
