//! `fulgurite model export`: weights in the form that other programs read.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fulgurite_engine::{
    ElementType, bytes_text, convert_model, copy_adapter, export_gguf, inspect_model, merge_adapter,
};

use crate::model_commands::arguments::{ExportFormat, ModelExportArguments};
use crate::model_commands::named_weights::{NamedWeights, WeightsKind};
use crate::terminal::output;

/// Writes weights, and prints where.
pub fn export(arguments: &ModelExportArguments) -> Result<()> {
    let ModelExportArguments { source, format, checkpoint, base, output, dtype } = arguments;
    let weights = NamedWeights::find(source, *checkpoint)?;
    if weights.kind == WeightsKind::Model && base.is_some() {
        bail!("{} is a whole model: leave --base out", weights.directory.display());
    }
    let elements = dtype.map(ElementType::from);
    let output = place(&weights, *format, elements, output.as_deref())?;
    let written = match format {
        ExportFormat::Peft => peft(&weights, base.as_deref(), elements, &output)?,
        ExportFormat::Merged => merged(&weights, base.as_deref(), elements.unwrap_or_default(), &output)?,
        ExportFormat::Gguf => gguf(&weights, base.as_deref(), elements.unwrap_or(GGUF_ELEMENTS), &output)?,
    };
    written.with_context(|| format!("{} cannot be exported", weights.directory.display()))?;
    if *format == ExportFormat::Merged && elements.is_none() {
        tell_of_size(&output)?;
    }
    output::line(output.display());
    Ok(())
}

/// Says how large a model is that was written as it was trained, and how half of it is to be had.
fn tell_of_size(model: &Path) -> Result<()> {
    let numbers: u64 = inspect_model(model)?.element_types.values().sum();
    let (whole, half) = (bytes_text(4 * numbers), bytes_text(2 * numbers));
    output::note(format_args!(
        "the numbers are float32, as they were trained: {whole}; --dtype bf16 rounds them to {half}"
    ));
    Ok(())
}

/// What llama.cpp runs fast and whole.
const GGUF_ELEMENTS: ElementType = ElementType::F16;

type Written = Result<(), fulgurite_engine::EngineError>;

fn peft(weights: &NamedWeights, base: Option<&Path>, elements: Option<ElementType>, output: &Path) -> Result<Written> {
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
    Ok(copy_adapter(&weights.directory, &weights.base(base)?, output))
}

fn merged(weights: &NamedWeights, base: Option<&Path>, elements: ElementType, output: &Path) -> Result<Written> {
    Ok(match weights.kind {
        WeightsKind::Model => convert_model(&weights.directory, output, elements),
        WeightsKind::Adapter => merge_adapter(&weights.base(base)?, &weights.directory, output, elements),
    })
}

fn gguf(weights: &NamedWeights, base: Option<&Path>, elements: ElementType, output: &Path) -> Result<Written> {
    if let Some(parent) = output.parent().filter(|parent| *parent != Path::new("")) {
        std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    }
    let (model, adapter) = match weights.kind {
        WeightsKind::Model => (weights.directory.clone(), None),
        WeightsKind::Adapter => (weights.base(base)?, Some(weights.directory.as_path())),
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
