//! Removes a directory that an agent has had to itself.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Removes a directory with all that is in it, also where an agent has taken away the right to. Links are not followed.
///
/// # Errors
/// If something stays.
pub(crate) fn remove_all(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            open_up(directory)?;
            fs::remove_dir_all(directory)
        }
        removed => removed,
    }
}

/// Gives this user every right to the directories below, the outermost first.
fn open_up(directory: &Path) -> io::Result<()> {
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        fs::set_permissions(&directory, Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                left.push(entry.path());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_was_closed_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let world = directory.path().join("world");
        fs::create_dir_all(world.join("a/b")).unwrap();
        fs::write(world.join("a/b/file"), "x").unwrap();
        for closed in ["a/b", "a"] {
            fs::set_permissions(world.join(closed), Permissions::from_mode(0o0)).unwrap();
        }
        open_up(&world).unwrap();
        remove_all(&world).unwrap();
        remove_all(&world).unwrap();
        assert!(!world.exists());
    }
}
