use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulgurite_backends::WeightsSource;
use safetensors::Dtype;

use crate::EngineError;
use crate::adapter_files::{read_adapter, read_into_adapter, write_adapter};
use crate::config::ModelConfig;
use crate::conversion::ElementType;
use crate::files::{
    CONFIG, Content, TensorFile, TensorSearch, WEIGHTS, Written, find_weights, sync_directory, write_durably,
    write_tensors, written_tensors,
};
use crate::layout::{Layout, Tensor};
use crate::optimizer::AdamState;
use crate::policy::Policy;
use crate::weights::{Model, Weights};

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
    let partial = begin(directory)?;
    write_trained(&partial, source, policy)?;
    write_tensors(&partial.join(OPTIMIZER), written_moments(policy.trained_tensors(), adam))?;
    commit(&partial, directory)
}

/// Writes what is trained. The directory appears whole or not at all.
pub(crate) fn write_weights(directory: &Path, source: &Path, policy: &Policy) -> Result<(), EngineError> {
    let partial = begin(directory)?;
    write_trained(&partial, source, policy)?;
    commit(&partial, directory)
}

/// Weights with all that makes them a model, its tokenizer copied from `source`; or an adapter, which says that `source`
/// is its base.
fn write_trained(directory: &Path, source: &Path, policy: &Policy) -> Result<(), EngineError> {
    let Policy { weights, adapter } = policy;
    match adapter {
        Some(adapter) => write_adapter(directory, source, adapter),
        None => {
            write_config(directory, &weights.model)?;
            let tensors = written_tensors(&weights.model.layout.tensors, "", &**weights, ElementType::F32);
            write_tensors(&directory.join(WEIGHTS), tensors)?;
            copy_tokenizer(source, directory)
        }
    }
}

/// Reads what is trained back into a policy's place.
pub(crate) fn read_trained(directory: &Path, policy: &Policy) -> Result<Policy, EngineError> {
    let Policy { weights, adapter } = policy;
    match adapter {
        Some(adapter) => {
            let adapter = Arc::new(read_into_adapter(directory, adapter)?);
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
    let partial = begin(directory)?;
    write_configuration(&partial, config, elements)?;
    write_tensors(&partial.join(WEIGHTS), written_tensors(&Layout::new(config).tensors, "", values, elements))?;
    copy_tokenizer(source, &partial)?;
    commit(&partial, directory)
}

/// Reads weights for a model of these dimensions.
pub(crate) fn read_model(directory: &Path, model: &Arc<Model>) -> Result<Weights, EngineError> {
    let config = ModelConfig::read(&directory.join(CONFIG))?;
    if config.to_shape() != model.config.to_shape() {
        let message = "it describes another model than the one that is open".into();
        return Err(EngineError::Malformed { path: directory.join(CONFIG), message });
    }
    Weights::read(model.clone(), find_weights(directory, &model.layout)?)
}

/// Reads what is to be sampled from: weights of the model that `base` is of, or an adapter over those.
pub(crate) fn read_policy(source: &WeightsSource, base: &Arc<Weights>) -> Result<Policy, EngineError> {
    let model = &base.model;
    match source {
        WeightsSource::Model(directory) => Ok(Policy::of(Arc::new(read_model(directory, model)?))),
        WeightsSource::Adapter(directory) => {
            let adapter = read_adapter(directory, &model.config)?;
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
    let partial = begin(directory)?;
    let model = &weights.model;
    write_config(&partial, model)?;
    write_durably(&partial.join(generation_config.0), generation_config.1.as_bytes())?;
    write_tensors(&partial.join(WEIGHTS), written_tensors(&model.layout.tensors, "", weights, ElementType::F32))?;
    commit(&partial, directory)
}

/// Reads back what was trained, and the optimizer's state.
pub(crate) fn read_checkpoint(directory: &Path, policy: &Policy) -> Result<(Policy, AdamState), EngineError> {
    let trained = read_trained(directory, policy)?;
    let former = directory.join(FORMER_OPTIMIZER);
    let path = if former.exists() { former } else { directory.join(OPTIMIZER) };
    let mut file = TensorFile::open(&path)?;
    let missing = || EngineError::Tensor { path: path.clone(), name: STEPS.into(), message: "it is missing".into() };
    let counted = file.bytes(STEPS)?.ok_or_else(missing)?;
    let steps = u64::from_le_bytes(counted.try_into().map_err(|_| missing())?);
    if steps == 0 {
        return Ok((trained, AdamState::default()));
    }
    let moment = |prefix: &str| {
        let mut search = TensorSearch::new(policy.trained_tensors(), prefix);
        search.look_into(&path, |name| name.starts_with(prefix))?;
        let mut values = vec![0.0; policy.trained_count()];
        search.finish(&path)?.read(&mut values)?;
        Ok(values)
    };
    Ok((trained, AdamState { first: moment(FIRST_MOMENT)?, second: moment(SECOND_MOMENT)?, steps }))
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

fn write_config(directory: &Path, model: &Model) -> Result<(), EngineError> {
    write_configuration(directory, &model.config, ElementType::F32)
}

pub(crate) fn write_configuration(
    directory: &Path,
    config: &ModelConfig,
    elements: ElementType,
) -> Result<(), EngineError> {
    let path = directory.join(CONFIG);
    let text = config.to_json_of(elements).map_err(|error| EngineError::Malformed {
        path: path.clone(),
        message: format!("cannot be written: {error}"),
    })?;
    write_durably(&path, text.as_bytes())
}

/// An empty directory beside the one to be written, so that a rename completes it.
pub(crate) fn begin(directory: &Path) -> Result<PathBuf, EngineError> {
    let taken = || std::io::Error::from(std::io::ErrorKind::AlreadyExists);
    if directory.exists() {
        return Err(EngineError::io("create", directory)(taken()));
    }
    let unnamed = || std::io::Error::from(std::io::ErrorKind::InvalidInput);
    let name = directory.file_name().ok_or_else(|| EngineError::io("create", directory)(unnamed()))?;
    let mut partial = name.to_os_string();
    partial.push(".partial");
    let partial = directory.with_file_name(partial);
    if partial.exists() {
        // A crash left it.
        std::fs::remove_dir_all(&partial).map_err(EngineError::io("remove", &partial))?;
    }
    create_durably(&partial)?;
    Ok(partial)
}

/// Creates a directory and those above it. The names of the new ones are durable, but for the last.
fn create_durably(directory: &Path) -> Result<(), EngineError> {
    let new: Vec<&Path> = directory.ancestors().skip(1).take_while(|above| !is_directory(above)).collect();
    std::fs::create_dir_all(directory).map_err(EngineError::io("create", directory))?;
    new.into_iter().try_for_each(|above| sync_directory(parent(above)))
}

/// The empty path is the working directory.
fn is_directory(path: &Path) -> bool {
    path == Path::new("") || path.is_dir()
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}

pub(crate) fn commit(partial: &Path, directory: &Path) -> Result<(), EngineError> {
    sync_directory(partial)?;
    std::fs::rename(partial, directory).map_err(EngineError::io("complete", directory))?;
    sync_directory(parent(directory))
}

fn copy_tokenizer(source: &Path, directory: &Path) -> Result<(), EngineError> {
    for entry in std::fs::read_dir(source).map_err(EngineError::io("list", source))? {
        let path = entry.map_err(EngineError::io("list", source))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if path.is_file() && COPIED.iter().any(|beginning| name.starts_with(beginning)) {
            let bytes = std::fs::read(&path).map_err(EngineError::io("read", &path))?;
            write_durably(&directory.join(name), &bytes)?;
        }
    }
    Ok(())
}
