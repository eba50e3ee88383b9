//! `fulgurite show`.

use std::collections::HashMap;

use anyhow::{Result, bail};
use fulgurite_lab::queries::rollout_reading::{EventPages, existing_rollout};
use fulgurite_lab::queries::tokenizers::{known_tokenizers, tokenizer_at};
use fulgurite_renderers::Tokenizer;
use fulgurite_store::Store;
use fulgurite_terminal::output;
use fulgurite_terminal::paint::Paint;
use fulgurite_terminal::transcript::{AttemptTranscript, Style, header};
use fulgurite_types::Rollout;
use serde_json::{Value, json};
use uuid::Uuid;

use super::arguments::ShowArguments;
use super::open;

/// Shows one rollout whole, as it is read: it may have more spans than fit into memory.
pub async fn show(arguments: ShowArguments) -> Result<()> {
    let store = open(&arguments.store).await?;
    let id = existing_rollout(&store, &arguments.rollout).await?;
    let Some((rollout, _)) = store.rollouts().get(&id).await? else {
        bail!("the rollout `{id}` was deleted meanwhile");
    };
    if arguments.json {
        return show_json(&store, &rollout).await;
    }
    let used =
        if arguments.tokens { store.generations().tokenizers_of(&rollout.rollout_id).await? } else { Vec::new() };
    let tokenizers = if arguments.tokens { tokenizers(&arguments, &used)? } else { HashMap::new() };
    let style = Style { paint: Paint::for_stdout(), tokens: arguments.tokens, tokenizers: &tokenizers };
    output::lines(header(&rollout, &style));
    for attempt in store.attempts().of_rollout(&rollout.rollout_id).await? {
        output::line("");
        let mut pages = EventPages::of(&store, &attempt).await?;
        let mut transcript = AttemptTranscript::new(attempt);
        output::lines(transcript.title(&style));
        while let Some(page) = pages.next().await? {
            for event in page {
                output::line("");
                output::lines(transcript.lines(&event, &style));
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
    for (index, attempt) in store.attempts().of_rollout(&rollout.rollout_id).await?.into_iter().enumerate() {
        let mut pages = EventPages::of(store, &attempt).await?;
        let (before, after) = around_list(json!(attempt), "events");
        output::piece(format!("{}{before}", comma(index)));
        let mut shown = 0;
        while let Some(page) = pages.next().await? {
            for event in page {
                output::piece(format!("{}{}", comma(shown), event.json()));
                shown += 1;
            }
        }
        output::piece(after);
    }
    output::line(after);
    Ok(())
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

/// The tokenizers that are known, by fingerprint. One that was named must be that of some call.
fn tokenizers(arguments: &ShowArguments, used: &[String]) -> Result<HashMap<String, Tokenizer>> {
    match &arguments.tokenizer {
        Some(path) => Ok(tokenizer_at(path, used)?),
        None => known_tokenizers(&arguments.store.named()),
    }
}
