//! The state of a world: its files, each by its digest, and what they hold where that is a text.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::disk;

/// Files and links that are looked at; of a world with more, the first in order.
const FILES: usize = 20_000;
/// Directories within directories.
const DEPTH: usize = 64;
/// Bytes that are read of a world.
const READ: u64 = 1 << 30;
/// Bytes of a file whose text is kept.
pub(crate) const TEXT: u64 = 256 << 10;
/// Bytes of all texts that are kept.
const TEXTS: u64 = 16 << 20;

/// The state of a world.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// By the path from the world's directory.
    pub files: BTreeMap<PathBuf, Entry>,
}

/// A file, or a link, whose target stands for what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its length.
    pub bytes: u64,
    /// What it is.
    pub kind: Kind,
    /// Of what it holds, or if that is too much, when it was changed.
    pub content: Content,
    /// What it holds, where that is a short text.
    pub text: Option<String>,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A file.
    File,
    /// A file that may be executed.
    Program,
    /// A symbolic link.
    Link,
    /// What is there and cannot be read: too deep, closed, or gone in this moment. An agent can make such, so that it is no
    /// fault of the machine's.
    Unreadable,
}

/// What tells an entry from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// SHA-256.
    Digest(String),
    /// Seconds and nanoseconds of the last change to what was not read.
    Changed(i64, i64),
}

const UNREADABLE: Entry =
    Entry { bytes: 0, kind: Kind::Unreadable, content: Content::Digest(String::new()), text: None };

impl Snapshot {
    /// Looks at a directory. What has one of the names `unwatched` is passed over, and so is what is neither file nor link.
    ///
    /// # Errors
    /// If the directory itself cannot be read.
    pub(crate) fn take(directory: &Path, unwatched: &[String]) -> io::Result<Self> {
        let mut walk = Walk { snapshot: Self::default(), unwatched, left: READ, texts_left: TEXTS };
        walk.directory(directory, Path::new(""), 0)?;
        Ok(walk.snapshot)
    }

    /// SHA-256 of all paths and of what is at each, in hexadecimal: the same of two worlds whose files are the same.
    pub(crate) fn digest(&self) -> String {
        let mut digest = Sha256::new();
        for (path, Entry { bytes, kind, content, .. }) in &self.files {
            let content = match content {
                Content::Digest(digest) => digest.as_str(),
                // When it was made differs though all else is the same.
                Content::Changed(..) => "",
            };
            digest.update(path.as_os_str().as_bytes());
            digest.update(format!("\0{bytes} {kind:?} {content}\0"));
        }
        format!("{:x}", digest.finalize())
    }
}

struct Walk<'w> {
    snapshot: Snapshot,
    unwatched: &'w [String],
    left: u64,
    texts_left: u64,
}

impl Walk<'_> {
    fn directory(&mut self, directory: &Path, from_world: &Path, depth: usize) -> io::Result<()> {
        let mut entries = fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            if self.unwatched.iter().any(|unwatched| name == unwatched.as_str()) {
                continue;
            }
            if self.snapshot.files.len() == FILES {
                return Ok(());
            }
            let (path, from_world) = (entry.path(), from_world.join(&name));
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if depth == DEPTH || self.directory(&path, &from_world, depth + 1).is_err() {
                    self.snapshot.files.insert(from_world, UNREADABLE);
                }
                continue;
            }
            let looked = entry.metadata().and_then(|metadata| self.entry(&path, &metadata));
            if let Some(entry) = looked.unwrap_or(Some(UNREADABLE)) {
                self.snapshot.files.insert(from_world, entry);
            }
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, metadata: &Metadata) -> io::Result<Option<Entry>> {
        if metadata.is_symlink() {
            let target = fs::read_link(path)?;
            let bytes = target.as_os_str().as_bytes();
            let content = Content::Digest(format!("{:x}", Sha256::digest(bytes)));
            let text = Some(format!("{}\n", target.display()));
            return Ok(Some(Entry { bytes: bytes.len() as u64, kind: Kind::Link, content, text }));
        }
        if !metadata.is_file() {
            return Ok(None);
        }
        let bytes = metadata.len();
        let kind = if metadata.permissions().mode() & 0o111 == 0 { Kind::File } else { Kind::Program };
        let Some(left) = self.left.checked_sub(bytes) else {
            let content = Content::Changed(metadata.mtime(), metadata.mtime_nsec());
            return Ok(Some(Entry { bytes, kind, content, text: None }));
        };
        self.left = left;
        let (digest, text) = read(path, bytes, bytes <= TEXT.min(self.texts_left))?;
        self.texts_left -= text.as_ref().map_or(0, |text| text.len() as u64);
        Ok(Some(Entry { bytes, kind, content: Content::Digest(digest), text }))
    }
}

