//! What somebody means who names a model that is not one: the cause in their words, and what to type.

use std::path::Path;

use anyhow::{Result, bail};

use crate::source::ModelSource;

/// The file of an adapter that says what it is.
const ADAPTER_CONFIG: &str = "adapter_config.json";
/// The file of a model that says what it is.
const MODEL_CONFIG: &str = "config.json";

/// Whether a directory holds an adapter, and not a model.
pub fn holds_adapter(directory: &Path) -> bool {
    directory.join(ADAPTER_CONFIG).is_file() && !directory.join(MODEL_CONFIG).exists()
}

/// Refuses a path at which nothing is.
///
/// # Errors
/// Says what was probably meant.
pub fn must_exist(path: &Path) -> Result<()> {
    match path.exists() {
        true => Ok(()),
        false => bail!("there is no model at {}{}", path.display(), fetched_by(&path.display().to_string())),
    }
}

/// How a model of the hub gets here, if a name is one's.
pub fn fetched_by(name: &str) -> String {
    let of_hub = name.strip_prefix("hf:").unwrap_or(name);
    match format!("hf:{of_hub}").parse::<ModelSource>() {
        Ok(source) => format!(
            ": if {source} of the Hugging Face hub is meant, `fulgurite model fetch hf:{of_hub}` fetches it into models/{}",
            source.name
        ),
        Err(_) => String::new(),
    }
}

/// Refuses a directory that a model cannot be opened from, before a file of it is missed.
///
/// # Errors
/// Says what the directory holds instead.
pub fn must_be_whole(directory: &Path) -> Result<()> {
    must_exist(directory)?;
    let place = directory.display();
    if holds_adapter(directory) {
        bail!(
            "{place} holds an adapter ({ADAPTER_CONFIG}), and no model: `fulgurite chat {place}` talks to it, and \
             `fulgurite model merge BASE {place} NEW` makes a model of both"
        );
    }
    let files: Vec<String> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".gguf"))
        .collect();
    if !directory.join(MODEL_CONFIG).exists() {
        match files.iter().min() {
            Some(file) => bail!("{place} has no {MODEL_CONFIG}; for its GGUF file, name {place}/{file}"),
            None => bail!("{place} is no model directory: it has no {MODEL_CONFIG}"),
        }
    }
    match directory.join("tokenizer.json").exists() {
        true => Ok(()),
        false => bail!(
            "{place} has no tokenizer.json; transformers writes one: \
             AutoTokenizer.from_pretrained(\"{place}\").save_pretrained(\"{place}\")"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_model_is_said_in_the_words_of_who_names_it() {
        let home = tempfile::tempdir().unwrap();
        let refused = |path: &Path| {
            let error = must_be_whole(path).unwrap_err().to_string();
            error.replace(home.path().to_str().unwrap(), "[home]")
        };
        let write = |name: &str| std::fs::write(home.path().join(name), "{}").unwrap();
        insta::assert_snapshot!(refused(Path::new("Qwen/Qwen3-0.6B")), @"there is no model at Qwen/Qwen3-0.6B: if Qwen/Qwen3-0.6B of the Hugging Face hub is meant, `fulgurite model fetch hf:Qwen/Qwen3-0.6B` fetches it into models/Qwen3-0.6B");
        insta::assert_snapshot!(refused(Path::new("/nowhere/model.gguf")), @"there is no model at /nowhere/model.gguf");
        insta::assert_snapshot!(refused(home.path()), @"[home] is no model directory: it has no config.json");
        write("b.gguf");
        insta::assert_snapshot!(refused(home.path()), @"[home] has no config.json; for its GGUF file, name [home]/b.gguf");
        write("adapter_config.json");
        insta::assert_snapshot!(refused(home.path()), @"[home] holds an adapter (adapter_config.json), and no model: `fulgurite chat [home]` talks to it, and `fulgurite model merge BASE [home] NEW` makes a model of both");
        write("config.json");
        assert!(refused(home.path()).starts_with("[home] has no tokenizer.json"));
        write("tokenizer.json");
        must_be_whole(home.path()).unwrap();
    }
}
