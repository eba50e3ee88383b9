//! `fulgurite report`: runs as a page that stands alone, or curves of one metric as a picture.

pub mod arguments;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use fulgurite_lab::page::page_of;
use fulgurite_lab::report::curve_files::read_curve;
use fulgurite_lab::report::curves;
use fulgurite_lab::runs::registry;
use fulgurite_lab::sweep::plan::SweepPlan;
use fulgurite_terminal::output;

use self::arguments::ReportArguments;

/// Writes the page, or draws one metric of every run that is named into one picture.
pub async fn report(arguments: &ReportArguments) -> Result<()> {
    let runs = arguments.runs.iter().map(|run| runs_of(run)).collect::<Result<Vec<_>>>()?.concat();
    let written = match &arguments.svg {
        Some(metric) => {
            let curves = runs.iter().map(|run| read_curve(run, metric)).collect::<Result<Vec<_>>>()?;
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
        }
        None => output::line(written.trim_end()),
    }
    Ok(())
}

/// The runs that a sweep's directory has, or what is named itself.
fn runs_of(named: &Path) -> Result<Vec<PathBuf>> {
    Ok(SweepPlan::started_runs(named)?.unwrap_or_else(|| vec![named.to_owned()]))
}
