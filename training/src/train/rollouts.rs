//! What all runs that learn from rollouts are given.

use std::sync::Arc;

use anyhow::{Result, bail};
use fulgurite_config::declarations::Config;
use fulgurite_renderers::Renderer;
use fulgurite_trainer::{Decode, RolloutPlan, TrainingPlan};

/// What a run is given that learns from rollouts.
pub(super) fn rollout_plan(config: &Config) -> Result<RolloutPlan> {
    match config.trainer.plan()? {
        TrainingPlan::Rollouts(plan) => Ok(*plan),
        TrainingPlan::Conversations(_) | TrainingPlan::Comparisons(_) => {
            bail!("objective = \"{}\" learns from no rollouts", config.trainer.objective.name().as_str())
        }
    }
}

/// Reads a model's tokens.
pub(super) fn decode(renderer: Arc<dyn Renderer>) -> Decode {
    Arc::new(move |tokens| renderer.tokenizer().decode(tokens))
}
