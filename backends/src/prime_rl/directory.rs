//! The trainer's directory: batches that it reads, and weights that it has written.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::options::PrimeRlOptions;
use super::tensor_file::require_whole;
use crate::BackendError;

/// Weights are whole once one of these is beside them.
const WHOLE: [&str; 2] = ["STABLE", ".finished"];
/// The trainer offers weights, and writes them once somebody has said that they are wanted.
const OFFERED: &str = ".sender_ready";
const WANTED: &str = ".receiver_ready";

/// What a step's files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WrittenBatch {
    /// Those of the batch, all of them.
    Same,
    /// Not all are there; those that are, are the batch's.
    Unfinished,
    /// One is of another batch.
    Other,
}

/// The trainer's output directory.
#[derive(Clone, Debug)]
pub(super) struct TrainerDirectory {
    root: PathBuf,
    rollouts: PathBuf,
}

impl TrainerDirectory {
    pub(super) fn new(options: &PrimeRlOptions) -> Self {
        Self { root: options.directory.clone(), rollouts: options.directory.join(&options.rollouts) }
    }

    /// Whether the directory is there: the trainer or a person makes it.
    pub(super) fn check(&self) -> Result<(), BackendError> {
        if self.root.is_dir() {
            return Ok(());
        }
        Err(wrong(&self.root, "is no directory ([prime_rl] directory): it is the trainer's output directory"))
    }

    fn batch(&self, step: u64, rank: usize) -> PathBuf {
        self.rollouts.join(format!("step_{step}")).join(format!("rank_{rank}.bin"))
    }

    /// Where the trainer puts the weights after a step; those that it begins with are step 0.
    pub(super) fn weights(&self, step: u64) -> PathBuf {
        self.root.join("broadcasts").join(format!("step_{step}"))
    }

    /// Which files of a step are there, beside these.
    pub(super) fn batch_of(&self, step: u64, files: &[Vec<u8>]) -> Result<WrittenBatch, BackendError> {
        let mut missing = false;
        for (rank, bytes) in files.iter().enumerate() {
            let path = self.batch(step, rank);
            match std::fs::read(&path) {
                Ok(found) if found == *bytes => {}
                Ok(_) => return Ok(WrittenBatch::Other),
                Err(error) if error.kind() == ErrorKind::NotFound => missing = true,
                Err(error) => return Err(wrong(&path, &error)),
            }
        }
        Ok(if missing { WrittenBatch::Unfinished } else { WrittenBatch::Same })
    }

    /// Refuses a directory that has steps already, which are another run's.
    pub(super) fn require_unused(&self) -> Result<(), BackendError> {
        for folder in [&self.rollouts, &self.root.join("broadcasts")] {
            if let Some(step) = steps_in(folder)?.into_iter().max().filter(|step| *step > 0) {
                let message = format!(
                    "has step {step} of another run: give prime-rl's trainer and this run a directory of their own \
                     ([prime_rl] directory)"
                );
                return Err(wrong(folder, &message));
            }
        }
        Ok(())
    }

    /// Whether the files of a step are there, whatever is in them.
    pub(super) fn has_files(&self, step: u64, ranks: usize) -> bool {
        (0..ranks).all(|rank| self.batch(step, rank).exists())
    }

    /// Writes the files of a step, each whole or not at all.
    pub(super) fn write_batch(&self, step: u64, files: &[Vec<u8>]) -> Result<(), BackendError> {
        for (rank, bytes) in files.iter().enumerate() {
            let path = self.batch(step, rank);
            let unfinished = path.with_extension("bin.tmp");
            let written = || -> std::io::Result<()> {
                std::fs::create_dir_all(self.rollouts.join(format!("step_{step}")))?;
                let mut file = File::create(&unfinished)?;
                file.write_all(bytes)?;
                file.sync_all()?;
                std::fs::rename(&unfinished, &path)
            };
            written().map_err(|error| wrong(&path, &error))?;
        }
        Ok(())
    }

