//! Seals of what the tools keep in a directory that agents may write to.

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::options::SealKey;

/// Makes and checks seals: HMAC-SHA256 by a key that is kept elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seal(SealKey);

impl Seal {
    pub(crate) fn new(key: SealKey) -> Self {
        Self(key)
    }

    /// The seal of a text.
    pub(crate) fn of(&self, text: &str) -> String {
        self.mac(text).map_or_else(String::new, |mac| format!("{:x}", mac.finalize().into_bytes()))
    }

    /// Whether a seal is that of a text.
    pub(crate) fn is_of(&self, seal: &str, text: &str) -> bool {
        // A digest of both, so that the time that the comparison takes says nothing.
        let again = |seal: &str| self.mac(seal).map(|mac| mac.finalize().into_bytes());
        !seal.is_empty() && again(seal) == again(&self.of(text))
    }

    fn mac(&self, text: &str) -> Option<Hmac<Sha256>> {
        // A key of any length is one of this function's.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0.0).ok()?;
        mac.update(text.as_bytes());
        Some(mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_of_one_text_and_one_key() {
        let seal = Seal::new(SealKey([1; 32]));
        let made = seal.of("text");
        assert!(seal.is_of(&made, "text"));
        assert!(!seal.is_of(&made, "texts") && !seal.is_of("", "text") && !seal.is_of("x", "text"));
        assert!(!Seal::new(SealKey([2; 32])).is_of(&made, "text"));
        assert_eq!(made.len(), 64);
    }
}
