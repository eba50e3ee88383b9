//! `fulgurite model`: what a model directory holds and whether this machine can run it, and how it is made into another.

use std::cell::RefCell;

use anyhow::{Context, Result};
use fulgurite_engine::{
    ElementType, INSPECTED_RANK, ModelInspection, available_memory, bytes_text, convert_gguf, convert_model,
    inspect_model, is_gguf, merge_adapter,
};
use fulgurite_hub::must_exist;
use fulgurite_terminal::notices::TerminalNotices;
use fulgurite_terminal::output;
use fulgurite_training::Notices;
use fulgurite_training::models::model_directory::{model_directory, show_conversion};
use serde_json::json;

use crate::model_commands::arguments::{
    Elements, ModelAction, ModelArguments, ModelConvertArguments, ModelInspectArguments, ModelMergeArguments,
};
use crate::model_commands::{export, fetch, rollback};

/// Does what was asked.
pub async fn model(arguments: &ModelArguments) -> Result<()> {
    match &arguments.action {
        ModelAction::Fetch(arguments) => fetch::fetch(arguments).await,
        ModelAction::Inspect(arguments) => inspect(arguments),
        ModelAction::Convert(arguments) => convert(arguments),
        ModelAction::Export(arguments) => export::export(arguments),
        ModelAction::Rollback(arguments) => rollback::rollback(arguments).await,
        ModelAction::Merge(arguments) => {
            let ModelMergeArguments { model_dir, adapter_dir, output_dir, dtype } = arguments;
            merge_adapter(&model_directory(model_dir, &TerminalNotices)?, adapter_dir, output_dir, (*dtype).into())
                .with_context(|| format!("{} cannot be merged into {}", adapter_dir.display(), model_dir.display()))
        }
    }
}

fn convert(arguments: &ModelConvertArguments) -> Result<()> {
    let ModelConvertArguments { model, output_dir, dtype } = arguments;
    must_exist(model)?;
    let elements = dtype.map(ElementType::from);
    let converted = match is_gguf(model) {
        true => {
            let progress = RefCell::new(TerminalNotices.progress());
            let watch = |numbers, of| show_conversion(progress.borrow_mut().as_mut(), numbers, of);
            convert_gguf(model, output_dir, elements, &watch)
        }
        false => convert_model(model, output_dir, elements.unwrap_or_default()),
    };
    converted.with_context(|| format!("{} cannot be converted", model.display()))
}

impl From<Elements> for ElementType {
    fn from(elements: Elements) -> Self {
        match elements {
            Elements::F32 => ElementType::F32,
            Elements::Bf16 => ElementType::Bf16,
            Elements::F16 => ElementType::F16,
        }
    }
}

fn inspect(arguments: &ModelInspectArguments) -> Result<()> {
    let model = &arguments.model;
    must_exist(model)?;
    let found = inspect_model(model).with_context(|| format!("{} cannot be run here", model.display()))?;
    let available = available_memory();
    if arguments.json {
        let mut report = json!(found);
        report["memory"]["sampling"] = json!(found.memory.sampling());
        report["memory"]["training"] = json!(found.memory.training());
        report["memory"]["lora_training"] = json!(found.lora_memory.training());
        report["memory"]["available"] = json!(available);
        output::line(report);
        return Ok(());
    }
    for (what, value) in rows(&found, available) {
        output::line(format!("{what:16} {value}"));
    }
    Ok(())
}

fn rows(found: &ModelInspection, available: Option<u64>) -> Vec<(&'static str, String)> {
    let types: Vec<String> = found.element_types.iter().map(|(kind, count)| format!("{kind} ({count})")).collect();
    let fits = |bytes: u64| match available {
        Some(available) if bytes > available => {
            format!("{}, more than the {} available", bytes_text(bytes), bytes_text(available))
        }
        Some(available) => format!("{} of {} available", bytes_text(bytes), bytes_text(available)),
        None => bytes_text(bytes),
    };
    let head = if found.tied_head { "tied to the embedding" } else { "its own" };
    let mut rows = vec![
        ("architecture", found.architecture.to_owned()),
        ("parameters", found.parameters.to_string()),
        ("layers", format!("{} of width {}", found.layers, found.hidden_size)),
        ("vocabulary", found.vocabulary_size.to_string()),
        ("head", head.to_owned()),
        ("context", format!("{} tokens", found.context_length)),
        ("elements", types.join(", ")),
        ("files", found.files.len().to_string()),
        ("to sample", fits(found.memory.sampling())),
        ("each token", format!("{} of keys and values", bytes_text(found.memory.keys_and_values_per_token))),
        ("to train LoRA", format!("{}, at rank {INSPECTED_RANK}", fits(found.lora_memory.training()))),
        ("to train fully", fits(found.memory.training())),
    ];
    if let Some(facts) = &found.gguf {
        let template = if facts.chat_template { "a chat template" } else { "no chat template" };
        rows.extend(facts.name.clone().map(|name| ("called", name)));
        rows.push(("tokenizer", format!("{}, {} tokens, {template}", facts.pre_tokenizer, facts.tokens)));
        rows.push(("converted to", json!(facts.converted_to).as_str().unwrap_or_default().to_owned()));
    }
    rows
}
