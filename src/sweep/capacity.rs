//! How many runs of a sweep go on at a time.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Result;
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::model_roles;
use fulgurite_config::models::Backend;
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
    pub said: Option<String>,
}

/// As many as `asked`, or one for every two processors; but no more than the memory that is available now holds of the
/// largest model that is trained.
pub fn capacity(plan: &SweepPlan, asked: Option<NonZeroUsize>) -> Result<Capacity> {
    let mut greatest = 0;
    for run in plan.runs() {
        greatest = greatest.max(training_memory(&plan.config_of(&run)?).unwrap_or(0));
    }
    Ok(within(asked.map(NonZeroUsize::get), processors(), plan.runs().len(), greatest, available_memory()))
}

/// Processors of this machine.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

fn within(asked: Option<usize>, processors: usize, runs: usize, need: u64, available: Option<u64>) -> Capacity {
    let wanted = asked.unwrap_or((processors / PROCESSORS_OF_A_RUN).max(1)).min(runs.max(1));
    let fit = match available {
        Some(available) if need > 0 => usize::try_from(available / need).unwrap_or(usize::MAX).max(1),
        _ => usize::MAX,
    };
    let said = (fit < wanted).then(|| {
        let (need, available) = (bytes_text(need), bytes_text(available.unwrap_or_default()));
        format!("{fit} of {wanted} runs at a time: training takes up to {need} each, and {available} are available")
    });
    Capacity { parallel: wanted.min(fit), said }
}

/// Bytes that training the model of a run takes in this process; `None` where it is trained elsewhere, or nothing is known.
fn training_memory(loaded: &LoadedConfig) -> Option<u64> {
    let models = model_roles::trainable_models(&loaded.config).ok()?;
    let [model] = models.as_slice() else { return None };
    if model.backend == Backend::Tinker {
        return None;
    }
    let directory = model_directory(loaded)?;
    let is_adapter = model.lora_rank.is_some_and(|rank| rank > 0);
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

    #[test]
    fn no_more_runs_go_on_than_memory_holds() {
        let parallel = |asked, need, available| within(asked, 8, 12, need, available).parallel;
        assert_eq!(parallel(None, 1 << 30, Some(64 << 30)), 4);
        assert_eq!(parallel(Some(20), 1 << 30, Some(64 << 30)), 12, "there are no more runs");
        assert_eq!(parallel(Some(6), 0, None), 6);
        assert_eq!(parallel(Some(6), 3 << 30, Some(1 << 30)), 1, "one is always tried, and says itself what it lacks");
        let held = within(Some(6), 8, 12, 3 << 30, Some(10 << 30));
        assert_eq!(held.parallel, 3);
        assert!(held.said.unwrap().starts_with("3 of 6 runs at a time: training takes up to 3"));
        assert!(within(Some(3), 8, 12, 3 << 30, Some(10 << 30)).said.is_none());
    }
}
