use std::fmt;

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::{Result, StoreError};

/// The key that opens everything.
#[derive(Clone)]
pub struct AdminKey {
    text: String,
}

impl AdminKey {
    /// A key that fits into a header: visible ASCII, at least one character, without white space around it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`], which does not contain the key.
    pub fn new(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(StoreError::invalid("admin key", "must be one word of visible ASCII"));
        }
        Ok(Self { text: text.to_owned() })
    }

    /// Whether it is this key, compared in constant time.
    pub(super) fn is(&self, given: &str) -> bool {
        let code = |text: &str| new_hmac(b"fulgurite compares its admin key").chain_update(text);
        code(given).verify(&code(&self.text).finalize().into_bytes()).is_ok()
    }

    /// The key itself, for clients that must send it.
    pub fn expose(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for AdminKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("AdminKey(..)")
    }
}

/// HMAC-SHA256 under a secret.
pub(super) fn new_hmac(secret: &[u8; 32]) -> Hmac<Sha256> {
    // Of the algorithm's block, whose rest is zeros.
    let mut block = [0; 64];
    block[..secret.len()].copy_from_slice(secret);
    Hmac::new(&block.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_text_is_the_key() {
        let key = AdminKey::new(" opens-all\n").unwrap();
        assert!(key.is("opens-all"));
        for other in ["", "opens-al", "opens-all ", "opens-alL", "opens-all-more"] {
            assert!(!key.is(other), "{other}");
        }
    }

    #[test]
    fn what_cannot_stand_in_a_header_is_refused_and_no_key_is_told() {
        for text in ["", " \n", "two words", "schl\u{fc}ssel", "a\u{7f}b"] {
            let error = AdminKey::new(text).unwrap_err().to_string();
            assert_eq!(error, "admin key: must be one word of visible ASCII");
        }
        assert_eq!(format!("{:?}", AdminKey::new("opens-all").unwrap()), "AdminKey(..)");
    }
}
