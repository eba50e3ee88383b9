use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// `[prime_rl]`: where prime-rl's trainer is, and how it is run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PrimeRlOptions {
    /// The trainer's output directory, on a disk that this process, the trainer and vLLM's hosts see.
    pub directory: PathBuf,
    /// Ranks that read batches: the trainer's data-parallel size.
    pub ranks: usize,
    /// Seconds until the weights of an update are given up.
    pub timeout_seconds: f64,
    /// The folder of batches in the trainer's directory.
    pub rollouts: String,
}

impl Default for PrimeRlOptions {
    fn default() -> Self {
        Self { directory: PathBuf::new(), ranks: 1, timeout_seconds: 3600.0, rollouts: "rollouts".to_owned() }
    }
}

impl PrimeRlOptions {
    /// Refuses what cannot be, by the key's name.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        if self.ranks == 0 {
            return Err("[prime_rl] ranks is 0, but somebody has to read the batches".to_owned());
        }
        if self.timeout().is_none() {
            return Err(format!(
                "[prime_rl] timeout_seconds is {}, but must be a number of seconds above 0",
                self.timeout_seconds
            ));
        }
        if self.rollouts.is_empty() || self.rollouts.contains(['/', '\\']) || self.rollouts.starts_with('.') {
            return Err(format!("[prime_rl] rollouts is {:?}, but must be the name of a folder", self.rollouts));
        }
        Ok(())
    }

    /// How long the weights of an update are waited for; `None` of what is no time.
    pub(super) fn timeout(&self) -> Option<Duration> {
        Duration::try_from_secs_f64(self.timeout_seconds).ok().filter(|timeout| !timeout.is_zero())
    }
}
