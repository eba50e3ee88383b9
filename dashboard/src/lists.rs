//! Rollouts, as rows.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Path, Query, State};
use fulgurite_api::conventions::error::RestError;
use fulgurite_api::conventions::serving::Reply;
use fulgurite_store::{CalledModel, Store};
use fulgurite_types::{
    Attempt, Cursor, ListFilter, Listed, Part, RecordedReward, Reward, Rollout, RolloutExpression, RolloutFacts,
    RolloutMode, RolloutStatus,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Rows of a list that asks for no number.
const ROWS: u64 = 200;
/// Rows of a list at most.
const MOST_ROWS: u64 = 1000;
/// Rollouts that are read at a time to find those that an expression means.
const READ: u64 = 500;
/// Rollouts that are looked at for an expression, newest first.
const LOOKED_AT: u64 = 10_000;
/// Other rollouts of a task that are shown.
const SAME_TASK: u64 = 100;
/// Characters of a task or a reason that a row shows.
const SHOWN: usize = 200;

/// Which rollouts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RolloutQuery {
    run_id: Option<String>,
    /// Only those of no run.
    nobody: Option<bool>,
    step: Option<i64>,
    mode: Option<RolloutMode>,
    status: Option<RolloutStatus>,
    /// Only those that an expression means.
    #[serde(rename = "where")]
    expression: Option<String>,
    /// The position that an earlier answer ended at.
    after: Option<i64>,
    /// A rollout: only those that were made before it.
    before: Option<String>,
    limit: Option<u64>,
}

/// Rows of rollouts, and where the next ones begin.
#[derive(Serialize)]
pub(super) struct RolloutRows {
    items: Vec<RolloutRow>,
    /// For `after`.
    next: i64,
    /// Rollouts that were looked at: more than there are items where an expression means some of them.
    looked_at: u64,
    /// For `before`: behind it nothing was looked at.
    oldest: Option<String>,
}

/// A rollout as a row.
#[derive(Serialize)]
pub(super) struct RolloutRow {
    rollout_id: String,
    run_id: Option<Value>,
    status: RolloutStatus,
    mode: Option<RolloutMode>,
    step: Option<Value>,
    group: Option<Value>,
    phase: Option<Value>,
    start_time: f64,
    end_time: Option<f64>,
    attempts: u32,
    /// By all models that its last attempt called.
    sampled_tokens: u64,
    reward: Option<f64>,
    /// The sum of what single calls earned, if any did.
    call_rewards: Option<f64>,
    components: Map<String, Value>,
    input: String,
    /// Why its last attempt failed.
    reason: Option<String>,
}

/// `GET /ui/data/rollouts`: the newest ones, newest last; with `after`, those made since.
pub(super) async fn rollouts(State(store): State<Store>, query: Query<RolloutQuery>) -> Reply<RolloutRows> {
    let Query(RolloutQuery { run_id, nobody, step, mode, status, expression, after, before, limit }) = query;
    let expression: Option<RolloutExpression> = expression
        .map(|text| text.parse().map_err(|error| RestError::BadRequest(format!("where: {error}"))))
        .transpose()?;
    let filter = ListFilter {
        run_id,
        of_no_run: nobody.unwrap_or(false),
        before_rollout: before,
        step,
        mode,
        rollout_status_in: status.map(|status| vec![status]),
        ..ListFilter::default()
    };
    let limit = limit.unwrap_or(ROWS).min(MOST_ROWS);
    let part = match (after, &expression) {
        (Some(position), _) => Part::After { cursor: Cursor { position, ..Cursor::default() }, limit: Some(limit) },
        (None, Some(expression)) => return matching_rollouts(&store, filter, expression, limit).await,
        (None, None) => Part::Newest { limit: Some(limit), sort_by: None },
    };
    let Listed { items, cursor } = store.queries().list_rollouts(&filter, &part).await.map_err(RestError::Store)?;
    let looked_at = items.len() as u64;
    let mut known = Known::of(&store, &items).await.map_err(RestError::Store)?;
    let oldest = items.first().map(|rollout| rollout.rollout_id.clone());
    let items = items.into_iter().filter(|rollout| expression.as_ref().is_none_or(|it| known.matches(rollout, it)));
    let items = items.collect::<Vec<_>>().into_iter().map(|rollout| known.row(rollout)).collect();
    Ok(Json(RolloutRows { items, next: cursor.position, looked_at, oldest }))
}

/// The newest ones that an expression means, found by looking at those before until there are enough.
async fn matching_rollouts(
    store: &Store,
    mut filter: ListFilter,
    expression: &RolloutExpression,
    limit: u64,
) -> Reply<RolloutRows> {
    let (mut found, mut looked_at, mut next) = (Vec::new(), 0, 0);
    while (found.len() as u64) < limit && looked_at < LOOKED_AT {
        let part = Part::Newest { limit: Some(READ), sort_by: None };
        let Listed { items, cursor } = store.queries().list_rollouts(&filter, &part).await.map_err(RestError::Store)?;
        let Some(oldest) = items.first() else { break };
        filter.before_rollout = Some(oldest.rollout_id.clone());
        next = next.max(cursor.position);
        looked_at += items.len() as u64;
        let mut known = Known::of(store, &items).await.map_err(RestError::Store)?;
        // Newest first, as long as they are looked for.
        for rollout in items.into_iter().rev() {
            if (found.len() as u64) < limit && known.matches(&rollout, expression) {
                found.push(known.row(rollout));
            }
        }
    }
    found.reverse();
    let is_full = found.len() as u64 >= limit;
    let oldest =
        if is_full { found.first().map(|row: &RolloutRow| row.rollout_id.clone()) } else { filter.before_rollout };
    Ok(Json(RolloutRows { items: found, next, looked_at, oldest }))
}

