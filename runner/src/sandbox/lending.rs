//! Lends directories to the user that sandboxed programs are where the runner is root, and takes them back.

use std::io;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Stat, Uid, chownat, openat, statat};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

/// Directories within directories that are looked into. Each takes a descriptor while what is in it changes hands.
const DEPTH: usize = 200;

/// Gives all that is in a directory, and the directory, to a user. Links are not followed, and files that have other names
/// as well stay whose they are: the other names may be in a cache or in a project.
///
/// # Errors
/// If something cannot be given.
pub(crate) fn lend(directory: &Path, user: u32) -> io::Result<()> {
    let has_other_names = |stat: &Stat| !is_directory(stat) && stat.st_nlink > 1;
    Giving { to: (Uid::from_raw(user), Gid::from_raw(user)), is_given: |stat: &Stat| !has_other_names(stat) }
        .give(directory)
}

/// Takes back what belongs to that user. Whatever they have made comes without the right to run as its owner.
///
/// # Errors
/// If something cannot be taken.
pub(crate) fn take_back(directory: &Path, user: u32) -> io::Result<()> {
    Giving { to: (geteuid(), getegid()), is_given: |stat: &Stat| stat.st_uid == user }.give(directory)
}

fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

struct Giving<G> {
    to: (Uid, Gid),
    is_given: G,
}

impl<G: Fn(&Stat) -> bool> Giving<G> {
    fn give(&self, directory: &Path) -> io::Result<()> {
        if !directory.try_exists()? {
            return Ok(());
        }
        let opened = openat(CWD, directory, FOLDER, Mode::empty())?;
        self.within(&opened, 0)?;
        chownat(CWD, directory, Some(self.to.0), Some(self.to.1), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(())
    }

    /// Goes from descriptor to descriptor, so that no link that is put in the way leads out.
    fn within(&self, directory: impl rustix::fd::AsFd, depth: usize) -> io::Result<()> {
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if [c".", c".."].contains(&name) {
                continue;
            }
            let stat = match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                stat => stat?,
            };
            if is_directory(&stat) {
                if depth == DEPTH {
                    tracing::warn!("directories of a world are too deep to change hands: what is below stays as it is");
                    continue;
                }
                self.within(openat(&directory, name, FOLDER, Mode::empty())?, depth + 1)?;
            }
            if (self.is_given)(&stat) {
                match chownat(&directory, name, Some(self.to.0), Some(self.to.1), AtFlags::SYMLINK_NOFOLLOW) {
                    Err(Errno::NOENT) | Ok(()) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn what_is_lent_comes_back_and_what_has_other_names_or_lies_behind_links_stays() {
        if !geteuid().is_root() {
            eprintln!("NOT RUN: only root lends files");
            return;
        }
        let (world, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (inside, cached) = (world.path().join("a/b"), outside.path().join("cached"));
        fs::create_dir(world.path().join("a")).unwrap();
        fs::write(&inside, "x").unwrap();
        fs::write(&cached, "x").unwrap();
        fs::hard_link(&cached, world.path().join("cached")).unwrap();
        symlink(outside.path(), world.path().join("link")).unwrap();
        lend(world.path(), 65_534).unwrap();
        let owner = |path: &Path| path.metadata().unwrap().uid();
        assert_eq!(
            [owner(world.path()), owner(&inside), owner(&cached), owner(outside.path())],
            [65_534, 65_534, 0, 0]
        );
        fs::set_permissions(&inside, fs::Permissions::from_mode(0o6755)).unwrap();
        take_back(world.path(), 65_534).unwrap();
        assert_eq!([owner(world.path()), owner(&inside), owner(&cached)], [0, 0, 0]);
        assert_eq!(inside.metadata().unwrap().mode() & 0o7777, 0o755, "nobody else's program runs as root");
    }
}
