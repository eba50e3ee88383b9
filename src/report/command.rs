//! `fulgurite report`: runs as a page that stands alone, or curves of one metric as a picture.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fulgurite_lab::records;
use fulgurite_lab::report::curves::{self, Curve};
use fulgurite_lab::runs::registry;
use fulgurite_lab::sweep::plan::SweepPlan;
use fulgurite_terminal::output;
use serde_json::{Map, Value};

use crate::report::arguments::ReportArguments;
use crate::report::page::page_of;

/// Name of a run's file of metrics in its directory.
const METRICS_FILE: &str = "metrics.jsonl";

/// Writes the page, or draws one metric of every run that is named into one picture.
pub async fn report(arguments: &ReportArguments) -> Result<()> {
    let runs = arguments.runs.iter().map(|run| runs_of(run)).collect::<Result<Vec<_>>>()?.concat();
    let written = match &arguments.svg {
        Some(metric) => {
            let curves = runs.iter().map(|run| read(run, metric)).collect::<Result<Vec<_>>>()?;
            curves::svg(metric, &curves)?
        }
        None => {
            let directories = runs.iter().map(|run| registry::directory(run)).collect::<Result<Vec<_>>>()?;
            page_of(&directories).await?
        }
    };
    match &arguments.output {
        Some(path) => {
            std::fs::write(path, written).with_context(|| format!("cannot write {}", path.display()))?;
            output::line(format_args!("written to {}", path.display()));
            Ok(())
        }
        None => {
            output::line(written.trim_end());
            Ok(())
        }
    }
}

/// The runs that a sweep's directory has, or what is named itself.
fn runs_of(named: &Path) -> Result<Vec<PathBuf>> {
    let Some(plan) = SweepPlan::read(named)? else { return Ok(vec![named.to_owned()]) };
    let started = plan.runs().into_iter().map(|run| named.join(run.name)).filter(|run| records::is_run(run));
    Ok(started.collect())
}

/// A run's curve of `metric`: `run` is its directory, or its file of metrics.
fn read(run: &Path, metric: &str) -> Result<Curve> {
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
