//! `fulgurite rollouts`, `spans`, `triplets`: what a store holds, as a table for people or JSON for programs.

use anyhow::{Context, Result, bail};
use comfy_table::{Table, presets};
use fulgurite_store::Store;
use fulgurite_store::model::{Attempt, GenerationFilter, Page, Rollout, RolloutFilter, SpanFilter};
use serde_json::{Value, json};

use crate::cli::QueryArguments;
use crate::config::LoadedConfig;
use crate::output;
use crate::serve::store_url;
use crate::train::STORE_FILE;

/// Longest text that a table's cell shows.
const CELL_CHARACTERS: usize = 60;

/// `fulgurite rollouts`.
pub async fn rollouts(arguments: QueryArguments) -> Result<()> {
    let store = open(&arguments).await?;
    let mut table = table_of(&["rollout", "status", "mode", "run", "step", "attempts", "reward", "input", "reason"]);
    for (rollout, attempt) in select_rollouts(&store, &arguments).await? {
        let rewards = match &attempt {
            Some(attempt) => store.rewards(&rollout.rollout_id, &attempt.attempt_id).await?,
            None => Vec::new(),
        };
        let reward = rewards.last().map(|recorded| recorded.reward.value);
        if arguments.json {
            let mut line = json!(rollout);
            line["attempt"] = json!(attempt);
            line["reward"] = json!(reward);
            output::line(line);
            continue;
        }
        let metadata = |key: &str| rollout.metadata.as_ref().and_then(|metadata| metadata.get(key)).cloned();
        let reason = attempt.as_ref().and_then(|attempt| attempt.metadata.as_ref()?.get("reason").cloned());
        table.add_row([
            rollout.rollout_id.clone(),
            rollout.status.to_string(),
            rollout.mode.map_or(String::new(), |mode| mode.to_string()),
            cell(metadata("run_id")),
            cell(metadata("step")),
            attempt.as_ref().map_or("0".to_owned(), |attempt| attempt.sequence_id.to_string()),
            reward.map_or(String::new(), |reward| format!("{reward:+.3}")),
            cell(Some(rollout.input.clone())),
            cell(reason),
        ]);
    }
    print_table(&table, arguments.json);
    Ok(())
}

/// `fulgurite spans`.
pub async fn spans(arguments: QueryArguments) -> Result<()> {
    let store = open(&arguments).await?;
    let mut table = table_of(&["rollout", "attempt", "seq", "name", "seconds", "what"]);
    let mut left = limit(&arguments).unwrap_or(usize::MAX);
    for (rollout, _) in select_rollouts(&store, &arguments).await? {
        let filter = SpanFilter { rollout_id: rollout.rollout_id, ..SpanFilter::default() };
        for span in store.query_spans(&filter).await?.items.into_iter().take(left) {
            left -= 1;
            if arguments.json {
                output::line(json!(span));
                continue;
            }
            let seconds = span.end_time.zip(span.start_time).map(|(end, start)| end - start);
            let attribute = |key: &str| span.attributes.get(key).cloned();
            let what = attribute("gen_ai.completion.0.content").or_else(|| attribute("agentlightning.reward.0.value"));
            table.add_row([
                span.rollout_id.clone(),
                span.attempt_id.clone(),
                span.sequence_id.to_string(),
                span.name.clone(),
                seconds.map_or(String::new(), |seconds| format!("{seconds:.3}")),
                cell(what),
            ]);
        }
        if left == 0 {
            break;
        }
    }
    print_table(&table, arguments.json);
    Ok(())
}

/// `fulgurite triplets`.
pub async fn triplets(arguments: QueryArguments) -> Result<()> {
    let store = open(&arguments).await?;
    let mut table = table_of(&["rollout", "attempt", "response", "prompt", "sampled", "logprob", "reward"]);
    let mut left = limit(&arguments).unwrap_or(usize::MAX);
    for (rollout, attempt) in select_rollouts(&store, &arguments).await? {
        let Some(attempt) = attempt else { continue };
        let filter = GenerationFilter {
            rollout_id: Some(rollout.rollout_id.clone()),
            attempt_id: Some(attempt.attempt_id.clone()),
            ..GenerationFilter::default()
        };
        let generations = store.generations(&filter).await?;
        let rewards = store.rewards(&rollout.rollout_id, &attempt.attempt_id).await?;
        for triplet in fulgurite_adapters::triplets(&generations, &rewards)?.into_iter().take(left) {
            left -= 1;
            if arguments.json {
                output::line(json!(triplet));
                continue;
            }
            let logprob = triplet.response.logprobs.as_ref().map(|logprobs| logprobs.iter().sum::<f32>());
            table.add_row([
                triplet.metadata.rollout_id.clone(),
                triplet.metadata.attempt_id.clone(),
                triplet.metadata.response_id.clone().unwrap_or_default(),
                format!("{} tokens", triplet.prompt.token_ids.len()),
                format!("{} tokens", triplet.response.token_ids.len()),
                logprob.map_or("none".to_owned(), |logprob| format!("{logprob:.3}")),
                triplet.reward.map_or(String::new(), |reward| format!("{reward:+.3}")),
            ]);
        }
        if left == 0 {
            break;
        }
    }
    print_table(&table, arguments.json);
    Ok(())
}

async fn open(arguments: &QueryArguments) -> Result<Store> {
    let url = match (&arguments.store, &arguments.run) {
        (Some(url), _) => url.clone(),
        (None, Some(run)) => format!("sqlite://{}", run.join(STORE_FILE).display()),
        (None, None) => store_url(&LoadedConfig::read(arguments.config.as_deref())?),
    };
    Store::open_read_only(&url).await.with_context(|| format!("cannot open the store {url} (--store, --run, --config)"))
}

fn limit(arguments: &QueryArguments) -> Option<usize> {
    (!arguments.all).then_some(arguments.limit)
}

async fn select_rollouts(store: &Store, arguments: &QueryArguments) -> Result<Vec<(Rollout, Option<Attempt>)>> {
    let filter = RolloutFilter {
        rollout_id_in: arguments.rollout.clone().map(|id| vec![id]),
        page: Page { limit: limit(arguments).map(|limit| limit as u64), ..Page::default() },
        ..RolloutFilter::default()
    };
    let found = store.query_rollouts(&filter).await?.items;
    if let (true, Some(id)) = (found.is_empty(), &arguments.rollout) {
        bail!("there is no rollout `{id}` in this store");
    }
    Ok(found)
}

/// Text as it is, anything else as JSON, cut to what a table can show.
fn cell(value: Option<Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => return String::new(),
        Some(Value::String(text)) => text,
        Some(other) => other.to_string(),
    };
    let line = text.replace('\n', " ");
    match line.char_indices().nth(CELL_CHARACTERS) {
        None => line,
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

fn table_of(columns: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(columns);
    table
}

fn print_table(table: &Table, json: bool) {
    if !json {
        output::line(table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_cell_is_cut_between_characters() {
        let long = "ä".repeat(CELL_CHARACTERS + 1);
        assert_eq!(cell(Some(json!(long))), format!("{}…", "ä".repeat(CELL_CHARACTERS)));
        assert_eq!(cell(Some(json!("a\nb"))), "a b");
        assert_eq!(cell(Some(json!({ "n": 1 }))), "{\"n\":1}");
    }
}
