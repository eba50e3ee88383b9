//! Removes directories that an agent has had to itself.

use std::ffi::{CStr, CString};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, fchmod, fstat, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;
use uuid::Uuid;

use super::closed;

/// What systems answer who unlinks a directory as if it were a file.
const IS_DIRECTORY: Errno = if cfg!(target_os = "linux") { Errno::ISDIR } else { Errno::PERM };

/// Removes a directory from the one above it, which stays and may be no link.
///
/// # Errors
/// If something stays.
pub(crate) fn remove_below(home: &Path, files: &Path) -> io::Result<()> {
    match (open_up(CWD, home)?, files.file_name()) {
        (Some(home), Some(name)) => Ok(remove_in(home, &CString::new(name.as_bytes())?)?),
        _ => Ok(()),
    }
}

/// Removes what is at a path with all that is in it, as [`remove_in`] does. The way to it has to be the runner's own.
///
/// # Errors
/// If something stays.
pub(crate) fn remove_all(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(ErrorKind::InvalidInput.into());
    };
    match rustix::fs::open(parent, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT) => Ok(()),
        parent => Ok(remove_in(&parent?, &CString::new(name.as_bytes())?)?),
    }
}

/// Removes what has that name in a directory with all that is in it, also where an agent has taken away the right to.
///
/// It goes from descriptor to descriptor, and never by what was there before: a process that an agent has left behind can put a
/// link in the place of a directory at any time, and the link is removed then, not followed.
///
/// Directories within directories are moved to the uppermost before they are emptied: an agent can make them deeper than a path
/// may be long, and than a process may have files open.
///
/// # Errors
/// If something stays.
pub(crate) fn remove_in(parent: impl AsFd, name: &CStr) -> rustix::io::Result<()> {
    if disconnected(&parent, name)? {
        return Ok(());
    }
    let Some(uppermost) = open_up(&parent, name)? else { return unlink(&parent, name, AtFlags::empty()) };
    let mut left = Vec::new();
    empty(&uppermost, |within| {
        left.push(within.to_owned());
        Ok(())
    })?;
    let mut moved = 0_u64;
    let aside = Uuid::now_v7().simple().to_string();
    while let Some(next) = left.pop() {
        let Some(opened) = open_up(&uppermost, &next)? else {
            unlink(&uppermost, &next, AtFlags::empty())?;
            continue;
        };
        empty(&opened, |within| {
            // Whoever moves a directory has to be allowed to write to it.
            open_up(&opened, within)?;
            let name = CString::new(format!("{aside}-{moved}")).map_err(|_| Errno::INVAL)?;
            match renameat(&opened, within, &uppermost, &name) {
                Err(Errno::NOENT) => return Ok(()),
                renamed => renamed?,
            }
            moved += 1;
            left.push(name);
            Ok(())
        })?;
        unlink(&uppermost, &next, AtFlags::REMOVEDIR)?;
    }
    unlink(&parent, name, AtFlags::REMOVEDIR)
}

/// Removes all from a directory but the directories in it, which it hands over.
fn empty(directory: impl AsFd, mut take: impl FnMut(&CStr) -> rustix::io::Result<()>) -> rustix::io::Result<()> {
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if ![c".", c".."].contains(&name) && !disconnected(&directory, name)? {
            take(name)?;
        }
    }
    Ok(())
}

/// Removes what has that name, unless it is a directory; whether nothing has the name now.
pub(crate) fn disconnected(parent: impl AsFd, name: &CStr) -> rustix::io::Result<bool> {
    match unlink(parent, name, AtFlags::empty()) {
        Err(error) if error == IS_DIRECTORY => Ok(false),
        removed => removed.map(|()| true),
    }
}

fn unlink(parent: impl AsFd, name: &CStr, flags: AtFlags) -> rustix::io::Result<()> {
    match unlinkat(parent, name, flags) {
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    }
}

/// Opens a directory and gives this user every right to it, if it lacks one. There is none if something else is there.
pub(crate) fn open_up(parent: impl AsFd, name: impl Arg + Copy) -> rustix::io::Result<Option<OwnedFd>> {
    let folder = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match openat(&parent, name, folder | OFlags::RDONLY, Mode::empty()) {
        Err(Errno::ACCESS) => closed::open_directory(&parent, name),
        opened => opened,
    };
    let opened = match opened {
        // What a link is to those who do not follow it.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
        opened => opened?,
    };
    let mode = with_every_right(&opened)?;
    if Mode::from_raw_mode(fstat(&opened)?.st_mode) != mode {
        fchmod(&opened, mode)?;
    }
    Ok(Some(opened))
}

/// The mode that a directory has once its owner may do everything.
fn with_every_right(directory: impl AsFd) -> rustix::io::Result<Mode> {
    Ok(Mode::from_raw_mode(fstat(directory)?.st_mode) | Mode::RWXU)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    use super::*;

    #[test]
    fn closed_directories_are_removed_and_links_are_not_followed() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("file"), "x").unwrap();
        let world = root.path().join("world");
        fs::create_dir_all(world.join("a/b")).unwrap();
        fs::write(world.join("a/b/file"), "x").unwrap();
        symlink(outside.path(), world.join("a/link")).unwrap();
        for closed in ["a/b", "a"] {
            fs::set_permissions(world.join(closed), Permissions::from_mode(0o0)).unwrap();
        }
        remove_all(&world).unwrap();
        remove_all(&world).unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
        assert!(outside.path().join("file").exists());
    }

    #[test]
    fn directories_deeper_than_a_path_is_long_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let world = root.path().join("world");
        fs::create_dir(&world).unwrap();
        let script = "import os\nfor _ in range(3000):\n    os.mkdir('deep')\n    os.chdir('deep')\n";
        assert!(Command::new("python3").args(["-c", script]).current_dir(&world).status().unwrap().success());
        remove_all(&world).unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_link_in_the_place_of_a_directory_is_removed_and_what_it_leads_to_stays() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(outside.path().join("inner")).unwrap();
        fs::write(outside.path().join("inner/file"), "x").unwrap();
        fs::set_permissions(outside.path(), Permissions::from_mode(0o500)).unwrap();
        let (world, home) = (root.path().join("world"), root.path().join("home"));
        symlink(outside.path(), &world).unwrap();
        symlink(outside.path(), &home).unwrap();
        let opened = fs::File::open(root.path()).unwrap();
        assert!(open_up(&opened, c"world").unwrap().is_none(), "what was a directory is a link by now");
        remove_below(&home, &home.join("inner")).unwrap();
        remove_all(&world).unwrap();
        assert!(world.symlink_metadata().is_err() && outside.path().join("inner/file").exists());
        assert_eq!(outside.path().metadata().unwrap().permissions().mode() & 0o777, 0o500, "its mode is its own");
    }

    /// Between every two system calls of the removal the directory can be one or the other.
    #[test]
    fn a_directory_that_is_swapped_for_a_link_again_and_again_leads_nowhere() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("file"), "x").unwrap();
        let world = root.path().join("world");
        let (deep, spare) = (world.join("deep"), root.path().join("spare"));
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    let _link = symlink(outside.path(), &spare);
                    for _ in 0..2 {
                        let swap = rustix::fs::RenameFlags::EXCHANGE;
                        let _swapped = rustix::fs::renameat_with(CWD, &spare, CWD, &deep, swap);
                    }
                    let _directory = fs::remove_dir_all(&spare);
                }
            });
            for _ in 0..2000 {
                let _made = fs::create_dir_all(deep.join("a/b"));
                let _what_was_swapped_in_may_stay = remove_all(&world);
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert!(outside.path().join("file").exists());
    }
}
