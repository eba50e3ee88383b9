//! Directories of weights: removed, copied.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::TrainError;

/// How the name of a directory ends that is being removed.
const REMOVED: &str = "removed";

/// Says of a file what is wrong with it.
pub(crate) fn file_error(path: &Path, error: &std::io::Error) -> TrainError {
    TrainError::File { path: path.to_owned(), message: error.to_string() }
}

/// Removes a directory, if it is there. It loses its name first: a process that is killed meanwhile leaves no directory that
/// lacks some of its files. What it leaves goes with the next one that is removed from the same place.
pub(crate) fn remove_directory(directory: &Path) -> Result<(), TrainError> {
    let unnamed = with_end(directory, REMOVED);
    let removed = remove_left(directory.parent()).and_then(|()| match std::fs::rename(directory, &unnamed) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => clear(&unnamed),
    });
    removed.map_err(|error| file_error(directory, &error))
}

/// Removes what a process left that was killed while it removed.
fn remove_left(parent: Option<&Path>) -> std::io::Result<()> {
    let entries = match parent.map(std::fs::read_dir) {
        Some(Ok(entries)) => entries,
        Some(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => return Ok(()),
    };
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == REMOVED) {
            clear(&path)?;
        }
    }
    Ok(())
}

fn clear(directory: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn with_end(directory: &Path, end: &str) -> PathBuf {
    let mut path = directory.as_os_str().to_owned();
    path.push(".");
    path.push(end);
    path.into()
}

/// Copies a directory's files to another, which is made anew; durable on return.
pub(crate) async fn copy_directory(from: &Path, to: &Path) -> Result<(), TrainError> {
    let (source, target) = (from.to_owned(), to.to_owned());
    let copied = tokio::task::spawn_blocking(move || {
        remove_directory(&target)?;
        copy(&source, &target).map_err(|error| file_error(&target, &error))
    });
    copied.await.map_err(|error| TrainError::File { path: to.to_owned(), message: error.to_string() })?
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let copied = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &copied)?;
        } else {
            std::fs::copy(entry.path(), &copied)?;
            File::open(&copied)?.sync_all()?;
        }
    }
    File::open(to)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_loses_its_name_before_its_files() {
        let place = tempfile::tempdir().unwrap();
        let (one, left) = (place.path().join("000002"), place.path().join("000001.removed"));
        for directory in [&one, &left] {
            std::fs::create_dir(directory).unwrap();
            std::fs::write(directory.join("file"), "x").unwrap();
        }
        remove_directory(&one).unwrap();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "with what a killed process left");
        remove_directory(&one).unwrap();
        remove_directory(&place.path().join("none/000001")).unwrap();
    }
}
