use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::server::error::TinkerServerError;

/// Signs links, and knows its own signatures. Links do not outlive the process.
#[derive(Clone)]
pub(crate) struct LinkSigner {
    secret: [u8; 64],
}

impl std::fmt::Debug for LinkSigner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("LinkSigner(..)")
    }
}

impl LinkSigner {
    /// With a secret that nobody knows.
    pub(crate) fn new() -> Result<Self, TinkerServerError> {
        let mut secret = [0; 64];
        getrandom::fill(&mut secret).map_err(|error| TinkerServerError::NoRandomness { message: error.to_string() })?;
        Ok(Self { secret })
    }

    fn code(&self, expires: u64, path: &str, file: &str) -> Hmac<Sha256> {
        Hmac::new(&self.secret.into()).chain_update(format!("{expires}/{path}/{file}"))
    }

    /// What a link is signed with.
    pub(crate) fn signature(&self, expires: u64, path: &str, file: &str) -> String {
        format!("{:x}", self.code(expires, path, file).finalize().into_bytes())
    }

    /// Whether a link was signed here and is still good. Takes as long whatever is wrong with the signature.
    pub(crate) fn is_good(&self, expires: u64, path: &str, file: &str, signature: &str, now: f64) -> bool {
        let byte = |place: usize| u8::from_str_radix(signature.get(place..place + 2)?, 16).ok();
        let code: Option<Vec<u8>> = (0..signature.len()).step_by(2).map(byte).collect();
        let is_own = code.is_some_and(|code| self.code(expires, path, file).verify_slice(&code).is_ok());
        is_own && now <= expires as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_good_for_what_it_was_signed_for_and_for_a_while() {
        let signer = LinkSigner::new().unwrap();
        let signature = signer.signature(100, "tinker://a/weights/b", "f");
        assert!(signer.is_good(100, "tinker://a/weights/b", "f", &signature, 100.0));
        assert!(!signer.is_good(100, "tinker://a/weights/b", "f", &signature, 101.0));
        assert!(!signer.is_good(101, "tinker://a/weights/b", "f", &signature, 100.0));
        assert!(!signer.is_good(100, "tinker://a/weights/c", "f", &signature, 100.0));
        assert!(!signer.is_good(100, "tinker://a/weights/b", "g", &signature, 100.0));
        for wrong in ["", "0", "zz", "ä", &signature[2..]] {
            assert!(!signer.is_good(100, "tinker://a/weights/b", "f", wrong, 100.0), "{wrong}");
        }
        assert!(!LinkSigner::new().unwrap().is_good(100, "tinker://a/weights/b", "f", &signature, 100.0));
    }
}
