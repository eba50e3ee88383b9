//! Names of files, and files that are whole or not there.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
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
    written_whole(path, text).map_err(ToolError::file(path))
}

/// Each call writes a file of its own until it is whole, which is removed if it does not get there.
fn written_whole(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    // As any new file of this user.
    let mut unfinished = tempfile::Builder::new().permissions(Permissions::from_mode(0o666)).tempfile_in(directory)?;
    unfinished.write_all(text.as_bytes())?;
    unfinished.persist(path)?;
    Ok(())
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

    /// Calls at the same time wrote one unfinished file, which the first of them renamed.
    #[test]
    fn files_that_are_written_at_the_same_time_are_whole_and_leave_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let (path, folder) = (directory.path().join("report.html"), directory.path().join("folder"));
        fs::create_dir(&folder).unwrap();
        std::thread::scope(|scope| {
            for letter in ["a", "b", "c", "d"] {
                let path = &path;
                scope.spawn(move || {
                    let text = letter.repeat(10_000);
                    (0..50).for_each(|_| write_whole(path, &text).unwrap());
                });
            }
        });
        let written = read_text(&path).unwrap();
        assert!(["a", "b", "c", "d"].iter().any(|letter| written == letter.repeat(10_000)));
        assert!(write_whole(&folder, "text").is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_name_stays_in_its_directory() {
        assert!(check_name("a-1.b_c").is_ok());
        for name in ["", ".", "..", ".a", "-a", "a/b", "a b", "\u{e9}", &"a".repeat(65)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
