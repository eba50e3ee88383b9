//! `fulgurite model fetch`: a model directory, or files by name, from Hugging Face's hub or one that speaks as it does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use fulgurite_engine::{bytes_text, inspect_model};
use serde::Deserialize;
use serde_json::json;

use super::download::{WantedFile, download};
use super::hub::{Hub, Listing};
use super::place::Place;
use super::selection::{HubFile, WEIGHTS_INDEX};
use super::source::ModelSource;
use crate::terminal::output;
use crate::terminal::progress::Progress;

/// `fulgurite model fetch`.
#[derive(Debug, Args)]
pub struct ModelFetchArguments {
    /// What: hf:OWNER/NAME, or hf:OWNER/NAME@REVISION for another branch, tag or commit than main
    #[arg(value_name = "MODEL")]
    pub source: ModelSource,
    /// Directory to be made, in place of models/NAME
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Fetch this file of the model's alone, such as one in GGUF (repeatable)
    #[arg(long = "file", value_name = "PATH")]
    pub files: Vec<String>,
    /// Print JSON, one object a line: one for each file, and a summary at the end
    #[arg(long)]
    pub json: bool,
}

/// Fetches what was asked for.
pub async fn fetch(arguments: &ModelFetchArguments) -> Result<()> {
    let ModelFetchArguments { source, directory, files: names, json } = arguments;
    let directory = directory.clone().unwrap_or_else(|| Path::new("models").join(&source.name));
    let started = Instant::now();
    let hub = Hub::from_environment(source.clone())?;
    let context = || format!("cannot fetch {source}");
    let Listing { commit, files } = hub.listing().await.with_context(context)?;
    let first = super::selection::known_at_once(&files, names).with_context(context)?;
    let (place, progress) = (Place::open(&directory)?, Progress::new(*json));
    let mut fetching = Fetching { hub, commit, place, progress, json: *json, fetched: vec![], bytes: 0 };
    fetching.all(first).await.with_context(context)?;
    if names.is_empty() {
        fetching.shards(&files).await.with_context(context)?;
    }
    fetching.progress.finish();
    let Fetching { commit, place, fetched, bytes, .. } = fetching;
    let count = fetched.len();
    place.settle(&commit, fetched)?;
    let seconds = started.elapsed().as_secs_f64();
    if *json {
        output::line(json!({
            "model": source.to_string(), "commit": commit, "directory": directory, "files_fetched": count,
            "bytes_fetched": bytes, "seconds": seconds,
        }));
    } else {
        tell(arguments, &directory, &commit, count, bytes);
    }
    Ok(())
}

/// What was done, and what can be done now.
fn tell(arguments: &ModelFetchArguments, directory: &Path, commit: &str, count: usize, bytes: u64) {
    let (source, bytes) = (&arguments.source, bytes_text(bytes));
    let what = match count {
        0 => "nothing was missing".to_owned(),
        1 => format!("1 file, {bytes} fetched"),
        _ => format!("{count} files, {bytes} fetched"),
    };
    output::line(format!("{source} at {} is in {}: {what}", &commit[..12], directory.display()));
    if arguments.files.is_empty() {
        output::line(advice(source, directory));
    }
    for file in arguments.files.iter().filter(|file| file.ends_with(".gguf")) {
        let file = directory.join(file);
        output::line(format!("to make a model directory of it: fulgurite model convert {} DIR", file.display()));
    }
}

/// What can be done with a model directory.
fn advice(source: &ModelSource, directory: &Path) -> String {
    match inspect_model(directory) {
        Ok(_) => {
            let name = source.name.to_lowercase();
            format!("to serve it: fulgurite serve --model {name}=embedded:{}", directory.display())
        }
        Err(error) => format!("the embedded engine cannot run it ({error}), but a model server may: see docs/hosts.md"),
    }
}

/// A command on its way.
struct Fetching {
    hub: Hub,
    commit: String,
    place: Place,
    progress: Progress,
    json: bool,
    /// Files that are whole, and not in their place yet.
    fetched: Vec<WantedFile>,
    /// Bytes that came over the network.
    bytes: u64,
}

/// The index of weights that are several files.
#[derive(Deserialize)]
struct WeightsIndex {
    weight_map: BTreeMap<String, String>,
}

impl Fetching {
    /// Weights that are several files, which only their index names.
    async fn shards(&mut self, files: &[HubFile]) -> Result<()> {
        if !files.iter().any(|file| file.path == WEIGHTS_INDEX) {
            return Ok(());
        }
        let shards = self.named_by_index()?;
        self.all(super::selection::named(files, &shards)?).await
    }

    fn named_by_index(&self) -> Result<Vec<String>> {
        let path = match self.fetched.iter().find(|file| file.path == WEIGHTS_INDEX) {
            Some(index) => self.place.part(&self.commit, index),
            None => self.place.path(WEIGHTS_INDEX),
        };
        let context = || format!("{WEIGHTS_INDEX} cannot be read");
        let bytes = std::fs::read(path).with_context(context)?;
        let index: WeightsIndex = serde_json::from_slice(&bytes).with_context(context)?;
        let shards: BTreeSet<String> = index.weight_map.into_values().collect();
        ensure!(!shards.is_empty(), "{WEIGHTS_INDEX} names no file");
        Ok(shards.into_iter().collect())
    }

    async fn all(&mut self, files: Vec<HubFile>) -> Result<()> {
        let mut missing = Vec::new();
        for file in files {
            let wanted = self.wanted(file).await?;
            if self.place.holds(&wanted)? {
                self.tell(&wanted, "present", 0);
            } else {
                missing.push(wanted);
            }
        }
        self.place.check_room(&self.commit, &missing)?;
        for file in missing {
            self.one(file).await?;
        }
        Ok(())
    }

    async fn wanted(&self, mut file: HubFile) -> Result<WantedFile> {
        let context = file.path.clone();
        self.hub.complete(&self.commit, &mut file).await.context(context)?;
        let HubFile { path, size, digest } = file;
        let size = size.with_context(|| format!("the hub does not say how large {path} is"))?;
        Ok(WantedFile { path, size, digest })
    }

    async fn one(&mut self, file: WantedFile) -> Result<()> {
        let (part, progress) = (self.place.part(&self.commit, &file), &mut self.progress);
        let told = |there| progress.set_bytes(&file.path, there, file.size);
        let began_at = download(&self.hub, &self.commit, &file, &part, told).await.context(file.path.clone())?;
        let bytes = file.size - began_at;
        self.tell(&file, if began_at == 0 { "fetched" } else { "resumed" }, bytes);
        self.bytes += bytes;
        self.fetched.push(file);
        Ok(())
    }

    /// What became of a file, in a line.
    fn tell(&self, file: &WantedFile, outcome: &str, bytes: u64) {
        let kind = file.digest.as_ref().map_or("size", |digest| digest.kind());
        if self.json {
            let digest = file.digest.as_ref().map(|digest| digest.digits());
            output::line(json!({
                "file": file.path, "bytes": file.size, "outcome": outcome, "bytes_fetched": bytes, "checked_by": kind,
                "digest": digest,
            }));
        } else {
            self.progress.line(&format!("{outcome:8} {:>9}  {}", bytes_text(file.size), file.path));
        }
    }
}
