//! How many runs of a sweep go on at a time.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Result;
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::model_roles;
use fulgurite_config::models::Backend;
use fulgurite_config::redaction::public_part;
use fulgurite_engine::{MemoryNeed, available_memory, bytes_text, inspect_model};

use super::plan::SweepPlan;
use crate::records::run_files::model_path;

/// Processors for each run, unless the command line says how many runs there are at a time: agents need some as well.
const PROCESSORS_OF_A_RUN: usize = 2;

/// How many runs go on at a time, and what is to be said of it.
pub struct Capacity {
    /// Runs at a time.
    pub parallel: usize,
    /// Why it is less than what was asked for.
    pub reason: Option<String>,
}

/// As many as `requested`, or one for every two processors; but no more than the memory that is available now holds of the
/// largest model that is trained, and one at a time where runs put whole models behind the same host.
pub fn capacity(plan: &SweepPlan, requested: Option<NonZeroUsize>) -> Result<Capacity> {
    let mut greatest = 0;
    for run in plan.runs() {
        greatest = greatest.max(training_memory(&plan.config_of(&run)?).unwrap_or(0));
    }
    let fit = within(requested.map(NonZeroUsize::get), processors(), plan.runs().len(), greatest, available_memory());
    Ok(match shared_host(plan)? {
        Some(host) if fit.parallel > 1 => {
            let reason = format!(
                "one run at a time: each puts its whole model behind {host}, where the others would sample from it"
            );
            Capacity { parallel: 1, reason: Some(reason) }
        }
        _ => fit,
    })
}

/// A host that several runs put their whole models behind. Adapters have names of their own there.
fn shared_host(plan: &SweepPlan) -> Result<Option<String>> {
    let mut known = BTreeSet::new();
    for run in plan.runs() {
        let loaded = plan.config_of(&run)?;
        let models = model_roles::trainable_models(&loaded.config)?;
        let [model] = models.as_slice() else { continue };
        let is_whole = !model.trains_adapter();
        let takes_models = match model.backend {
            Backend::Vllm | Backend::Sglang | Backend::LlamaCpp => is_whole,
            Backend::Embedded | Backend::Tinker | Backend::OpenAi | Backend::Anthropic => false,
        };
        let hosts: BTreeSet<String> = model.urls.iter().map(|url| public_part(url)).filter(|_| takes_models).collect();
        if let Some(host) = hosts.iter().find(|host| known.contains(*host)) {
            return Ok(Some(host.clone()));
        }
        known.extend(hosts);
    }
    Ok(None)
}

/// Processors of this machine.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

fn within(requested: Option<usize>, processors: usize, runs: usize, need: u64, available: Option<u64>) -> Capacity {
    let wanted = requested.unwrap_or((processors / PROCESSORS_OF_A_RUN).max(1)).min(runs.max(1));
    let fit = match available {
        Some(available) if need > 0 => usize::try_from(available / need).unwrap_or(usize::MAX).max(1),
        _ => usize::MAX,
    };
    let reason = (fit < wanted).then(|| {
        let (need, available) = (bytes_text(need), bytes_text(available.unwrap_or_default()));
        format!("{fit} of {wanted} runs at a time: training takes up to {need} each, and {available} are available")
    });
    Capacity { parallel: wanted.min(fit), reason }
}

/// Bytes that training the model of a run takes in this process; `None` where it is trained elsewhere, or nothing is known.
fn training_memory(loaded: &LoadedConfig) -> Option<u64> {
    let models = model_roles::trainable_models(&loaded.config).ok()?;
    let [model] = models.as_slice() else { return None };
    if model.backend == Backend::Tinker {
        return None;
    }
    let directory = model_directory(loaded)?;
    let is_adapter = model.trains_adapter();
    let need = match inspect_model(&directory) {
        Ok(found) if is_adapter => found.lora_memory,
        Ok(found) => found.memory,
        // It is not there yet.
        Err(_) => {
            let base = loaded.config.base.as_ref()?;
            MemoryNeed::of(&base.shape.model_config(base.vocabulary_size, &[]), 0)
        }
    };
    let prefix_cache = loaded.config.engine.prefix_cache_bytes as u64;
    Some(MemoryNeed { prefix_cache, ..need }.training())
}

/// Where the model is that a run trains.
pub fn model_directory(loaded: &LoadedConfig) -> Option<PathBuf> {
    let models = model_roles::trainable_models(&loaded.config).ok()?;
    let [model] = models.as_slice() else { return None };
    Some(model_path(loaded, model))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::arms::of_grid;

    #[test]
    fn runs_that_put_their_models_behind_one_host_go_on_one_after_another() {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("t.toml");
        let plan = |model: &str, keys: &[&str]| {
            let model = format!("[[models]]\nname = \"m\"\npath = \"m\"\nbackend = {model}\n");
            std::fs::write(&config, model).unwrap();
            let keys: Vec<_> = keys.iter().map(|key| key.parse().unwrap()).collect();
            SweepPlan {
                config: config.clone(),
                set: Vec::new(),
                agent: Vec::new(),
                stop_early: false,
                seeds: vec![1],
                arms: of_grid(&keys).unwrap(),
            }
        };
        let rates = "trainer.learning_rate=1e-3,2e-3";
        let host = "http://h:1".to_owned();
        for (model, keys, expected) in [
            ("\"vllm\"\nurls = [\"http://h:1\"]", vec![rates], Some(host.clone())),
            ("\"sglang\"\nurls = [\"http://g:1\", \"http://h:1\"]\nlora_rank = 8", vec![rates], None),
            ("\"embedded\"", vec![rates], None),
            ("\"vllm\"", vec!["models.0.urls=[\"http://h:1\"],[\"http://h:2\"]"], None),
        ] {
            assert_eq!(shared_host(&plan(model, &keys)).unwrap(), expected, "{model}");
        }
        let held = capacity(&plan("\"vllm\"\nurls = [\"http://h:1\"]", &[rates]), NonZeroUsize::new(2)).unwrap();
        assert_eq!(held.parallel, 1);
        assert!(held.reason.unwrap().contains("behind http://h:1"));
    }

    #[test]
    fn no_more_runs_go_on_than_memory_holds() {
        let parallel = |requested, need, available| within(requested, 8, 12, need, available).parallel;
        assert_eq!(parallel(None, 1 << 30, Some(64 << 30)), 4);
        assert_eq!(parallel(Some(20), 1 << 30, Some(64 << 30)), 12, "there are no more runs");
        assert_eq!(parallel(Some(6), 0, None), 6);
        assert_eq!(parallel(Some(6), 3 << 30, Some(1 << 30)), 1, "one is always tried, and says itself what it lacks");
        let held = within(Some(6), 8, 12, 3 << 30, Some(10 << 30));
        assert_eq!(held.parallel, 3);
        assert!(held.reason.unwrap().starts_with("3 of 6 runs at a time: training takes up to 3"));
        assert!(within(Some(3), 8, 12, 3 << 30, Some(10 << 30)).reason.is_none());
    }
}
