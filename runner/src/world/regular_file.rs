//! Files of a world, where its agent may have put something else: a link is not followed, and a pipe not waited for.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
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

/// Reads the text of a regular file of at most `limit` bytes.
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<String, ReadFault> {
    let file = open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => ReadFault::Missing,
        // What a link is to those who do not follow it.
        _ if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => ReadFault::Irregular,
        _ => ReadFault::System(error),
    })?;
    if !file.metadata().map_err(ReadFault::System)?.is_file() {
        return Err(ReadFault::Irregular);
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(ReadFault::System)?;
    match bytes.len() as u64 > limit {
        true => Err(ReadFault::TooLong(limit)),
        false => Ok(String::from_utf8_lossy(&bytes).into_owned()),
    }
}
