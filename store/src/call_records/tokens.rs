//! The hash by which a prompt finds the generation that it continues.

use sha2::{Digest, Sha256};

/// The first half of the SHA-256 of packed tokens.
pub(crate) type ContextHash = [u8; 16];

/// Bytes of a packed token.
pub(crate) const TOKEN_BYTES: usize = size_of::<u32>();

/// Hashes a sequence of packed tokens once and returns the hash of any of its prefixes, shortest first.
pub(crate) struct PrefixHasher<'t> {
    rest: &'t [u8],
    /// Tokens.
    hashed: usize,
    state: Sha256,
}

impl<'t> PrefixHasher<'t> {
    pub(crate) fn new(packed: &'t [u8]) -> Self {
        Self { rest: packed, hashed: 0, state: Sha256::new() }
    }

    /// The hash of the first `length` tokens; `None` if there are not so many, or if a longer prefix was requested before.
    pub(crate) fn prefix(&mut self, length: usize) -> Option<ContextHash> {
        let (next, rest) = self.rest.split_at_checked(TOKEN_BYTES.checked_mul(length.checked_sub(self.hashed)?)?)?;
        self.state.update(next);
        (self.rest, self.hashed) = (rest, length);
        let digest = self.state.clone().finalize();
        digest.first_chunk().copied()
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::pack_tokens;
    use proptest::prelude::*;

    use super::*;

    proptest! {
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
