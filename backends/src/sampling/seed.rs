use sha2::{Digest, Sha256};

/// A seed for one thing, derived from the seed of what it belongs to and from its place in it: the call's seed from
/// the rollout's, the rollout's from the run's. The first eight bytes (little-endian, top bit cleared so that it is
/// the same number in JSON, SQL and Rust) of SHA-256 over the parent seed and the length-prefixed parts.
pub fn derive_seed(parent: u64, parts: &[&str]) -> u64 {
    let mut hash = Sha256::new();
    hash.update(parent.to_le_bytes());
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let digest = hash.finalize();
    let mut first = [0u8; 8];
    first.copy_from_slice(&digest[..8]);
    u64::from_le_bytes(first) & (u64::MAX >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_not_run_together() {
        assert_ne!(derive_seed(1, &["ab", "c"]), derive_seed(1, &["a", "bc"]));
        assert_ne!(derive_seed(1, &["a"]), derive_seed(2, &["a"]));
        assert_eq!(derive_seed(1, &["a"]), derive_seed(1, &["a"]));
    }
}
