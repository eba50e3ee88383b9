//! What is known of a run: from the store, where every step, token and checkpoint of it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fulgurite_config::declarations::{LoadedConfig, PricesConfig};
use fulgurite_store::{RunTotals, Store, redact_url};
use fulgurite_trainer::{EVALUATION_KIND, ObjectiveName};
use fulgurite_types::{LedgerRow, Run, Step, TokenUse, UntrainedCause};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::records;
use crate::records::exclusive_lock::is_run_held;
use crate::records::failure;
use crate::runs::progress::{is_evaluation, is_over};

/// What is measured of held-out tasks or data, by its key among a step's metrics.
const HELD_OUT_REWARD: (HeldOutMeasure, &str) = (HeldOutMeasure::Reward, "test/env/all/reward/total");
const HELD_OUT_ACCURACY: (HeldOutMeasure, &str) = (HeldOutMeasure::Accuracy, "test/accuracy");
const HELD_OUT_NLL: (HeldOutMeasure, &str) = (HeldOutMeasure::Nll, "test/nll");
const HELD_OUT_LOSS: (HeldOutMeasure, &str) = (HeldOutMeasure::Loss, "test/loss");
const FINAL_REWARD: (HeldOutMeasure, &str) = (HeldOutMeasure::Reward, "final/env/all/reward/total");

/// Trained tokens of one step of a run that learns from data, by their weights.
const TRAINED_TOKENS: &str = "num_loss_tokens";

/// A run, and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct RunEntry {
    /// Its id in the store.
    pub run_id: String,
    /// Where its files are, if it was found there.
    pub directory: Option<PathBuf>,
    /// How it stands.
    pub state: RunState,
    /// The error that its process ended with, of a failed one.
    pub failure: Option<String>,
    /// What it learns by; `evaluation` of one that only scores.
    pub objective: String,
    /// The seed of everything random in it.
    pub seed: u64,
    /// When it was begun, in seconds since 1970.
    pub start_time: f64,
    /// Updates made.
    pub updates: u64,
    /// What the next three measure.
    pub measure: Option<HeldOutMeasure>,
    /// The first score of what is held out.
    pub first: Option<HeldOut>,
    /// The best.
    pub best: Option<HeldOut>,
    /// The last.
    pub last: Option<HeldOut>,
    /// Checkpoints that are recorded.
    pub checkpoints: usize,
    /// Seconds that its steps took.
    pub wall_seconds: f64,
    /// Rollouts, by status.
    pub rollouts: BTreeMap<String, u64>,
    /// What it took.
    pub tokens: Tokens,
    /// What that cost, if there are prices.
    pub cost: Option<Cost>,
}

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It is over.
    Ended,
    /// A process is at it.
    Running,
    /// It is not over, and its process ended with an error.
    Failed,
    /// It is not over, and nobody is at it.
    Stopped,
    /// It is not over; whether somebody is at it, its store does not say.
    Open,
}

impl RunState {
    /// As tables have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Running => "running",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Open => "open",
        }
    }
}

/// What a score of what is held out measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldOutMeasure {
    /// Mean reward of tasks.
    Reward,
    /// Share of right tokens, or of comparisons whose chosen answer is preferred.
    Accuracy,
    /// Mean negative logprob of a token, of which less is better.
    Nll,
    /// Mean loss of comparisons, of which less is better.
    Loss,
}

impl HeldOutMeasure {
    /// As tables have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reward => "reward",
            Self::Accuracy => "accuracy",
            Self::Nll => "nll",
            Self::Loss => "loss",
        }
    }
}

/// A score of what is held out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HeldOut {
    /// Updates before it.
    pub step: u64,
    /// The mean of what is measured.
    pub value: f64,
}

/// Tokens of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tokens {
    /// Sampled in all.
    pub sampled: u64,
    /// Of prompts, what was new in them.
    pub prefilled: u64,
    /// Of prompts, each whole, as a host reads them that keeps nothing.
    pub prompts: u64,
    /// Of those sampled, trained; of a run that learns from data, those of the data, as often as they were.
    pub trained: u64,
    /// Of those sampled, for scores.
    pub evaluation: u64,
    /// Of those sampled, neither.
    pub thrown_away: u64,
    /// Those sampled, by what became of them.
    pub by_cause: BTreeMap<String, u64>,
}

