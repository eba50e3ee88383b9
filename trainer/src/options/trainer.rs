//! `[trainer]`, as a run has it.

use serde::{Deserialize, Serialize};

use super::flat::part::OptionsPart;
use super::flat::table::TrainerTable;
use super::keys::data_source::DataSource;
use super::keys::distillation::DistillationOptions;
use super::keys::evaluation::StopRule;
use super::keys::harvest::HarvestOptions;
use super::keys::objective_name::ObjectiveName;
use super::keys::preference::{PairwiseOptions, RewardHead};
use super::keys::refusal::wrong;
use super::objective::ObjectiveOptions;
use super::shared::common::CommonOptions;
use super::shared::data::DataOptions;
use super::shared::rollouts::RolloutOptions;
use crate::TrainError;

/// How a model is trained: what every run has, and the objective with its own keys. A config has them in one flat table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "TrainerTable", into = "TrainerTable")]
pub struct TrainerOptions {
    /// The course of the run.
    pub common: CommonOptions,
    /// What it learns by.
    pub objective: ObjectiveOptions,
}

impl Default for TrainerOptions {
    fn default() -> Self {
        TrainerTable::default().into()
    }
}

impl From<TrainerTable> for TrainerOptions {
    /// Keys of other objectives are not looked at: [`TrainerOptions::check_keys`] refuses them where they are written.
    fn from(table: TrainerTable) -> Self {
        Self { common: CommonOptions::take(&table), objective: ObjectiveOptions::take(table.objective, &table) }
    }
}

impl From<TrainerOptions> for TrainerTable {
    /// Keys of other objectives have their defaults.
    fn from(options: TrainerOptions) -> Self {
        let mut table = Self { objective: options.objective.name(), ..Self::default() };
        options.common.put(&mut table);
        options.objective.as_dyn().put(&mut table);
        table
    }
}

impl TrainerOptions {
    /// Refuses a key that is written, and that the objective does not have. `written` has keys below tables with dots.
    ///
    /// # Errors
    /// [`TrainError::Option`] with the key's name.
    pub fn check_keys<'k>(&self, written: impl IntoIterator<Item = &'k str>) -> Result<(), TrainError> {
        let name = self.objective.name();
        match written.into_iter().find(|key| !name.has(key)) {
            None => Ok(()),
            Some(key) => {
                let others = ObjectiveName::ALL.into_iter().find(|other| other.has(key));
                let owner = others.map_or(String::new(), |other| format!(", but of \"{}\"", other.as_str()));
                let message = format!("is no key of objective = \"{}\"{owner}: leave it out", name.as_str());
                wrong(&format!("[trainer] {key}"), message)
            }
        }
    }

    /// Puts the objective's own defaults in the place of those of keys that are not among the `written`.
    pub fn set_defaults(&mut self, written: &[String]) {
        let is_written = |key: &str| written.iter().any(|written| written == key);
        let objective = self.objective.as_dyn_mut();
        let usual = objective.usual();
        if !is_written("evaluation.every") {
            objective.set_evaluation_every(usual.evaluation_every);
        }
        objective.set_own_defaults(&is_written);
        self.common.set_defaults(&usual, is_written);
    }

    /// Refuses what cannot work.
    pub fn check(&self) -> Result<(), TrainError> {
        self.common.check()?;
        self.objective.as_dyn().check()?;
        self.check_scores()
    }

    /// Refuses to decide by a score that no data are held out for.
    fn check_scores(&self) -> Result<(), TrainError> {
        let has_none = self.data().is_some_and(|data| !data.has_validation());
        match self.common.needs_scores().filter(|_| has_none) {
            None => Ok(()),
            Some(key) => {
                let message = "decides by a held-out score, and nothing is held out: add validation to [trainer] source, a \
                               file or a share such as 0.1";
                wrong(&format!("[trainer] {key}"), message)
            }
        }
    }

    /// Whether a rule may end it before its limit of updates.
    pub fn stops_early(&self) -> bool {
        self.common.patience.is_some() || self.rollouts().is_some_and(|rollouts| rollouts.stop != StopRule::default())
    }

    /// What it has of rollouts, if it learns from any.
    pub fn rollouts(&self) -> Option<&RolloutOptions> {
        match &self.objective {
            ObjectiveOptions::Grpo(options) => Some(&options.rollouts),
            ObjectiveOptions::OnPolicyDistillation(options) => Some(&options.rollouts),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub fn rollouts_mut(&mut self) -> Option<&mut RolloutOptions> {
        match &mut self.objective {
            ObjectiveOptions::Grpo(options) => Some(&mut options.rollouts),
            ObjectiveOptions::OnPolicyDistillation(options) => Some(&mut options.rollouts),
            _ => None,
        }
    }

    /// How rollouts are sampled and scored: as they are learnt from, or as usual if none are.
    pub fn rollouts_or_usual(&self) -> RolloutOptions {
        self.rollouts().cloned().unwrap_or_default()
    }

    /// What it has of data, if it learns from data that are there.
    pub fn data(&self) -> Option<&DataOptions> {
        match &self.objective {
            ObjectiveOptions::Grpo(_) | ObjectiveOptions::OnPolicyDistillation(_) => None,
            ObjectiveOptions::Sft(options) => Some(&options.data),
            ObjectiveOptions::OffPolicyDistillation(options) => Some(&options.data),
            ObjectiveOptions::Dpo(options) => Some(&options.data),
            ObjectiveOptions::Ipo(options) => Some(&options.data),
            ObjectiveOptions::Orpo(options) => Some(&options.data),
            ObjectiveOptions::Simpo(options) => Some(&options.data),
            ObjectiveOptions::Kto(options) => Some(&options.data),
            ObjectiveOptions::RewardModel(options) => Some(&options.data),
        }
    }

    /// Where its data come from, if that is written.
    pub fn source(&self) -> Option<&DataSource> {
        self.data()?.source.as_ref()
    }

    /// How rollouts are harvested, if they are.
    pub fn harvest(&self) -> Option<&HarvestOptions> {
        match &self.objective {
            ObjectiveOptions::Grpo(options) => options.harvest.as_ref(),
            _ => None,
        }
    }

    /// How the answers of a group are compared, if they are.
    pub fn pairwise(&self) -> Option<&PairwiseOptions> {
        match &self.objective {
            ObjectiveOptions::Grpo(options) => options.pairwise.as_ref(),
            _ => None,
        }
    }

    /// Whether the model that is trained has a score for a head.
    pub fn trains_score(&self) -> bool {
        matches!(&self.objective, ObjectiveOptions::RewardModel(options) if options.head == RewardHead::Score)
    }

    /// What there is of teachers, if it has any.
    pub fn distillation(&self) -> Option<&DistillationOptions> {
        match &self.objective {
            ObjectiveOptions::OnPolicyDistillation(options) => options.distillation.as_ref(),
            ObjectiveOptions::OffPolicyDistillation(options) => options.teacher.distillation.as_ref(),
            _ => None,
        }
    }

    /// The name of the model that it is held against, if one is named, and the key that does.
    pub fn reference(&self) -> Option<(&str, &'static str)> {
        let reference = match &self.objective {
            ObjectiveOptions::Dpo(options) => options.reference.as_deref(),
            ObjectiveOptions::Ipo(options) => options.reference.as_deref(),
            ObjectiveOptions::Kto(options) => options.reference.as_deref(),
            _ => return Some((self.rollouts()?.kl.as_ref()?.reference.as_deref()?, "kl.reference")),
        };
        Some((reference?, "preference.reference"))
    }
}
