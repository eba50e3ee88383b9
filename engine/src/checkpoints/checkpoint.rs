use std::path::Path;
use std::sync::Arc;

use fulgurite_backends::WeightsSource;
use safetensors::Dtype;

use crate::adapters::policy::Policy;
use crate::checkpoints::adapter_files::{HeadName, read_adapter, read_into_adapter, write_adapter};
use crate::checkpoints::new_directory::NewDirectory;
use crate::checkpoints::tensor_files::{
    CONFIG, Content, TensorFile, TensorSearch, WEIGHTS, Written, find_weights, written_tensors,
};
use crate::checkpoints::verification::verified;
use crate::error::EngineError;
use crate::model::config::ModelConfig;
use crate::model::element_type::ElementType;
use crate::model::layout::{Layout, Tensor};
use crate::model::weights::{Model, Weights};
use crate::optimizer::AdamState;
use crate::small_files::{LONGEST_TOKENIZER, read_small_bytes};

/// In the format of safetensors, but not by its name: vLLM and SGLang take every such file for weights.
const OPTIMIZER: &str = "optimizer.state";
/// What it was called before.
const FORMER_OPTIMIZER: &str = "optimizer.safetensors";
const FIRST_MOMENT: &str = "first_moment.";
const SECOND_MOMENT: &str = "second_moment.";
const STEPS: &str = "steps";

/// Beginnings of the names of files that make weights a model, and that training does not change.
const COPIED: [&str; 8] = [
    "tokenizer",
    "generation_config",
    "chat_template",
    "special_tokens_map",
    "added_tokens",
    "vocab.",
    "merges.",
    "preprocessor_config",
];

/// Writes what is trained and the optimizer's state. The directory appears whole or not at all.
pub(crate) fn write_checkpoint(
    directory: &Path,
    source: &Path,
    policy: &Policy,
    adam: &AdamState,
) -> Result<(), EngineError> {
    let mut new = NewDirectory::begin(directory)?;
    write_trained(&mut new, source, policy, HeadName::Models)?;
    new.write_tensors(OPTIMIZER, written_moments(policy.trained_tensors(), adam))?;
    new.complete()
}

/// Writes what is trained. The directory appears whole or not at all.
pub(crate) fn write_weights(directory: &Path, source: &Path, policy: &Policy) -> Result<(), EngineError> {
    let mut new = NewDirectory::begin(directory)?;
    write_trained(&mut new, source, policy, HeadName::Models)?;
    new.complete()
}

/// The same for Tinker's tools, which merge an adapter of a head that is the embedding under a name of their own.
pub(crate) fn write_weights_for_tinkers_tools(
    directory: &Path,
    source: &Path,
    policy: &Policy,
) -> Result<(), EngineError> {
    let layout = &policy.weights.model.layout;
    let head = if layout.head == layout.embedding { HeadName::Tinkers } else { HeadName::Models };
    let mut new = NewDirectory::begin(directory)?;
    write_trained(&mut new, source, policy, head)?;
    new.complete()
}

/// Weights with all that makes them a model, its tokenizer copied from `source`; or an adapter, which says that `source`
/// is its base.
fn write_trained(
    new: &mut NewDirectory<'_>,
    source: &Path,
    policy: &Policy,
    head: HeadName,
) -> Result<(), EngineError> {
    let Policy { weights, adapter } = policy;
    match adapter {
        Some(adapter) => write_adapter(new, source, adapter, head),
        None => {
            write_config(new, &weights.model)?;
            let tensors = written_tensors(&weights.model.layout.tensors, "", &**weights, ElementType::F32);
            new.write_tensors(WEIGHTS, tensors)?;
            copy_tokenizer(source, new)
        }
    }
}

/// Reads what is trained back into a policy's place.
pub(crate) fn read_trained(directory: &Path, policy: &Policy) -> Result<Policy, EngineError> {
    verified(directory, || trained(directory, policy))
}

fn trained(directory: &Path, policy: &Policy) -> Result<Policy, EngineError> {
    let Policy { weights, adapter } = policy;
    match adapter {
        Some(adapter) => {
            let adapter = Arc::new(read_into_adapter(directory, &weights.model.config, adapter)?);
            Ok(Policy { weights: weights.clone(), adapter: Some(adapter) })
        }
        None => Ok(Policy::of(Arc::new(read_model(directory, &weights.model)?))),
    }
}

/// Writes numbers of one element type with all that makes them a model. The directory appears whole or not at all.
pub(crate) fn write_converted(
    directory: &Path,
    source: &Path,
    config: &ModelConfig,
    values: &Vec<f32>,
    elements: ElementType,
) -> Result<(), EngineError> {
    let mut new = NewDirectory::begin(directory)?;
    write_configuration(&mut new, config, elements)?;
    new.write_tensors(WEIGHTS, written_tensors(&Layout::new(config).tensors, "", values, elements))?;
    copy_tokenizer(source, &mut new)?;
    new.complete()
}