/// What tokens cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// In what.
    pub currency: String,
    /// In all.
    pub total: f64,
    /// For each rollout.
    pub per_rollout: Option<f64>,
    /// For each point of reward between the first score and the best.
    pub per_reward_point: Option<f64>,
}

impl RunEntry {
    /// Puts together what the store says of a run.
    pub fn of(
        run: &Run,
        steps: &[Step],
        checkpoints: usize,
        ledger: &[LedgerRow],
        totals: RunTotals,
        prices: Option<&PricesConfig>,
    ) -> Self {
        let is_evaluation = is_evaluation(run);
        let objective = run.config["trainer"]["objective"].as_str().unwrap_or("grpo");
        let HeldOutScores { scores, measure } = held_out(steps.iter().map(|step| &step.metrics));
        let best = best(&scores, measure);
        let mut tokens = tokens(ledger, &totals);
        if learns_from_data(run) && tokens.trained == 0 {
            tokens.trained = tokens_of_data(steps);
        }
        let gained = match (scores.first(), best) {
            (Some(first), Some(best)) if measure == Some(HeldOutMeasure::Reward) => Some(best.value - first.value),
            _ => None,
        };
        let rollouts: u64 = totals.rollouts.values().sum();
        let cost = prices.map(|prices| prices_of(prices, &tokens, rollouts, gained));
        Self {
            run_id: run.run_id.clone(),
            directory: None,
            failure: None,
            measure,
            state: if is_over(run, steps) { RunState::Ended } else { RunState::Open },
            objective: if is_evaluation { EVALUATION_KIND.to_owned() } else { objective.to_owned() },
            seed: run.seed,
            start_time: run.start_time,
            updates: if is_evaluation { 0 } else { steps.last().map_or(0, |last| last.weights_version) },
            first: scores.first().copied(),
            best,
            last: scores.last().copied(),
            checkpoints,
            wall_seconds: steps
                .iter()
                .filter_map(|step| step.metrics["time/total"].as_f64())
                .fold(0.0, |sum, x| sum + x),
            rollouts: totals.rollouts,
            tokens,
            cost,
        }
    }
}

/// The scores of what is held out of a run.
pub struct HeldOutScores {
    /// Oldest first.
    pub scores: Vec<HeldOut>,
    /// What they measure, if there are any.
    pub measure: Option<HeldOutMeasure>,
}

impl HeldOutScores {
    /// The best; of equal ones the first.
    pub fn best(&self) -> Option<HeldOut> {
        best(&self.scores, self.measure)
    }
}

fn best(scores: &[HeldOut], measure: Option<HeldOutMeasure>) -> Option<HeldOut> {
    let less_is_better = matches!(measure, Some(HeldOutMeasure::Nll | HeldOutMeasure::Loss));
    let better = |one: &&HeldOut, other: &&HeldOut| {
        let order = one.value.total_cmp(&other.value);
        (if less_is_better { order.reverse() } else { order }).then(other.step.cmp(&one.step))
    };
    scores.iter().max_by(better).copied()
}

/// The scores that tell people how good a run is: rewards, or the accuracy on data.
pub fn held_out<'m>(metrics: impl Iterator<Item = &'m Value> + Clone) -> HeldOutScores {
    first_measured(&[HELD_OUT_REWARD, HELD_OUT_ACCURACY, HELD_OUT_NLL, FINAL_REWARD], metrics)
}

/// The scores that checkpoints are ranked by, which is what the trainer keeps the best one by: rewards, or what data cost.
pub fn ranked<'m>(metrics: impl Iterator<Item = &'m Value> + Clone) -> HeldOutScores {
    first_measured(&[HELD_OUT_REWARD, HELD_OUT_LOSS, HELD_OUT_NLL, HELD_OUT_ACCURACY, FINAL_REWARD], metrics)
}

