//! Files that appear under their names once they are whole.

use std::path::{Path, PathBuf};

/// A file that is being written next to the place where it will be.
pub struct UnfinishedFile {
    path: PathBuf,
    finished: PathBuf,
}

impl UnfinishedFile {
    /// Of a file that will be at `finished`. Nothing is made yet.
    pub fn of(finished: &Path) -> Self {
        let mut name = finished.file_name().unwrap_or_default().to_owned();
        name.push(".unfinished");
        // In the same directory, so that it can be renamed.
        Self { path: finished.with_file_name(name), finished: finished.to_owned() }
    }

    /// Where it is written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// If the system does not rename it.
    pub fn finish(self) -> std::io::Result<()> {
        std::fs::rename(&self.path, &self.finished)
    }

    /// Removes what was written.
    pub fn discard(self) {
        // Why it is removed is the error to be told.
        let _ = std::fs::remove_file(&self.path);
    }
}
