use fulgurite_backends::FileDigests;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What makes a directory in the object store whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// SHA-256 of every file, by its path in the directory.
    pub(crate) files: FileDigests,
    /// What its record says beside the files, of a checkpoint.
    #[serde(default)]
    pub(crate) state: Value,
    /// The weights that it holds.
    #[serde(default)]
    pub(crate) weights_version: u64,
    /// Metrics of the steps up to it, for a record that is gone.
    #[serde(default)]
    pub(crate) steps: Vec<Map<String, Value>>,
}
