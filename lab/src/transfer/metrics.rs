//! The metrics of a run that is over, or goes on, written for other programs.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use fulgurite_config::declarations::interpreter;
use fulgurite_types::{Run, Step};
use serde_json::Value;

use crate::csv;
use crate::records;
use crate::runs::registry;
use crate::trackers::tensorboard::TensorBoard;
use crate::trackers::tracker::{TrackedRun, TrackedStep, Tracker};
use crate::trackers::wandb::Wandb;

/// For which program metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    /// Event files of TensorBoard.
    Tensorboard,
    /// An offline run of Weights & Biases.
    Wandb,
    /// A row for each step.
    Csv,
}

/// What was written of a run's metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedMetrics {
    /// Steps that were written.
    pub steps: usize,
    /// The file or the directory that has them.
    pub written: PathBuf,
}

/// Writes the metrics of the run in a directory into `output`. `python` has the package of Weights & Biases; without it,
/// the interpreter that the run's config names is started.
///
/// # Errors
/// If the run's store cannot be read, or the files cannot be written.
pub async fn export_metrics(
    directory: &Path,
    format: MetricsFormat,
    output: &Path,
    python: Option<PathBuf>,
) -> Result<ExportedMetrics> {
    let (store, run) = registry::open(directory).await?;
    let steps = store.runs().steps(&run.run_id).await?;
    let written = match format {
        MetricsFormat::Tensorboard => {
            let own = output.join(&run.run_id);
            track(&mut TensorBoard::create(&own)?, &steps)?;
            own
        }
        MetricsFormat::Wandb => {
            let python = python.unwrap_or_else(|| interpreter_of(&run));
            track(&mut Wandb::create(&python, output, &tracked_run(&run))?, &steps)?;
            output.join("wandb")
        }
        MetricsFormat::Csv => {
            std::fs::create_dir_all(output).with_context(|| format!("cannot create {}", output.display()))?;
            let own: PathBuf = output.join(format!("{}.csv", run.run_id));
            records::write_whole(&own, &table(&steps))?;
            own
        }
    };
    Ok(ExportedMetrics { steps: steps.len(), written })
}

/// The interpreter that a run's config names for trackers.
fn interpreter_of(run: &Run) -> PathBuf {
    let python = run.config["trackers"]["python"].as_str().unwrap_or("python3");
    interpreter(Path::new(python), Path::new(run.config["config_directory"].as_str().unwrap_or_default()))
}

fn track(tracker: &mut dyn Tracker, steps: &[Step]) -> Result<()> {
    for step in steps {
        if let (Some(metrics), Some(number)) = (step.metrics.as_object(), step.metrics["step"].as_u64()) {
            tracker.step(&TrackedStep { number, time: step.time, metrics })?;
        }
    }
    tracker.finish()
}

fn tracked_run(run: &Run) -> TrackedRun {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let project = text(&run.config["trackers"]["wandb_project"]);
    TrackedRun {
        run_id: run.run_id.clone(),
        project: project.unwrap_or_else(|| run.name.clone()),
        instance: text(&run.config["instance"]).unwrap_or_default(),
        config: run.config.clone(),
        start_time: run.start_time,
    }
}

/// A row for each step, a column for each metric that any has, in the order in which they appear.
fn table(steps: &[Step]) -> String {
    let mut seen = HashSet::new();
    let all = steps.iter().filter_map(|step| step.metrics.as_object()).flat_map(|metrics| metrics.keys());
    let keys: Vec<&String> = all.filter(|key| seen.insert(key.as_str())).collect();
    let mut out = csv::row(&keys);
    for step in steps {
        let cell = |key: &&String| match step.metrics.get(key.as_str()) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        out += &csv::row(keys.iter().map(cell));
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_has_a_column_for_every_metric_that_any_step_has() {
        let step = |metrics: Value| Step { run_id: "r".into(), step: 1, time: 0.0, metrics, weights_version: 1 };
        let steps = [step(json!({ "step": 0, "a": 0.5 })), step(json!({ "step": 1, "b,c": "x\"y", "a": null }))];
        insta::assert_snapshot!(table(&steps), @r#"
        step,a,"b,c"
        0,0.5,
        1,,"x""y"
        "#);
    }
}
