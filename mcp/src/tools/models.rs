//! Models and data that are there, and how others get here.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fulgurite_types::shortened_line;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::error::ToolError;
use crate::program::words;
use crate::progress::Progress;
use crate::session::Session;
use crate::workspace::{Workspace, check_name, open_file, read_text};

/// Characters of a row that are shown.
const ROW: usize = 600;
/// Rows that are read.
const ROWS: u64 = 1_000_000;
/// Bytes of a row, and of all rows, that are read.
const ROW_BYTES: u64 = 16 << 20;
const ALL_BYTES: u64 = 4 << 30;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListModels {}

pub(super) async fn list(session: &Session, _: ListModels, _: &Progress) -> Result<String, ToolError> {
    let workspace = session.workspace.clone();
    let listed = tokio::task::spawn_blocking(move || listed(&workspace)).await;
    listed.map_err(|error| ToolError::Refused(format!("the models could not be looked at: {error}")))
}

fn listed(workspace: &Workspace) -> String {
    let names = workspace.names("models");
    if names.is_empty() {
        return "No models yet. fetch_model brings one: source \"hf:HuggingFaceTB/SmolLM2-135M-Instruct\", or a model \
                   directory or GGUF file of the project."
            .to_owned();
    }
    let lines = names.iter().map(|name| describe(name, &workspace.model(name)));
    format!("{}\nNext: start_run with one of them, or fetch_model.", lines.collect::<Vec<_>>().join("\n"))
}

fn describe(name: &str, path: &Path) -> String {
    let config = read_text(&path.join("config.json")).ok();
    let config: Value = config.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null);
    let kind = config["architectures"][0].as_str().unwrap_or("model");
    let number = |key: &str| config[key].as_u64().map_or("?".to_owned(), |number| number.to_string());
    let files = fs::read_dir(path).into_iter().flatten().flatten();
    let bytes: u64 = files.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
    format!(
        "{name}: {kind}, {} layers, hidden size {}, {:.1} MB",
        number("num_hidden_layers"),
        number("hidden_size"),
        bytes as f64 / 1e6
    )
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FetchModel {
    /// hf:OWNER/NAME of Hugging Face's hub, or the path of a model directory or GGUF file of the project.
    source: String,
    /// What it is called here.
    name: String,
}

pub(super) async fn fetch(session: &Session, arguments: FetchModel, _: &Progress) -> Result<String, ToolError> {
    let FetchModel { source, name } = arguments;
    check_name(&name).map_err(|why| ToolError::Arguments { tool: "fetch_model", why })?;
    let _turn = session.turn().await?;
    let path = session.workspace.model(&name);
    if path.exists() {
        return Err(ToolError::Exists { kind: "model", name });
    }
    let command = match source.starts_with("hf:") {
        true => words([&"model", &"fetch", &source, &path]),
        false => words([&"model", &"convert", &session.workspace.model_files(&source)?, &path]),
    };
    session.program.run(&command).await?;
    Ok(format!("{}\nNext: start_run(model = {name:?}, ...).", describe(&name, &path)))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LookAtData {
    /// A JSON lines file of the project.
    path: String,
    /// Rows that are shown; 3 unless told otherwise, 20 at most.
    rows: Option<usize>,
}

pub(super) async fn look_at_data(session: &Session, arguments: LookAtData, _: &Progress) -> Result<String, ToolError> {
    let path = session.workspace.file(&arguments.path)?;
    let shown = arguments.rows.unwrap_or(3).min(20);
    let wanted = WantedUntilDropped(Arc::new(AtomicBool::new(true)));
    let is_wanted = wanted.0.clone();
    let looked = tokio::task::spawn_blocking(move || look(&path, shown, &is_wanted)).await;
    looked.unwrap_or_else(|error| Err(ToolError::Refused(format!("the file could not be looked at: {error}"))))
}

/// Tells a thread that nobody waits any more for what it does.
struct WantedUntilDropped(Arc<AtomicBool>);

impl Drop for WantedUntilDropped {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

fn look(path: &Path, shown: usize, is_wanted: &AtomicBool) -> Result<String, ToolError> {
    let mut file = BufReader::new(open_file(path).map_err(ToolError::file(path))?);
    let (mut rows, mut bytes, mut longest) = (0u64, 0u64, 0usize);
    let mut fields: BTreeMap<String, u64> = BTreeMap::new();
    let (mut first, mut wrong) = (Vec::new(), Vec::new());
    let mut is_cut = false;
    let mut line = String::new();
    while is_wanted.load(Ordering::Relaxed) {
        line.clear();
        let read = file.by_ref().take(ROW_BYTES).read_line(&mut line).map_err(ToolError::file(path))?;
        if read == 0 {
            break;
        }
        if rows == ROWS || bytes >= ALL_BYTES {
            is_cut = true;
            break;
        }
        if read as u64 == ROW_BYTES && !line.ends_with('\n') {
            let why = format!(
                "row {} of {} has {ROW_BYTES} bytes or more: it is no JSON lines file",
                rows + 1,
                path.display()
            );
            return Err(ToolError::Refused(why));
        }
        line.truncate(line.trim_end_matches(['\r', '\n']).len());
        rows += 1;
        bytes += line.len() as u64;
        longest = longest.max(line.len());
        match serde_json::from_str::<Value>(&line) {
            Ok(Value::Object(row)) => row.keys().for_each(|key| *fields.entry(key.clone()).or_default() += 1),
            Ok(_) => *fields.entry("(no object)".to_owned()).or_default() += 1,
            Err(error) if wrong.len() < 3 => wrong.push(format!("line {rows} is no JSON: {error}")),
            Err(_) => {}
        }
        if first.len() < shown {
            first.push(shortened_line(&line, ROW, "..."));
        }
    }
    let fields = fields.iter().map(|(name, count)| format!("{name} ({count})")).collect::<Vec<_>>().join(", ");
    let mean = bytes.checked_div(rows).unwrap_or(0);
    let end = if is_cut { " and more, which were not read" } else { "" };
    let mut lines = vec![format!("{rows} rows{end}; fields: {fields}; {mean} characters a row, {longest} at most")];
    lines.extend(wrong);
    lines.extend(first);
    Ok(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_looked_at_with_what_is_wrong_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data.jsonl");
        fs::write(&path, "{\"a\":1}\n{\"a\":2,\"b\":3}\n{oops\n7\n").unwrap();
        let summary = look(&path, 2, &AtomicBool::new(true)).unwrap();
        assert!(
            summary.starts_with("4 rows; fields: (no object) (1), a (2), b (1); 6 characters a row, 13 at most\n"),
            "{summary}"
        );
        assert!(
            summary.contains("line 3 is no JSON") && summary.ends_with("{\"a\":1}\n{\"a\":2,\"b\":3}"),
            "{summary}"
        );
    }
}
