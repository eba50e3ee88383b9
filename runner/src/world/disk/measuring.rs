//! Measures what a directory holds while an agent may write to them.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dev, Dir, FileType, Mode, OFlags, Stat, fchmod, openat, statat};
use rustix::io::Errno;
use rustix::path::Arg;
use rustix::process::geteuid;

use super::removal::open_up;

/// What a file, a link or a directory counts at least, so that many empty ones are not free.
const LEAST: u64 = 4096;
/// Directories within directories that are looked into. Each takes a descriptor meanwhile.
const DEPTH: usize = 200;
/// Bytes of a block, as the system counts them.
const BLOCK: u64 = 512;

/// What directories hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measured {
    /// Bytes on the disk. A file of several names counts once.
    Bytes(u64),
    /// Directories that lie deeper in each other than is looked into.
    TooDeep,
}

/// Measures what is in a directory. What is closed to the runner is opened for a moment.
///
/// # Errors
/// If the system does not say.
pub(crate) fn measure(directory: &Path) -> io::Result<Measured> {
    let mut measuring = Measuring { bytes: 0, known: HashSet::new() };
    match measuring.below(CWD, directory, 0) {
        Ok(()) => Ok(Measured::Bytes(measuring.bytes)),
        Err(Stop::TooDeep) => Ok(Measured::TooDeep),
        Err(Stop::System(error)) => Err(error.into()),
    }
}

struct Measuring {
    bytes: u64,
    /// Files of several names, by device and number.
    known: HashSet<(Dev, u64)>,
}

enum Stop {
    TooDeep,
    System(Errno),
}

impl From<Errno> for Stop {
    fn from(error: Errno) -> Self {
        Self::System(error)
    }
}

impl Measuring {
    fn below(&mut self, parent: impl AsFd, name: impl Arg + Copy, depth: usize) -> Result<(), Stop> {
        if depth > DEPTH {
            return Err(Stop::TooDeep);
        }
        let Some((directory, closed)) = open(parent, name)? else { return Ok(()) };
        let measured = self.within(&directory, depth);
        if let Some(mode) = closed {
            fchmod(&directory, mode)?;
        }
        measured
    }

    fn within(&mut self, directory: impl AsFd, depth: usize) -> Result<(), Stop> {
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if [c".", c".."].contains(&name) {
                continue;
            }
            let stat = match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT | Errno::ACCESS) => continue,
                stat => stat?,
            };
            self.count(&stat);
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                self.below(&directory, name, depth + 1)?;
            }
        }
        Ok(())
    }

    fn count(&mut self, stat: &Stat) {
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let is_known = !is_directory && stat.st_nlink > 1 && !self.known.insert((stat.st_dev, stat.st_ino));
        let blocks = if is_known { 0 } else { u64::try_from(stat.st_blocks).unwrap_or_default() };
        self.bytes = self.bytes.saturating_add(blocks.saturating_mul(BLOCK).max(LEAST));
    }
}

/// Opens a directory, and gives the mode that it had if it was closed; none if it is no directory, or somebody else's.
fn open(parent: impl AsFd, name: impl Arg + Copy) -> Result<Option<(OwnedFd, Option<Mode>)>, Stop> {
    let stat = match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => return Ok(None),
        stat => stat?,
    };
    let mode = Mode::from_raw_mode(stat.st_mode);
    let is_closed = stat.st_uid == geteuid().as_raw() && !mode.contains(Mode::RUSR | Mode::XUSR);
    if is_closed {
        return Ok(open_up(&parent, name)?.map(|opened| (opened, Some(mode))));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(&parent, name, flags, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => Ok(None),
        opened => Ok(Some((opened?, None))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn bytes(directory: &Path) -> u64 {
        match measure(directory).unwrap() {
            Measured::Bytes(bytes) => bytes,
            Measured::TooDeep => panic!("it is not deep"),
        }
    }

    #[test]
    fn what_is_closed_counts_and_what_links_lead_to_does_not() {
        let (world, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("file"), vec![1; 1 << 20]).unwrap();
        symlink(outside.path(), world.path().join("link")).unwrap();
        let closed = world.path().join("closed");
        fs::create_dir(&closed).unwrap();
        let empty = bytes(world.path());
        assert_eq!(empty, 2 * LEAST);
        fs::write(closed.join("file"), vec![1; 1 << 20]).unwrap();
        fs::hard_link(closed.join("file"), closed.join("again")).unwrap();
        fs::set_permissions(&closed, Permissions::from_mode(0o0)).unwrap();
        let full = bytes(world.path());
        assert!((1 << 20..2 << 20).contains(&(full - empty)), "{empty} {full}");
        assert_eq!(closed.metadata().unwrap().permissions().mode() & 0o777, 0o0);
    }

    #[test]
    fn many_empty_files_are_not_free_and_what_is_too_deep_is_told_apart() {
        let world = tempfile::tempdir().unwrap();
        (0..100).for_each(|n| fs::write(world.path().join(n.to_string()), "").unwrap());
        assert!(bytes(world.path()) >= 100 * LEAST);
        fs::create_dir_all(world.path().join(["d"; DEPTH + 1].join("/"))).unwrap();
        assert_eq!(measure(world.path()).unwrap(), Measured::TooDeep);
        assert!(measure(&world.path().join("missing")).is_ok());
    }
}
