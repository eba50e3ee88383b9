//! What a run needs of the service that trains its model, asked before it begins.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use fulgurite_backends::{BackendError, LossFunction};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::models::{Backend, ModelEntry};
use fulgurite_config::redaction::public_part;
use fulgurite_tinker::{Need, Patience, TinkerService, UnmetNeed, find_unmet_need};
use fulgurite_trainer::{DistillationLoss, KlPlace, ObjectiveOptions, RolloutOptions, TrainError, TrainerOptions};

use crate::models::open::{tinker_learner_options, tinker_service_options};

/// How long a service may fail a request before the start goes on without its answer: the run waits for it longer.
const FAILING: Duration = Duration::from_secs(10);
/// How long all questions may take; a service whose queue is longer is not found wanting.
const ALL: Duration = Duration::from_secs(120);

/// A need, and the key that it follows from.
type KeyedNeed = (Need, String);

/// Asks the service of a model for what the run needs.
///
/// # Errors
/// If the service refuses something, or the key that it is sent; the message has the config's key.
pub async fn check_service(loaded: &LoadedConfig, entry: &ModelEntry) -> Result<()> {
    if entry.backend != Backend::Tinker {
        return Ok(());
    }
    let needs = needs_of(&loaded.config.trainer)?;
    let options = tinker_learner_options(entry, loaded.config.run.seed);
    let service = tinker_service_options(entry, Patience { failing: FAILING, ..Patience::default() })?;
    let service = Arc::new(TinkerService::new(&service)?);
    let plain: Vec<Need> = needs.iter().map(|(need, _)| *need).collect();
    let found = tokio::time::timeout(ALL, find_unmet_need(service, &options, &plain)).await;
    let url = entry.urls.first().map(|url| public_part(url)).unwrap_or_default();
    match found {
        Ok(Ok(None)) => Ok(()),
        Ok(Ok(Some(unmet))) => bail!(refusal(&unmet, entry, &needs, &url)),
        Ok(Err(error @ BackendError::KeyRefused { .. })) => bail!(refused_key(&error, entry, &url)),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the service could not be asked what it takes; the run begins all the same");
            Ok(())
        }
        Err(_) => {
            let seconds = ALL.as_secs();
            tracing::warn!(url, seconds, "the service has not said in time what it takes; the run begins all the same");
            Ok(())
        }
    }
}

fn refused_key(error: &BackendError, entry: &ModelEntry, url: &str) -> String {
    let key = match &entry.api_key_env {
        Some(variable) => format!("refuses the key of the environment variable {variable} (api_key_env)"),
        None => "needs a key: name the environment variable that holds it (api_key_env)".to_owned(),
    };
    format!("model `{}`: the service at {url} {key}: {error}", entry.name)
}

fn refusal(unmet: &UnmetNeed, entry: &ModelEntry, needs: &[KeyedNeed], url: &str) -> String {
    let UnmetNeed { need, error, possible_rank } = unmet;
    let key = match (need, possible_rank, entry.lora_rank) {
        (Need::Model, Some(rank), Some(written)) => {
            format!("model `{}`: lora_rank = {written} (rank {rank} is taken)", entry.name)
        }
        (Need::Model, Some(rank), None) => format!("model `{}`: lora_rank is not written (write {rank})", entry.name),
        (Need::Model, None, _) => {
            let base = entry.base_model.as_deref().unwrap_or(&entry.name);
            format!("model `{}`: base_model = \"{base}\"", entry.name)
        }
        (need, ..) => needs.iter().find(|(known, _)| known == need).map(|(_, key)| key.clone()).unwrap_or_default(),
    };
    format!(
        "{key}: the service at {url} does not take it: {error}; `fulgurite learners check {url}` shows what it takes"
    )
}

/// What a run by this objective needs.
fn needs_of(trainer: &TrainerOptions) -> Result<Vec<KeyedNeed>, TrainError> {
    let objective = || format!("[trainer] objective = \"{}\"", trainer.objective.name().as_str());
    let one = |need| Ok(vec![(need, objective())]);
    let comparisons = |reference: Option<&Option<String>>| {
        let kept = reference.filter(|reference| reference.is_none()).map(|_| Need::Reference);
        Ok([Need::Forward, Need::NegativeWeights].into_iter().chain(kept).map(|need| (need, objective())).collect())
    };
    match &trainer.objective {
        ObjectiveOptions::Grpo(options) => of_rollouts(&options.rollouts),
        ObjectiveOptions::OnPolicyDistillation(options) => {
            let loss = options.distillation.as_ref().map(|distillation| distillation.loss).unwrap_or_default();
            let key = || format!("[trainer] distillation.loss = \"{}\"", loss.as_str());
            match loss {
                DistillationLoss::PolicyGradient => of_rollouts(&options.rollouts),
                DistillationLoss::ForwardKl => Ok(vec![(Need::SoftTargets, key())]),
                DistillationLoss::ReverseKl => Ok(vec![(Need::Forward, key()), (Need::SoftTargets, key())]),
            }
        }
        ObjectiveOptions::OffPolicyDistillation(_) => one(Need::SoftTargets),
        ObjectiveOptions::Sft(_) | ObjectiveOptions::RewardModel(_) => one(Need::Loss(LossFunction::CrossEntropy)),
        ObjectiveOptions::Dpo(options) => comparisons(Some(&options.reference)),
        ObjectiveOptions::Ipo(options) => comparisons(Some(&options.reference)),
        ObjectiveOptions::Kto(options) => comparisons(Some(&options.reference)),
        ObjectiveOptions::Orpo(_) | ObjectiveOptions::Simpo(_) => comparisons(None),
    }
}

fn of_rollouts(rollouts: &RolloutOptions) -> Result<Vec<KeyedNeed>, TrainError> {
    let loss = rollouts.loss_function()?;
    let mut needs = vec![(Need::Loss(loss), format!("[trainer] loss = \"{}\"", loss.name()))];
    if let Some(kl) = &rollouts.kl {
        if kl.reference.is_none() {
            let key = "[trainer] kl, whose reference are the weights that the run begins with";
            needs.extend([(Need::Reference, key.to_owned()), (Need::Forward, key.to_owned())]);
        }
        if kl.place == KlPlace::Loss {
            needs.push((Need::NegativeWeights, "[trainer] kl.in = \"loss\"".to_owned()));
        }
    }
    if rollouts.conversations.is_some() {
        needs.push((Need::Loss(LossFunction::CrossEntropy), "[trainer] conversations".to_owned()));
    }
    Ok(needs)
}
