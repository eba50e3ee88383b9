use super::wire_error::WireError;

/// A number that arrays hold, little-endian.
pub(super) trait Packed<const BYTES: usize>: Copy {
    fn to_bytes(self) -> [u8; BYTES];
    fn from_bytes(bytes: [u8; BYTES]) -> Self;
}

macro_rules! packed {
    ($($number:ty),*) => {$(
        impl Packed<{ size_of::<$number>() }> for $number {
            fn to_bytes(self) -> [u8; size_of::<$number>()] {
                self.to_le_bytes()
            }
            fn from_bytes(bytes: [u8; size_of::<$number>()]) -> Self {
                <$number>::from_le_bytes(bytes)
            }
        }
    )*};
}

packed!(f32, i32, i64, u16);

/// The bytes of numbers, one after another.
pub(super) fn pack<const BYTES: usize, T: Packed<BYTES>>(numbers: impl IntoIterator<Item = T>) -> Vec<u8> {
    numbers.into_iter().flat_map(T::to_bytes).collect()
}

/// The numbers of bytes.
pub(super) fn unpack<const BYTES: usize, T: Packed<BYTES>>(bytes: &[u8]) -> Result<Vec<T>, WireError> {
    let (numbers, rest) = bytes.as_chunks::<BYTES>();
    if !rest.is_empty() {
        return Err(WireError::PartialNumber { bytes: bytes.len(), size: BYTES });
    }
    Ok(numbers.iter().map(|bytes| T::from_bytes(*bytes)).collect())
}
