//! Names of files, and files that are whole or not there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::error::ToolError;

/// Characters of a name.
const NAME_LENGTH: usize = 64;

/// A name is a file's: letters, digits, and `.`, `_`, `-` not at its beginning.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    match letters && name.len() <= NAME_LENGTH && name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric()) {
        true => Ok(()),
        false => Err(format!(
            "{name:?} is no name: it must have letters, digits, `.`, `_` and `-` alone, {NAME_LENGTH} at most, and begin with a \
             letter or a digit"
        )),
    }
}

/// Opens a file to read it. What is no file of bytes, such as a pipe that nobody writes to, is refused without waiting for it.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    // Looked at before, since to open a device can do something, and after, since it may have been replaced.
    check_regular(&fs::metadata(path)?)?;
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    check_regular(&file.metadata()?)?;
    Ok(file)
}

fn check_regular(metadata: &fs::Metadata) -> io::Result<()> {
    match metadata.is_file() {
        true => Ok(()),
        false if metadata.is_dir() => Err(io::Error::other("it is a directory, not a file")),
        false => Err(io::Error::other("it is no regular file, but a pipe, a socket or a device")),
    }
}

/// The text of a file, opened as [`open_file`] does.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_file(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Copies a file that is opened as [`open_file`] does.
pub(crate) fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    io::copy(&mut open_file(from)?, &mut File::create(to)?).map(drop)
}

/// Writes a file that is whole or not there.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), ToolError> {
    let fresh = path.with_extension("new");
    fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, path)).map_err(ToolError::file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_nobody_writes_to_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        for path in [pipe.as_path(), Path::new("/dev/zero"), directory.path()] {
            assert!(open_file(path).is_err() && read_text(path).is_err(), "{}", path.display());
            assert!(copy_file(path, &directory.path().join("copy")).is_err());
        }
        fs::write(directory.path().join("file"), "text").unwrap();
        assert_eq!(read_text(&directory.path().join("file")).unwrap(), "text");
    }

    #[test]
    fn a_name_stays_in_its_directory() {
        assert!(check_name("a-1.b_c").is_ok());
        for name in ["", ".", "..", ".a", "-a", "a/b", "a b", "\u{e9}", &"a".repeat(65)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
