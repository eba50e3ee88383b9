//! What a config says of how often each task is tried.

use serde::{Deserialize, Serialize};

use crate::TrainError;
use crate::options::keys::refusal::{least, refuse};

/// Tasks are drawn by how often they were lately solved. A task that is nearly always or nearly never solved is mostly skipped,
/// and never given up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CurriculumOptions {
    /// Least and greatest pass rate, the share of a task's rollouts that solved it, of tasks that are tried each time the epoch's
    /// order comes to them. A task that was never tried counts as inside.
    pub pass_rate: [f64; 2],
    /// The last groups of a task that its pass rate is of.
    pub window: usize,
    /// How likely a task outside of `pass_rate` is tried all the same when the order comes to it, above 0 so that none is given up.
    pub outside: f64,
    /// The reward from which on a rollout counts as having solved its task.
    pub solved_at: f64,
    /// The pass rate up to which a task comes again in the next step if one of its rollouts has just solved it. Without it, none
    /// comes before its turn.
    pub replay: Option<f64>,
    /// Groups of a step, at most, that are of such tasks; the others wait for the steps that follow.
    pub replay_groups: usize,
}

impl Default for CurriculumOptions {
    fn default() -> Self {
        Self { pass_rate: [0.1, 0.9], window: 4, outside: 0.1, solved_at: 1.0, replay: None, replay_groups: 1 }
    }
}

impl CurriculumOptions {
    /// Refuses numbers that cannot be.
    pub(crate) fn check(&self) -> Result<(), TrainError> {
        let key = |name: &str| format!("[trainer] curriculum.{name}");
        let [low, high] = self.pass_rate;
        if !(0.0 <= low && low <= high && high <= 1.0) {
            let value = format!("[{low}, {high}]");
            return refuse(&key("pass_rate"), value, "must be two shares from 0 to 1, in order");
        }
        least(&key("window"), self.window as u64, 1, "a pass rate is of one group at least")?;
        if !(0.001..=1.0).contains(&self.outside) {
            let message =
                "must be from 0.001 to 1: a task that is never tried again is never known to have become easier";
            return refuse(&key("outside"), self.outside, message);
        }
        if !self.solved_at.is_finite() {
            return refuse(&key("solved_at"), self.solved_at, "must be a finite number");
        }
        if let Some(replay) = self.replay.filter(|replay| !(*replay > 0.0 && *replay < 1.0)) {
            return refuse(&key("replay"), replay, "must be a share above 0 and below 1: leave it out for none");
        }
        least(&key("replay_groups"), self.replay_groups as u64, 1, "leave out replay for none")
    }
}
