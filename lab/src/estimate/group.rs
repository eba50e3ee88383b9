//! What the group of a dry run earned and answered.

use std::collections::BTreeMap;

use anyhow::Result;
use fulgurite_config::declarations::Config;
use fulgurite_runner::RubricOptions;
use fulgurite_store::{SpanMessage, Store};
use fulgurite_types::{AttemptRef, RolloutMode, RolloutRecord, SpanFilter, shortened_line};
use serde::Serialize;
use serde_json::Value;

use crate::records::matching_rollouts::each_record;

/// Characters of a task, an answer or a reason that a line shows.
const SHOWN: usize = 100;

/// A rollout of the group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DryRollout {
    /// Its task.
    pub task: Value,
    /// What it earned, if it was rewarded.
    pub reward: Option<f64>,
    /// The named numbers beside that.
    pub components: BTreeMap<String, f64>,
    /// Calls of the model.
    pub calls: usize,
    /// What the model said last, with the tools that it called.
    pub answer: String,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// The rollouts of a run that were to be learnt from, as the store has them.
pub async fn group_of(store: &Store, run_id: &str, config: &Config) -> Result<Vec<DryRollout>> {
    let mut records = Vec::new();
    each_record(store, Some(run_id), None, |record| records.push(record)).await?;
    let judges = config.runner.rubric.iter().flat_map(RubricOptions::judges).map(|(_, name)| name);
    let untrained = config.models.iter().filter(|model| !model.trained).map(|model| model.name.as_str());
    let others: Vec<&str> = judges.chain(untrained).collect();
    let mut group = Vec::new();
    for record in records.into_iter().filter(|record| record.rollout.mode == Some(RolloutMode::Train)) {
        group.push(dry_rollout(store, record, &others).await?);
    }
    Ok(group)
}

async fn dry_rollout(store: &Store, record: RolloutRecord, others: &[&str]) -> Result<DryRollout> {
    let RolloutRecord { rollout, attempts, rewards, .. } = record;
    let filter = SpanFilter {
        rollout_id: rollout.rollout_id.clone(),
        attempt: Some(AttemptRef::Latest),
        ..SpanFilter::default()
    };
    let spans = if attempts.is_empty() { Vec::new() } else { store.spans().query(&filter).await?.items };
    let answers: Vec<SpanMessage> = spans
        .iter()
        .filter(|span| {
            let model = span.attributes.get("gen_ai.request.model").and_then(Value::as_str);
            model.is_none_or(|model| !others.contains(&model))
        })
        .filter_map(|span| SpanMessage::of_answers(&span.attributes).into_iter().next())
        .collect();
    let whole = rewards.iter().rfind(|reward| reward.generation_id.is_none());
    let of_calls = || rewards.iter().map(|reward| reward.reward.value).reduce(|sum, value| sum + value);
    let last = attempts.last();
    let failure = match whole {
        None => last.map(|attempt| {
            attempt.reason().map_or_else(|| format!("the attempt ended as {}", attempt.status.as_str()), str::to_owned)
        }),
        Some(_) => None,
    };
    Ok(DryRollout {
        task: rollout.input,
        reward: whole.map(|reward| reward.reward.value).or_else(of_calls),
        components: whole.iter().flat_map(|reward| reward.reward.components.iter().cloned()).collect(),
        calls: answers.len(),
        answer: answers.last().map(text).unwrap_or_default(),
        failure: failure.filter(|_| rewards.is_empty()),
    })
}

/// The group as lines for people: its task and rewards, then a line for each rollout.
pub fn lines(group: &[DryRollout]) -> Vec<String> {
    let Some(first) = group.first() else { return vec!["no rollout was made".to_owned()] };
    let rewards: Vec<f64> = group.iter().filter_map(|rollout| rollout.reward).collect();
    let task = first.task.as_str().map_or_else(|| first.task.to_string(), str::to_owned);
    let earned = match rewards.as_slice() {
        [] => "none earned a reward".to_owned(),
        [only, others @ ..] if others.iter().all(|other| other == only) => {
            format!("all of {} earned {only:+.3}: such a group teaches nothing", rewards.len())
        }
        rewards => {
            let mean = rewards.iter().sum::<f64>() / rewards.len() as f64;
            let least = rewards.iter().copied().fold(f64::INFINITY, f64::min);
            let most = rewards.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            format!("{} earned {least:+.3} to {most:+.3}, {mean:+.3} in the mean", rewards.len())
        }
    };
    let mut lines = vec![format!("task {}: {earned}", shortened_line(&task, SHOWN, "…"))];
    lines.extend(group.iter().map(|rollout| {
        let DryRollout { reward, components, calls, answer, failure, .. } = rollout;
        let earned = reward.map_or_else(|| "failed".to_owned(), |reward| format!("{reward:+.3}"));
        let named: Vec<String> = components.iter().map(|(name, value)| format!("{name} {value:+.3}")).collect();
        let named = if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
        let outcome = match (failure, calls) {
            (Some(failure), _) => shortened_line(failure, SHOWN, "…"),
            (None, 0) => "it did not call the model".to_owned(),
            (None, _) => format!("{:?}", shortened_line(answer, SHOWN, "…")),
        };
        format!("  {earned}{named}  {outcome}")
    }));
    lines
}

/// What a message says, and the tools that it calls.
fn text(message: &SpanMessage) -> String {
    let calls = message.calls.iter().map(|(name, arguments)| format!("{name}({arguments})"));
    let content = Some(message.content.clone()).filter(|content| !content.is_empty());
    content.into_iter().chain(calls).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rollout(reward: Option<f64>, calls: usize, answer: &str) -> DryRollout {
        DryRollout { task: json!("3+4"), reward, calls, answer: answer.to_owned(), ..DryRollout::default() }
    }

    #[test]
    fn a_group_is_told_by_its_rewards_and_answers() {
        let mut group = vec![rollout(Some(1.0), 1, "7"), rollout(Some(0.0), 2, "it is\n8")];
        group[0].components.insert("exact".to_owned(), 1.0);
        group.push(DryRollout { failure: Some("agent exited with status 1".to_owned()), ..rollout(None, 0, "") });
        insta::assert_snapshot!(lines(&group).join("\n"), @r#"
        task 3+4: 2 earned +0.000 to +1.000, +0.500 in the mean
          +1.000 (exact +1.000)  "7"
          +0.000  "it is 8"
          failed  agent exited with status 1
        "#);
        let same = [rollout(Some(0.0), 1, "8"), rollout(Some(0.0), 0, "")];
        insta::assert_snapshot!(lines(&same).join("\n"), @r#"
        task 3+4: all of 2 earned +0.000: such a group teaches nothing
          +0.000  "8"
          +0.000  it did not call the model
        "#);
    }
}
