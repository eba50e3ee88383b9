//! Token ids and logprobs as bytes.

/// Little-endian, four bytes each.
pub fn pack_tokens(tokens: &[u32]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(size_of_val(tokens));
    tokens.iter().for_each(|token| packed.extend_from_slice(&token.to_le_bytes()));
    packed
}

/// Undoes [`pack_tokens`]; `None` if the bytes do not come in fours.
pub fn unpack_tokens(bytes: &[u8]) -> Option<Vec<u32>> {
    let (words, rest) = bytes.as_chunks();
    rest.is_empty().then(|| words.iter().copied().map(u32::from_le_bytes).collect())
}

/// Little-endian, four bytes each.
pub fn pack_logprobs(logprobs: &[f32]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(size_of_val(logprobs));
    logprobs.iter().for_each(|logprob| packed.extend_from_slice(&logprob.to_le_bytes()));
    packed
}

/// Undoes [`pack_logprobs`]; `None` if the bytes do not come in fours.
pub fn unpack_logprobs(bytes: &[u8]) -> Option<Vec<f32>> {
    let (words, rest) = bytes.as_chunks();
    rest.is_empty().then(|| words.iter().copied().map(f32::from_le_bytes).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tokens_are_little_endian() {
        assert_eq!(pack_tokens(&[1, 0x0102_0304]), [1, 0, 0, 0, 4, 3, 2, 1]);
        assert_eq!(unpack_tokens(&[1, 0, 0]), None);
    }

    proptest! {
        #[test]
        fn packing_loses_nothing(tokens: Vec<u32>, logprobs: Vec<f32>) {
            prop_assert_eq!(unpack_tokens(&pack_tokens(&tokens)), Some(tokens));
            let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            let unpacked = unpack_logprobs(&pack_logprobs(&logprobs)).unwrap();
            prop_assert_eq!(bits(&unpacked), bits(&logprobs));
        }
    }
}
