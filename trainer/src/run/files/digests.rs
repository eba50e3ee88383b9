//! What the files of a checkpoint are, by their digests.

use std::path::{Path, PathBuf};

use fulgurite_backends::{DIGEST_LIST, FileDamage, FileDigests, file_digest, listed_digests};

use crate::TrainError;
use crate::directories::file_error;

/// Digests of the files below a directory that its list of digests does not tell of, and of that list. Reads every byte
/// of them, on a thread of its own.
pub(crate) async fn file_digests(directory: &Path) -> Result<FileDigests, TrainError> {
    let directory = directory.to_owned();
    in_background(&directory.clone(), move || {
        let listed = listed_digests(&directory).map_err(|damage| list_error(&directory, &damage))?.unwrap_or_default();
        let mut digests = FileDigests::new();
        add_digests(&directory, "", &listed, &mut digests)?;
        Ok(digests)
    })
    .await
}

fn add_digests(
    directory: &Path,
    prefix: &str,
    listed: &FileDigests,
    digests: &mut FileDigests,
) -> Result<(), TrainError> {
    let failed = |error: std::io::Error| file_error(directory, &error);
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let name = format!("{prefix}{name}");
        if path.is_dir() {
            add_digests(&path, &format!("{name}/"), listed, digests)?;
        } else if !listed.contains_key(&name) {
            let digest = file_digest(&path).map_err(|error| file_error(&path, &error))?;
            digests.insert(name, digest);
        }
    }
    Ok(())
}

fn list_error(directory: &Path, damage: &FileDamage) -> TrainError {
    TrainError::File { path: directory.join(DIGEST_LIST), message: damage.to_string() }
}

pub(crate) async fn in_background<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> Result<T, TrainError> + Send + 'static,
) -> Result<T, TrainError> {
    let path = PathBuf::from(path);
    let ended = tokio::task::spawn_blocking(work).await;
    ended.map_err(|error| TrainError::File { path, message: error.to_string() })?
}