/// The scores of the first measure that any step has.
fn first_measured<'m>(
    measures: &[(HeldOutMeasure, &str)],
    metrics: impl Iterator<Item = &'m Value> + Clone,
) -> HeldOutScores {
    for &(measure, key) in measures {
        // Of the two zeros, the one without a sign.
        let score =
            |metrics: &Value| Some(HeldOut { step: metrics["step"].as_u64()?, value: metrics[key].as_f64()? + 0.0 });
        let scores: Vec<HeldOut> = metrics.clone().filter_map(score).collect();
        if !scores.is_empty() {
            return HeldOutScores { scores, measure: Some(measure) };
        }
    }
    HeldOutScores { scores: Vec::new(), measure: None }
}

fn learns_from_data(run: &Run) -> bool {
    let objective = ObjectiveName::deserialize(&run.config["trainer"]["objective"]);
    objective.is_ok_and(ObjectiveName::learns_from_data)
}

/// Trained tokens of runs for which nothing is sampled, so that no account of sampled tokens has them.
fn tokens_of_data(steps: &[Step]) -> u64 {
    let tokens = steps.iter().filter_map(|step| step.metrics[TRAINED_TOKENS].as_f64());
    tokens.fold(0.0, |sum, tokens| sum + tokens).round() as u64
}

fn tokens(ledger: &[LedgerRow], totals: &RunTotals) -> Tokens {
    let mut tokens = Tokens { prefilled: totals.new_prompt_tokens, prompts: totals.prompt_tokens, ..Tokens::default() };
    for row in ledger.iter().filter(|row| row.cause != TokenUse::Unaccounted) {
        tokens.sampled += row.tokens;
        match row.cause {
            TokenUse::Trained => tokens.trained += row.tokens,
            TokenUse::Untrained(UntrainedCause::Evaluation) => tokens.evaluation += row.tokens,
            _ => tokens.thrown_away += row.tokens,
        }
        tokens.by_cause.insert(row.cause.to_string(), row.tokens);
    }
    tokens
}

/// What tokens cost.
pub fn prices_of(prices: &PricesConfig, tokens: &Tokens, rollouts: u64, gained: Option<f64>) -> Cost {
    let of = |tokens: u64, price: f64| tokens as f64 / 1e6 * price;
    let sampling = of(tokens.sampled, prices.sampled) + of(tokens.prefilled, prices.prefilled);
    let total = sampling + of(tokens.trained, prices.trained);
    Cost {
        currency: prices.currency.clone(),
        total,
        per_rollout: (rollouts > 0).then(|| total / rollouts as f64),
        per_reward_point: gained.filter(|gained| *gained > 0.0).map(|gained| total / gained),
    }
}

/// All runs of a store.
pub async fn of_store(store: &Store, prices: Option<&PricesConfig>) -> Result<Vec<RunEntry>> {
    let mut entries = Vec::new();
    for run in store.runs().all().await? {
        entries.push(entry(store, &run, prices).await?);
    }
    Ok(entries)
}

async fn entry(store: &Store, run: &Run, prices: Option<&PricesConfig>) -> Result<RunEntry> {
    let run_id = run.run_id.as_str();
    // Prices of another release are not this one's.
    let own: Option<PricesConfig> = serde_json::from_value(run.config["prices"].clone()).unwrap_or_default();
    let (steps, checkpoints) = (store.runs().steps(run_id).await?, store.runs().checkpoints(run_id).await?.len());
    let (ledger, totals) = (store.runs().token_ledger(run_id).await?, store.runs().totals(run_id).await?);
    Ok(RunEntry::of(run, &steps, checkpoints, &ledger, totals, prices.or(own.as_ref())))
}

/// The prices that a file of configuration has.
pub fn prices_in(file: &Path) -> Result<PricesConfig> {
    LoadedConfig::read(Some(file))?.config.prices.with_context(|| format!("{} has no [prices]", file.display()))
}

