//! What a user's query gives, whichever database answers it.

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum SqlValue {
    /// Nothing.
    Null,
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A number.
    Real(f64),
    /// A text.
    Text(String),
    /// Bytes; token ids are little-endian u32, logprobs little-endian f32.
    Blob(Vec<u8>),
}

/// What a query gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SqlRows {
    /// Names of the columns; none if there are no rows.
    pub columns: Vec<String>,
    /// The rows, each with a value for each column.
    pub rows: Vec<Vec<SqlValue>>,
}
