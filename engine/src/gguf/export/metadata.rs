//! A model's configuration in GGUF's words.

use std::path::Path;

use crate::checkpoints::tensor_files::CONFIG;
use crate::error::EngineError;
use crate::gguf::metadata::{Metadata, MetadataValue};
use crate::model::config::ModelConfig;
use crate::model::element_type::ElementType;
use crate::model::rope_scaling::RopeScaling;

/// What the file says of the model in `directory`, all but the tokenizer.
pub(super) fn of_model(
    config: &ModelConfig,
    name: &str,
    directory: &Path,
    elements: ElementType,
) -> Result<Metadata, EngineError> {
    let mut metadata = Metadata::default();
    let architecture = config.architecture.model_type();
    metadata.put("general.architecture", MetadataValue::Text(architecture.to_owned()));
    metadata.put("general.type", MetadataValue::Text("model".to_owned()));
    metadata.put("general.name", MetadataValue::Text(name.to_owned()));
    metadata.put("general.file_type", MetadataValue::Integer(file_type(elements)));
    for (key, count) in [
        ("vocab_size", config.vocab_size),
        ("context_length", config.max_position_embeddings),
        ("embedding_length", config.hidden_size),
        ("block_count", config.num_hidden_layers),
        ("feed_forward_length", config.intermediate_size),
        ("attention.head_count", config.num_attention_heads),
        ("attention.head_count_kv", config.num_key_value_heads),
        ("attention.key_length", config.head_dim),
        ("attention.value_length", config.head_dim),
        ("rope.dimension_count", config.head_dim),
    ] {
        metadata.put(format!("{architecture}.{key}"), MetadataValue::Integer(count as i64));
    }
    // The shortest digits, as they were written, and not those of 64 bits behind them.
    let epsilon = f64::from(config.rms_norm_eps);
    metadata.put(format!("{architecture}.attention.layer_norm_rms_epsilon"), MetadataValue::Float(epsilon));
    metadata.put(format!("{architecture}.rope.freq_base"), MetadataValue::Float(config.rope_theta));
    for (key, value) in rope_scaling(config, directory)? {
        metadata.put(format!("{architecture}.rope.scaling.{key}"), value);
    }
    Ok(metadata)
}

/// llama.cpp's number for what most tensors are.
fn file_type(elements: ElementType) -> i64 {
    match elements {
        ElementType::F32 => 0,
        ElementType::F16 => 1,
        ElementType::Bf16 => 32,
    }
}

/// Of Llama 3.1's rule, the file has the factors in a tensor.
fn rope_scaling(config: &ModelConfig, directory: &Path) -> Result<Vec<(&'static str, MetadataValue)>, EngineError> {
    let text = |value: &str| MetadataValue::Text(value.to_owned());
    Ok(match config.rope_scaling {
        RopeScaling::Default | RopeScaling::Llama3 { .. } => Vec::new(),
        RopeScaling::Linear { factor } => vec![("type", text("linear")), ("factor", MetadataValue::Float(factor))],
        RopeScaling::Yarn { attention_factor: Some(_), .. } | RopeScaling::Yarn { truncate: false, .. } => {
            let message = "its yarn scaling has attention_factor or truncate, for which GGUF has no words".to_owned();
            return Err(EngineError::Malformed { path: directory.join(CONFIG), message });
        }
        RopeScaling::Yarn { factor, original_max_position_embeddings, beta_fast, beta_slow, .. } => vec![
            ("type", text("yarn")),
            ("factor", MetadataValue::Float(factor)),
            ("original_context_length", MetadataValue::Integer(original_max_position_embeddings as i64)),
            ("yarn_beta_fast", MetadataValue::Float(beta_fast)),
            ("yarn_beta_slow", MetadataValue::Float(beta_slow)),
        ],
    })
}
