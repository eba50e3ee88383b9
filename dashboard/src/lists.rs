//! Runs and rollouts, as rows.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Query, State};
use fulgurite_api::conventions::error::RestError;
use fulgurite_api::conventions::serving::Reply;
use fulgurite_store::Store;
use fulgurite_types::{Cursor, ListFilter, Listed, Part, Reward, Rollout, RolloutMode, RolloutStatus, Run};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Rows of a list that asks for no number.
const ROWS: u64 = 200;
/// Rows of a list at most.
const MOST_ROWS: u64 = 1000;
/// Characters of a task or a reason that a row shows.
const SHOWN: usize = 200;
/// The held-out reward among a step's metrics.
const HELD_OUT: &str = "test/env/all/reward/total";

/// A run as a row.
#[derive(Serialize)]
pub(super) struct RunRow {
    run_id: String,
    name: String,
    seed: u64,
    start_time: f64,
    /// When its last update was recorded.
    last_time: Option<f64>,
    /// Updates that are recorded.
    steps: u64,
    /// The most that its config allows.
    max_steps: Option<u64>,
    held_out_before: Option<f64>,
    held_out_after: Option<f64>,
    /// Its last training reward.
    reward: Option<f64>,
    sampled_tokens: u64,
    trained_tokens: u64,
    seconds: f64,
}

/// `GET /ui/data/runs`: newest first.
pub(super) async fn runs(State(store): State<Store>) -> Reply<Vec<RunRow>> {
    let mut runs = store.runs().await.map_err(RestError::Store)?;
    runs.sort_by(|one, other| other.start_time.total_cmp(&one.start_time));
    let mut rows = Vec::new();
    for run in runs.into_iter().take(ROWS as usize) {
        rows.push(row(&store, run).await?);
    }
    Ok(Json(rows))
}

async fn row(store: &Store, run: Run) -> Result<RunRow, RestError> {
    let steps = store.steps(&run.run_id).await.map_err(RestError::Store)?;
    let ledger = store.token_ledger(&run.run_id).await.map_err(RestError::Store)?;
    let number = |key: &'static str| move |step: &fulgurite_types::Step| step.metrics.get(key).and_then(Value::as_f64);
    let trained = ledger.iter().filter(|row| row.cause == fulgurite_types::TokenUse::Trained);
    Ok(RunRow {
        last_time: steps.last().map(|step| step.time),
        // What is scored at a run's end is no update.
        steps: steps.iter().filter(|step| step.metrics.get("time/training").is_some()).count() as u64,
        max_steps: run.config["trainer"]["max_steps"].as_u64(),
        held_out_before: steps.iter().find_map(number(HELD_OUT)),
        held_out_after: steps.iter().rev().find_map(number(HELD_OUT)),
        reward: steps.iter().rev().find_map(number("env/all/reward/total")),
        sampled_tokens: ledger.iter().map(|row| row.tokens).sum(),
        trained_tokens: trained.map(|row| row.tokens).sum(),
        seconds: steps.iter().filter_map(number("time/total")).sum(),
        run_id: run.run_id,
        name: run.name,
        seed: run.seed,
        start_time: run.start_time,
    })
}

/// Which rollouts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RolloutQuery {
    run_id: Option<String>,
    step: Option<i64>,
    mode: Option<RolloutMode>,
    status: Option<RolloutStatus>,
    /// The position that an earlier answer ended at.
    after: Option<i64>,
    limit: Option<u64>,
}

/// Rows of rollouts, and where the next ones begin.
#[derive(Serialize)]
pub(super) struct RolloutRows {
    items: Vec<RolloutRow>,
    /// For `after`.
    next: i64,
}

/// A rollout as a row.
#[derive(Serialize)]
struct RolloutRow {
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
    let Query(RolloutQuery { run_id, step, mode, status, after, limit }) = query;
    let filter = ListFilter {
        run_id,
        step,
        mode,
        rollout_status_in: status.map(|status| vec![status]),
        ..ListFilter::default()
    };
    let limit = Some(limit.unwrap_or(ROWS).min(MOST_ROWS));
    let part = match after {
        None => Part::Newest { limit, sort_by: None },
        Some(position) => Part::After { cursor: Cursor { position, ..Cursor::default() }, limit },
    };
    let Listed { items, cursor } = store.list_rollouts(&filter, &part).await.map_err(RestError::Store)?;
    Ok(Json(RolloutRows { items: rows(&store, items).await?, next: cursor.position }))
}

async fn rows(store: &Store, rollouts: Vec<Rollout>) -> Result<Vec<RolloutRow>, RestError> {
    if rollouts.is_empty() {
        return Ok(Vec::new());
    }
    let every = Part::Newest { limit: None, sort_by: None };
    let ids = rollouts.iter().map(|rollout| rollout.rollout_id.clone()).collect();
    let of_these = ListFilter { rollout_id_in: Some(ids), ..ListFilter::default() };
    let mut attempts = store.latest_attempts(&rollouts).await.map_err(RestError::Store)?;
    let mut rewards: HashMap<(String, String), Reward> = HashMap::new();
    let mut of_calls: HashMap<(String, String), HashMap<String, f64>> = HashMap::new();
    for found in store.list_rewards(&of_these, &every).await.map_err(RestError::Store)?.items {
        let named = (found.rollout_id, found.recorded.attempt_id);
        let reward = found.recorded.reward;
        if let Some(call) = found.recorded.generation_id {
            // The last word on a call counts.
            of_calls.entry(named).or_default().insert(call, reward.value);
        } else {
            rewards.insert(named, reward);
        }
    }
    let row = |rollout: Rollout| {
        let attempt = attempts.remove(&rollout.rollout_id);
        let named = attempt.as_ref().map(|attempt| (attempt.rollout_id.clone(), attempt.attempt_id.clone()));
        let reward = named.as_ref().and_then(|named| rewards.remove(named));
        let of_calls = named.and_then(|named| of_calls.remove(&named));
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
            reward: reward.as_ref().map(|reward| reward.value),
            call_rewards: of_calls.map(|rewards| rewards.values().sum()),
            components: reward.map(|reward| components(&reward)).unwrap_or_default(),
            input: excerpt(&rollout.input),
            reason: reason.map(|reason| reason.chars().take(SHOWN).collect()),
            rollout_id: rollout.rollout_id,
        }
    };
    Ok(rollouts.into_iter().map(row).collect())
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
