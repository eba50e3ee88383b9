use prost::Enumeration;

/// A type of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum DType {
    /// Not told, which is an error.
    Unspecified = 0,
    /// Float32; with `Int64` all that requests use.
    Float32 = 1,
    /// Int64.
    Int64 = 2,
    /// Int32.
    Int32 = 3,
    /// The upper half of a float32.
    Bfloat16 = 4,
}
