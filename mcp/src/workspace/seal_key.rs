//! The key by which the tools seal what they write into a directory that agents may write to, too.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::options::SealKey;

const FILE: &str = "mcp-seal.key";

/// Error for a key that can be neither read nor made.
#[derive(Debug, thiserror::Error)]
pub enum SealKeyError {
    /// Its directory cannot be made.
    #[error("cannot make {}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Its file holds something else.
    #[error("{} is no key of 32 bytes: remove it, and a new one is made", path.display())]
    OtherFile {
        /// The file.
        path: PathBuf,
    },
    /// Its file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Its file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The system makes no key.
    #[error("the system gives no random numbers")]
    NoRandomNumbers(#[source] io::Error),
}

/// Reads the user's key, and makes it the first time. `reached` are the directories whose files an agent may write.
///
/// # Errors
/// If there is no key, and the system gives no random numbers.
pub fn read_or_make_seal_key(reached: &[&Path]) -> Result<SealKey, SealKeyError> {
    let state = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = state("XDG_STATE_HOME").or_else(|| Some(state("HOME")?.join(".local/state")));
    let Some(directory) = state.map(|state| state.join("fulgurite")) else {
        tracing::warn!(
            "neither XDG_STATE_HOME nor HOME is set: runs that begin now cannot go on once these tools have ended"
        );
        return fresh();
    };
    let file = directory.join(FILE);
    let key = match in_directory(&directory) {
        Ok(key) => key,
        Err(error) => {
            tracing::warn!(
                "{error}: runs that begin now cannot go on once these tools have ended; set XDG_STATE_HOME to a directory that can be written"
            );
            return fresh();
        }
    };
    let real = fs::canonicalize(&file).unwrap_or(file);
    let is_reached = |place: &&&Path| fs::canonicalize(place).is_ok_and(|place| real.starts_with(place));
    if let Some(place) = reached.iter().find(is_reached) {
        tracing::warn!(
            "{} is below {}, where an agent may write: it can seal what it rewrites; set XDG_STATE_HOME to another directory",
            real.display(),
            place.display()
        );
    }
    Ok(key)
}

fn in_directory(directory: &Path) -> Result<SealKey, SealKeyError> {
    let file = directory.join(FILE);
    fs::create_dir_all(directory).map_err(|source| SealKeyError::Directory { path: directory.to_owned(), source })?;
    loop {
        match fs::read(&file) {
            Ok(bytes) => match bytes.try_into() {
                Ok(key) => return Ok(SealKey(key)),
                Err(_) => return Err(SealKeyError::OtherFile { path: file }),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(source) => return Err(SealKeyError::Unreadable { path: file, source }),
        }
        // Linked once it is whole, so that two who begin at once have one key.
        let part = directory.join(format!("{FILE}.{}", std::process::id()));
        let written = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part);
        let linked =
            written.and_then(|mut file| file.write_all(&fresh_bytes()?)).and_then(|()| fs::hard_link(&part, &file));
        let _ = fs::remove_file(&part);
        match linked {
            Err(source) if source.kind() != ErrorKind::AlreadyExists => {
                return Err(SealKeyError::Unwritable { path: file, source });
            }
            _ => {}
        }
    }
}

fn fresh() -> Result<SealKey, SealKeyError> {
    fresh_bytes().map(SealKey).map_err(SealKeyError::NoRandomNumbers)
}

fn fresh_bytes() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_is_its_owners() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("fulgurite");
        let key = in_directory(&state).unwrap();
        assert_eq!(in_directory(&state).unwrap(), key);
        assert_eq!(fs::metadata(state.join(FILE)).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&state).unwrap().count(), 1);
        assert_ne!(in_directory(&directory.path().join("other")).unwrap(), key);
        fs::write(state.join(FILE), "short").unwrap();
        assert!(in_directory(&state).unwrap_err().to_string().contains("remove it"));
    }
}
