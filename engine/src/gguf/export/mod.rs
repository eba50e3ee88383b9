//! A model directory written as a GGUF file, with its tokenizer and chat template, so that llama.cpp reads it.
//!
//! [`metadata`] translates the configuration and [`tokenizer`] the tokenizer; [`file_writer`] lays the file out.

mod file_writer;
mod metadata;
mod tokenizer;

use std::path::Path;

use half::f16;
use safetensors::Dtype;

use self::file_writer::write_gguf;
use super::config::ROPE_FACTORS;
use super::conversion::interleaved_heads;
use super::tensor_names::gguf_name;
use crate::checkpoints::conversion::{read_merged, read_whole};
use crate::checkpoints::tensor_files::{Content, WEIGHTS, Written};
use crate::checkpoints::verification::verified;
use crate::error::EngineError;
use crate::model::config::ModelConfig;
use crate::model::element_type::ElementType;
use crate::model::layout::Tensor;
use crate::model::rope_scaling::RopeScaling;

/// Writes a model, with a LoRA adapter in PEFT's format added to its weights if there is one, as a GGUF file of version 3
/// that must not exist yet, and says that the model is called `name`. Matrices become `elements`; gains and biases stay 32 bits, as llama.cpp wants them.
///
/// # Errors
///
/// Names what is wrong with the model, or what of it GGUF has no words for. The file appears whole or not at all.
pub fn export_gguf(
    model: &Path,
    adapter: Option<&Path>,
    target: &Path,
    name: &str,
    elements: ElementType,
) -> Result<(), EngineError> {
    let (config, layout, values) = match adapter {
        Some(adapter) => read_merged(model, adapter)?,
        None => verified(model, || read_whole(model))?,
    };
    let mut metadata = metadata::of_model(&config, name, model, elements)?;
    metadata.values.extend(tokenizer::metadata(model, config.vocab_size)?.values);
    let mut tensors = Vec::new();
    for tensor in &layout.tensors {
        let refuse = |message: &str| EngineError::Tensor {
            path: model.join(WEIGHTS),
            name: tensor.name.clone(),
            message: message.to_owned(),
        };
        let name = gguf_name(&tensor.name).ok_or_else(|| refuse("GGUF has no name for it"))?;
        let elements = if tensor.shape.len() > 1 { elements } else { ElementType::F32 };
        if elements == ElementType::F16 && !values[tensor.place.clone()].iter().all(fits_half) {
            return Err(refuse("it has a number beyond f16: --dtype f32 and bf16 hold it"));
        }
        tensors.push((name, written(tensor, &config, &values, elements)));
    }
    tensors.extend(rope_factors(&config));
    write_gguf(target, &metadata, &tensors)
}

fn fits_half(number: &f32) -> bool {
    f16::from_f32(*number).is_finite() || !number.is_finite()
}

/// A tensor in the order of rows that llama.cpp has.
fn written<'a>(tensor: &Tensor, config: &ModelConfig, values: &'a Vec<f32>, elements: ElementType) -> Written<'a> {
    let (shape, start, row) = (tensor.shape.clone(), tensor.place.start, tensor.row());
    let content = match interleaved_heads(config, &tensor.name) {
        None => Content::Numbers(values, start),
        Some(heads) => {
            let width = shape[0] / heads;
            Content::Read(Box::new(move |first, numbers| {
                for (index, numbers) in numbers.chunks_exact_mut(row).enumerate() {
                    let from = start + neighbour_row(first / row + index, width) * row;
                    numbers.copy_from_slice(&values[from..from + row]);
                }
                Ok(())
            }))
        }
    };
    Written { dtype: elements.dtype(), shape, content }
}

/// The row at which Hugging Face has what llama.cpp has at `row`, of heads `width` rows high.
fn neighbour_row(row: usize, width: usize) -> usize {
    let (head, within) = (row / width, row % width);
    head * width + within % 2 * (width / 2) + within / 2
}