    /// Whether the weights after a step are whole. Those that are offered are asked for.
    pub(super) fn has_weights(&self, step: u64) -> Result<bool, BackendError> {
        let weights = self.weights(step);
        if WHOLE.iter().any(|sign| weights.join(sign).exists()) {
            return Ok(true);
        }
        let wanted = weights.join(WANTED);
        if weights.join(OFFERED).exists() && !wanted.exists() {
            match File::create(&wanted) {
                // The trainer may just have begun anew.
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(wrong(&wanted, &error)),
                _ => {}
            }
        }
        Ok(false)
    }

    /// The last step whose weights are whole.
    pub(super) fn newest_weights(&self) -> Result<Option<u64>, BackendError> {
        let mut steps = steps_in(&self.root.join("broadcasts"))?;
        steps.sort_unstable();
        for step in steps.into_iter().rev() {
            if self.has_weights(step)? {
                return Ok(Some(step));
            }
        }
        Ok(None)
    }

    /// Copies the weights after a step to a new directory, and returns their files' names: the trainer removes its own, or writes
    /// them anew. A file that is damaged leaves no copy.
    pub(super) fn copy_weights(&self, step: u64, to: &Path) -> Result<Vec<String>, BackendError> {
        let from = self.weights(step);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&from).map_err(|error| wrong(&from, &error))? {
            let path = entry.map_err(|error| wrong(&from, &error))?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if path.is_file() && !name.starts_with('.') && !WHOLE.contains(&name) {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        copy_files(&from, &names, to)?;
        for name in names.iter().filter(|name| name.ends_with(".safetensors")) {
            let Err(what) = require_whole(&to.join(name)) else { continue };
            // It must not be taken for weights by whoever finds it.
            let _ = std::fs::remove_dir_all(to);
            let before = step.saturating_sub(1);
            let message = format!(
                "{what}: prime-rl's trainer has written damaged weights; remove {}, and start the trainer again from its checkpoint \
                 of step {before}",
                from.display()
            );
            return Err(wrong(&from.join(name), &message));
        }
        Ok(names)
    }
}

/// Copies files of these names to a new directory.
pub(super) fn copy_files(from: &Path, names: &[String], to: &Path) -> Result<(), BackendError> {
    std::fs::create_dir_all(to).map_err(|error| wrong(to, &error))?;
    for name in names {
        let source = from.join(name);
        std::fs::copy(&source, to.join(name)).map_err(|error| wrong(&source, &error))?;
    }
    Ok(())
}

/// The steps that a folder has something of.
fn steps_in(folder: &Path) -> Result<Vec<u64>, BackendError> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(wrong(folder, &error)),
    };
    let mut steps = Vec::new();
    for entry in entries {
        let name = entry.map_err(|error| wrong(folder, &error))?.file_name();
        steps.extend(name.to_str().and_then(|name| name.strip_prefix("step_")?.parse::<u64>().ok()));
    }
    Ok(steps)
}

pub(super) fn wrong(path: &Path, error: &(impl std::fmt::Display + ?Sized)) -> BackendError {
    BackendError::Files { path: path.to_owned(), message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Weights that were learnt from one batch were taken for those of another.
    #[test]
    fn a_batch_is_the_same_or_unfinished_or_of_others() {
        let directory = tempfile::tempdir().unwrap();
        let options = PrimeRlOptions { directory: directory.path().to_owned(), ..PrimeRlOptions::default() };
        let trainer = TrainerDirectory::new(&options);
        let files = [b"first".to_vec(), b"second".to_vec()];
        assert_eq!(trainer.batch_of(1, &files).unwrap(), WrittenBatch::Unfinished);
        trainer.require_unused().unwrap();
        trainer.write_batch(1, &files[..1]).unwrap();
        assert_eq!(trainer.batch_of(1, &files).unwrap(), WrittenBatch::Unfinished);
        trainer.write_batch(1, &files).unwrap();
        assert_eq!(trainer.batch_of(1, &files).unwrap(), WrittenBatch::Same);
        assert_eq!(trainer.batch_of(1, &[b"first".to_vec(), b"another".to_vec()]).unwrap(), WrittenBatch::Other);
        assert!(trainer.require_unused().unwrap_err().to_string().contains("has step 1 of another run"));
    }
}
