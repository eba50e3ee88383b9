//! Weights in the form that other programs read.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fulgurite_engine::{ElementType, convert_model, copy_adapter, export_gguf, inspect_model, merge_adapter};
use fulgurite_lab::runs::which_checkpoint::WhichCheckpoint;

use super::named_weights::{NamedWeights, WeightsKind};
use crate::notices::Notices;

/// What is exported, and how.
#[derive(Clone, Debug)]
pub struct Export {
    /// A run, a checkpoint, or the directory of a model or an adapter.
    pub source: PathBuf,
    /// What is written.
    pub format: ExportFormat,
    /// Of a run: which checkpoint.
    pub checkpoint: WhichCheckpoint,
    /// Directory of the model that an adapter is over, in place of what its run or the adapter says.
    pub base: Option<PathBuf>,
    /// What is made; a name made of the run's without it.
    pub output: Option<PathBuf>,
    /// What the numbers become.
    pub elements: Option<ElementType>,
}

/// Forms of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// A LoRA adapter as PEFT, vLLM and SGLang read it.
    Peft,
    /// A whole model in Hugging Face's format, with tokenizer and chat template; an adapter is added to its weights.
    Merged,
    /// The same in one file, as llama.cpp reads it.
    Gguf,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Where it is.
    pub output: PathBuf,
    /// Numbers of a model that was written as it was trained although nobody chose their type.
    pub unrounded_numbers: Option<u64>,
}

impl Export {
    /// Writes the weights.
    ///
    /// # Errors
    /// If there are none, if they have not this form, or if something is in their place.
    pub fn write(&self, notices: &dyn Notices) -> Result<Exported> {
        let Self { source, format, checkpoint, base, output, elements } = self;
        let (base, elements) = (base.as_deref(), *elements);
        let weights = NamedWeights::find(source, *checkpoint, notices)?;
        if weights.kind == WeightsKind::Model && base.is_some() {
            bail!("{} is a whole model: leave --base out", weights.directory.display());
        }
        let output = place(&weights, *format, elements, output.as_deref())?;
        let base = || weights.base(base, notices);
        let written = match format {
            ExportFormat::Peft => peft(&weights, base, elements, &output)?,
            ExportFormat::Merged => merged(&weights, base, elements.unwrap_or_default(), &output)?,
            ExportFormat::Gguf => gguf(&weights, base, elements.unwrap_or(GGUF_ELEMENTS), &output)?,
        };
        written.with_context(|| format!("{} cannot be exported", weights.directory.display()))?;
        let unrounded_numbers = if *format == ExportFormat::Merged && elements.is_none() {
            Some(inspect_model(&output)?.element_types.values().sum())
        } else {
            None
        };
        Ok(Exported { output, unrounded_numbers })
    }
}

/// What llama.cpp runs fast and whole.
const GGUF_ELEMENTS: ElementType = ElementType::F16;

type Written = Result<(), fulgurite_engine::EngineError>;

fn peft(
    weights: &NamedWeights,
    base: impl Fn() -> Result<PathBuf>,
    elements: Option<ElementType>,
    output: &Path,
) -> Result<Written> {
    if elements.is_some() {
        bail!("--dtype is of merged and gguf: an adapter is written as it is");
    }
    if weights.kind == WeightsKind::Model {
        bail!(
            "{} is a whole model, trained without LoRA, and has no adapter: --format merged writes it \
             ([[models]] lora_rank trains an adapter)",
            weights.directory.display()
        );
    }
    Ok(copy_adapter(&weights.directory, &base()?, output))
}

fn merged(
    weights: &NamedWeights,
    base: impl Fn() -> Result<PathBuf>,
    elements: ElementType,
    output: &Path,
) -> Result<Written> {
    Ok(match weights.kind {
        WeightsKind::Model => convert_model(&weights.directory, output, elements),
        WeightsKind::Adapter => merge_adapter(&base()?, &weights.directory, output, elements),
    })
}

fn gguf(
    weights: &NamedWeights,
    base: impl Fn() -> Result<PathBuf>,
    elements: ElementType,
    output: &Path,
) -> Result<Written> {
    if let Some(parent) = output.parent().filter(|parent| *parent != Path::new("")) {
        std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    }
    let (model, adapter) = match weights.kind {
        WeightsKind::Model => (weights.directory.clone(), None),
        WeightsKind::Adapter => (base()?, Some(weights.directory.as_path())),
    };
    Ok(export_gguf(&model, adapter, output, &weights.name(), elements))
}

/// What is to be made.
fn place(
    weights: &NamedWeights,
    format: ExportFormat,
    elements: Option<ElementType>,
    output: Option<&Path>,
) -> Result<PathBuf> {
    let name = weights.name();
    let usual = PathBuf::from(match format {
        ExportFormat::Peft => format!("{name}-peft"),
        ExportFormat::Merged => format!("{name}-merged"),
        ExportFormat::Gguf => format!("{name}-{}.gguf", suffix(elements.unwrap_or(GGUF_ELEMENTS))),
    });
    let place = match output {
        None => usual,
        Some(output) if format == ExportFormat::Gguf && output.extension().is_none_or(|end| end != "gguf") => {
            output.join(usual)
        }
        Some(output) => output.to_owned(),
    };
    if place.exists() {
        bail!("{} is there already: name another place by --output, or remove it", place.display());
    }
    Ok(place)
}

fn suffix(elements: ElementType) -> &'static str {
    match elements {
        ElementType::F32 => "f32",
        ElementType::Bf16 => "bf16",
        ElementType::F16 => "f16",
    }
}
