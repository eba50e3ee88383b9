/// Why an array of the wire cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Bytes that are no whole numbers.
    #[error("{bytes} bytes are no numbers of {size} bytes")]
    PartialNumber {
        /// Bytes.
        bytes: usize,
        /// Bytes of a number.
        size: usize,
    },
    /// A type of numbers that there is not.
    #[error("there is no type of numbers {dtype}")]
    UnknownType {
        /// What came.
        dtype: i32,
    },
    /// Numbers of another type than they must have.
    #[error("{actual} came where {expected} are needed")]
    WrongType {
        /// What came.
        actual: &'static str,
        /// What is needed.
        expected: &'static str,
    },
    /// Numbers that do not fill their shape.
    #[error("{actual} numbers have not the shape {shape:?}")]
    Shape {
        /// The shape.
        shape: Vec<i64>,
        /// How many there are.
        actual: usize,
    },
    /// Rows or columns of a sparse array that there are not.
    #[error("the rows and columns of a sparse array of shape {shape:?} do not fit its {values} values")]
    Sparse {
        /// The shape.
        shape: Vec<i64>,
        /// How many values there are.
        values: usize,
    },
    /// A datum's bytes that there are not.
    #[error("bytes {start} to {end} of {bytes} are no datum's numbers")]
    Offsets {
        /// The first byte.
        start: i64,
        /// The first byte of the next.
        end: i64,
        /// Bytes.
        bytes: usize,
    },
}
