//! What the store has of a run, for its findings.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use fulgurite_store::{Store, recorded_reward};
use fulgurite_types::{Attempt, AttemptRef, ListFilter, Part, RolloutMode, RolloutStatus, Run, Span, SpanFilter};
use serde_json::Value;

use fulgurite_proxy::UNSEEN_TOOLS;

use super::findings::{Answer, RunFacts};
use super::servers::ServerFacts;
use crate::runs::progress::progress;

/// The latest training rollouts that are read.
const ROLLOUTS: u64 = 64;

/// Attribute of the text of a model call's answer.
const ANSWER: &str = "gen_ai.completion.0.content";

/// All that findings are made of.
pub(crate) async fn facts(store: &Store, run: &Run) -> Result<RunFacts> {
    let run_id = run.run_id.as_str();
    let steps = store.runs().steps(run_id).await?;
    let totals = store.runs().totals(run_id).await?;
    let filter = ListFilter {
        run_id: Some(run_id.to_owned()),
        mode: Some(RolloutMode::Train),
        rollout_status_in: Some(vec![RolloutStatus::Succeeded]),
        ..ListFilter::default()
    };
    let part = Part::Newest { limit: Some(ROLLOUTS), sort_by: None };
    let (mut answers, mut calls_with_unseen_tools) = (Vec::new(), 0);
    let mut worlds: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for rollout in store.queries().list_rollouts(&filter, &part).await?.items {
        let filter = SpanFilter {
            rollout_id: rollout.rollout_id.clone(),
            attempt: Some(AttemptRef::Latest),
            ..SpanFilter::default()
        };
        let spans = store.spans().query(&filter).await?.items;
        let unseen = spans.iter().filter(|span| span.attributes.contains_key(UNSEEN_TOOLS));
        calls_with_unseen_tools += unseen.count() as u64;
        if let Some(group) = rollout.group() {
            let attempt = store.attempts().of_rollout(&rollout.rollout_id).await?.pop();
            let digest = attempt.as_ref().and_then(Attempt::world_digest).map(str::to_owned);
            worlds.entry(group).or_default().extend(digest);
        }
        answers.extend(answer(rollout.input, &spans));
    }
    Ok(RunFacts {
        progress: progress(run, &steps),
        steps: steps.into_iter().filter_map(|step| step.metrics.as_object().cloned()).collect(),
        rollouts: totals.rollouts,
        has_calls: totals.has_calls,
        calls_with_unseen_tools,
        groups_with_worlds: worlds.values().filter(|states| !states.is_empty()).count() as u64,
        groups_of_different_worlds: worlds.values().filter(|states| states.len() > 1).count() as u64,
        answers,
        servers: servers(store, run).await?,
    })
}

/// What the servers of a store sample the models of a run from.
pub(crate) async fn servers(store: &Store, run: &Run) -> Result<ServerFacts> {
    let models = run.config["models"].as_array().into_iter().flatten();
    let models: BTreeSet<&str> = models.filter_map(|model| model["name"].as_str()).collect();
    let mut published = store.weights().publications().await?;
    published.retain(|published| models.contains(published.weights.model.as_str()));
    let mut served = store.weights().served(0.0).await?;
    served.retain(|served| models.contains(served.model.as_str()));
    Ok(ServerFacts { published, served })
}

/// What the spans of an attempt say that it answered last, and what it earned.
fn answer(task: Value, spans: &[Span]) -> Option<Answer> {
    let answer = spans.iter().rev().find_map(|span| span.attributes.get(ANSWER)?.as_str())?;
    let rewards = spans.iter().rev().filter_map(recorded_reward);
    let reward = rewards.into_iter().find(|reward| reward.generation_id.is_none())?.reward;
    let components = reward.components.into_iter().collect();
    Some(Answer { task, answer: answer.to_owned(), reward: reward.value, components })
}
