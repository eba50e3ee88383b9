//! What is known of a world before it exists, on the disk where it will be: who died leaves enough to take it away.
//!
//! A world's home is a directory named after its attempt. It holds `lock`, which its runner holds for as long as it lives;
//! `world.json`, how to take the world away; and `files`, the world itself. A home that nobody holds is a dead runner's.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::hook_command::HookCommand;
use crate::sandbox::Container;

/// Held while homes are made and looked for, so that none is seen half made.
const MAKING: &str = ".lock";
const LOCK: &str = "lock";
const ENTRY: &str = "world.json";
/// The world itself.
pub(super) const FILES: &str = "files";
/// The home directory of a sandboxed agent.
pub(super) const AGENTS_HOME: &str = "home";
/// The file to which a setup writes variables.
pub(super) const VARIABLES: &str = "variables";

/// How a world is taken away.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Its container, which is ended first.
    pub container: Option<Container>,
    /// What takes away what is outside of its home.
    pub teardown: Option<HookCommand>,
    /// How long that may take.
    pub timeout: Duration,
}

/// A world's home, held for as long as this lives.
#[derive(Debug)]
pub(crate) struct Home {
    path: PathBuf,
    _lock: File,
}

impl Home {
    /// Makes the home of the world `name` below `directory`, durably. One of that name that a dead runner left is taken over.
    ///
    /// # Errors
    /// If the disk does not, or the name is held.
    pub(crate) fn make(directory: &Path, name: &str, entry: &Entry) -> io::Result<Self> {
        let _making = making(directory)?;
        let path = directory.join(name);
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let lock = lock(&path)?.ok_or_else(|| io::Error::new(ErrorKind::ResourceBusy, "another runner has it"))?;
        let home = Self { path, _lock: lock };
        home.write(entry)?;
        DirBuilder::new().mode(0o700).recursive(true).create(home.files())?;
        File::open(&home.path)?.sync_all()?;
        File::open(directory)?.sync_all()?;
        Ok(home)
    }

    /// Says how the world is taken away.
    fn write(&self, entry: &Entry) -> io::Result<()> {
        let new = self.path.join("world.json.new");
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(entry)?)?;
        file.sync_all()?;
        fs::rename(new, self.path.join(ENTRY))
    }

    /// How its world is taken away; `None` if its runner died before it said so, when there was no world yet.
    pub(crate) fn entry(&self) -> io::Result<Option<Entry>> {
        match fs::read(self.path.join(ENTRY)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The home itself.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The world's directory.
    pub(crate) fn files(&self) -> PathBuf {
        self.path.join(FILES)
    }
}

/// The homes of runners that have died, taken over.
///
/// # Errors
/// If the directory cannot be read.
pub(crate) fn abandoned(directory: &Path) -> io::Result<Vec<Home>> {
    let _making = making(directory)?;
    let mut homes = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir()
            && let Some(lock) = lock(&entry.path())?
        {
            homes.push(Home { path: entry.path(), _lock: lock });
        }
    }
    Ok(homes)
}

/// Has the directory to itself until it is dropped. Nobody holds it for longer than a few system calls.
fn making(directory: &Path) -> io::Result<File> {
    let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(directory.join(MAKING))?;
    file.lock()?;
    Ok(file)
}

/// Takes a home's lock; `None` if its runner lives.
fn lock(home: &Path) -> io::Result<Option<File>> {
    let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(home.join(LOCK))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_held_until_its_runner_is_gone_and_then_says_how_it_is_taken_away() {
        let directory = tempfile::tempdir().unwrap();
        let entry = Entry { container: None, teardown: None, timeout: Duration::from_secs(1) };
        let home = Home::make(directory.path(), "at-1", &entry).unwrap();
        assert!(home.files().is_dir());
        assert!(abandoned(directory.path()).unwrap().is_empty());
        let busy = Home::make(directory.path(), "at-1", &entry).unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::ResourceBusy);
        drop(home);
        fs::create_dir(directory.path().join("at-2")).unwrap();
        let mut homes = abandoned(directory.path()).unwrap();
        homes.sort_by(|a, b| a.path().cmp(b.path()));
        let entries: Vec<Option<Entry>> = homes.iter().map(|home| home.entry().unwrap()).collect();
        assert_eq!(entries, [Some(entry), None], "the second died before it had said anything");
    }
}
