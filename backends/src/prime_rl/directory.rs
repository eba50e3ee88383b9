//! The trainer's directory: batches that it reads, and weights that it has written.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::options::PrimeRlOptions;
use crate::BackendError;

/// Weights are whole once one of these is beside them.
const WHOLE: [&str; 2] = ["STABLE", ".finished"];
/// The trainer offers weights, and writes them once somebody has said that they are wanted.
const OFFERED: &str = ".sender_ready";
const WANTED: &str = ".receiver_ready";

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

    /// Whether the files of a step are there, and are these.
    pub(super) fn has_batch(&self, step: u64, files: &[Vec<u8>]) -> Result<bool, BackendError> {
        for (rank, bytes) in files.iter().enumerate() {
            let path = self.batch(step, rank);
            match std::fs::read(&path) {
                Ok(found) if found == *bytes => {}
                Ok(_) => return Ok(false),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(wrong(&path, &error)),
            }
        }
        Ok(true)
    }

    /// Whether the files of a step are there, whatever is in them.
    pub(super) fn has_any_batch(&self, step: u64, ranks: usize) -> bool {
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
        let broadcasts = self.root.join("broadcasts");
        let entries = match std::fs::read_dir(&broadcasts) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(wrong(&broadcasts, &error)),
        };
        let mut newest = None;
        for entry in entries {
            let name = entry.map_err(|error| wrong(&broadcasts, &error))?.file_name();
            let step = name.to_str().and_then(|name| name.strip_prefix("step_")?.parse().ok());
            if let Some(step) = step.filter(|step| newest.is_none_or(|newest| *step > newest))
                && self.has_weights(step)?
            {
                newest = Some(step);
            }
        }
        Ok(newest)
    }

    /// Copies the weights after a step to a new directory, by links where the disk can: the trainer removes its own.
    pub(super) fn copy_weights(&self, step: u64, to: &Path) -> Result<(), BackendError> {
        let from = self.weights(step);
        std::fs::create_dir_all(to).map_err(|error| wrong(to, &error))?;
        let entries = std::fs::read_dir(&from).map_err(|error| wrong(&from, &error))?;
        for entry in entries {
            let path = entry.map_err(|error| wrong(&from, &error))?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if !path.is_file() || name.starts_with('.') || WHOLE.contains(&name) {
                continue;
            }
            let target = to.join(name);
            if std::fs::hard_link(&path, &target).is_err() {
                std::fs::copy(&path, &target).map_err(|error| wrong(&target, &error))?;
            }
        }
        Ok(())
    }
}

pub(super) fn wrong(path: &Path, error: &(impl std::fmt::Display + ?Sized)) -> BackendError {
    BackendError::Files { path: path.to_owned(), message: error.to_string() }
}
