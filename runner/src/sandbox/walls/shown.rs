//! How files of this machine are shown in a sandbox of bubblewrap's.

use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::sandbox::terms::{Identity, SYSTEM};

/// Files of directories that are closed to others which are shown one by one.
const ONE_BY_ONE: usize = 1000;
/// Closed directories within closed directories.
const DEPTH: usize = 8;

/// Collects the words that show files to whoever runs inside.
#[derive(Debug)]
pub(super) struct Shown {
    identity: Identity,
    words: Vec<OsString>,
    one_by_one: usize,
}

impl Shown {
    /// To programs of this identity.
    pub(super) fn to(identity: Identity) -> Self {
        Self { identity, words: Vec::new(), one_by_one: 0 }
    }

    /// The words.
    pub(super) fn into_words(self) -> Vec<OsString> {
        self.words
    }

    /// To be read at the path that it has outside.
    ///
    /// # Errors
    /// If whoever runs inside could not read it.
    pub(super) fn read(&mut self, path: &Path) -> Result<(), String> {
        self.read_at(path, path)
    }

    /// To be read at another path.
    ///
    /// # Errors
    /// If whoever runs inside could not read it.
    pub(super) fn read_at(&mut self, outside: &Path, inside: &Path) -> Result<(), String> {
        self.make_way(inside);
        match outside.metadata() {
            Ok(metadata) if !self.may_read(&metadata) => match metadata.is_dir() {
                true => self.one_by_one(outside, inside, 0),
                false => Err(closed(outside)),
            },
            // What is not there is for bwrap to say.
            _ => {
                self.add("--ro-bind", outside, inside);
                Ok(())
            }
        }
    }

    /// To be written, too.
    pub(super) fn write_at(&mut self, outside: &Path, inside: &Path) {
        self.make_way(inside);
        self.add("--bind", outside, inside);
    }

    fn add(&mut self, flag: &str, outside: &Path, inside: &Path) {
        self.words.extend([flag.into(), outside.into(), inside.into()]);
    }

    /// Opens the directories above a path, which bwrap would close to others than root.
    fn make_way(&mut self, path: &Path) {
        if self.identity != Identity::Nobody {
            return;
        }
        let of_the_system = |path: &Path| SYSTEM.iter().any(|shown| path.starts_with(shown));
        let made = ["/", "/tmp", "/proc", "/dev"].map(Path::new);
        let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
        above.reverse();
        for directory in above.into_iter().filter(|path| !made.contains(path) && !of_the_system(path)) {
            self.open_directory(directory);
        }
    }

    fn open_directory(&mut self, path: &Path) {
        self.words.extend(["--perms".into(), "0755".into(), "--dir".into(), path.into()]);
    }

    /// Whether whoever runs inside can read it.
    fn may_read(&self, metadata: &Metadata) -> bool {
        is_open(metadata, self.identity)
    }

    /// Shows what a closed directory holds, and leaves out what of it is closed itself.
    fn one_by_one(&mut self, outside: &Path, inside: &Path, depth: usize) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{} cannot be shown in a sandbox: {error}", outside.display());
        self.open_directory(inside);
        for entry in outside.read_dir().map_err(failed)? {
            let (outside, inside) = {
                let name = entry.map_err(failed)?.file_name();
                (outside.join(&name), inside.join(&name))
            };
            self.one_by_one += 1;
            if self.one_by_one > ONE_BY_ONE {
                return Err(closed(outside.parent().unwrap_or(&outside)));
            }
            if let Ok(target) = outside.read_link() {
                self.add("--symlink", &target, &inside);
                continue;
            }
            match outside.metadata() {
                Ok(metadata) if self.may_read(&metadata) => self.add("--ro-bind", &outside, &inside),
                Ok(metadata) if metadata.is_dir() && depth < DEPTH => self.one_by_one(&outside, &inside, depth + 1)?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether programs of an identity can read what is at a path; what is not there is for others to say.
///
/// # Errors
/// What to do, if they cannot.
pub(super) fn may_be_read(path: &Path, identity: Identity) -> Result<(), String> {
    match path.metadata() {
        Ok(metadata) if !is_open(&metadata, identity) => Err(closed(path)),
        _ => Ok(()),
    }
}

fn is_open(metadata: &Metadata, identity: Identity) -> bool {
    let Some(user) = identity.owner() else { return true };
    let needed = if metadata.is_dir() { 0o5 } else { 0o4 };
    let shift = if metadata.uid() == user { 6 } else { 0 };
    (metadata.permissions().mode() >> shift) & needed == needed
}

fn closed(path: &Path) -> String {
    let path = path.display();
    format!(
        "{path} is closed to others than root, and programs in a sandbox are never root; help: chmod -R o+rX '{path}'"
    )
}
