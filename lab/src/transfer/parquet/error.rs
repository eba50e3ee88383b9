//! What can be wrong with a Parquet file.

use std::num::TryFromIntError;

use parquet::errors::ParquetError;

/// Error for a Parquet file that cannot be read or written as a table of records.
#[derive(Debug, thiserror::Error)]
pub enum ParquetFileError {
    /// It is another table.
    #[error("its columns are not those of an export")]
    OtherColumns,
    /// A row group claims more than any that is written here.
    #[error("it claims {rows} rows, and a group of an export has at most {greatest}")]
    TooManyRows {
        /// Rows that it claims to have.
        rows: usize,
        /// The most that it may have.
        greatest: usize,
    },
    /// A column ends before its row group.
    #[error("column {column} has too few rows")]
    TooFewRows {
        /// Its place in the table.
        column: usize,
    },
    /// A row group has fewer columns than the schema.
    #[error("the schema has another column")]
    MissingColumn,
    /// What is to be a row has nothing in it.
    #[error("a record has data")]
    NoData,
    /// A list of a record has other things in it.
    #[error("{key}")]
    List {
        /// Its key.
        key: &'static str,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The text of a record is not JSON.
    #[error("column data")]
    Data(#[source] serde_json::Error),
    /// A row group cannot be read.
    #[error("row group {number}")]
    RowGroup {
        /// Its place, counted from 1.
        number: usize,
        /// Why.
        source: Box<ParquetFileError>,
    },
    /// A row is no record.
    #[error("{place}")]
    Row {
        /// Its place.
        place: String,
        /// Why.
        source: Box<ParquetFileError>,
    },
    /// The decoder panicked.
    #[error(transparent)]
    DecoderPanic(#[from] DecoderPanic),
    /// A column cannot be what it claims to be.
    #[error(transparent)]
    DamagedColumn(#[from] DamagedColumn),
    /// A number does not fit.
    #[error(transparent)]
    Number(#[from] TryFromIntError),
    /// The decoder or the encoder refuses it.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
    /// The file cannot be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Error for a file over which the decoder panics.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("is damaged: the Parquet decoder panics over what it holds")]
pub struct DecoderPanic;

/// Error for a column that cannot be what it claims to be.
#[derive(Debug, thiserror::Error)]
#[error("column `{path}`")]
pub struct DamagedColumn {
    /// Its name, and those of the groups that it is in.
    pub path: String,
    /// What is wrong with it.
    pub source: ColumnDamage,
}

/// What is wrong with a column.
#[derive(Debug, thiserror::Error)]
pub enum ColumnDamage {
    /// It claims more values than are read together.
    #[error("claims {values} values, and may have {greatest} in a row group")]
    TooManyValues {
        /// Values that it claims to have.
        values: i64,
        /// The most that it may have.
        greatest: i64,
    },
    /// A page claims to be longer than its bytes can make it.
    #[error("has a page of {compressed} bytes that claims to hold {uncompressed}")]
    TooLongPage {
        /// Its bytes.
        compressed: u64,
        /// Bytes that it claims to have once they are decompressed.
        uncompressed: u64,
    },
    /// Its pages have more values than it.
    #[error("claims {values} values, and its pages claim more")]
    MoreInPages {
        /// Values that it claims to have.
        values: i64,
    },
    /// It begins or ends behind the file's end.
    #[error("does not lie in the file")]
    OutsideTheFile,
    /// A page ends behind the column's end.
    #[error("has a page that claims {claimed} bytes, and {left} are left")]
    CutPage {
        /// Bytes that it claims to have.
        claimed: u64,
        /// Bytes that are left of the column.
        left: u64,
    },
    /// A page has no readable header.
    #[error("has a page whose header cannot be read")]
    PageHeader(#[source] UnreadableHeader),
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Why a page's header cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableHeader {
    /// More structs and lists are in each other than any header has.
    #[error("it has values in values without end")]
    TooDeep,
    /// It has a value of a kind that the format does not know.
    #[error("it has a value of kind {kind}")]
    UnknownKind {
        /// The number of the kind.
        kind: u8,
    },
    /// A value is longer than what is left.
    #[error("it ends too early")]
    EndsEarly,
    /// A number has more bytes than any number.
    #[error("it has a number without end")]
    EndlessNumber,
    /// A number does not fit.
    #[error(transparent)]
    Number(#[from] TryFromIntError),
    /// Its bytes cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}
