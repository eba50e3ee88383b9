//! `fulgurite show`.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_hub::known_model_directory;
use fulgurite_lab::records::run_tokenizers;
use fulgurite_lab::runs::registry;
use fulgurite_renderers::Tokenizer;
use fulgurite_store::{SpanPages, Store};
use fulgurite_types::{Attempt, AttemptRef, Generation, RecordedTeacherLogprobs, Rollout, Span, SpanFilter};
use serde_json::{Value, json};
use uuid::Uuid;

use super::arguments::ShowArguments;
use super::transcript::{AttemptTranscript, Event, Style, header};
use super::{existing_rollout, open};
use crate::terminal::output;
use crate::terminal::paint::Paint;

/// Shows one rollout whole, as it is read: it may have more spans than fit into memory.
pub async fn show(arguments: ShowArguments) -> Result<()> {
    let store = open(&arguments.store).await?;
    let id = existing_rollout(&store, &arguments.rollout).await?;
    let Some((rollout, _)) = store.get_rollout(&id).await? else {
        bail!("the rollout `{id}` was deleted meanwhile");
    };
    if arguments.json {
        return show_json(&store, &rollout).await;
    }
    let used = if arguments.tokens { store.tokenizers_of(&rollout.rollout_id).await? } else { Vec::new() };
    let tokenizers = if arguments.tokens { tokenizers(&arguments, &used)? } else { HashMap::new() };
    let style = Style { paint: Paint::for_stdout(), tokens: arguments.tokens, tokenizers: &tokenizers };
    header(&rollout, &style).into_iter().for_each(output::line);
    for attempt in store.attempts(&rollout.rollout_id).await? {
        output::line("");
        let mut pages = events(&store, &attempt).await?;
        let mut transcript = AttemptTranscript::new(attempt);
        transcript.title(&style).into_iter().for_each(output::line);
        while let Some(page) = pages.next_with_generations().await? {
            let mut told = teachers(&store, &page).await?;
            for (span, generation) in page {
                output::line("");
                let of_call = generation.as_ref().and_then(|call| told.remove(&call.generation_id));
                transcript
                    .lines(&Event::new(span, generation, of_call.unwrap_or_default()), &style)
                    .into_iter()
                    .for_each(output::line);
            }
        }
    }
    // Calls that were passed on have no tokens.
    if used.iter().any(|fingerprint| !fingerprint.is_empty() && !tokenizers.contains_key(fingerprint)) {
        output::line(
            "tokens are shown without their text: no tokenizer of these calls was found (--tokenizer names one)",
        );
    }
    Ok(())
}

/// One object in one line.
async fn show_json(store: &Store, rollout: &Rollout) -> Result<()> {
    let (before, after) = around_list(json!(rollout), "attempts");
    output::piece(before);
    for (index, attempt) in store.attempts(&rollout.rollout_id).await?.into_iter().enumerate() {
        let mut pages = events(store, &attempt).await?;
        let (before, after) = around_list(json!(attempt), "events");
        output::piece(format!("{}{before}", comma(index)));
        let mut shown = 0;
        while let Some(page) = pages.next_with_generations().await? {
            let mut told = teachers(store, &page).await?;
            for (span, generation) in page {
                let of_call = generation.as_ref().and_then(|call| told.remove(&call.generation_id));
                let event = Event::new(span, generation, of_call.unwrap_or_default());
                output::piece(format!("{}{}", comma(shown), event.json()));
                shown += 1;
            }
        }
        output::piece(after);
    }
    output::line(after);
    Ok(())
}

/// What teachers made of the model calls among some spans, by generation.
async fn teachers(
    store: &Store,
    page: &[(Span, Option<Generation>)],
) -> Result<HashMap<String, Vec<RecordedTeacherLogprobs>>> {
    let calls = page.iter().filter_map(|(_, generation)| generation.as_ref());
    let ids: Vec<&str> = calls.map(|call| call.generation_id.as_str()).collect();
    let mut by_generation: HashMap<String, Vec<RecordedTeacherLogprobs>> = HashMap::new();
    for recorded in store.teacher_logprobs(&ids).await? {
        by_generation.entry(recorded.values.generation_id.clone()).or_default().push(recorded);
    }
    Ok(by_generation)
}

/// The text of an object before and behind the elements of a list that it gets under a key.
fn around_list(mut object: Value, key: &str) -> (String, String) {
    let mark = Uuid::now_v7().to_string();
    object[key] = json!([mark]);
    let text = object.to_string();
    let (before, after) = text.split_once(&format!("\"{mark}\"")).unwrap_or((&text, ""));
    (before.to_owned(), after.to_owned())
}

/// Between two elements of a list.
fn comma(index: usize) -> &'static str {
    if index == 0 { "" } else { "," }
}

/// What happened in an attempt, in order.
async fn events(store: &Store, attempt: &Attempt) -> Result<SpanPages> {
    let filter = SpanFilter {
        rollout_id: attempt.rollout_id.clone(),
        attempt: Some(AttemptRef::Id(attempt.attempt_id.clone())),
        ..SpanFilter::default()
    };
    Ok(store.span_pages(&filter).await?)
}

/// The tokenizers that are known, by fingerprint. One that was named must be that of some call.
fn tokenizers(arguments: &ShowArguments, used: &[String]) -> Result<HashMap<String, Tokenizer>> {
    let mut found = HashMap::new();
    if let Some(path) = &arguments.tokenizer {
        let tokenizer = open_tokenizer(path)?;
        if !used.is_empty() && !used.iter().any(|fingerprint| fingerprint == tokenizer.fingerprint()) {
            bail!("{} is another tokenizer than that of this rollout's calls", path.display());
        }
        found.extend([by_fingerprint(tokenizer)]);
        return Ok(found);
    }
    if let Some(run) = &arguments.store.run {
        let directories = run_tokenizers(&registry::directory(run).unwrap_or_else(|_| run.clone()));
        let directories = directories.iter().filter_map(|path| known_model_directory(path));
        found.extend(directories.filter_map(|path| Tokenizer::open(&path).ok()).map(by_fingerprint));
        return Ok(found);
    }
    let loaded = LoadedConfig::read(arguments.store.config.as_deref())?;
    for model in &loaded.config.models {
        // Which models there are is the config's word; one that is not there now only leaves ids without text.
        let directory = known_model_directory(&loaded.resolve(&model.path));
        found.extend(directory.and_then(|directory| Tokenizer::open(&directory).ok()).map(by_fingerprint));
    }
    Ok(found)
}

fn by_fingerprint(tokenizer: Tokenizer) -> (String, Tokenizer) {
    (tokenizer.fingerprint().to_owned(), tokenizer)
}

fn open_tokenizer(path: &Path) -> Result<Tokenizer> {
    let directory = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
    if !path.is_dir() && path.file_name().is_none_or(|name| name != "tokenizer.json") {
        bail!("{} is neither a tokenizer.json nor a directory", path.display());
    }
    Tokenizer::open(directory).with_context(|| format!("cannot read the tokenizer {}", path.display()))
}
