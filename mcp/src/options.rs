//! What whoever starts the tools says of them.

use std::path::PathBuf;
use std::time::Duration;

/// What whoever starts the tools says of them. No tool changes it.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `fulgurite` program.
    pub program: PathBuf,
    /// Where models, graders and runs are kept; made when it is missing.
    pub directory: PathBuf,
    /// Where the agent's own files are: nothing outside of it, or of `directory`, is read.
    pub project: PathBuf,
    /// Config files that runs may be begun with: the commands in them run outside of a sandbox.
    pub configs: Vec<PathBuf>,
    /// The server that keeps the record and samples; without one each run has its own.
    pub server: Option<String>,
    /// Which tools there are.
    pub tools: ToolSet,
    /// How long a call waits for another to end; for ever if `None`.
    pub patience: Option<Duration>,
    /// Graders may run outside of a sandbox.
    pub unsafe_grader: bool,
    /// How long a grader may take for one answer.
    pub grader_timeout: Duration,
    /// What all runs together may take.
    pub limits: Limits,
    /// A config file whose `[prices]` count.
    pub prices: Option<PathBuf>,
    /// When a checkpoint is named without being asked for.
    pub autocheckpoint: Autocheckpoint,
    /// Which settings an agent may give its runs.
    pub settings: SettingRule,
    /// Key of the seals of runs' records; kept where agents do not write.
    pub seal_key: SealKey,
}

/// The setting of a key of the config and its value as `fulgurite train --set` takes it, or why an agent may not set it.
pub type SettingRule = fn(&str, &serde_json::Value) -> Result<String, String>;

/// Key of the seals of runs' records.
#[derive(Clone, PartialEq, Eq)]
pub struct SealKey(pub [u8; 32]);

impl std::fmt::Debug for SealKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SealKey")
    }
}

/// Which tools there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolSet {
    /// All of our own.
    #[default]
    Own,
    /// Eight, by the names that Tinkerer's agents know.
    Tinkerer,
}

/// What all runs of a directory together may take.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Sampled tokens.
    pub tokens: Option<u64>,
    /// Seconds of their steps.
    pub seconds: Option<f64>,
    /// Money, in the currency of the prices.
    pub money: Option<f64>,
}

/// When a checkpoint is named without being asked for: after so many updates, with at least such a mean reward, and a
/// greater one than the last such checkpoint had.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Autocheckpoint {
    /// The least mean reward of a step.
    pub reward: f64,
    /// The least updates.
    pub updates: u64,
}

impl Default for Autocheckpoint {
    fn default() -> Self {
        Self { reward: 0.3, updates: 3 }
    }
}
