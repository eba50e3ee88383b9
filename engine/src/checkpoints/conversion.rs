use std::path::Path;

use serde_json::{Value, json};

use crate::checkpoints::adapter_config::ADAPTER_CONFIG;
use crate::checkpoints::adapter_files::{ADAPTER_WEIGHTS, find_adapter, matrix_of, no_configuration};
use crate::checkpoints::checkpoint::write_converted;
use crate::checkpoints::new_directory::NewDirectory;
use crate::checkpoints::tensor_files::{CONFIG, find_weights};
use crate::checkpoints::verification::verified;
use crate::error::EngineError;
use crate::model::config::ModelConfig;
use crate::model::element_type::ElementType;
use crate::model::layout::{Layout, Tensor};
use crate::model::memory::check_converting;
use crate::small_files::{LONGEST_CONFIG, read_small_file};

/// Writes a model into one file of one element type, with its tokenizer, in a directory that must not exist yet.
pub fn convert_model(source: &Path, target: &Path, elements: ElementType) -> Result<(), EngineError> {
    let (config, _, values) = verified(source, || read_whole(source))?;
    write_converted(target, source, &config, &values, elements)
}

/// A model's configuration, layout and weights.
pub(crate) fn read_whole(source: &Path) -> Result<(ModelConfig, Layout, Vec<f32>), EngineError> {
    let config = ModelConfig::read(&source.join(CONFIG))?;
    let layout = Layout::new(&config);
    let found = find_weights(source, &layout)?;
    check_converting(layout.length)?;
    let mut values = vec![0.0; layout.length];
    found.read(&mut values)?;
    Ok((config, layout, values))
}

/// Writes a model with a LoRA adapter in PEFT's format added to its weights: `W + scale · B · A`, where `scale` is
/// `lora_alpha / r`, or `lora_alpha / √r` with `use_rslora`. A head that is the embedding becomes a matrix of its own if
/// the adapter adds to it.
pub fn merge_adapter(base: &Path, adapter: &Path, target: &Path, elements: ElementType) -> Result<(), EngineError> {
    let (config, _, values) = read_merged(base, adapter)?;
    write_converted(target, base, &config, &values, elements)
}

/// Writes an adapter in PEFT's form as one over the model in `base`, in a directory that must not exist yet.
pub fn copy_adapter(adapter: &Path, base: &Path, target: &Path) -> Result<(), EngineError> {
    let (config, path) = (adapter.join(ADAPTER_CONFIG), adapter.join(ADAPTER_WEIGHTS));
    let model = ModelConfig::read(&base.join(CONFIG))?;
    let (mut fields, bytes) = verified(adapter, || {
        find_adapter(adapter, &model)?;
        let fields: Value =
            serde_json::from_str(&read_small_file(&config, LONGEST_CONFIG)?).map_err(no_configuration(&config))?;
        // It has as many bytes as the tensors that were found.
        Ok((fields, std::fs::read(&path).map_err(EngineError::io("read", &path))?))
    })?;
    fields["base_model_name_or_path"] = json!(base.display().to_string());
    let mut new = NewDirectory::begin(target)?;
    new.write(ADAPTER_CONFIG, format!("{fields:#}\n").as_bytes())?;
    new.write(ADAPTER_WEIGHTS, &bytes)?;
    new.complete()
}

/// A model's configuration, layout and weights, an adapter's product added to them.
pub(crate) fn read_merged(base: &Path, adapter: &Path) -> Result<(ModelConfig, Layout, Vec<f32>), EngineError> {
    let (mut config, mut layout, mut values) = verified(base, || read_whole(base))?;
    let (scale, adapter_layout, matrices) = verified(adapter, || {
        let found = find_adapter(adapter, &config)?;
        let (scale, layout) = (found.config.scale(), found.layout.clone());
        Ok((scale, layout, found.read()?))
    })?;
    let adapted = &adapter_layout.tensors;
    let is_of_head = |tensor: &Tensor| matrix_of(&tensor.name).is_some_and(|(module, _)| module == "lm_head");
    if config.tie_word_embeddings && adapted.iter().any(is_of_head) {
        values.extend_from_within(layout.embedding.clone());
        config.tie_word_embeddings = false;
        layout = Layout::new(&config);
    }
    let place = |name: &str| Some(adapted.iter().find(|tensor| tensor.name == name)?.place.clone());
    for tensor in &layout.tensors {
        let Some(module) = tensor.name.strip_suffix(".weight") else { continue };
        let [a, b] = ["lora_A", "lora_B"].map(|part| place(&format!("base_model.model.{module}.{part}.weight")));
        if let (Some(a), Some(b)) = (a, b) {
            add_product(&mut values, tensor, &matrices[a], &matrices[b], adapter_layout.rank, scale);
        }
    }
    Ok((config, layout, values))
}

