//! The calls of a run whose tokens can be scored again.

use anyhow::{Context, Result};
use fulgurite_adapters::exclusion;
use fulgurite_backends::Sampler;
use fulgurite_store::Store;
use fulgurite_types::{Generation, RolloutExpression};
use serde_json::Value;

use super::scores::Rescored;
use crate::records::matching_rollouts::each_record;

/// A call, as it was sampled.
pub struct Call {
    generation: Generation,
    recorded: Vec<f32>,
    step: Option<u64>,
    /// The weights that sampled all of it; `None` if several did, or nobody knows.
    pub weights_version: Option<u64>,
}

/// Calls, and how many are not among them.
pub struct Calls {
    /// In the order of their rollouts.
    pub calls: Vec<Call>,
    /// Calls of the model that have no exact logprobs of the model's own distribution: sampled at another temperature,
    /// cut off, forwarded.
    pub left_out: usize,
}

impl Calls {
    /// Those of one run, by one model, in rollouts that the expression means.
    pub async fn of(store: &Store, run_id: &str, model: &str, expression: Option<&RolloutExpression>) -> Result<Self> {
        let mut all = Self { calls: Vec::new(), left_out: 0 };
        each_record(store, Some(run_id), expression, |record| {
            let step = record.rollout.noted("step").and_then(Value::as_u64);
            let of_model = record.generations.into_iter().filter(|generation| generation.model == model);
            of_model.for_each(|generation| all.add(generation, step));
        })
        .await?;
        Ok(all)
    }

    fn add(&mut self, generation: Generation, step: Option<u64>) {
        let recorded = generation.logprobs.clone().filter(|_| exclusion(&generation).is_none());
        let Some(recorded) = recorded else {
            self.left_out += 1;
            return;
        };
        let weights_version = match generation.weights_versions.as_slice() {
            [only] => Some(only.version),
            _ => None,
        };
        self.calls.push(Call { generation, recorded, step, weights_version });
    }
}

impl Call {
    /// The logprobs of what was sampled, after the prompt that it was sampled after.
    pub async fn score(&self, sampler: &dyn Sampler) -> Result<Vec<f32>> {
        let Generation { prompt_tokens, sampled_tokens, generation_id, .. } = &self.generation;
        let tokens = [prompt_tokens.as_slice(), sampled_tokens].concat();
        let scores = sampler.score_prompt(&tokens, 0).await;
        let mut logprobs = scores.with_context(|| format!("cannot score {generation_id}"))?.logprobs;
        // The prompt is not empty, and its first token has no logprob.
        Ok(logprobs.split_off(logprobs.len().saturating_sub(sampled_tokens.len())))
    }

    /// With what was found out about it.
    pub fn rescored(&self, same_weights: Option<Vec<f32>>, rescored: Vec<f32>) -> Rescored {
        let Self { generation, recorded, step, .. } = self;
        Rescored {
            generation_id: generation.generation_id.clone(),
            rollout_id: generation.rollout_id.clone(),
            step: *step,
            tokens: generation.sampled_tokens.clone(),
            recorded: recorded.clone(),
            same_weights,
            rescored,
        }
    }
}
