//! What an evaluation is held against.

use std::path::Path;

use anyhow::{Context, Result, bail};
use fulgurite_config::model_roles;
use fulgurite_lab::records;
use fulgurite_store::{Store, redact_url};
use fulgurite_trainer::{ScoreComparison, TaskScore, recorded_scores};
use fulgurite_types::RolloutFilter;
use serde_json::Value;

use super::evaluated_weights::{last_checkpoint, weights_digest};
use super::plan::Plan;
use super::result_file::{ResultFile, evaluations};

/// Scores of another evaluation.
pub struct Against {
    /// What it is called.
    pub name: String,
    scores: Vec<TaskScore>,
}

/// How an evaluation compares.
pub struct Comparison {
    /// What it is held against.
    pub name: String,
    /// Task by task.
    pub scores: ScoreComparison,
}

impl Against {
    /// Holds a result against it.
    pub fn compare(&self, result: &ResultFile, pass_reward: f64) -> Result<Comparison> {
        let scores = ScoreComparison::of(&result.scores, &self.scores, pass_reward);
        let scores = scores.with_context(|| format!("--against {}: no task has succeeded in both", self.name))?;
        Ok(Comparison { name: self.name.clone(), scores })
    }
}

/// The scores of the evaluation in a directory, if there is one.
pub fn of_evaluation(path: &Path) -> Result<Option<Against>> {
    let directory = if path.is_file() { path.parent().unwrap_or(path) } else { path };
    let result = ResultFile::read(directory)?;
    Ok(result.map(|ResultFile { run_id, scores, .. }| Against { name: run_id, scores }))
}

/// The scores that `--against` names: of an evaluation, of a training run when it scored its held-out tasks last, or of a
/// checkpoint that has been evaluated.
pub async fn scores(path: &Path, plan: &Plan<'_>) -> Result<Against> {
    let named = || format!("--against {}", path.display());
    let directory = if path.is_file() { path.parent().unwrap_or(path) } else { path };
    if let Some(against) = of_evaluation(directory)? {
        return Ok(against);
    }
    if records::is_run(directory) {
        return of_training_run(directory).await.with_context(named);
    }
    let weights = weights_digest(&last_checkpoint(directory)?).with_context(named)?;
    let runs = plan.loaded.resolve(&plan.loaded.config.run.directory);
    let mut known: Vec<ResultFile> = evaluations(&runs)?;
    known.retain(|result| result.weights == weights && result.tasks_digest == plan.tasks_digest());
    known.sort_by_key(|result| result.samples.abs_diff(plan.samples));
    match known.into_iter().next() {
        Some(ResultFile { run_id, scores, .. }) => Ok(Against { name: run_id, scores }),
        None => bail!(
            "{}: these weights have not been evaluated on these tasks: run `fulgurite eval` with --checkpoint {} first",
            named(),
            path.display()
        ),
    }
}

/// The held-out rollouts of the last evaluation within a training run.
async fn of_training_run(directory: &Path) -> Result<Against> {
    let loaded = records::config_of_run(directory)?;
    let run_id = records::run_file(directory)?["run_id"].as_str().unwrap_or_default().to_owned();
    let url = records::store_of_run(directory)?;
    let store = Store::open_read_only(&url).await;
    let store = store.with_context(|| format!("cannot open the store {}", redact_url(&url)))?;
    let filter = RolloutFilter { run_id: Some(run_id.clone()), ..RolloutFilter::default() };
    let mut pages = store.rollouts().pages(&filter).await?;
    let mut newest: (u64, Vec<String>) = (0, Vec::new());
    while let Some(page) = pages.next().await? {
        for (rollout, _) in page {
            if rollout.noted("phase").and_then(Value::as_str) != Some("held_out") || !rollout.status.is_finished() {
                continue;
            }
            let step = rollout.noted("step").and_then(Value::as_u64).unwrap_or_default();
            if step > newest.0 {
                newest = (step, Vec::new());
            }
            if step == newest.0 {
                newest.1.push(rollout.rollout_id);
            }
        }
    }
    let (step, rollouts) = newest;
    if rollouts.is_empty() {
        bail!("this run has scored no held-out tasks");
    }
    let models = model_roles::trainable_models(&loaded.config)?;
    let model = models.first().map(|model| model.name.as_str()).unwrap_or_default();
    let scores =
        recorded_scores(&store, &rollouts, model, loaded.config.trainer.rollouts_or_usual().reward_rules()).await?;
    Ok(Against { name: format!("{run_id} after {step} updates"), scores })
}
