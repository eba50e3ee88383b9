//! Files that a run was begun with, and that must stay what they were.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::files::open_file;
use crate::error::ToolError;

/// Files with their SHA-256.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Guarded(BTreeMap<PathBuf, String>);

impl Guarded {
    /// Those files as they are now.
    pub(crate) fn now(files: impl IntoIterator<Item = PathBuf>) -> Result<Self, ToolError> {
        let digested = |path: PathBuf| digest(&path).map(|digest| (path, digest));
        Ok(Self(files.into_iter().map(digested).collect::<Result<_, _>>()?))
    }

    /// # Errors
    /// If one of them is gone, or another than it was.
    pub(crate) fn check(&self, run: &str) -> Result<(), ToolError> {
        let is_changed = |(path, known): &(&PathBuf, &String)| digest(path).map_or(true, |digest| digest != **known);
        match self.0.iter().find(is_changed) {
            Some((path, _)) => Err(ToolError::Changed { path: path.clone(), run: run.to_owned() }),
            None => Ok(()),
        }
    }
}

/// The SHA-256 of a file.
fn digest(path: &Path) -> Result<String, ToolError> {
    let mut digest = Sha256::new();
    let copied = open_file(path).and_then(|mut file| std::io::copy(&mut file, &mut digest));
    copied.map_err(ToolError::file(path))?;
    Ok(format!("{:x}", digest.finalize()))
}
