//! Adapters in PEFT's form: `adapter_config.json` beside `adapter_model.safetensors`.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use crate::adapters::adapter::{Adapter, Strength};
use crate::adapters::adapter_layout::AdapterLayout;
use crate::adapters::lora::{LoraScaling, layer_of};
use crate::checkpoints::adapter_config::{ADAPTER_CONFIG, AdapterConfig};
use crate::checkpoints::new_directory::NewDirectory;
use crate::checkpoints::tensor_files::{FoundTensors, TensorFile, TensorSearch, written_tensors};
use crate::error::EngineError;
use crate::model::config::ModelConfig;
use crate::model::element_type::ElementType;
use crate::model::layout::Tensor;
use crate::model::lora_module::LoraModule;

pub(crate) const ADAPTER_WEIGHTS: &str = "adapter_model.safetensors";

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
    let (layout, Strength { alpha, scaling }) = (&adapter.layout, adapter.strength);
    let targets = Targets::of(layout);
    let config = json!({
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base.display().to_string(),
        "r": layout.rank,
        // A whole number where it is one, as PEFT has it.
        "lora_alpha": if alpha.fract() == 0.0 { json!(alpha as u64) } else { json!(alpha) },
        "lora_dropout": 0.0,
        "target_modules": targets.modules.iter().map(|module| head.of_module(module)).collect::<Vec<_>>(),
        "layers_to_transform": targets.layers,
        "bias": "none",
        "fan_in_fan_out": false,
        "use_rslora": scaling == LoraScaling::RankStabilized,
        "use_dora": false,
        "modules_to_save": null,
        "inference_mode": true,
    });
    new.write(ADAPTER_CONFIG, format!("{config:#}\n").as_bytes())?;
    let tensors = written_tensors(&named_tensors(&layout.tensors, head), "", &adapter.values, ElementType::F32);
    new.write_tensors(ADAPTER_WEIGHTS, tensors)
}

/// What is adapted, in the terms of PEFT's configuration.
struct Targets {
    /// Kinds of modules; each module by its name where a kind is not adapted in the same layers as another.
    modules: Vec<String>,
    /// The layers, where not all are adapted.
    layers: Option<BTreeSet<usize>>,
}

impl Targets {
    fn of(layout: &AdapterLayout) -> Self {
        let mut adapted: BTreeSet<&str> = BTreeSet::new();
        adapted.extend(layout.tensors.iter().filter_map(|tensor| Some(matrix_of(&tensor.name)?.0)));
        let has = |kind: LoraModule, layer: usize| {
            adapted.iter().any(|name| layer_of(name) == Some(layer) && name.ends_with(kind.name()))
        };
        let layers_of = |kind: &LoraModule| (0..layout.layers()).filter(|layer| has(*kind, *layer)).collect();
        let in_layers = layout.modules.iter().filter(|kind| **kind != LoraModule::Head);
        let mut sets: BTreeSet<BTreeSet<usize>> = in_layers.map(layers_of).collect();
        let kinds = || layout.modules.iter().map(|kind| kind.name().to_owned()).collect();
        let has_head = layout.modules.contains(&LoraModule::Head);
        match (sets.pop_last(), sets.is_empty()) {
            (None, _) => Self { modules: kinds(), layers: None },
            (Some(layers), true) if layers.len() == layout.layers() => Self { modules: kinds(), layers: None },
            (Some(layers), true) if !has_head => Self { modules: kinds(), layers: Some(layers) },
            _ => Self { modules: adapted.into_iter().map(str::to_owned).collect(), layers: None },
        }
    }
}

/// Tensors of a layout under the names that a file has for them.
fn named_tensors(tensors: &[Tensor], head: HeadName) -> Vec<Tensor> {
    tensors.iter().map(|tensor| Tensor { name: head.of(&tensor.name), ..tensor.clone() }).collect()
}

/// Reads an adapter of the same matrices and the same scale as `adapter`.
pub(crate) fn read_into_adapter(
    directory: &Path,
    model: &ModelConfig,
    adapter: &Adapter,
) -> Result<Adapter, EngineError> {
    let found = find_adapter(directory, model)?;
    let refuse = |message| Err(EngineError::Malformed { path: directory.join(ADAPTER_CONFIG), message });
    let scale = found.config.scale() as f32;
    if scale != adapter.scale() {
        let own = adapter.scale();
        return refuse(format!(
            "its products are scaled with {scale}, but those of the adapter that is trained with {own}"
        ));
    }
    let (layout, own) = (&found.layout, &adapter.layout);
    if layout.rank != own.rank {
        return refuse(format!("its rank is {}, but the adapter that is trained has {}", layout.rank, own.rank));
    }
    if layout != &**own {
        return refuse("it adapts other modules than the adapter that is trained".to_owned());
    }
    Ok(Adapter::new(adapter.layout.clone(), adapter.strength, found.read()?))
}

/// Reads an adapter for a model of these dimensions.
pub(crate) fn read_adapter(directory: &Path, model: &ModelConfig) -> Result<Adapter, EngineError> {
    let found = find_adapter(directory, model)?;
    let strength = found.config.strength;
    Ok(Adapter::new(Arc::new(found.layout.clone()), strength, found.read()?))
}

