//! The model that compares the answers of a group.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use fulgurite_renderers::Tokenizer;
use fulgurite_trainer::{GroupJudge, PairwiseJudge, PairwiseOptions};

use crate::config::declarations::{Config, LoadedConfig};
use crate::config::models::ModelEntry;
use crate::models::open::ScoringModel;
use crate::train::run_files::model_path;

fn key(name: &str) -> String {
    format!("[trainer] pairwise.judge = \"{name}\"")
}

/// The model that the config names, if it names one.
///
/// # Errors
/// If there is no such model, or if its calls are passed on.
pub fn entry(config: &Config) -> Result<Option<&ModelEntry>> {
    let Some(PairwiseOptions { judge }) = &config.trainer.pairwise else { return Ok(None) };
    if judge == PairwiseOptions::SHORTER {
        return Ok(None);
    }
    match config.models.iter().find(|model| model.name == *judge) {
        None => bail!("{}: there is no such [[models]]; `shorter` needs none", key(judge)),
        Some(entry) if entry.backend.upstream_dialect().is_some() => {
            bail!("{}: its backend is {}, which is not sampled token by token", key(judge), entry.backend.name())
        }
        Some(entry) => Ok(Some(entry)),
    }
}

/// A judge, for as long as it is asked.
pub struct OpenJudge {
    model: Option<ScoringModel>,
    is_wanted: bool,
}

impl OpenJudge {
    /// Opens the model that the config names.
    ///
    /// # Errors
    /// As [`entry`], and if it cannot be opened.
    pub fn open(loaded: &LoadedConfig) -> Result<Self> {
        let config = &loaded.config;
        let model = match entry(config)? {
            None => None,
            Some(entry) => {
                let path = model_path(loaded, entry);
                Some(ScoringModel::open(entry, &path, config).with_context(|| key(&entry.name))?)
            }
        };
        Ok(Self { model, is_wanted: config.trainer.pairwise.is_some() })
    }

    /// What a run is given, whose policy's tokens that tokenizer reads.
    pub fn judge(&self, policy_tokenizer: &Arc<Tokenizer>) -> Option<GroupJudge> {
        let judge = match &self.model {
            Some(ScoringModel { sampler, renderer, .. }) => {
                PairwiseJudge::Model { sampler: sampler.clone(), renderer: renderer.clone() }
            }
            None => PairwiseJudge::Shorter,
        };
        self.is_wanted.then(|| GroupJudge { judge, policy_tokenizer: policy_tokenizer.clone() })
    }
}