/// Weights for a model of these dimensions, as they are found there.
pub(crate) fn read_model(directory: &Path, model: &Arc<Model>) -> Result<Weights, EngineError> {
    let config = ModelConfig::read(&directory.join(CONFIG))?;
    if config.to_shape() != model.config.to_shape() {
        let message = "it describes another model than the one that is open".into();
        return Err(EngineError::Malformed { path: directory.join(CONFIG), message });
    }
    find_weights(directory, &model.layout)?.read_weights(model.clone())
}

/// Reads what is to be sampled from: weights of the model that `base` is of, or an adapter over those.
pub(crate) fn read_policy(source: &WeightsSource, base: &Arc<Weights>) -> Result<Policy, EngineError> {
    let model = &base.model;
    match source {
        WeightsSource::Model(directory) => {
            let weights = verified(directory, || read_model(directory, model))?;
            Ok(Policy::of(Arc::new(weights)))
        }
        WeightsSource::Adapter(directory) => {
            let adapter = verified(directory, || read_adapter(directory, &model.config))?;
            Ok(Policy { weights: base.clone(), adapter: Some(Arc::new(adapter)) })
        }
        WeightsSource::Kept(name) => {
            let message = format!("an embedded model takes a directory as new weights, and keeps none called `{name}`");
            Err(EngineError::Request { message })
        }
    }
}

/// Writes a model directory that holds weights alone. It appears whole or not at all.
pub(crate) fn write_model(
    directory: &Path,
    weights: &Weights,
    generation_config: (&str, &str),
) -> Result<(), EngineError> {
    let mut new = NewDirectory::begin(directory)?;
    let model = &weights.model;
    write_config(&mut new, model)?;
    new.write(generation_config.0, generation_config.1.as_bytes())?;
    new.write_tensors(WEIGHTS, written_tensors(&model.layout.tensors, "", weights, ElementType::F32))?;
    new.complete()
}

/// Reads back what was trained, and the optimizer's state.
pub(crate) fn read_checkpoint(directory: &Path, policy: &Policy) -> Result<(Policy, AdamState), EngineError> {
    verified(directory, || Ok((trained(directory, policy)?, moments(directory, policy)?)))
}

fn moments(directory: &Path, policy: &Policy) -> Result<AdamState, EngineError> {
    let former = directory.join(FORMER_OPTIMIZER);
    let path = if former.exists() { former } else { directory.join(OPTIMIZER) };
    let mut file = TensorFile::open(&path)?;
    let missing = || EngineError::Tensor { path: path.clone(), name: STEPS.into(), message: "it is missing".into() };
    let steps = file.whole_number(STEPS)?.ok_or_else(missing)?;
    if steps == 0 {
        return Ok(AdamState::default());
    }
    let moment = |prefix: &str| {
        let mut search = TensorSearch::new(policy.trained_tensors(), prefix);
        search.look_into(&path, |name| name.starts_with(prefix))?;
        let mut values = vec![0.0; policy.trained_count()];
        search.finish(&path)?.read(&mut values)?;
        Ok(values)
    };
    Ok(AdamState { first: moment(FIRST_MOMENT)?, second: moment(SECOND_MOMENT)?, steps })
}

/// No moments before the first step: then there are none.
fn written_moments<'a>(trained: &[Tensor], adam: &'a AdamState) -> Vec<(String, Written<'a>)> {
    let content = Content::Bytes(adam.steps.to_le_bytes().to_vec());
    let steps = Written { dtype: Dtype::U64, shape: vec![], content };
    let mut tensors = vec![(STEPS.to_string(), steps)];
    if adam.steps > 0 {
        tensors.extend(written_tensors(trained, FIRST_MOMENT, &adam.first, ElementType::F32));
        tensors.extend(written_tensors(trained, SECOND_MOMENT, &adam.second, ElementType::F32));
    }
    tensors
}

fn write_config(new: &mut NewDirectory<'_>, model: &Model) -> Result<(), EngineError> {
    write_configuration(new, &model.config, ElementType::F32)
}

pub(crate) fn write_configuration(
    new: &mut NewDirectory<'_>,
    config: &ModelConfig,
    elements: ElementType,
) -> Result<(), EngineError> {
    let text = config.to_json_of(elements).map_err(|error| EngineError::Malformed {
        path: new.path_of(CONFIG),
        message: format!("cannot be written: {error}"),
    })?;
    new.write(CONFIG, text.as_bytes())
}

fn copy_tokenizer(source: &Path, new: &mut NewDirectory<'_>) -> Result<(), EngineError> {
    for entry in std::fs::read_dir(source).map_err(EngineError::io("list", source))? {
        let path = entry.map_err(EngineError::io("list", source))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if path.is_file() && COPIED.iter().any(|beginning| name.starts_with(beginning)) {
            new.write(name, &read_small_bytes(&path, LONGEST_TOKENIZER)?)?;
        }
    }
    Ok(())
}
