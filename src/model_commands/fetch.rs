//! `fulgurite model fetch`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use fulgurite_engine::{bytes_text, inspect_model};
use fulgurite_hub::{FetchObserver, FetchRequest, Fetched, ModelSource, WholeFile};
use fulgurite_terminal::output;
use fulgurite_terminal::progress::Progress;
use serde_json::json;

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
    let ModelFetchArguments { source, directory, files, json } = arguments;
    let directory = directory.clone().unwrap_or_else(|| Path::new("models").join(&source.name));
    let request = FetchRequest { source: source.clone(), directory: directory.clone(), files: files.clone() };
    let started = Instant::now();
    let mut printed = PrintedFiles { progress: Progress::new(*json), json: *json };
    let waiting = |error: &anyhow::Error, wait: std::time::Duration| {
        output::note(format_args!("{error:#}; trying again in {} s", wait.as_secs()));
    };
    let fetched = fulgurite_hub::fetch(&request, Box::new(waiting), &mut printed).await?;
    printed.progress.finish();
    if *json {
        let Fetched { commit, files, bytes } = fetched;
        output::line(json!({
            "model": source.to_string(), "commit": commit, "directory": directory, "files_fetched": files,
            "bytes_fetched": bytes, "seconds": started.elapsed().as_secs_f64(),
        }));
    } else {
        announce(arguments, &directory, &fetched);
    }
    Ok(())
}

/// What was done, and what can be done now.
fn announce(arguments: &ModelFetchArguments, directory: &Path, fetched: &Fetched) {
    let (source, bytes) = (&arguments.source, bytes_text(fetched.bytes));
    let what = match fetched.files {
        0 => "nothing was missing".to_owned(),
        1 => format!("1 file, {bytes} fetched"),
        count => format!("{count} files, {bytes} fetched"),
    };
    output::line(format!("{source} at {} is in {}: {what}", &fetched.commit[..12], directory.display()));
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
        Err(error) => {
            format!("the embedded engine cannot run it ({error}), but a model server may: see docs/how-to/hosts.md")
        }
    }
}

/// Prints a line for each file, and how far the one on its way has come.
struct PrintedFiles {
    progress: Progress,
    json: bool,
}

impl FetchObserver for PrintedFiles {
    fn bytes(&mut self, file: &str, there: u64, size: u64) {
        self.progress.set_bytes(file, there, size);
    }

    fn file(&mut self, file: &WholeFile<'_>) {
        let WholeFile { path, size, outcome, bytes_fetched, checked_by, digest } = file;
        if self.json {
            output::line(json!({
                "file": path, "bytes": size, "outcome": outcome.as_str(), "bytes_fetched": bytes_fetched,
                "checked_by": checked_by, "digest": digest,
            }));
        } else {
            self.progress.line(&format!("{:8} {:>9}  {path}", outcome.as_str(), bytes_text(*size)));
        }
    }
}
