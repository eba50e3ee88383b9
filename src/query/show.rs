//! `fulgurite show`.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use fulgurite_renderers::Tokenizer;
use fulgurite_store::Store;
use fulgurite_store::model::{FoundReward, Generation, GenerationFilter, ListFilter, Part, Rollout, Span};

use super::arguments::ShowArguments;
use super::open;
use super::transcript::{AttemptRecord, Style, Transcript};
use crate::config::LoadedConfig;
use crate::output;
use crate::paint::Paint;

/// Shows one rollout whole.
pub async fn show(arguments: ShowArguments) -> Result<()> {
    let store = open(&arguments.store).await?;
    let Some((rollout, _)) = store.get_rollout(&arguments.rollout).await? else {
        bail!("there is no rollout `{}` in this store", arguments.rollout);
    };
    let transcript = read(&store, rollout).await?;
    if arguments.json {
        output::line(transcript.json());
        return Ok(());
    }
    let tokenizers = if arguments.tokens { tokenizers(&arguments, &transcript)? } else { HashMap::new() };
    let style = Style { paint: Paint::for_stdout(), tokens: arguments.tokens, tokenizers: &tokenizers };
    transcript.lines(&style).into_iter().for_each(output::line);
    Ok(())
}

async fn read(store: &Store, rollout: Rollout) -> Result<Transcript> {
    let rollout_id = rollout.rollout_id.clone();
    let generations = GenerationFilter { rollout_id: Some(rollout_id.clone()), ..GenerationFilter::default() };
    let of_rollout = ListFilter { rollout_id_in: Some(vec![rollout_id.clone()]), ..ListFilter::default() };
    let in_order = Part::Newest { limit: None, sort_by: Some("sequence_id".to_owned()) };
    let mut spans = by_attempt(store.list_spans(&of_rollout, &in_order).await?.items, |span: &Span| &span.attempt_id);
    let mut generations =
        by_attempt(store.generations(&generations).await?, |generation: &Generation| &generation.attempt_id);
    let every = Part::Newest { limit: None, sort_by: None };
    let mut rewards = by_attempt(store.list_rewards(&of_rollout, &every).await?.items, |found: &FoundReward| {
        &found.recorded.attempt_id
    });
    let attempts = store.attempts(&rollout_id).await?.into_iter().map(|attempt| {
        let id = attempt.attempt_id.clone();
        let spans = spans.remove(&id).unwrap_or_default();
        let generations = generations.remove(&id).unwrap_or_default();
        let rewards = rewards.remove(&id).unwrap_or_default();
        AttemptRecord::new(attempt, spans, generations, rewards)
    });
    Ok(Transcript { attempts: attempts.collect(), rollout })
}

fn by_attempt<T>(records: Vec<T>, attempt_id: impl Fn(&T) -> &String) -> HashMap<String, Vec<T>> {
    let mut groups: HashMap<String, Vec<T>> = HashMap::new();
    for record in records {
        groups.entry(attempt_id(&record).clone()).or_default().push(record);
    }
    groups
}

/// The tokenizers that are known, by fingerprint. One that was named must be that of some call.
fn tokenizers(arguments: &ShowArguments, transcript: &Transcript) -> Result<HashMap<String, Tokenizer>> {
    let mut found = HashMap::new();
    if let Some(path) = &arguments.tokenizer {
        let tokenizer = open_tokenizer(path)?;
        let mut used = transcript.tokenizers().peekable();
        if used.peek().is_some() && !used.any(|fingerprint| fingerprint == tokenizer.fingerprint()) {
            bail!("{} is another tokenizer than that of this rollout's calls", path.display());
        }
        found.insert(tokenizer.fingerprint().to_owned(), tokenizer);
        return Ok(found);
    }
    let loaded = LoadedConfig::read(arguments.store.config.as_deref())?;
    for model in &loaded.config.models {
        // Which models there are is the config's word; one that is not there now only leaves ids without text.
        if let Ok(tokenizer) = Tokenizer::open(&loaded.resolve(&model.path)) {
            found.insert(tokenizer.fingerprint().to_owned(), tokenizer);
        }
    }
    Ok(found)
}

fn open_tokenizer(path: &Path) -> Result<Tokenizer> {
    let directory = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
    if !path.is_dir() && path.file_name().is_none_or(|name| name != "tokenizer.json") {
        bail!("{} is neither a tokenizer.json nor a directory", path.display());
    }
    Tokenizer::open(directory).with_context(|| format!("cannot read the tokenizer {}", path.display()))
}