/// The digest of the first `bytes` of a file, and what they hold if `keep` and that is a text.
fn read(path: &Path, bytes: u64, keep: bool) -> io::Result<(String, Option<String>)> {
    let file = disk::open(path)?;
    let (mut digest, mut kept, mut chunk) = (Sha256::new(), Vec::new(), vec![0; 64 << 10]);
    let mut file = file.take(bytes);
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        digest.update(&chunk[..read]);
        if keep {
            kept.extend_from_slice(&chunk[..read]);
        }
    }
    let is_text = keep && !kept.contains(&0);
    Ok((format!("{:x}", digest.finalize()), is_text.then(|| String::from_utf8(kept).ok()).flatten()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn take(directory: &Path) -> Snapshot {
        Snapshot::take(directory, &[".git".to_owned()]).unwrap()
    }

    #[test]
    fn files_and_links_are_looked_at_and_nothing_is_followed_or_waited_for() {
        let world = tempfile::tempdir().unwrap();
        let at = |name: &str| world.path().join(name);
        fs::create_dir_all(at("a/.git")).unwrap();
        fs::write(at("a/.git/HEAD"), "x").unwrap();
        fs::write(at("a/text"), "ü\n").unwrap();
        fs::write(at("binary"), b"\0\xff").unwrap();
        symlink("/etc", at("link")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        let snapshot = take(world.path());
        let names: Vec<&str> = snapshot.files.keys().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(names, ["a/text", "binary", "link"]);
        let texts: Vec<Option<&str>> = snapshot.files.values().map(|entry| entry.text.as_deref()).collect();
        assert_eq!(texts, [Some("ü\n"), None, Some("/etc\n")]);
    }

    #[test]
    fn what_an_agent_made_unreadable_is_named_and_is_no_error() {
        let world = tempfile::tempdir().unwrap();
        let script = "import os\nfor _ in range(3000):\n    os.mkdir('deep')\n    os.chdir('deep')\n";
        let made = std::process::Command::new("python3").args(["-c", script]).current_dir(world.path()).status();
        assert!(made.unwrap().success());
        let snapshot = take(world.path());
        let kinds: Vec<Kind> = snapshot.files.values().map(|entry| entry.kind).collect();
        assert_eq!(kinds, [Kind::Unreadable]);
        disk::remove_all(&world.path().join("deep")).unwrap();
    }

    #[test]
    fn two_worlds_of_the_same_files_have_one_digest_and_any_difference_changes_it() {
        let make = |text: &str, mode: u32| {
            let world = tempfile::tempdir().unwrap();
            fs::write(world.path().join("file"), text).unwrap();
            fs::set_permissions(world.path().join("file"), fs::Permissions::from_mode(mode)).unwrap();
            take(world.path()).digest()
        };
        assert_eq!(make("x", 0o644), make("x", 0o600));
        assert_ne!(make("x", 0o644), make("y", 0o644));
        assert_ne!(make("x", 0o644), make("x", 0o755));
    }
}
