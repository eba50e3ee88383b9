//! `fulgurite train --dry-run`: what a run would take, by one group of it.

use anyhow::{Context, Result, bail};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::model_roles;
use fulgurite_config::models::LearnerKind;
use fulgurite_lab::estimate::{Estimate, Measured, Planned, group};
use fulgurite_lab::plan::of_config::{ConfiguredJob, PlanOptions};
use fulgurite_lab::plan::run_plan::RunPlan;
use fulgurite_lab::runs::registry;
use fulgurite_terminal::output;
use fulgurite_training::train::PlannedRun;
use serde_json::json;

use crate::train;
use crate::train::arguments::TrainArguments;

/// Makes one update on one group, of which nothing is kept, and says what the whole run would take.
pub async fn dry_run(arguments: TrainArguments) -> Result<()> {
    let is_json = arguments.json;
    let plan = memory_plan(&arguments)?;
    if let (Some(plan), false) = (&plan, is_json) {
        plan.memory_lines().iter().for_each(|(name, value)| output::line(format!("{name:17} {value}")));
        output::line("");
    }
    let scratch = tempfile::tempdir().context("cannot make a directory for the dry run")?;
    let directory = scratch.path().join("run");
    let PlannedRun { config, held_out, last } = train::train_one_group(arguments, directory.clone()).await?;
    let (store, run) = registry::open(&directory).await?;
    let steps = store.runs().steps(&run.run_id).await?;
    let rollouts = group::group_of(&store, &run.run_id, &config).await?;
    store.close().await;
    let seconds = |key: &str| steps.iter().filter_map(|step| step.metrics[key].as_f64()).sum();
    let entry = registry::of_directory(&directory, None).await?;
    let measured = Measured {
        rollouts: config.trainer.rollouts_or_usual().group_size as u64,
        all_rollouts: entry.rollouts.values().sum(),
        sampling_seconds: seconds("time/sampling"),
        training_seconds: seconds("time/training"),
    };
    let estimate = Estimate::of(Planned::of(&config, held_out, last), measured, &entry, config.prices.as_ref());
    if is_json {
        let mut estimate = json!(estimate);
        estimate["group"] = json!(rollouts);
        if let Some(plan) = plan {
            estimate["plan"] = json!(plan);
        }
        output::line(estimate);
    } else {
        group::lines(&rollouts).iter().for_each(output::line);
        output::line("");
        estimate.lines().iter().for_each(|(name, value)| output::line(format!("{name:17} {value}")));
    }
    Ok(())
}

/// What the run needs of memory, where PyTorch trains it: computed before anything is loaded. A trainer that would keep the
/// update is refused.
fn memory_plan(arguments: &TrainArguments) -> Result<Option<RunPlan>> {
    let mut loaded = LoadedConfig::read_with(Some(&arguments.config), &arguments.overrides)?;
    train::override_by_flags(&mut loaded.config, arguments.clone());
    loaded.take_adapters()?;
    let trained = model_roles::trainable_models(&loaded.config)?;
    if trained.iter().any(|model| model.learner == LearnerKind::PrimeRl) {
        bail!("--dry-run makes an update, which prime-rl's trainer would keep (learner = \"prime-rl\")");
    }
    if trained.first().is_none_or(|model| model.learner != LearnerKind::Torch) {
        return Ok(None);
    }
    ConfiguredJob::of(&loaded, &PlanOptions::default()).map(|job| Some(RunPlan::of(job)))
}
