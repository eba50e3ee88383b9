//! Token ids and logprobs as bytes, and the hash by which a prompt finds the generation that it continues.

use sha2::{Digest, Sha256};

/// Little-endian, four bytes each.
pub(crate) fn pack_tokens(tokens: &[u32]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(size_of_val(tokens));
    tokens.iter().for_each(|token| packed.extend_from_slice(&token.to_le_bytes()));
    packed
}

/// Undoes [`pack_tokens`]; `None` if the bytes do not come in fours.
pub(crate) fn unpack_tokens(bytes: &[u8]) -> Option<Vec<u32>> {
    let (words, rest) = bytes.as_chunks();
    rest.is_empty().then(|| words.iter().copied().map(u32::from_le_bytes).collect())
}

/// Little-endian, four bytes each.
pub(crate) fn pack_logprobs(logprobs: &[f32]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(size_of_val(logprobs));
    logprobs.iter().for_each(|logprob| packed.extend_from_slice(&logprob.to_le_bytes()));
    packed
}

/// Undoes [`pack_logprobs`]; `None` if the bytes do not come in fours.
pub(crate) fn unpack_logprobs(bytes: &[u8]) -> Option<Vec<f32>> {
    let (words, rest) = bytes.as_chunks();
    rest.is_empty().then(|| words.iter().copied().map(f32::from_le_bytes).collect())
}

/// The first half of the SHA-256 of packed tokens.
pub(crate) type ContextHash = [u8; 16];

/// Bytes of a packed token.
pub(crate) const TOKEN_BYTES: usize = size_of::<u32>();

/// Hashes a sequence of packed tokens once and tells the hash of any of its prefixes, shortest first.
pub(crate) struct PrefixHasher<'t> {
    rest: &'t [u8],
    /// Tokens.
    hashed: usize,
    state: Sha256,
}

impl<'t> PrefixHasher<'t> {
    pub fn new(packed: &'t [u8]) -> Self {
        Self { rest: packed, hashed: 0, state: Sha256::new() }
    }

    /// The hash of the first `length` tokens; `None` if there are not so many, or if a longer prefix was asked for
    /// before.
    pub fn prefix(&mut self, length: usize) -> Option<ContextHash> {
        let (next, rest) = self.rest.split_at_checked(TOKEN_BYTES.checked_mul(length.checked_sub(self.hashed)?)?)?;
        self.state.update(next);
        (self.rest, self.hashed) = (rest, length);
        let digest = self.state.clone().finalize();
        digest.first_chunk().copied()
    }
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

        #[test]
        fn a_prefix_hashes_as_it_does_alone(tokens: Vec<u32>, cut: prop::sample::Index) {
            let length = cut.index(tokens.len() + 1);
            let packed = pack_tokens(&tokens);
            let mut whole = PrefixHasher::new(&packed);
            whole.prefix(length / 2);
            let alone = PrefixHasher::new(&packed[..length * TOKEN_BYTES]).prefix(length);
            prop_assert_eq!(whole.prefix(length), alone);
            prop_assert_eq!(whole.prefix(tokens.len() + 1), None);
        }
    }
}
