use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};

/// Beside weights that were written here: the digests of the files in their directory, as `sha256sum` has them. Not
/// `SHA256SUMS`, which a directory from elsewhere may have of files that were not fetched.
pub const DIGEST_LIST: &str = "fulgurite.sha256";

/// SHA-256 of each file of a directory in lower hexadecimal digits, by its path in it.
pub type FileDigests = BTreeMap<String, String>;

/// Why files are not those that were saved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileDamage {
    /// A file holds other bytes.
    #[error("{file} is not what was saved: its SHA-256 is {found}, not {saved}")]
    Changed {
        /// Its path in the directory.
        file: String,
        /// Its digest.
        found: String,
        /// The digest that it had.
        saved: String,
    },
    /// A file is missing, or the disk does not give it back.
    #[error("{file} cannot be read: {message} (its SHA-256 was {saved})")]
    Unreadable {
        /// Its path in the directory.
        file: String,
        /// The system's error.
        message: String,
        /// The digest that it had.
        saved: String,
    },
    /// The list of digests is none.
    #[error("{DIGEST_LIST} cannot be read: {message}")]
    List {
        /// What is wrong with it.
        message: String,
    },
}

/// A directory that this program has written does not hold what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}: {damage}. Put the file back as it was, or remove the directory and make it anew; if it was changed on purpose, \
     remove {DIGEST_LIST} from the directory",
    directory.display()
)]
pub struct DamagedFiles {
    /// Where they are.
    pub directory: PathBuf,
    /// What is wrong with the first of them.
    pub damage: FileDamage,
}

/// Takes a file's digest on its way to `inner`.
pub struct DigestingWriter<W> {
    inner: W,
    state: Sha256,
}

impl<W: Write> DigestingWriter<W> {
    /// Of what is written from now on.
    pub fn new(inner: W) -> Self {
        Self { inner, state: Sha256::new() }
    }

    /// Where it was written, and its digest.
    pub fn finish(self) -> (W, String) {
        (self.inner, digits(self.state))
    }
}

impl<W: Write> Write for DigestingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.state.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

/// The digest of a file, all of which is read.
///
/// # Errors
/// If it cannot be read.
pub fn file_digest(path: &Path) -> std::io::Result<String> {
    let mut state = Sha256::new();
    std::io::copy(&mut File::open(path)?, &mut state)?;
    Ok(digits(state))
}

fn digits(state: Sha256) -> String {
    format!("{:x}", state.finalize())
}

/// The text of a [`DIGEST_LIST`], which `sha256sum -c` reads.
pub fn digest_list(digests: &FileDigests) -> String {
    digests.iter().map(|(file, digest)| format!("{digest}  {file}\n")).collect()
}

/// The digests that a directory's files had when they were written; `None` where nobody wrote them down.
///
/// # Errors
/// If there is a list that cannot be read.
pub fn listed_digests(directory: &Path) -> Result<Option<FileDigests>, FileDamage> {
    let wrong = |message: String| FileDamage::List { message };
    match std::fs::read_to_string(directory.join(DIGEST_LIST)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(wrong(error.to_string())),
        Ok(text) => parse(&text).map(Some).map_err(wrong),
    }
}

fn parse(text: &str) -> Result<FileDigests, String> {
    let mut digests = FileDigests::new();
    for (index, line) in text.lines().enumerate() {
        let (digest, file) = entry(line).ok_or_else(|| format!("line {} has no digest and file", index + 1))?;
        digests.insert(file.to_owned(), digest.to_owned());
    }
    match digests.is_empty() {
        true => Err("it lists no files".to_owned()),
        false => Ok(digests),
    }
}

/// A digest, and a file below the directory.
fn entry(line: &str) -> Option<(&str, &str)> {
    let (digest, file) = line.split_once("  ").or_else(|| line.split_once(" *"))?;
    let is_digest = digest.len() == 64 && digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let mut parts = Path::new(file).components();
    let is_below = !file.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)));
    (is_digest && is_below).then_some((digest, file))
}

/// What is wrong with a directory's files by their digests, if something is. Reads every byte of them.
pub fn find_damage(directory: &Path, digests: &FileDigests) -> Option<FileDamage> {
    digests.iter().find_map(|(file, saved)| damage_of(&directory.join(file), file, saved))
}

/// What is wrong with a directory's files by its own list of digests, if there is one and something is.
pub fn find_listed_damage(directory: &Path) -> Option<FileDamage> {
    match listed_digests(directory) {
        Ok(listed) => listed.and_then(|digests| find_damage(directory, &digests)),
        Err(damage) => Some(damage),
    }
}

fn damage_of(path: &Path, file: &str, saved: &str) -> Option<FileDamage> {
    let (file, saved) = (file.to_owned(), saved.to_owned());
    match file_digest(path) {
        Ok(found) if found == saved => None,
        Ok(found) => Some(FileDamage::Changed { file, found, saved }),
        Err(error) => Some(FileDamage::Unreadable { file, message: error.to_string(), saved }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_file_is_known_by_the_digest_that_sha256sum_has() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("inner")).unwrap();
        std::fs::write(home.path().join("inner/state"), "abc").unwrap();
        assert_eq!(file_digest(&home.path().join("inner/state")).unwrap(), ABC);
        let mut writer = DigestingWriter::new(Vec::new());
        writer.write_all(b"a").unwrap();
        writer.write_all(b"bc").unwrap();
        assert_eq!(writer.finish(), (b"abc".to_vec(), ABC.to_owned()));
        let digests = FileDigests::from([("inner/state".to_owned(), ABC.to_owned())]);
        assert_eq!(digest_list(&digests), format!("{ABC}  inner/state\n"));
        assert_eq!(listed_digests(home.path()), Ok(None));
        for separator in ["  ", " *"] {
            std::fs::write(home.path().join(DIGEST_LIST), format!("{ABC}{separator}inner/state\n")).unwrap();
            assert_eq!(listed_digests(home.path()), Ok(Some(digests.clone())));
        }
        assert_eq!(find_damage(home.path(), &digests), None);
        std::fs::write(home.path().join("inner/state"), "abd").unwrap();
        let damage = find_damage(home.path(), &digests).unwrap().to_string();
        assert!(damage.starts_with("inner/state is not what was saved: its SHA-256 is a52d159f"), "{damage}");
        assert!(damage.ends_with(&format!(", not {ABC}")), "{damage}");
        std::fs::remove_dir_all(home.path().join("inner")).unwrap();
        let damage = find_damage(home.path(), &digests).unwrap().to_string();
        assert!(damage.starts_with("inner/state cannot be read: ") && damage.contains(ABC), "{damage}");
    }

    #[test]
    fn a_damaged_list_of_digests_is_refused_by_its_line() {
        let refused = |text: &str| parse(text).unwrap_err();
        assert_eq!(refused(""), "it lists no files");
        for line in [
            ABC.to_owned(),
            format!("{ABC} x"),
            format!("{ABC}  "),
            format!("{ABC}  ../x"),
            format!("{ABC}  /x"),
            format!("{}  x", &ABC[1..]),
            format!("{}  x", ABC.to_uppercase()),
        ] {
            assert_eq!(refused(&format!("{ABC}  y\n{line}\n")), "line 2 has no digest and file", "{line}");
        }
    }
}