/// By what llama.cpp divides the angles of each pair, where it has no rule of its own.
fn rope_factors(config: &ModelConfig) -> Option<(String, Written<'static>)> {
    if !matches!(config.rope_scaling, RopeScaling::Llama3 { .. }) {
        return None;
    }
    let frequencies = |scaling: &RopeScaling| scaling.frequencies(config.head_dim, config.rope_theta).0;
    let (plain, scaled) = (frequencies(&RopeScaling::Default), frequencies(&config.rope_scaling));
    let bytes = plain.iter().zip(scaled).flat_map(|(plain, scaled)| (plain / scaled).to_le_bytes()).collect();
    let shape = vec![config.head_dim / 2];
    Some((ROPE_FACTORS.to_owned(), Written { dtype: Dtype::F32, shape, content: Content::Bytes(bytes) }))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::{Value, json};
    use tempfile::TempDir;

    use super::*;
    use crate::checkpoints::adapter_config::ADAPTER_CONFIG;
    use crate::checkpoints::adapter_files::ADAPTER_WEIGHTS;
    use crate::checkpoints::conversion::merge_adapter;
    use crate::checkpoints::tensor_files::{CONFIG, read_weights};
    use crate::gguf::conversion::convert_gguf;
    use crate::model::layout::Layout;

    fn vector(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name)
    }

    /// A model of the vectors with the tokenizer of one that was a GGUF file.
    fn model(name: &str, tokenizer_of: &str) -> (TempDir, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let (directory, other) = (home.path().join("model"), home.path().join("other"));
        convert_gguf(&vector("gguf").join(format!("{tokenizer_of}.gguf")), &other, None, &|_, _| ()).unwrap();
        std::fs::create_dir(&directory).unwrap();
        for file in [CONFIG, WEIGHTS] {
            std::fs::copy(vector(name).join(file), directory.join(file)).unwrap();
        }
        for file in ["tokenizer.json", "tokenizer_config.json", "generation_config.json"] {
            if other.join(file).exists() {
                std::fs::copy(other.join(file), directory.join(file)).unwrap();
            }
        }
        (home, directory)
    }

    fn json_of(path: &Path) -> Value {
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    fn weights(directory: &Path) -> (ModelConfig, Vec<f32>) {
        let config = ModelConfig::read(&directory.join(CONFIG)).unwrap();
        let values = read_weights(directory, &Layout::new(&config)).unwrap();
        (config, values)
    }

    #[test]
    fn an_exported_model_is_read_back_as_it_was() {
        for (name, tokenizer) in [
            ("llama", "llama"),
            ("qwen2-yarn", "qwen2-yarn"),
            ("qwen3-tied", "qwen3-tied"),
            ("qwen3-linear", "qwen3-tied"),
            ("qwen3-untied-bf16", "qwen3-tied"),
        ] {
            let (home, directory) = model(name, tokenizer);
            let (file, again) = (home.path().join("model.gguf"), home.path().join("again"));
            export_gguf(&directory, None, &file, "it", ElementType::F32).unwrap();
            convert_gguf(&file, &again, None, &|_, _| ()).unwrap();
            let ((config, values), (read_config, read_values)) = (weights(&directory), weights(&again));
            assert_eq!(read_config.to_shape(), config.to_shape(), "{name}");
            assert!(read_values == values, "{name}");
            let read = |directory: &Path, file: &str| json_of(&directory.join(file));
            // The file names a token for each row of the embedding; those that it adds are of no text.
            let vocabulary = |directory: &Path| read(directory, "tokenizer.json")["model"]["vocab"].clone();
            let (mut known, given) = (vocabulary(&again), vocabulary(&directory));
            known.as_object_mut().unwrap().retain(|token, _| !token.starts_with("[PAD"));
            assert_eq!(known, given, "{name}");
            for key in ["added_tokens", "pre_tokenizer", "normalizer", "post_processor"] {
                let (known, given) = (read(&again, "tokenizer.json"), read(&directory, "tokenizer.json"));
                assert_eq!(known[key], given[key], "{name} {key}");
            }
            assert_eq!(
                read(&again, "tokenizer.json")["model"]["merges"],
                read(&directory, "tokenizer.json")["model"]["merges"]
            );
            assert_eq!(read(&again, "tokenizer_config.json"), read(&directory, "tokenizer_config.json"), "{name}");
            let ends = |directory: &Path| read(directory, "generation_config.json")["eos_token_id"].clone();
            assert_eq!(ends(&again), ends(&directory), "{name}");
        }
    }

    #[test]
    fn numbers_are_rounded_to_the_type_that_is_asked_for_and_gains_are_not() {
        let (home, directory) = model("llama", "llama");
        let (_, values) = weights(&directory);
        for (elements, error) in [(ElementType::F16, 1.0 / 2048.0), (ElementType::Bf16, 1.0 / 256.0)] {
            let (file, again) = (home.path().join(elements.name()), home.path().join(format!("{elements:?}")));
            export_gguf(&directory, None, &file, "it", elements).unwrap();
            convert_gguf(&file, &again, Some(ElementType::F32), &|_, _| ()).unwrap();
            let (config, read) = weights(&again);
            let exact = Layout::new(&config).vectors;
            for (at, (before, after)) in values.iter().zip(&read).enumerate() {
                let error = if exact.contains(&at) { 0.0 } else { error * before.abs() + 1e-7 };
                assert!((before - after).abs() <= error, "{elements:?} {at}: {before} {after}");
            }
            let refused = export_gguf(&directory, None, &file, "it", elements).unwrap_err().to_string();
            assert!(refused.contains("cannot create") && refused.contains("exists"), "{refused}");
        }
    }

    #[test]
    fn the_factors_of_llama_3_are_those_by_which_its_rule_is_found_again() {
        let (home, directory) = model("llama-3.1", "llama");
        let scaling = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                             "original_max_position_embeddings": 8192.0});
        let mut config = json_of(&directory.join(CONFIG));
        let theta = config["rope_parameters"]["rope_theta"].clone();
        config["rope_parameters"] = scaling;
        config["rope_parameters"]["rope_theta"] = theta;
        std::fs::write(directory.join(CONFIG), config.to_string()).unwrap();
        let (file, again) = (home.path().join("model.gguf"), home.path().join("again"));
        export_gguf(&directory, None, &file, "it", ElementType::F32).unwrap();
        convert_gguf(&file, &again, None, &|_, _| ()).unwrap();
        let ((config, values), (read_config, read_values)) = (weights(&directory), weights(&again));
        assert_eq!(read_config.to_shape(), config.to_shape());
        assert!(read_values == values);
    }

    #[test]
    fn an_adapter_is_in_the_file_as_it_is_in_a_merged_directory() {
        let (home, directory) = model("llama", "llama");
        let adapter = home.path().join("adapter");
        std::fs::create_dir(&adapter).unwrap();
        for file in [ADAPTER_CONFIG, ADAPTER_WEIGHTS] {
            std::fs::copy(vector("llama-lora").join(file), adapter.join(file)).unwrap();
        }
        let path = |name: &str| home.path().join(name);
        merge_adapter(&directory, &adapter, &path("merged"), ElementType::F32).unwrap();
        export_gguf(&directory, Some(&adapter), &path("model.gguf"), "it", ElementType::F32).unwrap();
        convert_gguf(&path("model.gguf"), &path("again"), None, &|_, _| ()).unwrap();
        let (merged, again) = (weights(&path("merged")), weights(&path("again")));
        assert!(again.1 == merged.1 && again.1 != weights(&directory).1);
    }

    #[test]
    fn tokens_at_the_ends_of_texts_are_those_that_the_configuration_says() {
        let exported = |change: &dyn Fn(&mut Value)| {
            let (home, directory) = model("llama", "llama");
            let path = directory.join("tokenizer_config.json");
            let mut config = json_of(&path);
            change(&mut config);
            std::fs::write(&path, config.to_string()).unwrap();
            let (file, again) = (home.path().join("model.gguf"), home.path().join("again"));
            export_gguf(&directory, None, &file, "it", ElementType::F16).map_err(|error| error.to_string())?;
            convert_gguf(&file, &again, None, &|_, _| ()).unwrap();
            let tokenizer = tokenizers::Tokenizer::from_file(again.join("tokenizer.json")).unwrap();
            Ok::<_, String>(tokenizer.encode("a", true).unwrap().get_tokens().join(" "))
        };
        assert_eq!(exported(&|_| ()).unwrap(), "<|begin|> a");
        assert_eq!(exported(&|config| config["add_bos_token"] = json!(false)).unwrap(), "a");
        assert_eq!(exported(&|config| config["add_eos_token"] = json!(true)).unwrap(), "<|begin|> a <|end|>");
        let error = exported(&|config| config["add_bos_token"] = json!("no")).unwrap_err();
        assert!(error.contains("tokenizer_config.json: add_bos_token is \"no\""), "{error}");
    }

    #[test]
    fn what_gguf_has_no_words_for_is_refused_by_name() {
        let refused = |file: &str, change: &dyn Fn(&mut Value)| {
            let (home, directory) = model("llama", "llama");
            let mut content = json_of(&directory.join(file));
            change(&mut content);
            std::fs::write(directory.join(file), content.to_string()).unwrap();
            let target = home.path().join("model.gguf");
            let error = export_gguf(&directory, None, &target, "it", ElementType::F16).unwrap_err().to_string();
            assert!(!target.exists() && !home.path().join("model.gguf.partial").exists());
            error.replace(directory.to_str().unwrap(), "[model]")
        };
        let error = refused("tokenizer.json", &|json| json["model"]["type"] = json!("Unigram"));
        assert_eq!(error, "[model]/tokenizer.json: its model is Unigram; only byte-level BPE is written as GGUF");
        let error = refused("tokenizer.json", &|json| json["normalizer"] = json!({"type": "Lowercase"}));
        assert_eq!(error, "[model]/tokenizer.json: its normalizer is Lowercase, for which GGUF has no word");
        let error = refused("tokenizer.json", &|json| json["pre_tokenizer"] = json!({"type": "Whitespace"}));
        assert_eq!(
            error,
            "[model]/tokenizer.json: it cuts text into words in a way for which GGUF has no name here; known are smollm, \
             qwen2, llama-bpe, gpt-2, default"
        );
        for rule in ["lstrip", "rstrip", "single_word"] {
            let error = refused("tokenizer.json", &|json| json["added_tokens"][0][rule] = json!(true));
            assert!(error.contains(&format!("has {rule}, for which GGUF has no word")), "{error}");
        }
        let error = refused("tokenizer_config.json", &|json| json["eos_token"] = json!("<nothing>"));
        assert_eq!(error, "[model]/tokenizer_config.json: eos_token is \"<nothing>\", which is no token");
    }
}
