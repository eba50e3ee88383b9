//! The model that compares the answers of a group.

use std::sync::Arc;

use anyhow::{Context, Result};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::model_roles::{self, pairwise_judge_key};
use fulgurite_lab::records::run_files::model_path;
use fulgurite_renderers::Tokenizer;
use fulgurite_trainer::{GroupJudge, PairwiseJudge};

use crate::models::open::ScoringModel;
use crate::notices::Notices;

/// A judge, for as long as it is asked.
pub(crate) struct OpenJudge {
    model: Option<ScoringModel>,
    is_wanted: bool,
}

impl OpenJudge {
    /// Opens the model that the config names.
    ///
    /// # Errors
    /// As [`model_roles::pairwise_judge`], and if it cannot be opened.
    pub(crate) fn open(loaded: &LoadedConfig, notices: &dyn Notices) -> Result<Self> {
        let config = &loaded.config;
        let model = match model_roles::pairwise_judge(config)? {
            None => None,
            Some(entry) => {
                let path = model_path(loaded, entry);
                Some(
                    ScoringModel::open(entry, &path, config, notices)
                        .with_context(|| pairwise_judge_key(&entry.name))?,
                )
            }
        };
        Ok(Self { model, is_wanted: config.trainer.pairwise().is_some() })
    }

    /// What a run is given, whose policy's tokens that tokenizer reads.
    pub(crate) fn judge(&self, policy_tokenizer: &Arc<Tokenizer>) -> Option<GroupJudge> {
        let judge = match &self.model {
            Some(ScoringModel { sampler, renderer, .. }) => {
                PairwiseJudge::Model { sampler: sampler.clone(), renderer: renderer.clone() }
            }
            None => PairwiseJudge::Shorter,
        };
        self.is_wanted.then(|| GroupJudge { judge, policy_tokenizer: policy_tokenizer.clone() })
    }
}
