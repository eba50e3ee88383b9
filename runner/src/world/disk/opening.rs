//! Opens to the runner what an agent has closed, so that whoever comes after the agent can read what it left.

use std::ffi::CString;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fd::AsFd;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::closed;
use super::removal::open_up;

/// Directories within directories that are looked into. Each takes a descriptor meanwhile.
const DEPTH: usize = 200;

/// Opens a world in its home: the world gets every right of its owner's, and what is below the right to be read. Links are not
/// followed, and what belongs to somebody else stays as it is.
///
/// # Errors
/// If the world is not there any more, or cannot be opened.
pub(crate) fn open_world(home: &Path, files: &Path) -> io::Result<()> {
    let missing =
        || io::Error::new(ErrorKind::NotFound, "the agent has removed it, or put something else in its place");
    let name = files.file_name().ok_or(ErrorKind::InvalidInput)?;
    let home = open_up(CWD, home)?.ok_or_else(missing)?;
    let world = open_up(&home, CString::new(name.as_bytes())?.as_c_str())?.ok_or_else(missing)?;
    open_within(&world, 0)
}

fn open_within(directory: impl AsFd, depth: usize) -> io::Result<()> {
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if [c".", c".."].contains(&name) {
            continue;
        }
        let opened = match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if stat.st_uid != geteuid().as_raw() => continue,
            Ok(stat) => match (FileType::from_raw_mode(stat.st_mode), Mode::from_raw_mode(stat.st_mode)) {
                (FileType::Directory, _) if depth == DEPTH => continue,
                (FileType::Directory, mode) => open_directory(&directory, name, mode, depth),
                (FileType::RegularFile, mode) if !mode.contains(Mode::RUSR) => {
                    Ok(closed::make_readable(&directory, name)?)
                }
                _ => Ok(()),
            },
            Err(error) => Err(error.into()),
        };
        match opened {
            // A process that the agent has left behind may have taken it away.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            opened => opened?,
        }
    }
    Ok(())
}

fn open_directory(parent: impl AsFd, name: &std::ffi::CStr, mode: Mode, depth: usize) -> io::Result<()> {
    let readable = Mode::RUSR | Mode::XUSR;
    let opened = if mode.contains(readable) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&parent, name, flags, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP) => None,
            opened => Some(opened?),
        }
    } else {
        open_up(&parent, name)?
    };
    opened.map_or(Ok(()), |directory| open_within(directory, depth + 1))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.symlink_metadata().unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn what_an_agent_closed_can_be_read_and_what_was_open_and_what_links_lead_to_keeps_its_mode() {
        let (home, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let world = home.path().join("files");
        let at = |name: &str| world.join(name);
        fs::create_dir_all(at("closed/inner")).unwrap();
        fs::create_dir(at("read-only")).unwrap();
        for (path, bits) in
            [(at("closed/inner/file"), 0o0), (at("read-only/file"), 0o400), (outside.path().join("x"), 0o0)]
        {
            fs::write(&path, "x").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(bits)).unwrap();
        }
        symlink(outside.path().join("x"), at("link")).unwrap();
        symlink(outside.path(), at("directory")).unwrap();
        let closed = [
            (at("closed/inner"), 0o0),
            (at("closed"), 0o200),
            (at("read-only"), 0o500),
            (world.clone(), 0o0),
            (outside.path().to_owned(), 0o500),
        ];
        for (path, bits) in &closed {
            fs::set_permissions(path, Permissions::from_mode(*bits)).unwrap();
        }
        open_world(home.path(), &world).unwrap();
        let modes = ["", "closed", "closed/inner", "closed/inner/file", "read-only", "read-only/file"]
            .map(|at| mode(&world.join(at)));
        assert_eq!(modes, [0o700, 0o700, 0o700, 0o400, 0o500, 0o400]);
        assert_eq!([mode(outside.path()), mode(&outside.path().join("x"))], [0o500, 0o0]);
    }

    #[test]
    fn a_world_that_an_agent_removed_or_replaced_by_a_link_is_missing() {
        let home = tempfile::tempdir().unwrap();
        let world = home.path().join("files");
        let kind = || open_world(home.path(), &world).unwrap_err().kind();
        assert_eq!(kind(), ErrorKind::NotFound);
        symlink("/etc", &world).unwrap();
        assert_eq!(kind(), ErrorKind::NotFound);
    }
}
