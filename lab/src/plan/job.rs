//! What is to be trained, as far as its memory goes.

use std::collections::BTreeSet;

use fulgurite_engine::LoraModule;
use serde::Serialize;

use crate::plan::known_models::KnownModel;
use crate::plan::model_shape::{LAYER_MODULES, ModelShape};

/// Element type of frozen weights, and of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Elements {
    /// 32 bits.
    Float32,
    /// 16 bits.
    Bfloat16,
    /// 4 bits with a scale for each 64 of them, of the layers' matrices beside an adapter; products in 16 bits.
    Nf4,
}

impl Elements {
    /// Bytes of a number in products and activations.
    pub fn bytes(self) -> u64 {
        match self {
            Elements::Float32 => 4,
            Elements::Bfloat16 | Elements::Nf4 => 2,
        }
    }

    /// As the config names it.
    pub fn name(self) -> &'static str {
        match self {
            Elements::Float32 => "float32",
            Elements::Bfloat16 => "bfloat16",
            Elements::Nf4 => "nf4",
        }
    }
}

/// `[torch] gradient_checkpointing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Checkpointing {
    /// The learner decides by its free memory.
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// Whether vLLM and the learner have one GPU by turns (`[torch] shares_gpu`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Turns {
    /// Its sampler cannot sleep.
    Impossible,
    /// Both are on it all the time.
    Off,
    /// One of them at a time.
    On,
}

/// Adapters beside matrices, in PEFT's terms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AdapterShape {
    /// Its rank.
    pub rank: u64,
    /// The matrices.
    pub modules: BTreeSet<LoraModule>,
}

impl AdapterShape {
    /// Numbers of the adapter: `rank * (inputs + outputs)` for each matrix (Hu et al. 2021, section 4.1).
    pub fn numbers(&self, shape: &ModelShape) -> u64 {
        let of = |module: &LoraModule| {
            let times = if *module == LoraModule::Head { 1 } else { shape.layers };
            times * self.rank * (shape.inputs(*module) + shape.outputs(*module))
        };
        self.modules.iter().map(of).sum()
    }
}

/// What is sampled, and what learns from it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Job {
    /// The model.
    pub shape: ModelShape,
    /// What is trained; `None` trains all weights.
    pub adapter: Option<AdapterShape>,
    /// Of frozen weights, and of products.
    pub elements: Elements,
    /// `[torch] max_tokens_per_pass`.
    pub max_tokens_per_pass: u64,
    /// `[torch] gradient_checkpointing`.
    pub checkpointing: Checkpointing,
    /// `[torch] processes`, each with a GPU of its own.
    pub processes: u64,
    /// `[torch] shares_gpu`.
    pub turns: Turns,
    /// Whether a policy is kept that the trained one is held against.
    pub keeps_reference: bool,
    /// Rollouts at a time.
    pub parallel: u64,
    /// Tokens of a rollout: its longest prompt with its answer.
    pub rollout_tokens: u64,
    /// Rollouts that an update learns from.
    pub rollouts_per_update: u64,
    /// Updates, if there is a limit.
    pub updates: Option<u64>,
}

impl Job {
    /// Tokens of the largest pass: a longer sequence is a pass of its own.
    pub fn tokens_of_pass(&self) -> u64 {
        self.max_tokens_per_pass.max(self.rollout_tokens)
    }

    /// Numbers that are trained.
    pub fn trained(&self) -> u64 {
        self.adapter.as_ref().map_or_else(|| self.shape.parameters(), |adapter| adapter.numbers(&self.shape))
    }

    /// Numbers of the adapter; 0 without one.
    pub fn adapter_numbers(&self) -> u64 {
        self.adapter.as_ref().map_or(0, |adapter| adapter.numbers(&self.shape))
    }
}

/// A config's defaults, and rollouts of usual length.
pub fn usual_job(model: &KnownModel, rank: Option<u64>) -> Job {
    Job {
        shape: model.shape,
        adapter: rank.map(|rank| AdapterShape { rank, modules: LAYER_MODULES.into() }),
        elements: Elements::Bfloat16,
        max_tokens_per_pass: 4096,
        checkpointing: Checkpointing::Auto,
        turns: Turns::Off,
        keeps_reference: false,
        parallel: 16,
        rollout_tokens: 2048,
        rollouts_per_update: 64,
        updates: None,
        processes: 1,
    }
}

#[cfg(test)]
pub(crate) fn job(name: &str, rank: u64) -> Job {
    use crate::plan::known_models::known_model;

    Job { updates: Some(100), ..usual_job(&known_model(name).unwrap(), (rank > 0).then_some(rank)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_has_rank_times_the_widths_of_its_matrices() {
        let job = job("Qwen3-4B", 32);
        // q 2560+4096, k and v 2560+1024, o 4096+2560, gate and up 2560+9728, down 9728+2560: 57,344 a layer.
        assert_eq!(job.adapter_numbers(), 36 * 32 * 57_344);
        let mut with_head = job.adapter.clone().unwrap();
        with_head.modules.insert(LoraModule::Head);
        assert_eq!(with_head.numbers(&job.shape), 36 * 32 * 57_344 + 32 * (2560 + 151_936));
    }
}
