use async_trait::async_trait;
use fulgurite_types::GenerationUse;
use serde::{Deserialize, Serialize};

use super::adapted::AdaptedCoefficients;
use super::curriculum::Curriculum;
use super::harvest_state::HarvestState;
use super::solve_rates::SolveRates;
use crate::{Reporter, TrainError};

/// Where the data of a run's steps come from. What a step is given follows from the position alone, so that a resumed run
/// is given what it would have been given.
#[async_trait]
pub(crate) trait Source<Data>: Send {
    /// The data of the update that follows `step` others, read on from `position`, which moves behind them.
    async fn next(
        &mut self,
        step: u64,
        position: &mut DataPosition,
        reporter: &mut dyn Reporter,
    ) -> Result<Data, TrainError>;

    /// Of a run that ends after `step` updates: what was sampled for later ones, once it is over.
    async fn sampled_for_nothing(
        &mut self,
        _step: u64,
        _reporter: &mut dyn Reporter,
    ) -> Result<Vec<GenerationUse>, TrainError> {
        Ok(Vec::new())
    }
}

/// How far a run has read its data; part of its checkpoints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct DataPosition {
    /// Tasks, or rows of a corpus, read so far, those that a curriculum skipped among them.
    pub(crate) data_cursor: u64,
    /// Rollouts read so far, of a run that harvests.
    #[serde(default)]
    pub(crate) harvest: HarvestState,
    /// Changes with the conversations that are counted; empty for data that have no such thing.
    #[serde(default)]
    pub(crate) data_fingerprint: String,
    /// What the policy is held against; empty where nothing is.
    #[serde(default)]
    pub(crate) reference: String,
    /// How often tasks were solved, of a run that tries them by that.
    #[serde(default)]
    pub(crate) solve_rates: SolveRates,
    /// What is known of the tasks, of a run with a curriculum.
    #[serde(default)]
    pub(crate) curriculum: Curriculum,
    /// Conversations read so far, of a run that learns from them beside its tasks.
    #[serde(default)]
    pub(crate) conversation_cursor: u64,
    /// Coefficients of the objective that follow what was measured.
    #[serde(default)]
    pub(crate) adapted: AdaptedCoefficients,
}
