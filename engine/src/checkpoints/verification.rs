use std::path::Path;
use std::thread::Builder;

use fulgurite_backends::{DamagedFiles, FileDamage, FileDigests, find_damage, listed_digests};

use crate::error::EngineError;

/// Reads from a directory, whose files are meanwhile compared with the digests that were written with them, if they
/// were. What was read of damaged files is dropped, and so is what their reading failed with.
pub(crate) fn verified<T>(directory: &Path, read: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    let Some(digests) = digests_of(directory)? else { return read() };
    std::thread::scope(|scope| {
        let compare = || find_damage(directory, &digests);
        let compared = Builder::new().name("fulgurite-digests".into()).spawn_scoped(scope, compare);
        let compared = compared.map_err(EngineError::io("compare digests of", directory))?;
        let read = read();
        let panicked = |_| EngineError::Panicked { message: "the one that compares digests".into() };
        match compared.join().map_err(panicked)? {
            Some(damage) => Err(damaged(directory, damage)),
            None => read,
        }
    })
}

/// The digests that were written with a directory's files, if they were.
pub(crate) fn digests_of(directory: &Path) -> Result<Option<FileDigests>, EngineError> {
    listed_digests(directory).map_err(|damage| damaged(directory, damage))
}

fn damaged(directory: &Path, damage: FileDamage) -> EngineError {
    EngineError::Damaged(DamagedFiles { directory: directory.to_path_buf(), damage })
}
