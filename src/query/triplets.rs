//! `fulgurite triplets`.

use anyhow::Result;
use fulgurite_adapters::Triplet;
use fulgurite_store::model::{GenerationFilter, Part};
use serde_json::json;

use super::arguments::TripletsArguments;
use super::generations::logprob;
use super::table::Columns;
use super::{open, require_rollout};
use crate::output;

/// Lists the triplets of rollouts' latest attempts.
pub async fn triplets(arguments: TripletsArguments) -> Result<()> {
    let store = open(&arguments.store).await?;
    if let Some(id) = arguments.selection.rollout_id() {
        require_rollout(&store, id).await?;
    }
    let part = Part::Newest { limit: (!arguments.all).then_some(arguments.limit), sort_by: None };
    let mut table = Columns::new(&["rollout", "attempt", "response", "prompt", "sampled", "logprob", "reward"]);
    for rollout in store.list_rollouts(&arguments.selection.filter(), &part).await?.items {
        let Some(attempt) = store.get_attempt(&rollout.rollout_id, "latest").await? else { continue };
        let filter = GenerationFilter {
            rollout_id: Some(rollout.rollout_id.clone()),
            attempt_id: Some(attempt.attempt_id.clone()),
            ..GenerationFilter::default()
        };
        let generations = store.generations(&filter).await?;
        let rewards = store.rewards(&rollout.rollout_id, &attempt.attempt_id).await?;
        for triplet in fulgurite_adapters::triplets(&generations, &rewards)? {
            if arguments.json {
                output::line(json!(triplet));
            } else {
                table.push(row(&triplet));
            }
        }
    }
    if !arguments.json {
        table.print();
    }
    Ok(())
}

fn row(triplet: &Triplet) -> Vec<String> {
    vec![
        triplet.metadata.rollout_id.clone(),
        triplet.metadata.attempt_id.clone(),
        triplet.metadata.response_id.clone().unwrap_or_default(),
        format!("{} tokens", triplet.prompt.token_ids.len()),
        format!("{} tokens", triplet.response.token_ids.len()),
        logprob(triplet.response.logprobs.as_deref()),
        triplet.reward.map_or(String::new(), |reward| format!("{reward:+.3}")),
    ]
}
