//! Parquet files: records as rows of one, and reads of files that others made.

mod error;
pub mod guard;
mod pages;
pub(super) mod records;

pub use self::error::{ColumnDamage, DamagedColumn, DecoderPanic, ParquetFileError, UnreadableHeader};
