//! The model that compares the answers of a group.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::model_roles::{self, pairwise_judge_key};
use fulgurite_lab::records::run_files::model_path;
use fulgurite_renderers::Tokenizer;
use fulgurite_trainer::{AnswerScores, GroupJudge, PairwiseJudge, PairwiseReward};

use crate::models::model_directory::model_directory;
use crate::models::open::{ScoringModel, context_length};
use crate::notices::Notices;

/// A judge, for as long as it is asked.
pub(crate) struct OpenJudge {
    model: Option<ScoringModel>,
    context_length: Option<usize>,
    is_wanted: bool,
}

impl OpenJudge {
    /// Opens the model that the config names.
    ///
    /// # Errors
    /// As [`model_roles::pairwise_judge`], and if it cannot be opened.
    pub(crate) fn open(loaded: &LoadedConfig, notices: &dyn Notices) -> Result<Self> {
        let config = &loaded.config;
        let is_wanted = config.trainer.pairwise().is_some();
        let Some(entry) = model_roles::pairwise_judge(config)? else {
            return Ok(Self { model: None, context_length: None, is_wanted });
        };
        let (path, key) = (model_path(loaded, entry), || pairwise_judge_key(&entry.name));
        let model = ScoringModel::open(entry, &path, config, notices).with_context(key)?;
        let reward = config.trainer.pairwise().map(|pairwise| pairwise.reward);
        if reward == Some(PairwiseReward::Score) && model.scores().is_none() {
            bail!(
                "[trainer] pairwise.reward = \"score\": model `{}` has no score; name one in this process that was trained \
                 with preference.head = \"score\"",
                entry.name
            );
        }
        let context_length = context_length(&model_directory(&path, notices).with_context(key)?)?;
        Ok(Self { model: Some(model), context_length, is_wanted })
    }

    /// What a run is given, whose policy's tokens that tokenizer reads.
    pub(crate) fn judge(&self, policy_tokenizer: &Arc<Tokenizer>) -> Option<GroupJudge> {
        let judge = match &self.model {
            Some(model) => {
                let renderer = model.renderer.clone();
                match model.scores() {
                    Some(learner) => PairwiseJudge::Scores(AnswerScores {
                        model: learner,
                        renderer,
                        context_length: self.context_length,
                    }),
                    None => PairwiseJudge::Model { sampler: model.sampler.clone(), renderer },
                }
            }
            None => PairwiseJudge::Shorter,
        };
        self.is_wanted.then(|| GroupJudge { judge, policy_tokenizer: policy_tokenizer.clone() })
    }
}
