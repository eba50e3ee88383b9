//! What a GGUF file holds, for people and programs that look before they convert.

use std::collections::BTreeMap;
use std::path::Path;

use super::config::model_config;
use super::conversion::{lossless, sources};
use super::header::GgufFile;
use super::tokenizer::{pre_tokenizer_name, tokenizer_files};
use crate::checkpoints::inspection::ModelInspection;
use crate::error::EngineError;
use crate::gguf::facts::GgufFacts;
use crate::kernels::Precision;
use crate::model::element_type::ElementType;
use crate::model::layout::Layout;
use crate::model::memory::MemoryNeed;

/// Looks at a GGUF file, and refuses what its conversion would refuse.
pub(crate) fn inspect_gguf(path: &Path) -> Result<ModelInspection, EngineError> {
    let file = GgufFile::open(path)?;
    let config = model_config(&file)?;
    let layout = Layout::new(&config);
    sources(&file, &config, &layout)?;
    tokenizer_files(&file, config.vocab_size)?;
    let converted_to = lossless(&file);
    let precision = if converted_to == ElementType::Bf16 { Precision::Half } else { Precision::Single };
    let mut element_types = BTreeMap::new();
    for tensor in &file.tensors {
        *element_types.entry(tensor.kind.name().to_owned()).or_default() += tensor.count() as u64;
    }
    let text = |key: &str| file.metadata.text(key);
    Ok(ModelInspection {
        element_types,
        files: vec![path.to_path_buf()],
        gguf: Some(GgufFacts {
            name: text("general.name").map(str::to_owned),
            pre_tokenizer: pre_tokenizer_name(&file).to_owned(),
            tokens: file.metadata.texts("tokenizer.ggml.tokens").map_or(0, <[String]>::len),
            chat_template: text("tokenizer.chat_template").is_some(),
            converted_to,
        }),
        ..ModelInspection::of(&config, MemoryNeed::of_precision(&config, &layout, precision))
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::checkpoints::inspect_model::inspect_model;

    fn vector(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name)
    }

    #[test]
    fn a_file_tells_what_its_directory_does_and_what_it_alone_has() {
        let (file, directory) =
            (inspect_model(&vector("gguf/llama.gguf")).unwrap(), inspect_model(&vector("llama")).unwrap());
        assert_eq!((file.parameters, file.context_length), (directory.parameters, directory.context_length));
        assert_eq!((file.memory, file.lora_memory), (directory.memory, directory.lora_memory));
        assert_eq!(file.element_types.values().sum::<u64>(), file.parameters as u64);
        let facts = file.gguf.unwrap();
        assert_eq!((facts.pre_tokenizer.as_str(), facts.tokens, facts.chat_template), ("llama-bpe", 47, true));
        assert_eq!(facts.converted_to, ElementType::F16);
        assert!(directory.gguf.is_none());
    }
}
