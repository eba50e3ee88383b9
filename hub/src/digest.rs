//! What a file must be: the digests by which the hub knows files.

use std::fs::File;
use std::io::{ErrorKind, Read, Result};
use std::path::Path;

use sha1::{Digest as _, Sha1};
use sha2::{Digest as _, Sha256};

/// The digest of a whole file, in lower hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Digest {
    /// Of a file that is kept as a large one.
    Sha256(String),
    /// Git's id of a small one.
    GitBlob(String),
}

impl Digest {
    /// Takes digits for the digest that has as many of them.
    pub(crate) fn from_digits(digits: &str) -> Option<Self> {
        let digits = digits.to_ascii_lowercase();
        let all_are_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        match digits.len() {
            64 if all_are_digits => Some(Self::Sha256(digits)),
            40 if all_are_digits => Some(Self::GitBlob(digits)),
            _ => None,
        }
    }

    /// Reads an `ETag`, weak or not, if it is a digest.
    pub(crate) fn from_etag(etag: &str) -> Option<Self> {
        Self::from_digits(etag.trim_start_matches("W/").trim_matches('"'))
    }

    /// The digits.
    pub(crate) fn digits(&self) -> &str {
        let (Self::Sha256(digits) | Self::GitBlob(digits)) = self;
        digits
    }

    /// What the digits are called.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Sha256(_) => "sha256",
            Self::GitBlob(_) => "git_blob",
        }
    }
}

/// Takes a file's bytes, in order, for the digest that it must have.
#[derive(Clone)]
pub(crate) struct FileHasher {
    wanted: Option<Digest>,
    state: State,
}

/// Of what is computed.
#[derive(Clone)]
enum State {
    Sha256(Sha256),
    GitBlob(Sha1),
    Nothing,
}

impl FileHasher {
    /// For a file of so many bytes.
    pub(crate) fn new(wanted: Option<&Digest>, size: u64) -> Self {
        let state = match wanted {
            Some(Digest::Sha256(_)) => State::Sha256(Sha256::new()),
            Some(Digest::GitBlob(_)) => State::GitBlob(Sha1::new_with_prefix(format!("blob {size}\0"))),
            None => State::Nothing,
        };
        Self { wanted: wanted.cloned(), state }
    }

    /// Takes the next bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::Sha256(state) => state.update(bytes),
            State::GitBlob(state) => state.update(bytes),
            State::Nothing => {}
        }
    }

    /// Takes all that a file holds, from where it stands, and says how much it was.
    pub(crate) fn update_from(&mut self, file: &mut File) -> Result<u64> {
        let (mut buffer, mut length) = (vec![0; 1 << 20], 0);
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(length),
                Ok(read) => {
                    self.update(&buffer[..read]);
                    length += read as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether what it has taken is what was wanted; where nothing is known of that, it is.
    pub(crate) fn agrees(&self) -> bool {
        let found = match &self.state {
            State::Sha256(state) => hex::encode(state.clone().finalize()),
            State::GitBlob(state) => hex::encode(state.clone().finalize()),
            State::Nothing => return true,
        };
        self.wanted.as_ref().is_none_or(|wanted| wanted.digits() == found)
    }
}

/// Whether a file has this size and, if it is known, this digest.
pub(crate) fn file_is(path: &Path, size: u64, digest: Option<&Digest>) -> Result<bool> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() != size {
        return Ok(false);
    }
    let mut hasher = FileHasher::new(digest, size);
    hasher.update_from(&mut file)?;
    Ok(hasher.agrees())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `git hash-object` and `sha256sum` have them for a file that holds `hello` and a line's end.
    const GIT: &str = "ce013625030ba8dba906f756967f9e9ca394464a";
    const SHA256: &str = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";

    #[test]
    fn files_are_known_by_both_kinds_of_digests() {
        for digits in [GIT, SHA256] {
            let digest = Digest::from_etag(&format!("W/\"{}\"", digits.to_uppercase())).unwrap();
            assert_eq!(digest.digits(), digits);
            let mut hasher = FileHasher::new(Some(&digest), 6);
            hasher.update(b"hel");
            hasher.update(b"lo\n");
            assert!(hasher.agrees());
            hasher.update(b"x");
            assert!(!hasher.agrees());
        }
        assert_eq!(Digest::from_etag("\"66b0e52f-2d\""), None);
        assert_eq!(Digest::from_digits(&"g".repeat(64)), None);
    }
}
