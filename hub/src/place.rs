//! Where a model goes: a directory, and the one in it for what is not whole yet.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use fulgurite_engine::bytes_text;

use crate::digest::file_is;
use crate::download::WantedFile;

/// In the model's directory: parts of files, and whole files until all are there.
const STAGING: &str = ".fetch";
/// A directory without it is taken for no model, so that it comes last.
const LAST: &str = "config.json";

/// A model's directory, held against other commands of this kind.
pub(crate) struct Place {
    directory: PathBuf,
    staging: PathBuf,
    /// Goes with the process.
    _lock: File,
}

impl Place {
    /// Makes the directory unless it is there.
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let staging = directory.join(STAGING);
        let context = || format!("cannot write into {}", directory.display());
        std::fs::create_dir_all(&staging).with_context(context)?;
        let lock = File::create(staging.join("lock")).with_context(context)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { directory: directory.to_owned(), staging, _lock: lock }),
            Err(TryLockError::WouldBlock) => bail!("another command is fetching into {}", directory.display()),
            Err(TryLockError::Error(error)) => Err(error).with_context(context),
        }
    }

    /// Whether the file is there already. Another one in its place is never overwritten.
    pub(crate) fn holds(&self, file: &WantedFile) -> Result<bool> {
        let path = self.path(&file.path);
        if !path.try_exists().with_context(|| format!("cannot read {}", path.display()))? {
            return Ok(false);
        }
        let same = path.is_file()
            && file_is(&path, file.size, file.digest.as_ref())
                .with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(
            same,
            "{} is there and is another file than the hub's; delete it, or name another directory",
            path.display()
        );
        Ok(true)
    }

    /// Where a file of the model's is in the end.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.directory.join(path)
    }

    /// Where a file grows. The name says which file it is, so that another revision's is not gone on with.
    pub(crate) fn part(&self, commit: &str, file: &WantedFile) -> PathBuf {
        let identity = file.digest.as_ref().map_or(commit, |digest| digest.digits());
        self.staging.join(format!("{}.{}.part", file.path.replace('/', "%"), &identity[..16]))
    }

    /// Refuses what the disk has no room for, before anything of it is fetched.
    pub(crate) fn check_room(&self, commit: &str, files: &[WantedFile]) -> Result<()> {
        let there = |file| std::fs::metadata(self.part(commit, file)).map_or(0, |part| part.len());
        let missing = files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.size.saturating_sub(there(file))));
        let disk = rustix::fs::statvfs(&self.directory)
            .with_context(|| format!("cannot ask how much room {} has", self.directory.display()))?;
        let room = disk.f_bavail.saturating_mul(disk.f_frsize);
        ensure!(
            missing <= room,
            "{} more are to come, and the disk of {} has room for {}",
            bytes_text(missing),
            self.directory.display(),
            bytes_text(room)
        );
        Ok(())
    }

    /// Puts files that are all whole where they belong, and takes away what earlier commands left.
    pub(crate) fn settle(self, commit: &str, mut files: Vec<WantedFile>) -> Result<()> {
        files.sort_by_key(|file| file.path == LAST);
        for file in &files {
            let path = self.path(&file.path);
            self.put(&self.part(commit, file), &path).with_context(|| format!("cannot write {}", path.display()))?;
        }
        let cleared = std::fs::remove_dir_all(&self.staging).and_then(|()| File::open(&self.directory)?.sync_all());
        cleared.with_context(|| format!("cannot write into {}", self.directory.display()))
    }

    fn put(&self, part: &Path, path: &Path) -> std::io::Result<()> {
        let folder = path.parent().unwrap_or(&self.directory);
        std::fs::create_dir_all(folder)?;
        std::fs::rename(part, path)?;
        File::open(folder)?.sync_all()
    }
}
