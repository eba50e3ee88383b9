//! Which of a model's files are fetched, and under which names they may be written.

use anyhow::{Result, bail, ensure};
use fulgurite_engine::bytes_text;

use crate::digest::Digest;

/// A file at the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HubFile {
    /// Its path in the repository; relative and without steps upwards, once it was selected.
    pub(crate) path: String,
    /// Its bytes, if they were told.
    pub(crate) size: Option<u64>,
    /// What it must be, if that was told.
    pub(crate) digest: Option<Digest>,
}

/// The weights' parts are listed here, where there are several.
pub(crate) const WEIGHTS_INDEX: &str = "model.safetensors.index.json";
/// The weights, where they are one file.
const WEIGHTS: &str = "model.safetensors";

/// Files that a model directory may need beside its weights, by the ends of their names.
const COMPANIONS: [&str; 5] = [".json", ".jinja", ".txt", ".model", ".tiktoken"];

/// The files that are named, or else what a model directory needs, as far as the listing alone says what that is: weights
/// that are several files are named by their index.
pub(crate) fn known_at_once(files: &[HubFile], names: &[String]) -> Result<Vec<HubFile>> {
    if !names.is_empty() {
        return named(files, names);
    }
    let mut chosen = companions(files)?;
    if !chosen.iter().any(|file| file.path == WEIGHTS_INDEX) {
        chosen.extend(weights(files)?);
    }
    Ok(chosen)
}

/// What a model directory needs but its weights: configuration, tokenizer, templates, licence, and the index of the
/// weights. Only what lies at the top of the repository counts; folders hold other formats.
fn companions(files: &[HubFile]) -> Result<Vec<HubFile>> {
    let chosen = files.iter().filter(|file| is_companion(&file.path));
    chosen.cloned().map(checked).collect()
}

fn is_companion(path: &str) -> bool {
    let other_index = path.ends_with(".index.json") && path != WEIGHTS_INDEX;
    let known = COMPANIONS.iter().any(|end| path.ends_with(end)) || path.starts_with("LICENSE");
    !path.contains('/') && !path.starts_with('.') && known && !other_index && !path.starts_with("README")
}

/// The weights without an index: one file, or else all in this format.
fn weights(files: &[HubFile]) -> Result<Vec<HubFile>> {
    let safetensors = |file: &&HubFile| !file.path.contains('/') && file.path.ends_with(".safetensors");
    let whole: Vec<&HubFile> = files.iter().filter(|file| file.path == WEIGHTS).collect();
    let chosen = if whole.is_empty() { files.iter().filter(safetensors).collect() } else { whole };
    ensure!(!chosen.is_empty(), "it has no weights in *.safetensors{}", others(files));
    chosen.into_iter().cloned().map(checked).collect()
}

/// The files of these paths, each of which must be there.
pub(crate) fn named(files: &[HubFile], paths: &[String]) -> Result<Vec<HubFile>> {
    let mut chosen: Vec<HubFile> = Vec::new();
    for path in paths {
        let Some(file) = files.iter().find(|file| file.path == *path) else {
            bail!("it has no file {path:?}{}", others(files));
        };
        if !chosen.contains(file) {
            chosen.push(checked(file.clone())?);
        }
    }
    Ok(chosen)
}

/// What could be asked for by name instead.
fn others(files: &[HubFile]) -> String {
    let size = |file: &HubFile| file.size.map_or(String::new(), |size| format!(" ({})", bytes_text(size)));
    let gguf: Vec<String> = files
        .iter()
        .filter(|file| file.path.ends_with(".gguf"))
        .map(|file| format!("\n    --file {}{}", file.path.escape_debug(), size(file)))
        .take(40)
        .collect();
    if gguf.is_empty() { String::new() } else { format!("; what it has in GGUF:{}", gguf.concat()) }
}

/// A path that leads out of the directory, or that a file system takes for something else, is nobody's model file.
fn checked(file: HubFile) -> Result<HubFile> {
    let fine = |part: &str| !part.is_empty() && !part.starts_with('.') && part.len() <= 200;
    let plain = file.path.chars().all(|c| !c.is_control() && c != '\\' && c != ':');
    ensure!(
        plain && file.path.len() <= 1000 && file.path.split('/').all(fine),
        "the hub names a file {:?}, which cannot be written below a directory of one's own; nothing was fetched",
        file.path
    );
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files<'a>(paths: impl IntoIterator<Item = &'a str>) -> Vec<HubFile> {
        paths.into_iter().map(|path| HubFile { path: path.to_owned(), size: Some(1 << 20), digest: None }).collect()
    }

    fn paths(files: &[HubFile]) -> Vec<&str> {
        files.iter().map(|file| file.path.as_str()).collect()
    }

    #[test]
    fn a_model_directory_is_fetched_and_other_formats_are_left() {
        let needed = [
            "LICENSE",
            "config.json",
            "generation_config.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "vocab.json",
            "merges.txt",
            "chat_template.jinja",
            "tokenizer.model",
        ];
        let others = [
            ".gitattributes",
            "README.md",
            "model.safetensors",
            "pytorch_model.bin",
            "pytorch_model.bin.index.json",
            "onnx/model.onnx",
            "onnx/config.json",
            "original/params.json",
            "consolidated.safetensors",
            "modeling_x.py",
            "x.gguf",
        ];
        let mut there = files(needed.into_iter().chain(others));
        let companions = companions(&there).unwrap();
        assert_eq!(paths(&companions), needed);
        assert_eq!(paths(&weights(&there).unwrap()), ["model.safetensors"]);
        assert_eq!(known_at_once(&there, &[]).unwrap().len(), companions.len() + 1);
        there.extend(files([WEIGHTS_INDEX]));
        assert_eq!(known_at_once(&there, &[]).unwrap().len(), companions.len() + 1);
        let by_name = ["onnx/model.onnx".to_owned(), "onnx/model.onnx".to_owned()];
        assert_eq!(paths(&known_at_once(&there, &by_name).unwrap()), ["onnx/model.onnx"]);
    }

    #[test]
    fn what_is_not_there_is_said_with_what_is() {
        let there = files(["config.json", "q4.gguf", "pytorch_model.bin"]);
        let refused = weights(&there).unwrap_err().to_string();
        assert_eq!(refused, "it has no weights in *.safetensors; what it has in GGUF:\n    --file q4.gguf (1 MiB)");
        let refused = named(&there, &["q8.gguf".to_owned()]).unwrap_err().to_string();
        assert!(refused.starts_with("it has no file \"q8.gguf\"; what it has"), "{refused}");
    }

    #[test]
    fn a_path_that_leads_out_of_the_directory_is_refused() {
        for path in ["../x.gguf", "a/../../x", "/etc/x", "a//b", ".fetch/lock", "a\\b", "a\0b", "C:x", "a/./b", ""] {
            let there = files([path]);
            let refused = named(&there, &[path.to_owned()]).unwrap_err().to_string();
            assert!(refused.contains("cannot be written"), "{path}: {refused}");
        }
    }
}
