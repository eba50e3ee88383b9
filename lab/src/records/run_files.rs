//! Where the files of a run are.

use std::path::{Path, PathBuf};

use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::models::ModelEntry;

/// Name of the database in a run's directory.
pub const STORE_FILE: &str = "fulgurite.db";

/// The adapter that a run began with, where it went on from one.
pub const START_ADAPTER: &str = "start-adapter";

/// Attempts' worlds, while they play.
pub const WORLDS: &str = "worlds";

/// What judges have said of attempts.
pub const JUDGEMENTS: &str = "judgements";

/// Name of the file there that says how far judges agree with people.
pub const JUDGES_ON_LABELS: &str = "judges_on_labels.json";

/// Name of the file there that says which run it is, and how it was configured.
pub const CONFIG_FILE: &str = "config.json";

/// Where the model of an entry of the config is.
pub fn model_path(loaded: &LoadedConfig, model: &ModelEntry) -> PathBuf {
    loaded.resolve(&fill_seed(&model.path, loaded.config.run.seed))
}

/// A path with the run's seed filled in.
pub fn fill_seed(path: &Path, seed: u64) -> PathBuf {
    PathBuf::from(path.display().to_string().replace("{seed}", &seed.to_string()))
}
