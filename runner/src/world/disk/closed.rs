//! Opens what this user owns and has no right to, without following a link to it.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, openat};
use rustix::path::Arg;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Gives this user every right to a directory, and opens it.
///
/// # Errors
/// If there is none, or something else has the name.
pub(super) fn open_directory(parent: impl AsFd, name: impl Arg + Copy) -> rustix::io::Result<OwnedFd> {
    match grant(&parent, name, FileType::Directory, Mode::RWXU)? {
        // What was granted is opened, whatever has the name by now.
        Some(place) => openat(&place, ".", FOLDER, Mode::empty()),
        None => openat(&parent, name, FOLDER, Mode::empty()),
    }
}

/// Gives this user the right to read a file; nothing happens to what is none.
///
/// # Errors
/// If nothing has the name.
pub(super) fn make_readable(parent: impl AsFd, name: impl Arg + Copy) -> rustix::io::Result<()> {
    grant(&parent, name, FileType::RegularFile, Mode::RUSR).map(drop)
}

/// Gives the rights to what has the name, if it is of this kind; gives its descriptor where the system has such ones.
#[cfg(target_os = "linux")]
fn grant(parent: impl AsFd, name: impl Arg, kind: FileType, rights: Mode) -> rustix::io::Result<Option<OwnedFd>> {
    use rustix::fd::AsRawFd;

    // A descriptor that only says which file it is takes no right to it, and no link's place.
    let place = openat(parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let mode = rustix::fs::fstat(&place)?.st_mode;
    if FileType::from_raw_mode(mode) != kind {
        return Ok(Some(place));
    }
    rustix::fs::chmod(format!("/proc/self/fd/{}", place.as_raw_fd()), Mode::from_raw_mode(mode) | rights)?;
    Ok(Some(place))
}

/// Other systems than Linux change the mode of what has a name, and never that of what a link leads to.
#[cfg(not(target_os = "linux"))]
fn grant(
    parent: impl AsFd,
    name: impl Arg + Copy,
    kind: FileType,
    rights: Mode,
) -> rustix::io::Result<Option<OwnedFd>> {
    use rustix::fs::{AtFlags, chmodat, statat};

    let mode = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode;
    if FileType::from_raw_mode(mode) != kind {
        return Ok(None);
    }
    chmodat(&parent, name, Mode::from_raw_mode(mode) | rights, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(None)
}
