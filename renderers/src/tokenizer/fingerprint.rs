use sha2::{Digest, Sha256};

/// Hex sha256 of some byte strings, each with its length before it, so that no two lists read alike; a single one is
/// hashed as it is.
pub(crate) fn hex_sha256(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        if parts.len() > 1 {
            hasher.update((part.len() as u64).to_le_bytes());
        }
        hasher.update(part);
    }
    format!("{:x}", hasher.finalize())
}
