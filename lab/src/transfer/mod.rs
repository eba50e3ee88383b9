//! Records and metrics as files for other programs, and records out of such files.

pub mod attempt_triplets;
mod error;
pub mod export;
pub mod file_format;
pub mod import;
mod jsonl;
pub mod metrics;
pub mod parquet;
pub mod unfinished_file;

pub use self::error::TransferError;