/// An adapter in its files, all that its configuration names and nothing beside it, not read yet.
#[derive(Debug)]
pub(crate) struct FoundAdapter {
    pub(crate) config: AdapterConfig,
    pub(crate) layout: AdapterLayout,
    tensors: FoundTensors,
}

impl FoundAdapter {
    /// Its numbers.
    pub(crate) fn read(self) -> Result<Vec<f32>, EngineError> {
        let mut values = vec![0.0; self.layout.length];
        self.tensors.read(&mut values)?;
        Ok(values)
    }
}

/// Looks at an adapter over a model of these dimensions: wherever one is used, it is found by this.
///
/// # Errors
/// Names the key that is not computed here, or the tensor that is missing, too many, or of another shape.
pub(crate) fn find_adapter(directory: &Path, model: &ModelConfig) -> Result<FoundAdapter, EngineError> {
    let config_path = directory.join(ADAPTER_CONFIG);
    let config = AdapterConfig::read(&config_path)?;
    let path = directory.join(ADAPTER_WEIGHTS);
    let names = TensorFile::open(&path)?.names();
    let in_file = modules_of(&names, &path)?;
    let is_stray = |name: &&String| matrix_of(name).is_some_and(|(module, _)| config.adapts(module) == Some(false));
    if let Some(name) = names.iter().find(is_stray) {
        let message = format!("{ADAPTER_CONFIG} does not say that its module is adapted");
        return Err(EngineError::Tensor { path, name: name.clone(), message });
    }
    let layout = AdapterLayout::choosing(model, config.rank, |module, name| {
        config.adapts(name).unwrap_or_else(|| in_file.contains(&module))
    });
    if layout.modules.is_empty() {
        let message = "target_modules names no module of the model".to_owned();
        return Err(EngineError::Malformed { path: config_path, message });
    }
    let named = named_tensors(&layout.tensors, HeadName::among(names.iter().map(String::as_str)));
    let mut search = TensorSearch::new(&named, "");
    search.look_into(&path, |_| true)?;
    let tensors = search.finish(&path).map_err(|error| match error {
        EngineError::Tensor { path, name, .. } => {
            let message = format!("it is missing, but {ADAPTER_CONFIG} says that its module is adapted");
            EngineError::Tensor { path, name, message }
        }
        other => other,
    })?;
    Ok(FoundAdapter { config, layout, tensors })
}

