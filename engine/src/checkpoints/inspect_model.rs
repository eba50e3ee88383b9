use std::path::Path;

use crate::checkpoints::inspection::ModelInspection;
use crate::checkpoints::tensor_files::{CONFIG, find_weights};
use crate::error::EngineError;
use crate::gguf::{inspect_gguf, is_gguf};
use crate::model::config::ModelConfig;
use crate::model::layout::Layout;
use crate::model::memory::MemoryNeed;

/// Looks at a model directory: its configuration, and the names, shapes and element types of its tensors. Fails with
/// the field or the tensor that this engine cannot run. The same of a GGUF file, whose tokenizer is looked at, too.
pub fn inspect_model(path: &Path) -> Result<ModelInspection, EngineError> {
    if is_gguf(path) {
        return inspect_gguf(path);
    }
    let config = ModelConfig::read(&path.join(CONFIG))?;
    let layout = Layout::new(&config);
    let found = find_weights(path, &layout)?;
    let memory = MemoryNeed::of_found(&config, &layout, &found);
    Ok(ModelInspection {
        element_types: found.element_types(),
        files: found.paths(),
        ..ModelInspection::of(&config, memory)
    })
}
