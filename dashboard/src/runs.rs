//! Runs, as rows.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Query, State};
use fulgurite_api::conventions::error::RestError;
use fulgurite_api::conventions::serving::Reply;
use fulgurite_store::Store;
use fulgurite_types::{Run, Step};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Rows at most, the newest.
const ROWS: usize = 200;
/// The held-out reward among a step's metrics.
const HELD_OUT: &str = "test/env/all/reward/total";
/// What is told of a run's settings, by where it stands in its config.
const SETTINGS: [&str; 4] = ["trainer", "models", "proxy", "runner"];

/// A run as a row. Tokens and cost are those of its updates, as their metrics have them; the run's own page has the account of all.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RunRow {
    run_id: String,
    name: String,
    /// What it learns by.
    objective: String,
    seed: u64,
    start_time: f64,
    /// When its last step was recorded.
    last_time: Option<f64>,
    /// Whether nothing more comes of it.
    ended: bool,
    /// Updates that are recorded.
    steps: u64,
    /// The most that its config allows.
    max_steps: Option<u64>,
    held_out_before: Option<f64>,
    held_out_after: Option<f64>,
    /// The last share of right tokens or comparisons among held-out data.
    held_out_accuracy: Option<f64>,
    /// The last loss of a token of held-out data.
    held_out_loss: Option<f64>,
    /// Its last training reward.
    reward: Option<f64>,
    sampled_tokens: u64,
    trained_tokens: u64,
    seconds: f64,
    cost: Option<Cost>,
    /// Every number, word and switch of its config, by dotted key.
    settings: BTreeMap<String, Value>,
}

/// What the updates of a run cost, by the prices of its config.
#[derive(Clone, Debug, Serialize)]
struct Cost {
    currency: String,
    total: f64,
}

/// Which runs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunQuery {
    run_id: Option<String>,
}

/// `GET /ui/data/runs`: newest first.
pub(super) async fn runs(State(store): State<Store>, Query(query): Query<RunQuery>) -> Reply<Vec<RunRow>> {
    let mut runs = match &query.run_id {
        Some(run_id) => store.runs().get(run_id).await.map(|run| run.into_iter().collect()),
        None => store.runs().all().await,
    }
    .map_err(RestError::Store)?;
    runs.sort_by(|one, other| other.start_time.total_cmp(&one.start_time));
    let mut rows = Vec::new();
    for run in runs.into_iter().take(ROWS) {
        let steps = store.runs().steps(&run.run_id).await.map_err(RestError::Store)?;
        rows.push(row(run, &steps));
    }
    Ok(Json(rows))
}

/// What is told of a run, by all of its steps.
pub(super) fn row(run: Run, steps: &[Step]) -> RunRow {
    let number = |key: &'static str| move |step: &Step| step.metrics.get(key).and_then(Value::as_f64);
    let sum = |key: &'static str| steps.iter().filter_map(number(key)).sum::<f64>();
    let tokens = |key: &'static str| sum(key) as u64;
    let (sampled_tokens, trained_tokens) = (tokens("env/all/total_ac_tokens"), tokens("optim/trained_tokens"));
    let is_evaluation = run.config["kind"] == "evaluation";
    RunRow {
        last_time: steps.last().map(|step| step.time),
        ended: steps.last().is_some_and(|last| is_evaluation || last.weights_version < last.step),
        // What is scored at a run's end is no update.
        steps: steps.iter().filter(|step| step.metrics.get("time/training").is_some()).count() as u64,
        max_steps: run.config["trainer"]["max_steps"].as_u64(),
        objective: run.config["trainer"]["objective"].as_str().unwrap_or("grpo").to_owned(),
        held_out_before: steps.iter().find_map(number(HELD_OUT)),
        held_out_after: steps.iter().rev().find_map(number(HELD_OUT)),
        held_out_accuracy: steps.iter().rev().find_map(number("test/accuracy")),
        held_out_loss: steps.iter().rev().find_map(number("test/nll")),
        reward: steps.iter().rev().find_map(number("env/all/reward/total")),
        cost: cost(&run.config["prices"], sampled_tokens, sum("env/all/total_ob_tokens"), trained_tokens),
        sampled_tokens,
        trained_tokens,
        seconds: sum("time/total"),
        settings: settings(&run.config),
        run_id: run.run_id,
        name: run.name,
        seed: run.seed,
        start_time: run.start_time,
    }
}

fn cost(prices: &Value, sampled: u64, prompt: f64, trained: u64) -> Option<Cost> {
    let price = |key: &str| prices[key].as_f64();
    let by_million =
        sampled as f64 * price("sampled")? + prompt * price("prefilled")? + trained as f64 * price("trained")?;
    Some(Cost { currency: prices["currency"].as_str().unwrap_or_default().to_owned(), total: by_million / 1e6 })
}

/// The scalars of a config that say how a run learns.
fn settings(config: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for table in SETTINGS {
        gather(table, &config[table], &mut found);
    }
    found
}

fn gather(key: &str, value: &Value, found: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(table) => table.iter().for_each(|(name, value)| gather(&format!("{key}.{name}"), value, found)),
        // Of several models the first is the one that is trained, most often.
        Value::Array(rows) if key == "models" => rows.iter().take(1).for_each(|row| gather(key, row, found)),
        Value::Number(_) | Value::String(_) | Value::Bool(_) => drop(found.insert(key.to_owned(), value.clone())),
        Value::Array(_) | Value::Null => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_sums_up_the_metrics_of_all_steps() {
        let config = json!({
            "trainer": { "learning_rate": 1e-3, "max_steps": 9, "kl": { "coefficient": 0.1 }, "stop": null },
            "models": [{ "name": "m", "lora_rank": 8 }, { "name": "judge" }],
            "prices": { "currency": "EUR", "sampled": 2.0, "prefilled": 1.0, "trained": 3.0 },
        });
        let run = Run { run_id: "r".into(), name: "n".into(), config, seed: 3, start_time: 1.0, allowed_steps: None };
        let step = |number: u64, version: u64, metrics: Value| Step {
            run_id: "r".into(),
            step: number,
            time: number as f64,
            metrics,
            weights_version: version,
        };
        let steps = [
            step(
                1,
                1,
                json!({ HELD_OUT: 0.1, "env/all/total_ac_tokens": 500_000, "env/all/total_ob_tokens": 1_000_000, "time/training": 1, "time/total": 2.0 }),
            ),
            step(
                2,
                2,
                json!({ "env/all/total_ac_tokens": 500_000, "optim/trained_tokens": 1_000_000, "time/training": 1, "time/total": 1.0 }),
            ),
            step(3, 2, json!({ HELD_OUT: 0.9, "test/accuracy": 0.75, "test/nll": 0.5 })),
        ];
        let row = row(run, &steps);
        assert_eq!((row.steps, row.max_steps, row.ended, row.last_time), (2, Some(9), true, Some(3.0)));
        assert_eq!((row.held_out_before, row.held_out_after, row.seconds), (Some(0.1), Some(0.9), 3.0));
        assert_eq!((row.held_out_accuracy, row.held_out_loss), (Some(0.75), Some(0.5)));
        assert_eq!((row.sampled_tokens, row.trained_tokens), (1_000_000, 1_000_000));
        assert_eq!(row.cost.map(|cost| (cost.currency, cost.total)), Some(("EUR".to_owned(), 6.0)));
        let keys: Vec<&str> = row.settings.keys().map(String::as_str).collect();
        let known =
            ["models.lora_rank", "models.name", "trainer.kl.coefficient", "trainer.learning_rate", "trainer.max_steps"];
        assert_eq!(keys, known);
    }
}
