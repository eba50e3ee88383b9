use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use fulgurite_agentlightning::{Conversation, messages as conversations};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_lab::records::config_of_run;
use fulgurite_lab::records::matching_rollouts::narrow;
use fulgurite_store::Store;
use fulgurite_types::{ArchiveScope, Attempt, ListFilter, Part};
use serde_json::{Value, json};

use super::Format;
use super::export_subject::{named_run, open_subject};
use super::jsonl::JsonlWriter;
use super::parquet::ParquetWriter;
use crate::query::arguments::{ExportArguments, ExportWhat};
use crate::query::{spans_of, triplets_of};
use crate::terminal::output;
use crate::terminal::progress::Progress;
use crate::train::soft_targets::write_soft_targets;
use crate::transfer::metrics::{MetricsFormat, export_metrics};

/// Writes records to a file, which appears under its name once it is whole.
pub async fn export(arguments: ExportArguments) -> Result<()> {
    refuse_conditions_without_rollouts(&arguments)?;
    if arguments.what == ExportWhat::Metrics {
        return metrics(&arguments).await;
    }
    if arguments.output.is_some() {
        bail!("-o is where metrics are written (--what metrics); of anything else --to names the file");
    }
    let format = Format::of(&arguments.to)?;
    let only_lines = match arguments.what {
        ExportWhat::Conversations => Some("conversations"),
        ExportWhat::SoftTargets => Some("soft targets"),
        _ => None,
    };
    if let Some(what) = only_lines.filter(|_| format != Format::Jsonl) {
        bail!("{what} are written as JSON lines: give --to a name that ends in .jsonl");
    }
    let unfinished = unfinished(&arguments.to);
    let written = match arguments.what {
        ExportWhat::SoftTargets => soft_targets(&arguments, &unfinished).await,
        _ => {
            let (store, filter) = open_subject(&arguments).await?;
            write(&store, &arguments, filter, format, &unfinished).await
        }
    };
    let file = || arguments.to.display().to_string();
    if written.is_err() {
        // The first error is the one to be told.
        let _ = std::fs::remove_file(&unfinished);
    }
    let records = written.with_context(|| format!("cannot write {}", file()))?;
    std::fs::rename(&unfinished, &arguments.to).with_context(|| format!("cannot write {}", file()))?;
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
    let rows = write_soft_targets(&loaded, to, |done, all| progress.set("conversations", done, Some(all))).await?;
    progress.finish();
    Ok(rows)
}

/// Writes the metrics of a run for another program.
async fn metrics(arguments: &ExportArguments) -> Result<()> {
    if arguments.named.is_none() && arguments.store.run.is_none() {
        bail!("--what metrics needs a run: its directory, or its name below runs/");
    }
    let asked = arguments.to.to_string_lossy();
    let format = MetricsFormat::from_str(&asked, false);
    let format = format.map_err(|_| anyhow!("--to {asked}: metrics are written for tensorboard, wandb or csv"))?;
    let output = arguments.output.as_deref().context("--what metrics needs -o, the directory to write into")?;
    let directory = named_run(arguments)?.context("--what metrics needs a run")?;
    export_metrics(&directory, format, output, arguments.json).await
}

/// A file in the same directory, so that it can be renamed.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".unfinished");
    path.with_file_name(name)
}

/// Where records go.
enum Writer {
    Jsonl(JsonlWriter),
    Parquet(Box<ParquetWriter>),
}

impl Writer {
    fn create(format: Format, path: &Path) -> Result<Self> {
        Ok(match format {
            Format::Jsonl => Self::Jsonl(JsonlWriter::create(path)?),
            Format::Parquet => Self::Parquet(Box::new(ParquetWriter::create(path)?)),
        })
    }

    fn write(&mut self, record: Value) -> Result<()> {
        match self {
            Self::Jsonl(writer) => writer.write(&record),
            Self::Parquet(writer) => writer.write(record),
        }
    }

    fn finish(self) -> Result<()> {
        match self {
            Self::Jsonl(writer) => writer.finish(),
            Self::Parquet(writer) => writer.finish(),
        }
    }
}

async fn write(
    store: &Store,
    arguments: &ExportArguments,
    filter: ListFilter,
    format: Format,
    path: &Path,
) -> Result<u64> {
    let filter = narrow(store, filter, arguments.expression.as_ref()).await?;
    let mut writer = Writer::create(format, path)?;
    let mut progress = Progress::new(arguments.json);
    let records = match arguments.what {
        ExportWhat::Metrics | ExportWhat::SoftTargets => 0,
        ExportWhat::Conversations => {
            let made = async |attempt: &Attempt| {
                let conversations = conversations(&spans_of(store, attempt).await?).conversations;
                Ok(longest(conversations).into_iter().map(|conversation| json!(conversation)).collect())
            };
            write_of_attempts(store, &filter, &mut writer, &mut progress, ("conversations", made)).await?
        }
        ExportWhat::Triplets => {
            let made = async |attempt: &Attempt| {
                let triplets = triplets_of(store, attempt).await?.into_iter();
                Ok(triplets.map(|triplet| json!({ "record": "triplet", "data": triplet })).collect())
            };
            write_of_attempts(store, &filter, &mut writer, &mut progress, ("records", made)).await?
        }
        ExportWhat::All => write_archive(store, ArchiveScope::All, filter, &mut writer, &mut progress).await?,
        ExportWhat::Rollouts => {
            write_archive(store, ArchiveScope::Rollouts, filter, &mut writer, &mut progress).await?
        }
        ExportWhat::Spans => write_archive(store, ArchiveScope::Spans, filter, &mut writer, &mut progress).await?,
        ExportWhat::Generations => {
            write_archive(store, ArchiveScope::Generations, filter, &mut writer, &mut progress).await?
        }
    };
    writer.finish()?;
    progress.finish();
    Ok(records)
}

async fn write_archive(
    store: &Store,
    scope: ArchiveScope,
    filter: ListFilter,
    writer: &mut Writer,
    progress: &mut Progress,
) -> Result<u64> {
    let mut archive = store.export(scope, filter).await?;
    let mut written = 0;
    loop {
        let records = archive.next().await?;
        if records.is_empty() {
            return Ok(written);
        }
        for record in &records {
            writer.write(json!(record))?;
        }
        written += records.len() as u64;
        progress.set("records", written, None);
    }
}

/// What is made of the latest attempts, which progress calls `what`.
async fn write_of_attempts(
    store: &Store,
    filter: &ListFilter,
    writer: &mut Writer,
    progress: &mut Progress,
    (what, made): (&str, impl AsyncFn(&Attempt) -> Result<Vec<Value>>),
) -> Result<u64> {
    let mut written = 0;
    let every = Part::Newest { limit: None, sort_by: None };
    for rollout in store.list_rollouts(filter, &every).await?.items {
        let Some(attempt) = store.get_attempt(&rollout.rollout_id, "latest").await? else { continue };
        for record in made(&attempt).await? {
            writer.write(record)?;
            written += 1;
        }
        progress.set(what, written, None);
    }
    Ok(written)
}

/// Those that no later one goes on from.
fn longest(mut conversations: Vec<Conversation>) -> Vec<Conversation> {
    for index in (0..conversations.len()).rev() {
        let (earlier, later) = conversations.split_at(index + 1);
        if later.iter().any(|later| later.messages.starts_with(&earlier[index].messages)) {
            conversations.remove(index);
        }
    }
    conversations
}
