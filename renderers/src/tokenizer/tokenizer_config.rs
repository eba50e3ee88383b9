use std::io::ErrorKind;
use std::path::Path;

use serde_json::{Map, Value};

use crate::RenderError;
use crate::small_files::{LONGEST_CONFIG, read_small_file};
use crate::tokenizer::tokenizer_errors::file_error;

/// What the files beside `tokenizer.json` say about a model's conversations.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TokenizerConfig {
    /// `bos_token`, `eos_token` and the like by name, as templates see them: text, or a list of texts.
    pub(crate) special_tokens: Map<String, Value>,
    /// The chat template, of `chat_template.jinja` or of `tokenizer_config.json`.
    pub(crate) chat_template: Option<String>,
    /// The template for conversations with tools, where a model has two.
    pub(crate) tool_use_template: Option<String>,
    /// `eos_token_id` of `generation_config.json`.
    pub(crate) generation_eos_ids: Vec<u32>,
}

impl TokenizerConfig {
    /// Reads the files of a model directory; each may be missing.
    pub(crate) fn read(model_dir: &Path) -> Result<Self, RenderError> {
        let config = read_json(&model_dir.join("tokenizer_config.json"))?;
        let generation = read_json(&model_dir.join("generation_config.json"))?;
        let mut this = Self {
            special_tokens: special_tokens(&config),
            generation_eos_ids: generation.get("eos_token_id").map(token_ids).unwrap_or_default(),
            ..Self::default()
        };
        match config.get("chat_template") {
            Some(Value::String(template)) => this.chat_template = Some(template.clone()),
            Some(Value::Array(list)) => {
                this.chat_template = named_template(list, "default");
                this.tool_use_template = named_template(list, "tool_use");
            }
            _ => {}
        }
        // A file of its own is the newer form and wins, as it does for Hugging Face.
        if let Some(template) = read_optional(&model_dir.join("chat_template.jinja"))? {
            this.chat_template = Some(template);
            this.tool_use_template = None;
        }
        Ok(this)
    }
}

/// The named special tokens; a token stands there as text or as an object that holds its text.
fn special_tokens(config: &Map<String, Value>) -> Map<String, Value> {
    let mut tokens = Map::new();
    for (name, value) in config {
        if name.ends_with("_token") {
            tokens.extend(token_text(value).map(|text| (name.clone(), Value::from(text))));
        } else if name == "additional_special_tokens" {
            let list = value.as_array().into_iter().flatten();
            tokens.insert(name.clone(), list.filter_map(token_text).collect::<Vec<_>>().into());
        }
    }
    tokens
}

fn token_text(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("content")?.as_str())
}

fn token_ids(value: &Value) -> Vec<u32> {
    let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    list.iter().filter_map(|id| u32::try_from(id.as_u64()?).ok()).collect()
}

fn named_template(list: &[Value], name: &str) -> Option<String> {
    let entry = list.iter().find(|entry| entry.get("name").and_then(Value::as_str) == Some(name))?;
    entry.get("template")?.as_str().map(str::to_owned)
}

fn read_json(path: &Path) -> Result<Map<String, Value>, RenderError> {
    match read_optional(path)? {
        None => Ok(Map::new()),
        Some(text) => serde_json::from_str(&text).map_err(|error| file_error(path, &error)),
    }
}

fn read_optional(path: &Path) -> Result<Option<String>, RenderError> {
    let read = || {
        let no_text = |_| std::io::Error::new(ErrorKind::InvalidData, "it is not UTF-8");
        String::from_utf8(read_small_file(path, LONGEST_CONFIG)?).map_err(no_text)
    };
    match read() {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file_error(path, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> Result<TokenizerConfig, RenderError> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        TokenizerConfig::read(dir.path())
    }

    #[test]
    fn tokens_are_read_as_text_or_as_objects() {
        let config = read(&[(
            "tokenizer_config.json",
            r#"{"bos_token": null, "eos_token": {"content": "</s>", "special": true}, "pad_token": "<pad>",
                "additional_special_tokens": ["<a>", {"content": "<b>"}], "add_bos_token": true}"#,
        )])
        .unwrap();
        let expected = serde_json::json!({
            "eos_token": "</s>", "pad_token": "<pad>", "additional_special_tokens": ["<a>", "<b>"],
        });
        assert_eq!(Value::Object(config.special_tokens), expected);
    }

    #[test]
    fn templates_are_found_in_each_of_their_places() {
        let list =
            r#"{"chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]}"#;
        let config = read(&[("tokenizer_config.json", list)]).unwrap();
        assert_eq!((config.chat_template.as_deref(), config.tool_use_template.as_deref()), (Some("D"), Some("T")));
        let config = read(&[("tokenizer_config.json", list), ("chat_template.jinja", "F")]).unwrap();
        assert_eq!((config.chat_template.as_deref(), config.tool_use_template), (Some("F"), None));
    }

    #[test]
    fn the_end_of_generation_is_one_id_or_a_list() {
        for (json, expected) in [("7", vec![7]), ("[7, 9]", vec![7, 9]), ("null", vec![])] {
            let config = read(&[("generation_config.json", &format!("{{\"eos_token_id\": {json}}}"))]).unwrap();
            assert_eq!(config.generation_eos_ids, expected);
        }
    }

    #[test]
    fn a_broken_file_is_an_error() {
        let error = read(&[("tokenizer_config.json", "{")]).unwrap_err();
        assert!(error.to_string().contains("tokenizer_config.json: EOF"), "{error}");
    }
}
