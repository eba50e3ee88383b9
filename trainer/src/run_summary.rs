//! How a run went.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::options::FinalWeights;
use crate::scores::{Scores, ValidationScores};

/// How a run ended, and where every sampled token went.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunSummary {
    /// The run.
    pub run_id: String,
    /// Where its files are.
    pub directory: PathBuf,
    /// The checkpoint of its final weights: a model directory that can be served.
    pub checkpoint: Option<PathBuf>,
    /// Which weights those are.
    pub final_weights: FinalWeights,
    /// The best ones by the held-out score, of a run that looks for them.
    pub best: Option<BestWeights>,
    /// How many evaluations without an improvement ended it, if they did.
    pub evaluations_without_improvement: Option<u64>,
    /// Updates made.
    pub steps: u64,
    /// Whether the stop rule ended it, rather than the limit of steps.
    pub stopped_by_rule: bool,
    /// Scores of the held-out tasks before the first update, if there are any.
    pub held_out_before: Option<Scores>,
    /// Scores of the held-out tasks after the last update.
    pub held_out_after: Option<Scores>,
    /// Scores of the final tasks, which nothing before has seen; `None` without such tasks.
    pub final_after: Option<Scores>,
    /// What validation conversations cost before the first update, if there are any.
    pub validation_before: Option<ValidationScores>,
    /// What they cost after the last.
    pub validation_after: Option<ValidationScores>,
    /// Rows of conversations that were left out, by cause; `None` for a run that learns from others.
    pub skipped_rows: Option<BTreeMap<String, u64>>,
    /// Rollouts that failed, by cause, and in all; what was run again counts for each time.
    pub failed_rollouts: BTreeMap<String, u64>,
    /// Greatest difference between the sampler's logprob of a token and the trainer's, before an update, of all steps; `None`
    /// where no step compared them.
    pub max_logprob_difference: Option<f64>,
    /// Sampled tokens that were trained.
    pub trained_tokens: u64,
    /// Sampled tokens that were not, by cause.
    pub untrained_tokens: BTreeMap<String, u64>,
    /// All sampled tokens in the store.
    pub sampled_tokens: u64,
    /// Seconds that this process took for the run.
    pub wall_seconds: f64,
    /// Bytes of memory that this process has had at most, where the system tells.
    pub peak_memory_bytes: Option<u64>,
}

/// The weights of a run with the best held-out score.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BestWeights {
    /// The metric that is the score.
    pub metric: &'static str,
    /// Its value.
    pub score: f64,
    /// Updates that made them.
    pub steps: u64,
    /// Where they are.
    pub checkpoint: PathBuf,
    /// The value of the weights that the run began with, where it is better still.
    pub start: Option<f64>,
}

/// Keys that only runs have which learn from rows of data.
const LEARNS_FROM_ROWS: [&str; 2] = ["num_conversations", "num_pairs"];

/// What every step says of rows that were left out; `None` if they say nothing of conversations.
pub(crate) fn skipped_rows(steps: &[&Map<String, Value>]) -> Option<BTreeMap<String, u64>> {
    let step = steps.iter().find(|metrics| LEARNS_FROM_ROWS.iter().any(|key| metrics.contains_key(*key)))?;
    let skipped =
        |(key, rows): (&String, &Value)| Some((key.strip_prefix("data/skipped/")?.to_owned(), rows.as_u64()?));
    Some(step.iter().filter_map(skipped).collect())
}

/// Rollouts of all steps that failed, by cause.
pub(crate) fn failed_rollouts(steps: &[&Map<String, Value>]) -> BTreeMap<String, u64> {
    let mut failed = BTreeMap::new();
    for (key, count) in steps.iter().flat_map(|metrics| metrics.iter()) {
        if let (Some(cause), Some(count)) = (key.strip_prefix("rollout_errors/"), count.as_u64()) {
            *failed.entry(cause.to_owned()).or_default() += count;
        }
    }
    failed
}

impl RunSummary {
    /// The summary as one flat JSON object: `held_out_reward_before`, `held_out_exact_after` and so on.
    pub fn to_json(&self) -> Map<String, Value> {
        let mut flat = Map::new();
        let mut set = |key: String, value: Value| flat.insert(key, value);
        set("event".to_owned(), json!("summary"));
        set("run_id".to_owned(), json!(self.run_id));
        set("run_directory".to_owned(), json!(self.directory));
        set("checkpoint".to_owned(), json!(self.checkpoint));
        set("steps".to_owned(), json!(self.steps));
        set("stopped_by_rule".to_owned(), json!(self.stopped_by_rule));
        if let Some(best) = &self.best {
            set("final_weights".to_owned(), json!(self.final_weights));
            set("best".to_owned(), json!(best));
        }
        if let Some(evaluations) = self.evaluations_without_improvement {
            set("evaluations_without_improvement".to_owned(), json!(evaluations));
        }
        let scored = [
            ("held_out", "before", self.held_out_before.as_ref()),
            ("held_out", "after", self.held_out_after.as_ref()),
            ("final", "after", self.final_after.as_ref()),
        ];
        for (tasks, when, scores) in scored {
            let Some(scores) = scores else { continue };
            set(format!("{tasks}_reward_{when}"), json!(scores.reward));
            for (name, mean) in &scores.components {
                set(format!("{tasks}_{name}_{when}"), json!(mean));
            }
            set(format!("{tasks}_rollouts_{when}"), json!(scores.rollouts + scores.failed));
            set(format!("{tasks}_failed_{when}"), json!(scores.failed));
        }
        for (when, scores) in [("before", self.validation_before), ("after", self.validation_after)] {
            let Some(scores) = scores else { continue };
            set(format!("validation_nll_{when}"), json!(scores.nll));
            set(format!("validation_bits_per_byte_{when}"), json!(scores.bits_per_byte));
        }
        if let Some(rows) = &self.skipped_rows {
            set("skipped_rows".to_owned(), json!(rows));
        }
        if !self.failed_rollouts.is_empty() {
            set("failed_rollouts".to_owned(), json!(self.failed_rollouts));
        }
        set("max_logprob_difference".to_owned(), json!(self.max_logprob_difference));
        set("sampled_tokens".to_owned(), json!(self.sampled_tokens));
        set("trained_tokens".to_owned(), json!(self.trained_tokens));
        set("untrained_tokens".to_owned(), json!(self.untrained_tokens));
        set("wall_seconds".to_owned(), json!(self.wall_seconds));
        if let Some(bytes) = self.peak_memory_bytes {
            set("peak_memory_bytes".to_owned(), json!(bytes));
        }
        flat
    }
}
