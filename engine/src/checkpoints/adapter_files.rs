//! Adapters in PEFT's form: `adapter_config.json` beside `adapter_model.safetensors`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::adapters::adapter::Adapter;
use crate::adapters::adapter_layout::AdapterLayout;
use crate::adapters::lora::LoraModule;
use crate::checkpoints::new_directory::NewDirectory;
use crate::checkpoints::tensor_files::{TensorFile, TensorSearch, parse, written_tensors};
use crate::error::EngineError;
use crate::model::config::ModelConfig;
use crate::model::element_type::ElementType;
use crate::model::layout::Tensor;

pub(crate) const ADAPTER_CONFIG: &str = "adapter_config.json";
pub(crate) const ADAPTER_WEIGHTS: &str = "adapter_model.safetensors";

/// The part of `adapter_config.json` that says what is added.
#[derive(Deserialize)]
pub(crate) struct AdapterConfig {
    peft_type: String,
    r: f64,
    lora_alpha: f64,
    #[serde(default)]
    use_rslora: bool,
    #[serde(flatten)]
    other: Map<String, Value>,
}

impl AdapterConfig {
    pub(crate) fn read(path: &Path) -> Result<Self, EngineError> {
        let text = std::fs::read_to_string(path).map_err(EngineError::io("read", path))?;
        let config: Self = serde_json::from_str(&text).map_err(no_configuration(path))?;
        let refuse = |message: String| Err(EngineError::Malformed { path: path.to_path_buf(), message });
        if config.peft_type != "LORA" || config.r < 1.0 {
            return refuse(format!("peft_type {} of rank {} is not known here, LORA is", config.peft_type, config.r));
        }
        let plain = [Value::Null, Value::Bool(false), json!({}), json!([]), "none".into()];
        let changing = ["bias", "use_dora", "fan_in_fan_out", "modules_to_save", "rank_pattern", "alpha_pattern"];
        match changing.iter().find(|key| config.other.get(**key).is_some_and(|value| !plain.contains(value))) {
            Some(key) => refuse(format!("{key} is {}, which is not known here", config.other[*key])),
            None => Ok(config),
        }
    }

    /// What the product of the matrices is multiplied with: `lora_alpha / r`, or `lora_alpha / √r` with `use_rslora`.
    pub(crate) fn scale(&self) -> f64 {
        self.lora_alpha / if self.use_rslora { self.r.sqrt() } else { self.r }
    }
}

pub(super) fn no_configuration(path: &Path) -> impl FnOnce(serde_json::Error) -> EngineError {
    let path = path.to_path_buf();
    |error| EngineError::Malformed { path, message: format!("not the configuration of an adapter: {error}") }
}

/// The head as PEFT and the model itself call it.
const HEAD: &str = "lm_head";
/// What Tinker calls it: its tools find the matrix by that name even where it is the embedding.
const TINKERS_HEAD: &str = "model.unembed_tokens";
/// The last part of that name.
const TINKERS_MODULE: &str = "unembed_tokens";
const MODULES: &str = "base_model.model.";

/// What an adapter's file calls the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadName {
    /// As the model does.
    Models,
    /// As Tinker does.
    Tinkers,
}

impl HeadName {
    /// The name of a matrix, which a layout has under the model's names.
    pub(super) fn of(self, name: &str) -> String {
        let of_head = name.strip_prefix(MODULES).and_then(|name| name.strip_prefix(HEAD));
        match (self, of_head) {
            (Self::Tinkers, Some(rest)) => format!("{MODULES}{TINKERS_HEAD}{rest}"),
            _ => name.to_owned(),
        }
    }

    /// The name of a module, alone.
    pub(super) fn of_module(self, name: &str) -> &str {
        match self {
            Self::Tinkers if name == HEAD => TINKERS_MODULE,
            _ => name,
        }
    }

    /// What it is in a file with matrices of these names.
    fn among<'n>(mut names: impl Iterator<Item = &'n str>) -> Self {
        let is_tinkers = |name: &str| name.strip_prefix(MODULES).is_some_and(|name| name.starts_with(TINKERS_HEAD));
        if names.any(is_tinkers) { Self::Tinkers } else { Self::Models }
    }
}

/// A matrix's module under the model's names, and which of the two it is.
pub(crate) fn matrix_of(name: &str) -> Option<(&str, &str)> {
    let rest = name.strip_prefix(MODULES)?.strip_suffix(".weight")?;
    let (module, part) = rest.rsplit_once('.')?;
    let module = if module == TINKERS_HEAD { HEAD } else { module };
    ["lora_A", "lora_B"].contains(&part).then_some((module, part))
}

