//! Where the files of a run are.

use std::path::{Path, PathBuf};

/// Name of the database in a run's directory.
pub const STORE_FILE: &str = "fulgurite.db";

/// Name of the file there that says which run it is, and how it was configured.
pub const CONFIG_FILE: &str = "config.json";

/// A path with the run's seed filled in.
pub fn fill_seed(path: &Path, seed: u64) -> PathBuf {
    PathBuf::from(path.display().to_string().replace("{seed}", &seed.to_string()))
}