/// The kinds of modules that a file has matrices for.
fn modules_of(names: &[String], path: &Path) -> Result<BTreeSet<LoraModule>, EngineError> {
    let module = |name: &str| {
        let (module, _) = matrix_of(name)?;
        module.rsplit('.').next()?.parse().ok()
    };
    let known = |name: &String| {
        module(name).ok_or_else(|| EngineError::Tensor {
            path: path.to_path_buf(),
            name: name.clone(),
            message: "only the matrices of LoRA on the model's projections and head are known here".into(),
        })
    };
    names.iter().map(known).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::Value;

    use super::*;
    use crate::adapters::lora::LoraOptions;
    use crate::checkpoints::tensor_files::write_tensors;
    use crate::test_models::{numbers, tiny_config};

    pub(in crate::checkpoints) fn adapter(options: &LoraOptions) -> Adapter {
        let fresh = Adapter::initial(&tiny_config(), options);
        let values = numbers(3, fresh.layout.length);
        Adapter::new(fresh.layout.clone(), fresh.strength, values)
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
        let mut names = TensorFile::open(&directory.join(ADAPTER_WEIGHTS)).unwrap().names();
        names.retain(|name| !name.contains(".layers."));
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
        assert_eq!(read_into_adapter(&directory, &tiny_config(), &written).unwrap().values, written.values);
    }

    #[test]
    fn an_adapter_is_read_back_as_it_was_written() {
        let home = tempfile::tempdir().unwrap();
        let attention = LoraOptions { alpha: 7.0, modules: LoraModule::ATTENTION.into(), ..LoraOptions::new(3, 1) };
        let stabilized = LoraOptions { scaling: LoraScaling::RankStabilized, ..LoraOptions::new(4, 1) };
        for options in [LoraOptions::new(2, 1), attention, stabilized] {
            let written = adapter(&options);
            let directory = home.path().join(options.rank.to_string());
            write(&directory, "models/base", &written);
            let read = read_adapter(&directory, &tiny_config()).unwrap();
            assert_eq!(
                (&read.layout, read.strength, &read.values),
                (&written.layout, written.strength, &written.values)
            );
            assert_eq!(read_into_adapter(&directory, &tiny_config(), &written).unwrap().values, written.values);
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
        let error = read_into_adapter(&directory, &tiny_config(), &other).unwrap_err().to_string();
        assert!(error.contains("are scaled with 16") && error.contains("with 4"), "{error}");
        let wider = adapter(&LoraOptions { alpha: 64.0, ..LoraOptions::new(4, 1) });
        let error = read_into_adapter(&directory, &tiny_config(), &wider).unwrap_err().to_string();
        assert!(error.ends_with("its rank is 2, but the adapter that is trained has 4"), "{error}");
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

    /// An adapter of all modules with its configuration changed, and without the tensors that are dropped.
    fn changed(home: &Path, change: &dyn Fn(&mut Value), keep: &dyn Fn(&str) -> bool) -> std::path::PathBuf {
        let (directory, written) = (home.join("changed"), adapter(&LoraOptions::new(2, 1)));
        let _ = std::fs::remove_dir_all(&directory);
        write(&directory, "base", &written);
        let (config, weights) = (directory.join(ADAPTER_CONFIG), directory.join(ADAPTER_WEIGHTS));
        let mut fields: Value = serde_json::from_str(&std::fs::read_to_string(&config).unwrap()).unwrap();
        change(&mut fields);
        std::fs::write(&config, fields.to_string()).unwrap();
        std::fs::remove_file(&weights).unwrap();
        let mut tensors = written_tensors(&written.layout.tensors, "", &written.values, ElementType::F32);
        tensors.retain(|(name, _)| keep(name));
        write_tensors(&weights, tensors).unwrap();
        directory
    }

    #[test]
    fn half_an_adapter_is_refused_by_the_tensor_that_it_lacks() {
        let home = tempfile::tempdir().unwrap();
        for lacking in ["layers.1.", "q_proj", "lora_B", "layers.0.mlp.up_proj.lora_A", "lm_head"] {
            let directory = changed(home.path(), &|_| (), &|name| !name.contains(lacking));
            let error = find_adapter(&directory, &tiny_config()).unwrap_err().to_string();
            assert!(error.contains(lacking) && error.contains("is missing"), "{lacking}: {error}");
        }
        let none = changed(home.path(), &|_| (), &|_| false);
        assert!(find_adapter(&none, &tiny_config()).is_err());
        let more = changed(home.path(), &|config| config["target_modules"] = json!(["q_proj"]), &|_| true);
        let error = find_adapter(&more, &tiny_config()).unwrap_err().to_string();
        assert!(error.contains("does not say that its module is adapted"), "{error}");
        let wider = changed(home.path(), &|config| config["r"] = json!(4), &|_| true);
        let error = find_adapter(&wider, &tiny_config()).unwrap_err().to_string();
        assert!(error.contains("its shape is [2, 20], but must be [4, 20]"), "{error}");
    }

    #[test]
    fn an_adapter_of_some_layers_adds_nothing_to_the_others() {
        let home = tempfile::tempdir().unwrap();
        let narrow = |config: &mut Value| {
            config["target_modules"] = json!(["q_proj", "down_proj"]);
            config["layers_to_transform"] = json!([1]);
        };
        let keep = |name: &str| name.contains("layers.1.") && (name.contains("q_proj") || name.contains("down_proj"));
        let directory = changed(home.path(), &narrow, &keep);
        let (read, whole) = (read_adapter(&directory, &tiny_config()).unwrap(), adapter(&LoraOptions::new(2, 1)));
        for tensor in &read.layout.tensors {
            assert!(tensor.name.contains("layers.1."), "{}", tensor.name);
            let values = &read.values[tensor.place.clone()];
            let own = whole.layout.tensors.iter().find(|own| own.name == tensor.name).unwrap();
            assert_eq!(values, &whole.values[own.place.clone()], "{}", tensor.name);
        }
        assert_eq!(read.layout.tensors.len(), 2 * 2);
    }

    #[test]
    fn an_adapter_of_some_modules_is_written_in_the_fewest_words_of_peft() {
        let home = tempfile::tempdir().unwrap();
        let written = |name: &str, choose: fn(LoraModule, &str) -> bool| {
            let layout = AdapterLayout::choosing(&tiny_config(), 2, choose);
            let values = numbers(3, layout.length);
            let strength = adapter(&LoraOptions::new(2, 1)).strength;
            let (directory, adapter) = (home.path().join(name), Adapter::new(Arc::new(layout), strength, values));
            write(&directory, "base", &adapter);
            let read = read_adapter(&directory, &tiny_config()).unwrap();
            assert_eq!((&read.layout, &read.values), (&adapter.layout, &adapter.values), "{name}");
            let config = std::fs::read_to_string(directory.join(ADAPTER_CONFIG)).unwrap();
            let config: Value = serde_json::from_str(&config).unwrap();
            (config["target_modules"].clone(), config["layers_to_transform"].clone())
        };
        let values = |module, name: &str| module == LoraModule::Value && name.contains("layers.1.");
        assert_eq!(written("layer", values), (json!(["v_proj"]), json!([1])));
        assert_eq!(written("head", |module, _| module == LoraModule::Head), (json!(["lm_head"]), Value::Null));
        let uneven = |module, name: &str| {
            module == LoraModule::Value && name.contains("layers.1.") || module == LoraModule::Head
        };
        let names = json!(["lm_head", "model.layers.1.self_attn.v_proj"]);
        assert_eq!(written("uneven", uneven), (names, Value::Null));
    }
}
