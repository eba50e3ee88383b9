use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_lab::records::config_of_run;
use fulgurite_lab::records::matching_rollouts::narrow;
use fulgurite_lab::transfer::export::{ExportedRecords, export_records};
use fulgurite_lab::transfer::file_format::FileFormat;
use fulgurite_lab::transfer::metrics::{ExportedMetrics, export_metrics};
use fulgurite_lab::transfer::unfinished_file::UnfinishedFile;
use fulgurite_store::Store;
use fulgurite_terminal::notices::TerminalNotices;
use fulgurite_terminal::output;
use fulgurite_terminal::progress::Progress;
use fulgurite_training::train::write_soft_targets;
use fulgurite_types::{ArchiveScope, ListFilter};
use serde_json::json;

use super::arguments::{ExportArguments, ExportWhat, MetricsFormat};
use super::export_subject::{named_run, open_subject};

/// Writes records to a file, which appears under its name once it is whole.
pub async fn export(arguments: ExportArguments) -> Result<()> {
    refuse_conditions_without_rollouts(&arguments)?;
    if arguments.what == ExportWhat::Metrics {
        return metrics(&arguments).await;
    }
    if arguments.output.is_some() {
        bail!("-o is where metrics are written (--what metrics); of anything else --to names the file");
    }
    let format = FileFormat::of(&arguments.to)?;
    let only_lines = match arguments.what {
        ExportWhat::Conversations => Some("conversations"),
        ExportWhat::SoftTargets => Some("soft targets"),
        _ => None,
    };
    if let Some(what) = only_lines.filter(|_| format != FileFormat::Jsonl) {
        bail!("{what} are written as JSON lines: give --to a name that ends in .jsonl");
    }
    let unfinished = UnfinishedFile::of(&arguments.to);
    let file = || arguments.to.display().to_string();
    let written = match exported_records(arguments.what) {
        Some(what) => {
            let (store, filter) = open_subject(&arguments).await?;
            write(&store, &arguments, what, filter, (format, unfinished.path())).await
        }
        None => soft_targets(&arguments, unfinished.path()).await,
    };
    let records = match written {
        Ok(records) => records,
        Err(error) => {
            unfinished.discard();
            return Err(error.context(format!("cannot write {}", file())));
        }
    };
    unfinished.finish().with_context(|| format!("cannot write {}", file()))?;
    if arguments.json {
        output::line(json!({ "records": records, "file": file() }));
    } else {
        output::line(format!("exported {records} records to {}", file()));
    }
    Ok(())
}

/// Refuses conditions on rollouts where none are exported.
fn refuse_conditions_without_rollouts(arguments: &ExportArguments) -> Result<()> {
    let what = match arguments.what {
        ExportWhat::Metrics => "metrics are of a whole run",
        ExportWhat::SoftTargets => "soft targets are of all conversations of a run",
        _ => return Ok(()),
    };
    match arguments.flags_on_rollouts()[..] {
        [] => Ok(()),
        ref flags => bail!("{what}, and {} would choose rollouts: leave it out", flags.join(" and ")),
    }
}

/// Writes what the teacher of a run, or of a config, would say.
async fn soft_targets(arguments: &ExportArguments, to: &Path) -> Result<u64> {
    let loaded = match (named_run(arguments)?, &arguments.store.config) {
        (Some(_), Some(_)) => bail!("a run has a config of its own: leave out RUN, or --config"),
        (Some(directory), None) => config_of_run(&directory)?,
        (None, Some(file)) => LoadedConfig::read(Some(file))?,
        (None, None) => bail!(
            "--what soft-targets needs a run of off-policy distillation, by its directory or its name below runs/, or the \
             config of one (--config FILE)"
        ),
    };
    let mut progress = Progress::new(arguments.json);
    let rows =
        write_soft_targets(&loaded, to, &TerminalNotices, |done, all| progress.set("conversations", done, Some(all)))
            .await?;
    progress.finish();
    Ok(rows)
}

/// Writes the metrics of a run for another program.
async fn metrics(arguments: &ExportArguments) -> Result<()> {
    if arguments.named.is_none() && arguments.store.run.is_none() {
        bail!("--what metrics needs a run: its directory, or its name below runs/");
    }
    let to = arguments.to.to_string_lossy();
    let format = MetricsFormat::from_str(&to, false);
    let format = format.map_err(|_| anyhow!("--to {to}: metrics are written for tensorboard, wandb or csv"))?;
    let output = arguments.output.as_deref().context("--what metrics needs -o, the directory to write into")?;
    let directory = named_run(arguments)?.context("--what metrics needs a run")?;
    let python = match &arguments.store.config {
        Some(file) if format == MetricsFormat::Wandb => {
            let loaded = LoadedConfig::read(Some(file))?;
            Some(loaded.interpreter(&loaded.config.trackers.python))
        }
        _ => None,
    };
    let ExportedMetrics { steps, written } = export_metrics(&directory, format.into(), output, python).await?;
    if arguments.json {
        output::line(json!({ "steps": steps, "written": written }));
    } else {
        output::line(format!("exported {steps} steps to {}", written.display()));
    }
    Ok(())
}

/// The records of a store that are exported, if any are.
fn exported_records(what: ExportWhat) -> Option<ExportedRecords> {
    match what {
        ExportWhat::Metrics | ExportWhat::SoftTargets => None,
        ExportWhat::Conversations => Some(ExportedRecords::Conversations),
        ExportWhat::Triplets => Some(ExportedRecords::Triplets),
        ExportWhat::All => Some(ExportedRecords::Archive(ArchiveScope::All)),
        ExportWhat::Rollouts => Some(ExportedRecords::Archive(ArchiveScope::Rollouts)),
        ExportWhat::Spans => Some(ExportedRecords::Archive(ArchiveScope::Spans)),
        ExportWhat::Generations => Some(ExportedRecords::Archive(ArchiveScope::Generations)),
    }
}

/// Writes records into a file of a format, and says how many they are.
async fn write(
    store: &Store,
    arguments: &ExportArguments,
    what: ExportedRecords,
    filter: ListFilter,
    file: (FileFormat, &Path),
) -> Result<u64> {
    let filter = narrow(store, filter, arguments.expression.as_ref()).await?;
    let mut progress = Progress::new(arguments.json);
    let mut show = |what: &str, written| progress.set(what, written, None);
    let records = export_records(store, what, filter, file, &mut show).await?;
    progress.finish();
    Ok(records)
}
