use std::path::{Path, PathBuf};

use fulgurite_backends::{DIGEST_LIST, FileDigests, digest_list};

use crate::checkpoints::tensor_files::{Written, sync_directory, write_durably, write_tensors};
use crate::error::EngineError;

/// A directory that is written beside its place, so that it appears whole or not at all; with the digests of its files.
pub(crate) struct NewDirectory<'a> {
    directory: &'a Path,
    partial: PathBuf,
    digests: FileDigests,
}

impl<'a> NewDirectory<'a> {
    /// An empty one, whose place must be free.
    pub(crate) fn begin(directory: &'a Path) -> Result<Self, EngineError> {
        let partial = begin(directory)?;
        Ok(Self { directory, partial, digests: FileDigests::new() })
    }

    /// Where a file is while it is written.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.partial.join(name)
    }

    /// Writes a file, durably.
    pub(crate) fn write(&mut self, name: &str, bytes: &[u8]) -> Result<(), EngineError> {
        let digest = write_durably(&self.path_of(name), bytes)?;
        self.digests.insert(name.to_owned(), digest);
        Ok(())
    }

    /// Writes a safetensors file, durably.
    pub(crate) fn write_tensors(&mut self, name: &str, tensors: Vec<(String, Written<'_>)>) -> Result<(), EngineError> {
        let digest = write_tensors(&self.path_of(name), tensors)?;
        self.digests.insert(name.to_owned(), digest);
        Ok(())
    }

    /// Puts it in its place, durably.
    pub(crate) fn complete(self) -> Result<(), EngineError> {
        write_durably(&self.partial.join(DIGEST_LIST), digest_list(&self.digests).as_bytes())?;
        sync_directory(&self.partial)?;
        std::fs::rename(&self.partial, self.directory).map_err(EngineError::io("complete", self.directory))?;
        sync_directory(parent(self.directory))
    }
}

/// An empty directory beside the one to be written.
fn begin(directory: &Path) -> Result<PathBuf, EngineError> {
    let exists = || std::io::Error::from(std::io::ErrorKind::AlreadyExists);
    if directory.exists() {
        return Err(EngineError::io("create", directory)(exists()));
    }
    let unnamed = || std::io::Error::from(std::io::ErrorKind::InvalidInput);
    let name = directory.file_name().ok_or_else(|| EngineError::io("create", directory)(unnamed()))?;
    let mut partial = name.to_os_string();
    partial.push(".partial");
    let partial = directory.with_file_name(partial);
    if partial.exists() {
        // A crash left it.
        std::fs::remove_dir_all(&partial).map_err(EngineError::io("remove", &partial))?;
    }
    create_durably(&partial)?;
    Ok(partial)
}

/// Creates a directory and those above it. The names of the new ones are durable, but for the last.
fn create_durably(directory: &Path) -> Result<(), EngineError> {
    let new: Vec<&Path> = directory.ancestors().skip(1).take_while(|above| !is_directory(above)).collect();
    std::fs::create_dir_all(directory).map_err(EngineError::io("create", directory))?;
    new.into_iter().try_for_each(|above| sync_directory(parent(above)))
}

/// The empty path is the working directory.
fn is_directory(path: &Path) -> bool {
    path == Path::new("") || path.is_dir()
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}
