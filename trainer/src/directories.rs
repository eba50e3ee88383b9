//! Directories of weights: removed, copied.

use std::fs::File;
use std::path::Path;

use crate::TrainError;

/// Says of a file what is wrong with it.
pub(crate) fn file_error(path: &Path, error: &std::io::Error) -> TrainError {
    TrainError::File { path: path.to_owned(), message: error.to_string() }
}

/// Removes a directory, if it is there.
pub(crate) fn remove_directory(directory: &Path) -> Result<(), TrainError> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(file_error(directory, &error)),
        _ => Ok(()),
    }
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