/// Writes an adapter over the model of `base`.
pub(crate) fn write_adapter(
    new: &mut NewDirectory<'_>,
    base: &Path,
    adapter: &Adapter,
    head: HeadName,
) -> Result<(), EngineError> {
    let (layout, alpha) = (&adapter.layout, adapter.alpha);
    let config = json!({
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base.display().to_string(),
        "r": layout.rank,
        // A whole number where it is one, as PEFT has it.
        "lora_alpha": if alpha.fract() == 0.0 { json!(alpha as u64) } else { json!(alpha) },
        "lora_dropout": 0.0,
        "target_modules": layout.modules.iter().map(|module| head.of_module(module.name())).collect::<Vec<_>>(),
        "bias": "none",
        "fan_in_fan_out": false,
        "use_rslora": false,
        "use_dora": false,
        "modules_to_save": null,
        "inference_mode": true,
    });
    new.write(ADAPTER_CONFIG, format!("{config:#}\n").as_bytes())?;
    let tensors = written_tensors(&named_tensors(layout, head), "", &adapter.values, ElementType::F32);
    new.write_tensors(ADAPTER_WEIGHTS, tensors)
}

/// A layout's tensors under the names that a file has for them.
fn named_tensors(layout: &AdapterLayout, head: HeadName) -> Vec<Tensor> {
    let named = |tensor: &Tensor| Tensor { name: head.of(&tensor.name), ..tensor.clone() };
    layout.tensors.iter().map(named).collect()
}

/// Reads an adapter of the same matrices and the same scale as `adapter`.
pub(crate) fn read_into_adapter(directory: &Path, adapter: &Adapter) -> Result<Adapter, EngineError> {
    let path = directory.join(ADAPTER_CONFIG);
    let scale = AdapterConfig::read(&path)?.scale() as f32;
    if scale != adapter.scale() {
        let message =
            format!("its alpha by its rank is {scale}, but the adapter that is trained has {}", adapter.scale());
        return Err(EngineError::Malformed { path, message });
    }
    let values = read_matrices(&directory.join(ADAPTER_WEIGHTS), &adapter.layout)?;
    Ok(Adapter::new(adapter.layout.clone(), adapter.alpha, values))
}

/// Reads an adapter for a model of these dimensions.
pub(crate) fn read_adapter(directory: &Path, model: &ModelConfig) -> Result<Adapter, EngineError> {
    let config = AdapterConfig::read(&directory.join(ADAPTER_CONFIG))?;
    let path = directory.join(ADAPTER_WEIGHTS);
    let layout = AdapterLayout::new(model, config.r as usize, &adapted_modules(&path)?);
    let values = read_matrices(&path, &layout)?;
    Ok(Adapter::new(Arc::new(layout), config.scale() * config.r, values))
}

fn read_matrices(path: &Path, layout: &AdapterLayout) -> Result<Vec<f32>, EngineError> {
    let names = TensorFile::open(path)?.metadata.offset_keys();
    let tensors = named_tensors(layout, HeadName::among(names.iter().map(String::as_str)));
    let mut search = TensorSearch::new(&tensors, "");
    search.look_into(path, |_| true)?;
    let mut values = vec![0.0; layout.length];
    search.finish(path)?.read(&mut values)?;
    Ok(values)
}

