//! Files where somebody else may have put something else, such as a world's agent or a task's author: a link is not followed,
//! and a pipe not waited for.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadFault {
    /// There is none.
    #[error("there is no such file")]
    Missing,
    /// It is a link, a directory, a device.
    #[error("it is no regular file")]
    Irregular,
    /// It has too many bytes.
    #[error("it has more than {0} bytes")]
    TooLong(u64),
    /// The system does not give it.
    #[error("it cannot be read: {0}")]
    System(io::Error),
}

/// Opens what is there for reading.
///
/// # Errors
/// If it cannot be opened, as a link never can.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Opens a directory below `directory`, no part of whose path from there may be a link.
///
/// # Errors
/// If there is none, or a part of its path is something else.
pub(crate) fn open_directory(directory: &Path, path: &Path) -> io::Result<File> {
    descend(rustix::fs::open(directory, FOLDER, Mode::empty())?, path)
}

/// The same, where `directory` may be no link either.
fn open_without_links(directory: &Path, path: &Path) -> io::Result<File> {
    descend(rustix::fs::open(directory, FOLDER | OFlags::NOFOLLOW, Mode::empty())?, path)
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

fn descend(mut opened: OwnedFd, path: &Path) -> io::Result<File> {
    for part in path.components() {
        let Component::Normal(name) = part else { return Err(ErrorKind::InvalidInput.into()) };
        opened = rustix::fs::openat(&opened, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(opened.into())
}

/// Opens a regular file in a directory that is open.
///
/// # Errors
/// If there is none, or it is something else.
pub(crate) fn open_in(directory: &File, name: &std::ffi::OsStr) -> Result<File, ReadFault> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::empty()).map(File::from);
    regular(file.map_err(io::Error::from))
}

/// Reads the text of a regular file of at most `limit` bytes below `directory`. Neither that nor a part of the path from there
/// may be a link: it goes from descriptor to descriptor, so that nobody can put one in its way.
pub(crate) fn read_text(directory: &Path, path: &Path, limit: u64) -> Result<String, ReadFault> {
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_)));
    let path: PathBuf = parts.collect();
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(ReadFault::Irregular) };
    let parent = open_without_links(directory, parent).map_err(|error| match error.raw_os_error() {
        Some(number) if [Errno::NOTDIR, Errno::LOOP].map(Errno::raw_os_error).contains(&number) => ReadFault::Irregular,
        _ if error.kind() == ErrorKind::NotFound => ReadFault::Missing,
        _ => ReadFault::System(error),
    })?;
    let file = open_in(&parent, name)?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(ReadFault::System)?;
    match bytes.len() as u64 > limit {
        true => Err(ReadFault::TooLong(limit)),
        false => Ok(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

/// What was opened, if it is a regular file.
fn regular(opened: io::Result<File>) -> Result<File, ReadFault> {
    let file = opened.map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => ReadFault::Missing,
        // What a link is to those who do not follow it.
        _ if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => ReadFault::Irregular,
        _ => ReadFault::System(error),
    })?;
    match file.metadata().map_err(ReadFault::System)?.is_file() {
        true => Ok(file),
        false => Err(ReadFault::Irregular),
    }
}