fn add_product(values: &mut [f32], tensor: &Tensor, a: &[f32], b: &[f32], rank: usize, scale: f64) {
    let columns = tensor.shape[1];
    let weight = &mut values[tensor.place.clone()];
    for (row, weights) in weight.chunks_exact_mut(columns).enumerate() {
        for (column, value) in weights.iter_mut().enumerate() {
            let product = |at: usize| f64::from(b[row * rank + at]) * f64::from(a[at * columns + column]);
            *value = (f64::from(*value) + scale * (0..rank).map(product).sum::<f64>()) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use safetensors::Dtype;

    use super::*;
    use crate::checkpoints::tensor_files::{Content, Written, read_weights, write_tensors};
    use crate::inspection::inspect_model::inspect_model;

    fn vector(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name)
    }

    fn written(shape: [usize; 2], values: &Vec<f32>) -> Written<'_> {
        Written { dtype: Dtype::F32, shape: shape.to_vec(), content: Content::Numbers(values, 0) }
    }

    const MODULE: &str = "model.layers.1.self_attn.o_proj";

    fn adapter(home: &Path, change: impl Fn(&mut Value), names: [&str; 2]) -> PathBuf {
        let directory = home.join("adapter");
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).unwrap();
        let mut config = json!({ "peft_type": "LORA", "r": 2, "lora_alpha": 6, "bias": "none", "modules_to_save": null,
                    "target_modules": [MODULE] });
        change(&mut config);
        std::fs::write(directory.join(ADAPTER_CONFIG), config.to_string()).unwrap();
        let a: Vec<f32> = (0..2 * 16).map(|at| at as f32).collect();
        let b: Vec<f32> = (0..16 * 2).map(|at| at as f32 / 8.0).collect();
        let name = |part: &str| format!("base_model.model.{part}.weight");
        let tensors = vec![(name(names[0]), written([2, 16], &a)), (name(names[1]), written([16, 2], &b))];
        write_tensors(&directory.join(ADAPTER_WEIGHTS), tensors).unwrap();
        directory
    }

    fn pair() -> [String; 2] {
        [format!("{MODULE}.lora_A"), format!("{MODULE}.lora_B")]
    }

    #[test]
    fn a_merged_model_has_the_product_in_its_weights() {
        let home = tempfile::tempdir().unwrap();
        let (base, target) = (vector("llama"), home.path().join("merged"));
        let names = pair();
        let adapter = adapter(home.path(), |_| {}, [&names[0], &names[1]]);
        merge_adapter(&base, &adapter, &target, ElementType::F32).unwrap();
        let layout = Layout::new(&ModelConfig::read(&base.join(CONFIG)).unwrap());
        let (before, after) = (read_weights(&base, &layout).unwrap(), read_weights(&target, &layout).unwrap());
        let place = &layout.tensors.iter().find(|it| it.name == format!("{MODULE}.weight")).unwrap().place;
        for at in 0..layout.length {
            let mut expected = before[at];
            if place.contains(&at) {
                let (row, column) = ((at - place.start) / 16, (at - place.start) % 16);
                let product =
                    (row * 2) as f32 / 8.0 * column as f32 + (row * 2 + 1) as f32 / 8.0 * (16 + column) as f32;
                expected += 3.0 * product;
            }
            assert!((after[at] - expected).abs() <= 1e-4 * expected.abs().max(1.0), "{at}: {} {expected}", after[at]);
        }
    }

    #[test]
    fn what_is_not_merged_is_refused_by_name() {
        let home = tempfile::tempdir().unwrap();
        let (base, target) = (vector("llama"), home.path().join("merged"));
        let names = pair();
        let refused = |change: fn(&mut Value), names: [&str; 2]| {
            let adapter = adapter(home.path(), change, names);
            let error = merge_adapter(&base, &adapter, &target, ElementType::F32).unwrap_err().to_string();
            assert!(!target.exists());
            error
        };
        let both = [names[0].as_str(), names[1].as_str()];
        assert!(refused(|config| config["use_dora"] = json!(true), both).contains("use_dora is true"));
        assert!(refused(|config| config["peft_type"] = json!("IA3"), both).contains("IA3"));
        assert!(
            refused(|_| {}, ["model.nothing.lora_A", "model.nothing.lora_B"]).contains("only the matrices of LoRA")
        );
        assert!(refused(|_| {}, [both[0], "model.embed_tokens.lora_magnitude"]).contains("lora_magnitude"));
        let other = "model.layers.0.self_attn.o_proj.lora_B";
        assert!(refused(|_| {}, [both[0], other]).contains("does not say that its module is adapted"));
        assert!(refused(|config| config["target_modules"] = json!(["o_proj"]), both).contains("is missing"));
    }

    #[test]
    fn a_converted_model_is_the_same_but_for_rounding() {
        let home = tempfile::tempdir().unwrap();
        let base = vector("qwen2-yarn");
        let layout = Layout::new(&ModelConfig::read(&base.join(CONFIG)).unwrap());
        let before = read_weights(&base, &layout).unwrap();
        for (elements, kind, error) in [
            (ElementType::F32, "F32", 0.0),
            (ElementType::Bf16, "BF16", 1.0 / 256.0),
            (ElementType::F16, "F16", 1.0 / 2048.0),
        ] {
            let target = home.path().join(kind);
            convert_model(&base, &target, elements).unwrap();
            assert_eq!(inspect_model(&target).unwrap().element_types.keys().collect::<Vec<_>>(), [kind]);
            for (before, after) in before.iter().zip(read_weights(&target, &layout).unwrap()) {
                assert!((before - after).abs() <= error * before.abs() + 1e-7, "{kind}: {before} {after}");
            }
            let text = std::fs::read_to_string(target.join(CONFIG)).unwrap();
            assert!(text.contains(&format!("\"dtype\": \"{}\"", elements.name())), "{text}");
        }
        assert!(convert_model(&base, &home.path().join("F32"), ElementType::F32).is_err(), "it is there already");
    }
}