/// The modules that a file has matrices for.
fn adapted_modules(path: &PathBuf) -> Result<BTreeSet<LoraModule>, EngineError> {
    let bytes = std::fs::read(path).map_err(EngineError::io("read", path))?;
    let file = parse(&bytes, path)?;
    let mut names = file.names();
    // In one order, so that the same fault always has the same message.
    names.sort_unstable();
    let module = |name: &str| {
        let (module, _) = matrix_of(name)?;
        module.rsplit('.').next()?.parse().ok()
    };
    let known = |name: &str| {
        module(name).ok_or_else(|| EngineError::Tensor {
            path: path.clone(),
            name: name.to_owned(),
            message: "only the matrices of LoRA on the model's projections and head are known here".into(),
        })
    };
    names.into_iter().map(known).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::adapters::lora::LoraOptions;
    use crate::checkpoints::tensor_files::write_tensors;
    use crate::test_models::{numbers, tiny_config};

    pub(in crate::checkpoints) fn adapter(options: &LoraOptions) -> Adapter {
        let fresh = Adapter::initial(&tiny_config(), options);
        let values = numbers(3, fresh.layout.length);
        Adapter::new(fresh.layout.clone(), fresh.alpha, values)
    }

    pub(in crate::checkpoints) fn write(directory: &Path, base: &str, adapter: &Adapter) {
        write_as(directory, base, adapter, HeadName::Models);
    }

    fn write_as(directory: &Path, base: &str, adapter: &Adapter, head: HeadName) {
        let mut new = NewDirectory::begin(directory).unwrap();
        write_adapter(&mut new, Path::new(base), adapter, head).unwrap();
        new.complete().unwrap();
    }

    #[test]
    fn an_adapter_whose_head_has_tinkers_name_is_the_same_adapter() {
        let home = tempfile::tempdir().unwrap();
        let written = adapter(&LoraOptions::new(2, 1));
        let directory = home.path().join("adapter");
        write_as(&directory, "base", &written, HeadName::Tinkers);
        let bytes = std::fs::read(directory.join(ADAPTER_WEIGHTS)).unwrap();
        let mut names: Vec<String> =
            parse(&bytes, &directory).unwrap().names().into_iter().map(str::to_owned).collect();
        names.retain(|name| !name.contains(".layers."));
        names.sort_unstable();
        let head = ["lora_A", "lora_B"].map(|part| format!("base_model.model.model.unembed_tokens.{part}.weight"));
        assert_eq!(names, head);
        assert_eq!(
            head.each_ref().map(|name| matrix_of(name)),
            [Some(("lm_head", "lora_A")), Some(("lm_head", "lora_B"))]
        );
        let config = std::fs::read_to_string(directory.join(ADAPTER_CONFIG)).unwrap();
        let config: Value = serde_json::from_str(&config).unwrap();
        let modules: Vec<&str> =
            config["target_modules"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(modules.contains(&"unembed_tokens") && !modules.contains(&"lm_head"), "{modules:?}");
        let read = read_adapter(&directory, &tiny_config()).unwrap();
        assert_eq!((&read.layout, &read.values), (&written.layout, &written.values));
        assert_eq!(read_into_adapter(&directory, &written).unwrap().values, written.values);
    }

    #[test]
    fn an_adapter_is_read_back_as_it_was_written() {
        let home = tempfile::tempdir().unwrap();
        let attention = LoraOptions { alpha: 7.0, modules: LoraModule::ATTENTION.into(), ..LoraOptions::new(3, 1) };
        for options in [LoraOptions::new(2, 1), attention] {
            let written = adapter(&options);
            let directory = home.path().join(options.rank.to_string());
            write(&directory, "models/base", &written);
            let read = read_adapter(&directory, &tiny_config()).unwrap();
            assert_eq!((&read.layout, read.alpha, &read.values), (&written.layout, written.alpha, &written.values));
            assert_eq!(read_into_adapter(&directory, &written).unwrap().values, written.values);
            let config = std::fs::read_to_string(directory.join(ADAPTER_CONFIG)).unwrap();
            let config: Value = serde_json::from_str(&config).unwrap();
            assert_eq!(
                (config["r"].as_u64(), config["lora_alpha"].as_f64()),
                (Some(options.rank as u64), Some(options.alpha))
            );
            assert_eq!(config["target_modules"].as_array().unwrap().len(), options.modules.len());
        }
    }

    #[test]
    fn an_adapter_that_does_not_fit_is_refused_by_name() {
        let home = tempfile::tempdir().unwrap();
        let written = adapter(&LoraOptions::new(2, 1));
        let directory = home.path().join("adapter");
        write(&directory, "base", &written);
        let other = adapter(&LoraOptions { alpha: 8.0, ..LoraOptions::new(2, 1) });
        let error = read_into_adapter(&directory, &other).unwrap_err().to_string();
        assert!(error.contains("alpha by its rank is 16") && error.contains("has 4"), "{error}");
        let wider = adapter(&LoraOptions { alpha: 64.0, ..LoraOptions::new(4, 1) });
        let error = read_into_adapter(&directory, &wider).unwrap_err().to_string();
        assert!(error.contains("its shape is [2, 20], but must be [4, 20]"), "{error}");
        let deeper = ModelConfig { num_hidden_layers: 3, ..tiny_config() };
        let error = read_adapter(&directory, &deeper).unwrap_err().to_string();
        assert!(error.contains("model.layers.2.") && error.contains("missing"), "{error}");
        let path = directory.join(ADAPTER_WEIGHTS);
        std::fs::remove_file(&path).unwrap();
        let mut tensors = written_tensors(&written.layout.tensors, "", &written.values, ElementType::F32);
        tensors[0].0 = "base_model.model.model.embed_tokens.lora_embedding_A".into();
        write_tensors(&path, tensors).unwrap();
        let error = read_adapter(&directory, &tiny_config()).unwrap_err().to_string();
        assert!(error.contains("lora_embedding_A"), "{error}");
    }
}
