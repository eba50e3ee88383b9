use std::path::Path;

use crate::checkpoints::tensor_files::{CONFIG, find_weights};
use crate::error::EngineError;
use crate::gguf::{GgufInspection, inspect_gguf, is_gguf};
use crate::inspection::model_inspection::ModelInspection;
use crate::kernels::Precision;
use crate::model::config::ModelConfig;
use crate::model::element_type::ElementType;
use crate::model::layout::Layout;
use crate::model::memory::MemoryNeed;

/// Looks at a model directory: its configuration, and the names, shapes and element types of its tensors. Fails with
/// the field or the tensor that this engine cannot run. The same of a GGUF file, whose tokenizer is looked at, too.
pub fn inspect_model(path: &Path) -> Result<ModelInspection, EngineError> {
    if is_gguf(path) {
        return Ok(of_gguf(path, inspect_gguf(path)?));
    }
    let config = ModelConfig::read(&path.join(CONFIG))?;
    let layout = Layout::new(&config);
    let found = find_weights(path, &layout)?;
    let memory = MemoryNeed::of_matrices(&config, &layout, |place| found.precision(place));
    Ok(ModelInspection {
        element_types: found.element_types(),
        files: found.paths(),
        ..ModelInspection::of(&config, memory)
    })
}

/// The report of a GGUF file, with the memory of the directory into which it is converted.
fn of_gguf(path: &Path, found: GgufInspection) -> ModelInspection {
    let GgufInspection { config, element_types, facts } = found;
    let precision = if facts.converted_to == ElementType::Bf16 { Precision::Half } else { Precision::Single };
    let memory = MemoryNeed::of_matrices(&config, &Layout::new(&config), |_| precision);
    ModelInspection {
        element_types,
        files: vec![path.to_path_buf()],
        gguf: Some(facts),
        ..ModelInspection::of(&config, memory)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

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
