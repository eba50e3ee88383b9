//! The checksums of the files that trackers read.

/// A cyclic redundancy check of 32 bits, by its polynomial, the lowest bit first.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Crc {
    /// Of Ethernet, zlib and PNG.
    Ieee,
    /// Castagnoli's, of iSCSI and of TensorFlow's records.
    Castagnoli,
}

impl Crc {
    /// The checksum of parts, one after the other.
    pub(crate) fn of(self, parts: &[&[u8]]) -> u32 {
        let polynomial: u32 = match self {
            Self::Ieee => 0xEDB8_8320,
            Self::Castagnoli => 0x82F6_3B78,
        };
        let mut crc = u32::MAX;
        for byte in parts.iter().flat_map(|part| part.iter()) {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = (crc >> 1) ^ (polynomial & (crc & 1).wrapping_neg());
            }
        }
        !crc
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_published_check_value() {
        assert_eq!(Crc::Ieee.of(&[b"1234", b"56789"]), 0xCBF4_3926);
        assert_eq!(Crc::Castagnoli.of(&[b"123456789"]), 0xE306_9283);
        assert_eq!(Crc::Castagnoli.of(&[]), 0);
    }
}
