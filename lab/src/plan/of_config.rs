//! What a config asks for, as far as memory goes.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Result, anyhow, bail};
use fulgurite_backends::{GradientCheckpointing, TorchDevice, TorchElements, TorchOptions};
use fulgurite_config::declarations::{BaseConfig, Config, LoadedConfig};
use fulgurite_config::model_roles;
use fulgurite_config::models::{Backend, LearnerKind, ModelEntry};
use fulgurite_engine::{MemoryNeed, available_memory, inspect_model};
use fulgurite_trainer::{RolloutOptions, TrainerOptions};
use serde::Serialize;

use crate::plan::gpu::Gpus;
use crate::plan::host::{EngineWork, HostNeed};
use crate::plan::job::{AdapterShape, Checkpointing, Elements, Job, Turns};
use crate::plan::known_models::known_model;
use crate::plan::learner::LearnerNeed;
use crate::plan::model_shape::ModelShape;
use crate::plan::placement::Work;
use crate::records::run_files::model_path;

/// Tokens of a rollout where neither the config nor the command line has any.
const ROLLOUT_TOKENS: u64 = 2048;

/// What the command line says beside the config.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// In place of this machine's GPUs.
    pub gpus: Option<Gpus>,
    /// In place of the model's directory.
    pub model: Option<ModelSource>,
    /// Tokens of a rollout.
    pub rollout_tokens: Option<u64>,
}

/// Where a model's shape is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelSource {
    /// A `config.json`, or a directory with one.
    File(PathBuf),
    /// A public model's name.
    Known(&'static str),
}

impl FromStr for ModelSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = Path::new(text);
        match known_model(text) {
            Some(model) if !path.exists() => Ok(ModelSource::Known(model.name)),
            _ if path.exists() => Ok(ModelSource::File(path.to_owned())),
            _ => Err("it is no config.json, and no model whose shape is known, such as Qwen3-4B".to_owned()),
        }
    }
}

/// Where the length of a rollout comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LengthSource {
    /// `--rollout-tokens`.
    CommandLine,
    /// `[proxy] budget.sampled_tokens`, and as long a prompt.
    Budget,
    /// `[trainer] max_tokens`.
    MaxTokens,
    /// `[trainer] sampling_parameters` of one call, and as long a prompt.
    SamplingParameters,
    /// Nothing has it.
    Assumed,
    /// The model has no longer sequences.
    Context,
}

impl LengthSource {
    /// As people read it.
    pub fn text(self) -> &'static str {
        match self {
            LengthSource::CommandLine => "from --rollout-tokens",
            LengthSource::Budget => "twice [proxy] budget.sampled_tokens",
            LengthSource::MaxTokens => "from [trainer] max_tokens",
            LengthSource::SamplingParameters => "twice [trainer] sampling_parameters.max_tokens",
            LengthSource::Assumed => "assumed; --rollout-tokens has another number",
            LengthSource::Context => "the model's context",
        }
    }
}

/// A config, ready to be planned for.
#[derive(Clone, Debug)]
pub struct ConfiguredJob {
    /// The model's name in the config.
    pub name: String,
    /// Its directory.
    pub path: PathBuf,
    /// What is to be trained.
    pub job: Job,
    /// Where its `rollout_tokens` come from.
    pub length: LengthSource,
    /// What the GPUs are to do, and the GPUs.
    pub gpus: Option<(Gpus, Work)>,
    /// What this machine's memory is needed for.
    pub host: Option<HostNeed>,
    /// What is somewhere else or not counted.
    pub notes: Vec<String>,
}

/// Who samples and trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Gpu,
    Host,
    Elsewhere,
}