/// `GET /ui/data/rollouts/{rollout_id}/same-task`: other rollouts of its run that were given the same task, newest last.
pub(super) async fn same_task(State(store): State<Store>, Path(rollout_id): Path<String>) -> Reply<Vec<RolloutRow>> {
    let rollout_id = store.rollouts().id_of(&rollout_id).await?;
    let Some((rollout, _)) = store.rollouts().get(&rollout_id).await.map_err(RestError::Store)? else {
        return Err(RestError::NotFound(format!("Rollout not found: {rollout_id}")));
    };
    let run_id = rollout.noted("run_id").and_then(Value::as_str).map(str::to_owned);
    let of_no_run = run_id.is_none();
    let filter = ListFilter { of_no_run, run_id, same_task_as: Some(rollout_id), ..ListFilter::default() };
    let part = Part::Newest { limit: Some(SAME_TASK), sort_by: None };
    let found = store.queries().list_rollouts(&filter, &part).await.map_err(RestError::Store)?.items;
    let mut known = Known::of(&store, &found).await.map_err(RestError::Store)?;
    Ok(Json(found.into_iter().map(|rollout| known.row(rollout)).collect()))
}

/// A rollout and one of its attempts.
type AttemptName = (String, String);

/// What rows tell of rollouts beside what they are.
#[derive(Default)]
struct Known {
    /// The latest one of each rollout.
    attempts: HashMap<String, Attempt>,
    /// In the order in which they were given.
    rewards: HashMap<AttemptName, Vec<RecordedReward>>,
    models: HashMap<AttemptName, Vec<CalledModel>>,
}

impl Known {
    async fn of(store: &Store, rollouts: &[Rollout]) -> fulgurite_store::Result<Self> {
        if rollouts.is_empty() {
            return Ok(Self::default());
        }
        let ids: Vec<String> = rollouts.iter().map(|rollout| rollout.rollout_id.clone()).collect();
        let mut known = Self { attempts: store.queries().latest_attempts(rollouts).await?, ..Self::default() };
        for called in store.queries().called_models(&ids).await? {
            let name = (called.rollout_id.clone(), called.attempt_id.clone());
            known.models.entry(name).or_default().push(called);
        }
        let (of_these, every) = (
            ListFilter { rollout_id_in: Some(ids), ..ListFilter::default() },
            Part::Newest { limit: None, sort_by: None },
        );
        for found in store.queries().list_rewards(&of_these, &every).await?.items {
            let name = (found.rollout_id, found.recorded.attempt_id.clone());
            known.rewards.entry(name).or_default().push(found.recorded);
        }
        Ok(known)
    }

    fn latest(&self, rollout: &Rollout) -> AttemptName {
        let attempt = self.attempts.get(&rollout.rollout_id);
        (rollout.rollout_id.clone(), attempt.map_or_else(String::new, |attempt| attempt.attempt_id.clone()))
    }

    fn matches(&self, rollout: &Rollout, expression: &RolloutExpression) -> bool {
        let latest = self.latest(rollout);
        let models: Vec<&str> =
            self.models.get(&latest).into_iter().flatten().map(|called| called.model.as_str()).collect();
        let rewards = self.rewards.get(&latest).map_or(&[][..], Vec::as_slice);
        expression.matches(&RolloutFacts { rollout, rewards, models: &models })
    }

    fn row(&mut self, rollout: Rollout) -> RolloutRow {
        let latest = self.latest(&rollout);
        let attempt = self.attempts.remove(&rollout.rollout_id);
        let mut reward: Option<Reward> = None;
        let mut of_calls: HashMap<String, f64> = HashMap::new();
        for given in self.rewards.remove(&latest).unwrap_or_default() {
            // The last word counts, on a call as on the whole.
            match given.generation_id {
                Some(call) => drop(of_calls.insert(call, given.reward.value)),
                None => reward = Some(given.reward),
            }
        }
        let noted = |key: &str| rollout.noted(key).cloned();
        let reason = attempt.as_ref().and_then(|attempt| attempt.metadata.as_ref()?.get("reason")?.as_str());
        RolloutRow {
            status: rollout.status,
            mode: rollout.mode,
            run_id: noted("run_id"),
            step: noted("step"),
            group: noted("group"),
            phase: noted("phase"),
            start_time: rollout.start_time,
            end_time: rollout.end_time,
            attempts: attempt.as_ref().map_or(0, |attempt| attempt.sequence_id),
            sampled_tokens: self.models.get(&latest).into_iter().flatten().map(|called| called.sampled_tokens).sum(),
            reward: reward.as_ref().map(|reward| reward.value),
            call_rewards: (!of_calls.is_empty()).then(|| of_calls.values().sum()),
            components: reward.map(|reward| components(&reward)).unwrap_or_default(),
            input: excerpt(&rollout.input),
            reason: reason.map(|reason| reason.chars().take(SHOWN).collect()),
            rollout_id: rollout.rollout_id,
        }
    }
}

/// What a reward is made of, as it was given.
pub(super) fn components(reward: &Reward) -> Map<String, Value> {
    reward.components.iter().map(|(name, value)| (name.clone(), json!(value))).collect()
}

/// The beginning of a task.
fn excerpt(input: &Value) -> String {
    let text = input.as_str().map_or_else(|| input.to_string(), str::to_owned);
    text.chars().take(SHOWN).collect()
}
