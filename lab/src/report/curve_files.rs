//! The curves of runs' metrics, as they are in their files.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use super::curves::Curve;

/// Name of a run's file of metrics in its directory.
const METRICS_FILE: &str = "metrics.jsonl";

/// A run's curve of `metric`: `run` is its directory, or its file of metrics.
///
/// # Errors
///
/// A file that cannot be read, and a metric that it does not have.
pub fn read_curve(run: &Path, metric: &str) -> Result<Curve> {
    let path = if run.is_dir() { run.join(METRICS_FILE) } else { run.to_owned() };
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let steps = lines
        .map(|(number, line)| {
            serde_json::from_str(line).with_context(|| format!("{}, line {}", path.display(), number + 1))
        })
        .collect::<Result<Vec<Map<String, Value>>>>()?;
    let points: Vec<_> = steps.iter().filter_map(|step| point(step, metric)).collect();
    if points.is_empty() {
        bail!("{} has no {metric}{}", path.display(), known(&steps));
    }
    Ok(Curve { name: name_of(run), points })
}

/// A step's place on the curve, if the metric was measured in it.
fn point(step: &Map<String, Value>, metric: &str) -> Option<(f64, f64)> {
    let number = |key: &str| step.get(key).and_then(Value::as_f64);
    Some((number("step")?, number(metric)?))
}

/// What could have been asked for, as the end of a refusal.
fn known(steps: &[Map<String, Value>]) -> String {
    let mut names: Vec<&str> = steps
        .iter()
        .flat_map(|step| step.iter().filter(|(_, value)| value.is_number()).map(|(name, _)| name.as_str()))
        .collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() { "; it holds no step".to_owned() } else { format!("; it has {}", names.join(", ")) }
}

/// What a run is called in the picture.
fn name_of(run: &Path) -> String {
    let resolved = run.canonicalize().unwrap_or_else(|_| run.to_owned());
    let named = match resolved.file_name() {
        Some(name) if name == METRICS_FILE => resolved.parent().map(PathBuf::from).unwrap_or_default(),
        _ => resolved,
    };
    named.file_stem().map_or_else(|| run.display().to_string(), |stem| stem.to_string_lossy().into_owned())
}