impl ConfiguredJob {
    /// Reads what a config says of the model that it trains.
    ///
    /// # Errors
    /// If it trains none, or if the model's shape is not there; the message says what to do.
    pub fn of(loaded: &LoadedConfig, options: &PlanOptions) -> Result<Self> {
        let config = &loaded.config;
        let trained = model_roles::trainable_models(config)?;
        let Some(model) = trained.first() else { bail!("the config has no [[models]] that is trained") };
        let path = model_path(loaded, model);
        let shape = shape_of(config.base.as_ref(), &path, options.model.as_ref())?;
        let (rollout_tokens, length) = rollout_tokens(config, options, &shape);
        let gpus = options.gpus.clone().or_else(Gpus::of_this_machine);
        let has_gpu = gpus.is_some();
        let torch = &config.torch;
        let (sampling, training) = places(model, torch, has_gpu);
        let job = Job {
            shape,
            adapter: adapter(model),
            elements: elements(torch, training),
            max_tokens_per_pass: torch.max_tokens_per_pass as u64,
            checkpointing: checkpointing(torch.gradient_checkpointing),
            processes: torch.processes as u64,
            turns: turns(model, torch),
            keeps_reference: keeps_reference(&config.trainer),
            parallel: config.runner.parallel as u64,
            rollout_tokens,
            rollouts_per_update: rollouts_per_update(&config.trainer),
            updates: config.trainer.common.max_steps,
        };
        let work = match (sampling, training) {
            (Place::Gpu, Place::Gpu) => Some(Work::Both),
            (Place::Gpu, _) => Some(Work::Sample),
            (_, Place::Gpu) => Some(Work::Train),
            _ => None,
        };
        let host = host(&job, model, &path, options, training);
        let mut notes = Vec::new();
        if sampling == Place::Elsewhere {
            notes.push(format!("sampled by {}, whose memory is not counted", model.backend.name()));
        }
        if training == Place::Elsewhere {
            notes.push("nothing is trained on this machine".to_owned());
        }
        if config.models.len() > 1 {
            notes.push("other [[models]] of the config are not counted".to_owned());
        }
        if !has_gpu && model.backend != Backend::Embedded {
            notes.push("nvidia-smi finds no GPU here; --gpu 24GiB plans for one".to_owned());
        }
        Ok(Self { name: model.name.clone(), path, job, length, gpus: gpus.zip(work), host, notes })
    }
}

/// Who samples, and who trains.
fn places(model: &ModelEntry, torch: &TorchOptions, has_gpu: bool) -> (Place, Place) {
    let sampling = match model.backend {
        Backend::Embedded => Place::Host,
        Backend::Vllm | Backend::Sglang if has_gpu && model.urls.iter().all(|url| is_loopback(url)) => Place::Gpu,
        Backend::Vllm | Backend::Sglang => Place::Elsewhere,
        Backend::LlamaCpp | Backend::Tinker | Backend::OpenAi | Backend::Anthropic => {
            return (Place::Elsewhere, Place::Elsewhere);
        }
    };
    let training = match (model.learner, torch.device) {
        (LearnerKind::Torch, TorchDevice::Cuda | TorchDevice::Auto) if has_gpu => Place::Gpu,
        (LearnerKind::PrimeRl, _) => Place::Elsewhere,
        _ => Place::Host,
    };
    (sampling, training)
}

fn elements(torch: &TorchOptions, training: Place) -> Elements {
    match torch.dtype {
        TorchElements::Float32 => Elements::Float32,
        TorchElements::Bfloat16 => Elements::Bfloat16,
        TorchElements::Nf4 => Elements::Nf4,
        TorchElements::Auto if training == Place::Gpu => Elements::Bfloat16,
        TorchElements::Auto => Elements::Float32,
    }
}

fn checkpointing(configured: GradientCheckpointing) -> Checkpointing {
    match configured {
        GradientCheckpointing::Auto => Checkpointing::Auto,
        GradientCheckpointing::On => Checkpointing::On,
        GradientCheckpointing::Off => Checkpointing::Off,
    }
}

fn turns(model: &ModelEntry, torch: &TorchOptions) -> Turns {
    match (model.backend, torch.shares_gpu) {
        (Backend::Vllm, true) => Turns::On,
        (Backend::Vllm, false) => Turns::Off,
        _ => Turns::Impossible,
    }
}

