use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::adapters::adapter_layout::AdapterLayout;
use crate::engine_options::EngineOptions;
use crate::gguf::GgufFacts;
use crate::model::config::ModelConfig;
use crate::model::lora_module::LoraModule;
use crate::model::memory::MemoryNeed;

/// What a model directory holds, found without reading its weights.
#[derive(Clone, Debug, Serialize)]
pub struct ModelInspection {
    /// As its configuration names it.
    pub architecture: &'static str,
    /// Trainable numbers.
    pub parameters: usize,
    /// Tokens that prompt and answer may have together.
    pub context_length: usize,
    /// Token ids are below this.
    pub vocabulary_size: usize,
    /// Decoder layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Whether the output head is the embedding.
    pub tied_head: bool,
    /// How many numbers there are of each element type.
    pub element_types: BTreeMap<String, u64>,
    /// Weights files.
    pub files: Vec<PathBuf>,
    /// What the model takes here, with an engine's options as they are by default.
    pub memory: MemoryNeed,
    /// The same where an adapter of rank [`INSPECTED_RANK`] is trained beside every matrix.
    pub lora_memory: MemoryNeed,
    /// What is true of a GGUF file alone; `element_types` are then those that it has, and the memory is that of the
    /// directory into which it is converted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gguf: Option<GgufFacts>,
}

/// The rank of the adapter for whose training [`inspect_model`] computes the memory.
pub const INSPECTED_RANK: usize = 16;

impl ModelInspection {
    /// The report of a configuration, of a model whose weights take so much memory.
    pub(crate) fn of(config: &ModelConfig, memory: MemoryNeed) -> Self {
        let prefix_cache = EngineOptions::default().prefix_cache_bytes as u64;
        let memory = MemoryNeed { prefix_cache, ..memory };
        let adapter = AdapterLayout::new(config, INSPECTED_RANK, &LoraModule::ALL.into());
        Self {
            architecture: config.architecture.name(),
            parameters: config.parameter_count(),
            context_length: config.max_position_embeddings,
            vocabulary_size: config.vocab_size,
            layers: config.num_hidden_layers,
            hidden_size: config.hidden_size,
            tied_head: !config.has_matrix_head(),
            element_types: BTreeMap::new(),
            files: Vec::new(),
            memory,
            lora_memory: memory.with_adapter(config, adapter.length),
            gguf: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::inspection::inspect_model::inspect_model;

    fn vector(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name)
    }

    #[test]
    fn a_directory_is_told_without_reading_its_weights() {
        let found = inspect_model(&vector("qwen2-yarn")).unwrap();
        assert_eq!((found.architecture, found.layers, found.tied_head), ("Qwen2ForCausalLM", 2, true));
        assert_eq!(found.element_types, [("F32".to_owned(), found.parameters as u64)].into());
        let found = inspect_model(&vector("llama")).unwrap();
        assert_eq!(found.element_types.keys().collect::<Vec<_>>(), ["F16"]);
    }

    #[test]
    fn what_cannot_be_run_is_named() {
        let home = tempfile::tempdir().unwrap();
        let copy = |change: fn(String) -> String| {
            let text = std::fs::read_to_string(vector("llama").join("config.json")).unwrap();
            std::fs::write(home.path().join("config.json"), change(text)).unwrap();
            inspect_model(home.path()).unwrap_err().to_string()
        };
        let error = copy(|text| text);
        assert!(error.contains("model.safetensors"), "{error}");
        std::fs::copy(vector("llama").join("model.safetensors"), home.path().join("model.safetensors")).unwrap();
        let error = copy(|text| text.replace("LlamaForCausalLM", "GemmaForCausalLM"));
        assert!(error.contains("GemmaForCausalLM"), "{error}");
        let error = copy(|text| text.replace("\"hidden_size\": 16", "\"hidden_size\": 32"));
        assert!(error.contains("its shape is"), "{error}");
        let error = copy(|text| text.replace("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3"));
        assert!(error.contains("model.layers.2") && error.contains("missing"), "{error}");
        std::fs::write(home.path().join("model.safetensors"), [255; 20]).unwrap();
        let error = copy(|text| text);
        assert!(error.contains("header"), "{error}");
    }
}