/// The run whose files are in a directory.
pub async fn of_directory(directory: &Path, prices: Option<&PricesConfig>) -> Result<RunEntry> {
    let (store, run) = open(directory).await?;
    let mut entry = entry(&store, &run, prices).await?;
    entry.directory = Some(directory.to_owned());
    if entry.state == RunState::Open {
        entry.state = state_of_open(directory);
    }
    if entry.state == RunState::Failed {
        entry.failure = failure::of_run(directory);
    }
    Ok(entry)
}

/// How the run in a directory stands, by the steps that are recorded of it.
pub fn state(directory: &Path, run: &Run, steps: &[Step]) -> RunState {
    if is_over(run, steps) { RunState::Ended } else { state_of_open(directory) }
}

fn state_of_open(directory: &Path) -> RunState {
    match failure::of_run(directory) {
        _ if is_run_held(directory) => RunState::Running,
        Some(_) => RunState::Failed,
        None => RunState::Stopped,
    }
}

/// The store of a run, and the run in it.
pub async fn open(directory: &Path) -> Result<(Store, Run)> {
    let run_id = records::run_file(directory)?["run_id"].as_str().unwrap_or_default().to_owned();
    let url = records::store_of_run(directory)?;
    let store = Store::open_read_only(&url).await;
    let store = store.with_context(|| format!("cannot open the store {}", redact_url(&url)))?;
    let run = store.runs().get(&run_id).await?.with_context(|| format!("{} has no run {run_id}", redact_url(&url)))?;
    Ok((store, run))
}

/// The runs below a directory, the earliest first. One that cannot be read hides no other: it goes to `unreadable`.
pub async fn of_directories_below(
    parent: &Path,
    prices: Option<&PricesConfig>,
    mut unreadable: impl FnMut(&Path, &anyhow::Error),
) -> Result<Vec<RunEntry>> {
    let mut entries = Vec::new();
    for directory in directories(parent)? {
        match of_directory(&directory, prices).await {
            Ok(entry) => entries.push(entry),
            Err(error) => unreadable(&directory, &error),
        }
    }
    entries.sort_by(|one, other| one.start_time.total_cmp(&other.start_time));
    Ok(entries)
}

/// The directories of runs below one, by name.
pub fn directories(parent: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(parent).with_context(|| format!("cannot read {}", parent.display()))?;
    let mut directories: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    directories.retain(|directory| records::is_run(directory));
    directories.sort();
    Ok(directories)
}

