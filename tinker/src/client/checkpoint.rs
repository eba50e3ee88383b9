use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::wire::LoraConfig;
use fulgurite_backends::BackendError;

/// Says in a checkpoint's directory where the checkpoint is.
const FILE: &str = "tinker_checkpoint.json";

/// A checkpoint that a service keeps. Its directory here holds no more than this.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct TinkerCheckpoint {
    /// `tinker://RUN/weights/NAME`.
    pub(super) path: String,
    /// What it adapts.
    pub(super) base_model: String,
    /// How.
    pub(super) lora_config: LoraConfig,
}

impl TinkerCheckpoint {
    /// Writes it into a new directory, durably.
    pub(super) fn write(&self, directory: &Path) -> Result<(), BackendError> {
        let json = serde_json::to_string_pretty(self)
            .map_err(|error| BackendError::Internal { message: error.to_string() })?;
        if let Some(parent) = directory.parent() {
            std::fs::create_dir_all(parent).map_err(|error| files(parent, &error))?;
        }
        std::fs::create_dir(directory).map_err(|error| files(directory, &error))?;
        let path = directory.join(FILE);
        File::create_new(&path)
            .and_then(|mut file| file.write_all(json.as_bytes()).and_then(|()| file.sync_all()))
            .map_err(|error| files(&path, &error))?;
        for directory in [Some(directory), directory.parent()].into_iter().flatten() {
            File::open(directory)
                .and_then(|directory| directory.sync_all())
                .map_err(|error| files(directory, &error))?;
        }
        Ok(())
    }

    /// Reads it back, if it is of such a model.
    pub(super) fn read(directory: &Path, base_model: &str, lora_config: LoraConfig) -> Result<Self, BackendError> {
        let path = directory.join(FILE);
        let text = std::fs::read_to_string(&path).map_err(|error| files(&path, &error))?;
        let read: Self = serde_json::from_str(&text).map_err(|error| files(&path, &error))?;
        if read.base_model != base_model || read.lora_config != lora_config {
            return Err(files(&path, &"it is a checkpoint of another base model, or of another LoRA configuration"));
        }
        Ok(read)
    }
}

fn files(path: &Path, error: &dyn std::fmt::Display) -> BackendError {
    BackendError::Files { path: PathBuf::from(path), message: error.to_string() }
}
