//! Checks of services that train: with the embedded engine beside them where the weights are here, and of what a run needs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use fulgurite_backends::Learner;
use fulgurite_engine::{Engine, EngineOptions, LoraOptions};
use fulgurite_hub::must_be_whole;
use fulgurite_tinker::wire::LoraConfig;
use fulgurite_tinker::{FreshLearner, LearnerCheck};

use crate::models::model_directory::model_directory;
use crate::notices::Notices;

/// A service that is to be checked.
#[derive(Clone, Debug)]
pub struct CheckedService {
    /// Where it is.
    pub url: String,
    /// The base model by its name there; without it the only one that it trains.
    pub base_model: Option<String>,
    /// The same weights, for the embedded engine.
    pub path: Option<PathBuf>,
    /// The environment variable that holds the key.
    pub api_key_env: Option<String>,
    /// Rank of the adapters that are trained.
    pub lora_rank: u32,
    /// How long one probe may take.
    pub timeout: Duration,
}

/// Opens the engine if there are weights for it, and a session at the service.
///
/// # Errors
/// If the weights cannot be trained here, or the service is not there.
pub async fn begin_check(service: CheckedService, notices: &dyn Notices) -> Result<LearnerCheck> {
    let CheckedService { url, base_model, path, api_key_env, lora_rank, timeout } = service;
    let key = |variable: String| {
        std::env::var(&variable)
            .map_err(|error| anyhow!("the environment variable {variable} (--api-key-env): {error}"))
    };
    let api_key = api_key_env.map(key).transpose()?;
    let reference = match path {
        Some(path) => Some(engine_learners(&path, notices).with_context(|| format!("--path {}", path.display()))?),
        None => None,
    };
    let check = LearnerCheck::begin(&url, api_key, base_model, lora_rank, timeout, reference).await;
    check.context("the service cannot be checked")
}

/// Learners of the embedded engine over these weights.
fn engine_learners(path: &Path, notices: &dyn Notices) -> Result<Box<FreshLearner>> {
    let directory = model_directory(path, notices)?;
    must_be_whole(&directory)?;
    let engine = Engine::open(&directory, EngineOptions::default())?;
    Ok(Box::new(move |lora: &LoraConfig| {
        let options = LoraOptions::new(lora.rank as usize, lora.seed.unwrap_or_default());
        let learner: Arc<dyn Learner> = engine.lora_learner(&options)?;
        Ok(learner)
    }))
}
