use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::server::error::TinkerServerError;
use crate::server::state::records::Record;
use crate::wire::CheckpointPath;

/// The directory that outlives the process: small records, and the weights that some of them tell of. It is made when
/// something is first kept in it.
#[derive(Clone, Debug)]
pub(crate) struct StateDirectory {
    root: PathBuf,
}

/// Where what is not encrypted yet is, below the state directory. No training run is called so.
const PLAINTEXT: &str = "weights/plaintext";

impl StateDirectory {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Where something below it is.
    pub(crate) fn resolve(&self, directory: &Path) -> PathBuf {
        self.root.join(directory)
    }

    /// A place for a checkpoint's files that nothing is at, below the state directory.
    pub(crate) fn place_of(&self, path: &CheckpointPath, id: &str) -> PathBuf {
        let parent = Path::new("weights").join(&path.run).join(path.kind.segment());
        let named = parent.join(&path.name);
        match self.resolve(&named).exists() {
            false => named,
            true => parent.join(format!("{}.{id}", path.name)),
        }
    }

    /// A place for the weights of one sampling session, below the state directory.
    pub(crate) fn place_of_sampler(&self, sampler_id: &str) -> PathBuf {
        Path::new("weights").join("samplers").join(sampler_id)
    }

    /// A place for what is encrypted before it is kept, for as long as that takes.
    pub(crate) fn place_of_plaintext(&self, id: &str) -> PathBuf {
        self.resolve(Path::new(PLAINTEXT)).join(id)
    }

    /// Deletes what an earlier process left at such places.
    pub(crate) fn clear_plaintext(&self) -> Result<(), TinkerServerError> {
        self.delete_weights(Path::new(PLAINTEXT))
    }

    /// All records of a kind.
    pub(crate) fn read<R: Record>(&self) -> Result<BTreeMap<String, R>, TinkerServerError> {
        let directory = self.root.join(R::KIND);
        let mut records = BTreeMap::new();
        if !directory.exists() {
            return Ok(records);
        }
        for entry in std::fs::read_dir(&directory).map_err(TinkerServerError::io("read", &directory))? {
            let path = entry.map_err(TinkerServerError::io("read", &directory))?.path();
            // What a crash left half written was not acknowledged.
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let text = std::fs::read(&path).map_err(TinkerServerError::io("read", &path))?;
            let malformed = |error: serde_json::Error| TinkerServerError::Malformed {
                path: path.clone(),
                message: format!("not a record of {}: {error}", R::KIND),
            };
            let record: R = serde_json::from_slice(&text).map_err(malformed)?;
            records.insert(record.id().to_owned(), record);
        }
        Ok(records)
    }

    /// Keeps a record in the place of one before, durably.
    pub(crate) fn keep<R: Record>(&self, record: &R) -> Result<(), TinkerServerError> {
        let path = self.file_of::<R>(record.id());
        let malformed = |error: serde_json::Error| TinkerServerError::Malformed {
            path: path.clone(),
            message: format!("cannot be written: {error}"),
        };
        let json = serde_json::to_vec_pretty(record).map_err(malformed)?;
        let directory = self.root.join(R::KIND);
        std::fs::create_dir_all(&directory).map_err(TinkerServerError::io("create", &directory))?;
        let fresh = path.with_extension("new");
        let write = |mut file: File| file.write_all(&json).and_then(|()| file.sync_all());
        File::create(&fresh).and_then(write).map_err(TinkerServerError::io("write", &fresh))?;
        std::fs::rename(&fresh, &path).map_err(TinkerServerError::io("write", &path))?;
        sync_directory(&directory)
    }

    /// Forgets a record, if there is one.
    pub(crate) fn delete_record<R: Record>(&self, id: &str) -> Result<(), TinkerServerError> {
        let path = self.file_of::<R>(id);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(TinkerServerError::io("remove", &path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Deletes weights, if they are there.
    pub(crate) fn delete_weights(&self, directory: &Path) -> Result<(), TinkerServerError> {
        let path = self.resolve(directory);
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(TinkerServerError::io("remove", &path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Has the same weights at another place, too. Their files are never written again, so both are the same files.
    pub(crate) fn copy_weights(&self, from: &Path, to: &Path) -> Result<(), TinkerServerError> {
        let to = self.resolve(to);
        std::fs::create_dir_all(&to).map_err(TinkerServerError::io("create", &to))?;
        for (name, file, _) in self.files(from)? {
            let copy = to.join(name);
            std::fs::hard_link(file, &copy).map_err(TinkerServerError::io("write", &copy))?;
        }
        sync_directory(&to)
    }

    /// The files in a directory of weights, by their names: where they are, and their bytes.
    pub(crate) fn files(&self, directory: &Path) -> Result<Vec<(String, PathBuf, u64)>, TinkerServerError> {
        let root = self.resolve(directory);
        let file = |entry: std::io::Result<std::fs::DirEntry>| {
            let entry = entry?;
            Ok((entry.file_name().to_string_lossy().into_owned(), entry.path(), entry.metadata()?.len()))
        };
        let files = || std::fs::read_dir(&root)?.map(file).collect::<std::io::Result<Vec<_>>>();
        let mut files = files().map_err(TinkerServerError::io("read", &root))?;
        files.sort();
        Ok(files)
    }

    /// Bytes of the files in a directory of weights.
    pub(crate) fn size_of(&self, directory: &Path) -> Result<u64, TinkerServerError> {
        Ok(self.files(directory)?.into_iter().map(|(_, _, size)| size).sum())
    }

    /// Ids are of letters, digits, hyphens, dots and colons, but for a checkpoint's path.
    fn file_of<R: Record>(&self, id: &str) -> PathBuf {
        self.root.join(R::KIND).join(format!("{}.json", id.replace('/', "%")))
    }
}

/// Makes a directory's list of names durable.
pub(crate) fn sync_directory(path: &Path) -> Result<(), TinkerServerError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(TinkerServerError::io("sync", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::state::records::{SampledWeights, SamplerRecord};

    fn sampler(id: &str, weights: SampledWeights) -> SamplerRecord {
        SamplerRecord { sampler_id: id.into(), session_id: "s".into(), base_model: "b".into(), weights, copies: 0 }
    }

    #[test]
    fn records_are_read_back_and_half_written_ones_are_not_there() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDirectory::new(home.path().join("state"));
        assert!(state.read::<SamplerRecord>().unwrap().is_empty());
        assert!(!home.path().join("state").exists(), "nothing is made before it is needed");
        let first = sampler("s:sample:0", SampledWeights::Base);
        let second = sampler("s:sample:1", SampledWeights::Checkpoint("tinker://r/sampler_weights/a".into()));
        for record in [&first, &second, &first] {
            state.keep(record).unwrap();
        }
        std::fs::write(home.path().join("state/samplers/x.new"), "{").unwrap();
        let read = state.read::<SamplerRecord>().unwrap();
        assert_eq!(read.into_values().collect::<Vec<_>>(), [first, second]);
        state.delete_record::<SamplerRecord>("s:sample:0").unwrap();
        state.delete_record::<SamplerRecord>("s:sample:0").unwrap();
        assert_eq!(state.read::<SamplerRecord>().unwrap().len(), 1);
        std::fs::write(home.path().join("state/samplers/x.json"), "{").unwrap();
        let error = state.read::<SamplerRecord>().unwrap_err();
        assert!(error.to_string().contains("x.json"), "{error}");
    }
}
