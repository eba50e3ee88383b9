//! What a GGUF file holds, for people and programs that look before they convert.

use std::collections::BTreeMap;
use std::path::Path;

use super::config::model_config;
use super::conversion::{lossless, sources};
use super::facts::GgufFacts;
use super::header::GgufFile;
use super::tokenizer::{pre_tokenizer_name, tokenizer_files};
use crate::error::EngineError;
use crate::model::config::ModelConfig;
use crate::model::layout::Layout;

/// A GGUF file that can be converted, found without reading its weights.
#[derive(Debug)]
pub(crate) struct GgufInspection {
    /// Of the directory into which it is converted.
    pub(crate) config: ModelConfig,
    /// How many numbers there are of each element type of its own.
    pub(crate) element_types: BTreeMap<String, u64>,
    pub(crate) facts: GgufFacts,
}

/// Looks at a GGUF file, and refuses what its conversion would refuse.
pub(crate) fn inspect_gguf(path: &Path) -> Result<GgufInspection, EngineError> {
    let file = GgufFile::open(path)?;
    let config = model_config(&file)?;
    sources(&file, &config, &Layout::new(&config))?;
    tokenizer_files(&file, config.vocab_size)?;
    let mut element_types = BTreeMap::new();
    for tensor in &file.tensors {
        *element_types.entry(tensor.kind.name().to_owned()).or_default() += tensor.count() as u64;
    }
    let text = |key: &str| file.metadata.text(key);
    let facts = GgufFacts {
        name: text("general.name").map(str::to_owned),
        pre_tokenizer: pre_tokenizer_name(&file).to_owned(),
        tokens: file.metadata.texts("tokenizer.ggml.tokens").map_or(0, <[String]>::len),
        chat_template: text("tokenizer.chat_template").is_some(),
        converted_to: lossless(&file),
    };
    Ok(GgufInspection { config, element_types, facts })
}
