//! What is scored, by what, and where.

use std::path::PathBuf;

use anyhow::{Context, Result};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::runner::RunnerConfig;
use fulgurite_trainer::EvaluatedTasks;
use serde_json::{Value, json};

use super::evaluated_weights::{EvaluatedWeights, digest};
use super::options::EvalOptions;

/// What is scored, by what.
pub struct Plan<'a> {
    /// The config.
    pub loaded: &'a LoadedConfig,
    /// What was chosen.
    pub options: &'a EvalOptions,
    /// The weights.
    pub weights: &'a EvaluatedWeights,
    /// The tasks.
    pub tasks: Vec<Value>,
    /// Rollouts of each.
    pub samples: usize,
}

impl Plan<'_> {
    /// Which tasks they are.
    pub fn evaluated(&self) -> EvaluatedTasks {
        self.options.tasks
    }

    /// Changes with the tasks.
    pub fn tasks_digest(&self) -> String {
        digest(&json!(self.tasks))
    }

    /// Where the evaluation is: the same for all that would sample the same.
    pub fn directory(&self) -> Result<PathBuf> {
        let config = &self.loaded.config;
        let rollouts = config.trainer.rollouts_or_usual();
        let mut all = json!({
            "weights": self.weights.identity,
            "model": self.weights.entry.name,
            "tasks": self.evaluated().as_str(),
            "of": self.tasks,
            "samples": self.samples,
            "agent": config.runner.url.as_ref().map_or_else(|| json!(config.runner.command), |url| json!(url)),
            "grade": config.runner.grade,
            "sampling": rollouts.sampling_parameters,
            "zero_reward_on_limit": rollouts.zero_reward_on_limit,
            "step": self.weights.step,
        });
        if config.runner.has_worlds() {
            let RunnerConfig { setup, snapshot, reward_file, reward_key, harbor_tests, .. } = &config.runner;
            all["world"] = json!([setup, snapshot, reward_file, reward_key, harbor_tests]);
        }
        if let Some(rubric) = &config.runner.rubric {
            all["rubric"] = json!(rubric);
        }
        let name = format!("{}-seed-{}-eval-{}", config.run.name, config.run.seed, &digest(&all)[..8]);
        let path = self.loaded.resolve(&config.run.directory).join(name);
        std::path::absolute(path).context("the working directory is gone")
    }
}