fn is_loopback(url: &str) -> bool {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    ["127.", "localhost", "[::1]"].iter().any(|name| host.starts_with(name))
}

fn adapter(model: &ModelEntry) -> Option<AdapterShape> {
    let rank = u64::from(model.lora_rank.filter(|rank| *rank > 0)?);
    Some(AdapterShape { rank, modules: model.lora(0)?.modules })
}

fn rollouts_per_update(trainer: &TrainerOptions) -> u64 {
    let of_rollouts = |rollouts: &RolloutOptions| rollouts.groups_per_batch * rollouts.group_size;
    let of_data = || trainer.data().map_or(1, |data| data.batch_size);
    trainer.rollouts().map_or_else(of_data, of_rollouts) as u64
}

fn keeps_reference(trainer: &TrainerOptions) -> bool {
    let has_penalty = trainer.rollouts().is_some_and(|rollouts| rollouts.kl.is_some());
    has_penalty || trainer.objective.name().compares()
}

fn rollout_tokens(config: &Config, options: &PlanOptions, shape: &ModelShape) -> (u64, LengthSource) {
    let parameters = config.trainer.rollouts_or_usual().sampling_parameters;
    let of_data = config.trainer.data().and_then(|data| data.max_tokens);
    let of_call = parameters.get("max_tokens").and_then(serde_json::Value::as_u64);
    let found = None
        .or(options.rollout_tokens.map(|tokens| (tokens, LengthSource::CommandLine)))
        .or(of_data.map(|tokens| (tokens as u64, LengthSource::MaxTokens)))
        .or(config.proxy.budget.sampled_tokens.map(|tokens| (tokens.saturating_mul(2), LengthSource::Budget)))
        .or(of_call.map(|tokens| (tokens.saturating_mul(2), LengthSource::SamplingParameters)));
    match found.unwrap_or((ROLLOUT_TOKENS, LengthSource::Assumed)) {
        (tokens, _) if tokens > shape.context => (shape.context, LengthSource::Context),
        (tokens, source) => (tokens.max(1), source),
    }
}

fn shape_of(base: Option<&BaseConfig>, path: &Path, source: Option<&ModelSource>) -> Result<ModelShape> {
    match source {
        Some(ModelSource::File(file)) => return ModelShape::read(file),
        Some(ModelSource::Known(name)) => {
            return known_model(name).map(|model| model.shape).ok_or_else(|| anyhow!("{name} is not known"));
        }
        None => {}
    }
    if path.join("config.json").exists() {
        return ModelShape::read(path);
    }
    if let Some(base) = base {
        return Ok(ModelShape::of_engine(&base.shape.model_config(base.vocabulary_size, &[])));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let known = known_model(&name).map_or("FILE", |model| model.name);
    let fetch = format!("fulgurite model fetch hf:OWNER/{name} {}", path.display());
    bail!(
        "{} has no config.json\nhelp: fetch the model: {fetch}\nhelp: or plan before that: --model-config {known}",
        path.display()
    )
}

/// What the engine, and a learner in PyTorch without a GPU, need of this machine.
fn host(job: &Job, model: &ModelEntry, path: &Path, options: &PlanOptions, training: Place) -> Option<HostNeed> {
    let is_torch = model.learner == LearnerKind::Torch;
    let torch = (is_torch && training == Place::Host)
        .then(|| LearnerNeed::configured(job, available_memory().unwrap_or(u64::MAX)));
    let work = match (model.backend, training) {
        (_, Place::Host) if !is_torch => EngineWork::Train,
        (Backend::Embedded, _) => EngineWork::Sample,
        _ => return HostNeed::of(None, torch),
    };
    let config = job.shape.engine_config();
    let need = match inspect_model(path) {
        Ok(found) if options.model.is_none() => found.memory,
        // Its weights are not there yet.
        _ => MemoryNeed::of(&config, job.rollout_tokens as usize),
    };
    let need = match job.adapter_numbers() as usize {
        0 => need,
        numbers => need.with_adapter(&config, numbers),
    };
    HostNeed::of(Some((need, work)), torch)
}
