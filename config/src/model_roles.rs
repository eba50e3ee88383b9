//! What each of `[[models]]` is for in a run: trained, a reference, a teacher, a judge, or served beside.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use fulgurite_runner::RubricOptions;
use fulgurite_trainer::{DistillationOptions, PairwiseOptions, PairwiseReward};

use crate::declarations::Config;
use crate::models::{Backend, ModelEntry};

/// The models that are neither a reference nor a judge nor a teacher nor served beside; where there are none, the teachers.
pub fn trainable_models(config: &Config) -> Result<Vec<&ModelEntry>> {
    let held_against = reference(config)?;
    let judge = pairwise_judge(config)?;
    let auxiliary: Vec<&ModelEntry> = held_against.into_iter().chain(judge).chain(served_alongside(config)?).collect();
    let is_auxiliary = |model: &&ModelEntry| auxiliary.iter().any(|it| it.name == model.name);
    let (teachers, taught): (Vec<&ModelEntry>, Vec<&ModelEntry>) = {
        let teachers = teachers(config)?;
        let is_teacher = |model: &&ModelEntry| teachers.iter().any(|teacher| teacher.name == model.name);
        config.models.iter().filter(|model| !is_auxiliary(model)).partition(is_teacher)
    };
    Ok(if taught.is_empty() { teachers } else { taught })
}

/// The name of the reference model, if the config names one, and the key that does.
pub fn reference_name(config: &Config) -> Option<(&str, &'static str)> {
    config.trainer.reference()
}

/// The model that a run is held against, if the config names one.
///
/// # Errors
/// If there is no such model, or if it is not in this process.
pub fn reference(config: &Config) -> Result<Option<&ModelEntry>> {
    let Some((name, place)) = reference_name(config) else { return Ok(None) };
    let key = || reference_key(place, name);
    let Some(entry) = config.models.iter().find(|model| model.name == name) else {
        bail!("{}: there is no such [[models]]", key())
    };
    if entry.backend != Backend::Embedded {
        bail!("{}: its backend is {}, and only an embedded model can be a reference", key(), entry.backend.name());
    }
    Ok(Some(entry))
}

/// The key that names the reference model, as messages have it.
pub fn reference_key(place: &str, name: &str) -> String {
    format!("[trainer] {place} = \"{name}\"")
}

/// The key that names the judge of pairs, as messages have it.
pub fn pairwise_judge_key(name: &str) -> String {
    format!("[trainer] pairwise.judge = \"{name}\"")
}

/// The model that compares the answers of a group, if the config names one.
///
/// # Errors
/// If there is no such model, or if its calls are passed on.
pub fn pairwise_judge(config: &Config) -> Result<Option<&ModelEntry>> {
    let Some(PairwiseOptions { judge, reward, .. }) = config.trainer.pairwise() else { return Ok(None) };
    if judge == PairwiseOptions::SHORTER {
        if *reward == PairwiseReward::Score {
            bail!(
                "[trainer] pairwise.reward = \"score\": `shorter` has no score, and a reward model with preference.head = \
                   \"score\" has"
            );
        }
        return Ok(None);
    }
    match config.models.iter().find(|model| model.name == *judge) {
        None => bail!("{}: there is no such [[models]]; `shorter` needs none", pairwise_judge_key(judge)),
        Some(entry) if entry.backend.upstream_dialect().is_some() => {
            bail!(
                "{}: its backend is {}, which is not sampled token by token",
                pairwise_judge_key(judge),
                entry.backend.name()
            )
        }
        Some(entry) => Ok(Some(entry)),
    }
}

/// What the config says of teachers, if the run has any.
pub fn distillation(config: &Config) -> Option<&DistillationOptions> {
    config.trainer.distillation()
}

/// The key that names a teacher, as messages have it.
pub fn teacher_key(name: &str) -> String {
    format!("[trainer] distillation, teacher \"{name}\"")
}

/// The models that the config names as teachers.
///
/// # Errors
/// If there is no such model, or if its calls are passed on.
pub fn teachers(config: &Config) -> Result<Vec<&ModelEntry>> {
    let names = distillation(config).map_or(BTreeSet::new(), DistillationOptions::teacher_names);
    let mut entries = Vec::with_capacity(names.len());
    for name in names {
        let Some(entry) = config.models.iter().find(|model| model.name == name) else {
            bail!("{}: there is no such [[models]]", teacher_key(name))
        };
        if entry.backend.upstream_dialect().is_some() {
            bail!(
                "{}: its backend is {}, which passes calls on and tells no logprobs of a prompt",
                teacher_key(name),
                entry.backend.name()
            );
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// The models that are served beside the policy: those that nobody trains, and the judges of `[runner.rubric]`.
///
/// # Errors
/// If a judge is none of them, or if no model is left to be trained, whose tokens would then be its own judge's.
pub fn served_alongside(config: &Config) -> Result<Vec<&ModelEntry>> {
    let judges: Vec<(&str, &str)> = config.runner.rubric.iter().flat_map(RubricOptions::judges).collect();
    if let Some((key, name)) = judges.iter().find(|(_, name)| config.models.iter().all(|model| model.name != *name)) {
        bail!("{key} = {name:?}: there is no such [[models]]");
    }
    let is_judge = |model: &ModelEntry| judges.iter().any(|(_, name)| model.name == *name);
    let auxiliary: Vec<&ModelEntry> = config.models.iter().filter(|model| !model.trained || is_judge(model)).collect();
    if !auxiliary.is_empty() && auxiliary.len() == config.models.len() {
        let names: Vec<&str> = auxiliary.iter().map(|model| model.name.as_str()).collect();
        bail!(
            "[[models]] {}: judges, and models with trained = false, are served beside the one that is trained, and there is none",
            names.join(", ")
        );
    }
    Ok(auxiliary)
}