/// The directory of a run that is named by its path, or by its name below `runs/`.
pub fn directory(run: &Path) -> Result<PathBuf> {
    let below = Path::new("runs").join(run);
    match [run.to_owned(), below].into_iter().find(|path| records::is_run(path)) {
        Some(directory) => Ok(directory),
        None => bail!("{} is the directory of no run, and there is none of that name in runs/", run.display()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::runs::testing::{run, step};

    fn row(cause: TokenUse, tokens: u64) -> LedgerRow {
        LedgerRow { cause, generations: 1, tokens }
    }

    #[test]
    fn a_run_is_summed_up_from_its_steps_and_its_ledger() {
        let reward = "test/env/all/reward/total";
        let steps = [
            step(1, 1, json!({ "step": 0, reward: -0.5, "time/total": 2.0 })),
            step(2, 2, json!({ "step": 1, "time/total": 1.5 })),
            step(3, 3, json!({ "step": 2, reward: 1.0 })),
            step(4, 3, json!({ "step": 3, reward: 0.75, "time/total": 0.5 })),
        ];
        let ledger = [
            row(TokenUse::Trained, 600_000),
            row(TokenUse::Untrained(UntrainedCause::Evaluation), 300_000),
            row(TokenUse::Untrained(UntrainedCause::ConstantGroup), 100_000),
            row(TokenUse::Unaccounted, 999),
        ];
        let totals = RunTotals {
            rollouts: BTreeMap::from([("succeeded".to_owned(), 9), ("failed".to_owned(), 1)]),
            calls: 10,
            has_calls: true,
            prompt_tokens: 4_000_000,
            new_prompt_tokens: 2_000_000,
        };
        let prices = PricesConfig { currency: "EUR".into(), sampled: 3.0, prefilled: 1.0, trained: 5.0 };
        let run = run(json!({ "trainer": { "objective": "grpo" } }));
        let entry = RunEntry::of(&run, &steps, 2, &ledger, totals, Some(&prices));
        assert_eq!((entry.state, entry.updates, entry.objective.as_str()), (RunState::Ended, 3, "grpo"));
        assert_eq!(entry.best, Some(HeldOut { step: 2, value: 1.0 }));
        assert_eq!((entry.first.unwrap().value, entry.last.unwrap().value), (-0.5, 0.75));
        assert_eq!(entry.wall_seconds, 4.0);
        let Tokens { sampled, trained, evaluation, thrown_away, .. } = entry.tokens;
        assert_eq!((sampled, trained, evaluation, thrown_away), (1_000_000, 600_000, 300_000, 100_000));
        let cost = entry.cost.unwrap();
        assert_eq!((cost.total, cost.per_rollout, cost.per_reward_point), (8.0, Some(0.8), Some(8.0 / 1.5)));
    }

    #[test]
    fn of_text_less_is_better_and_what_did_not_end_is_open() {
        let steps =
            [step(1, 1, json!({ "step": 0, "test/nll": 2.0 })), step(2, 2, json!({ "step": 10, "test/nll": 2.5 }))];
        let entry = RunEntry::of(
            &run(json!({ "trainer": { "objective": "sft" } })),
            &steps,
            0,
            &[],
            RunTotals::default(),
            None,
        );
        assert_eq!(entry.best, Some(HeldOut { step: 0, value: 2.0 }));
        assert_eq!(entry.measure, Some(HeldOutMeasure::Nll));
        assert_eq!((entry.state, entry.cost), (RunState::Open, None));
    }

    #[test]
    fn a_run_on_data_has_its_trained_tokens_and_its_accuracy_and_no_zero_has_a_sign() {
        let of = |objective: &str, steps: &[Step]| {
            let run = run(json!({ "trainer": { "objective": objective } }));
            RunEntry::of(&run, steps, 0, &[], RunTotals::default(), None)
        };
        let steps = [
            step(1, 1, json!({ "step": 0, "test/nll": 2.0, "test/accuracy": 0.25, "num_loss_tokens": 40.0 })),
            step(2, 2, json!({ "step": 1, "test/nll": 2.5, "test/accuracy": 0.5, "num_loss_tokens": 30.0 })),
        ];
        for objective in ["sft", "dpo", "ipo", "orpo", "simpo", "kto", "off_policy_distillation"] {
            let entry = of(objective, &steps);
            assert_eq!((entry.measure, entry.tokens.trained), (Some(HeldOutMeasure::Accuracy), 70), "{objective}");
            assert_eq!(entry.best, Some(HeldOut { step: 1, value: 0.5 }));
        }
        assert_eq!(of("grpo", &steps).tokens.trained, 0, "of sampled tokens the account is the ledger's");
        let ranked = ranked(steps.iter().map(|step| &step.metrics));
        assert_eq!(ranked.best(), Some(HeldOut { step: 0, value: 2.0 }), "as the trainer keeps checkpoints");

        let entry = of("sft", &[]);
        assert_eq!(json!(entry.wall_seconds).to_string(), "0.0");
        let entry = of("grpo", &[step(1, 1, json!({ "step": 0, "test/env/all/reward/total": -0.0 }))]);
        assert_eq!(json!(entry.first.unwrap().value).to_string(), "0.0");
    }

    #[test]
    fn an_evaluation_makes_no_update() {
        let steps = [step(1, 40, json!({ "step": 40, "final/env/all/reward/total": 0.5 }))];
        let entry = RunEntry::of(&run(json!({ "kind": "evaluation" })), &steps, 0, &[], RunTotals::default(), None);
        assert_eq!((entry.state, entry.updates, entry.objective.as_str()), (RunState::Ended, 0, "evaluation"));
        assert_eq!(entry.last, Some(HeldOut { step: 40, value: 0.5 }));
    }
}
