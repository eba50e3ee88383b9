//! What became of a sweep: every run, every arm over its seeds, as a table, as JSON and as a CSV file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::plan::{SweepPlan, SweepRun};
use super::scores::{self, Score};
use crate::csv;
use crate::records;
use crate::runs::registry::{self, RunState};

/// Name of the file in a sweep's directory that has a row for each of its runs.
pub const TABLE_FILE: &str = "sweep.csv";

/// How a run or an arm of a sweep stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is over.
    Ended,
    /// It was worse than others, and was stopped.
    StoppedEarly,
    /// It is not over.
    Open,
    /// It failed.
    Failed,
}

impl State {
    /// As tables have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::StoppedEarly => "stopped early",
            Self::Open => "open",
            Self::Failed => "failed",
        }
    }
}

/// What became of one run.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    /// Its id, which its directory is named after.
    pub run: String,
    /// Its directory.
    pub directory: PathBuf,
    /// Its seed.
    pub seed: u64,
    /// How it stands.
    pub state: State,
    /// The last score of what is held out.
    pub held_out: Option<Score>,
    /// The mean of its last quarter of updates.
    pub reward: Option<Score>,
    /// Updates made.
    pub updates: u64,
    /// Minutes that its steps took.
    pub minutes: f64,
    /// Tokens sampled.
    pub tokens: u64,
    /// Why it failed.
    pub error: Option<String>,
}

/// The mean over an arm's seeds, and from where to where they go.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub greatest: f64,
    /// The mean's merit: greater is better.
    #[serde(skip)]
    pub merit: f64,
}

/// What became of one arm.
#[derive(Clone, Debug, Serialize)]
pub struct ArmResult {
    /// Its name.
    pub arm: String,
    /// Its keys and their values.
    pub keys: Map<String, Value>,
    /// The worst state of its runs.
    pub state: State,
    /// The held-out score over its seeds.
    pub held_out: Option<Spread>,
    /// The training reward over its seeds.
    pub reward: Option<Spread>,
    /// Minutes of all its runs.
    pub minutes: f64,
    /// Tokens that all its runs sampled.
    pub tokens: u64,
    /// The first of its runs' errors.
    pub error: Option<String>,
    /// Its runs.
    pub runs: Vec<RunResult>,
}

impl Spread {
    fn of(scores: impl Iterator<Item = Option<Score>>) -> Option<Self> {
        let scores: Vec<Score> = scores.flatten().collect();
        let values = || scores.iter().map(|score| score.value);
        let mean = values().sum::<f64>() / scores.len() as f64;
        let more_is_better = scores.first()?.more_is_better;
        Some(Self {
            mean,
            least: values().fold(f64::INFINITY, f64::min),
            greatest: values().fold(f64::NEG_INFINITY, f64::max),
            merit: Score { value: mean, more_is_better }.merit(),
        })
    }

    /// For people: the mean, and from where to where it goes; `-` if there is none.
    pub fn text(spread: Option<Self>) -> String {
        match spread {
            None => "-".to_owned(),
            Some(Self { mean, least, greatest, .. }) if least == greatest => format!("{mean:+.3}"),
            Some(Self { mean, least, greatest, .. }) => format!("{mean:+.3} ({least:+.3} to {greatest:+.3})"),
        }
    }
}

/// What became of a sweep's arms, the best first: by the held-out score, then by the training reward; those without either
/// last.
pub async fn results(
    plan: &SweepPlan,
    directory: &Path,
    failures: &BTreeMap<String, String>,
    stopped: &[usize],
) -> Result<Vec<ArmResult>> {
    let mut arms: Vec<ArmResult> = Vec::with_capacity(plan.arms.len());
    let mut runs = plan.runs().into_iter().peekable();
    for (index, arm) in plan.arms.iter().enumerate() {
        let mut own = Vec::with_capacity(plan.seeds.len());
        while let Some(run) = runs.next_if(|run| run.arm == index) {
            own.push(of_run(&run, directory, failures.get(&run.name), stopped.contains(&index)).await?);
        }
        arms.push(ArmResult {
            arm: arm.name.clone(),
            keys: arm.overrides.iter().map(|(key, value)| (key.to_string(), json!(value))).collect(),
            state: own.iter().map(|run| run.state).max().unwrap_or(State::Open),
            held_out: Spread::of(own.iter().map(|run| run.held_out)),
            reward: Spread::of(own.iter().map(|run| run.reward)),
            minutes: own.iter().map(|run| run.minutes).sum(),
            tokens: own.iter().map(|run| run.tokens).sum(),
            error: own.iter().find_map(|run| run.error.clone()),
            runs: own,
        });
    }
    let merit = |spread: Option<Spread>| spread.map_or(f64::NEG_INFINITY, |spread| spread.merit);
    arms.sort_by(|one, other| {
        let held_out = merit(other.held_out).total_cmp(&merit(one.held_out));
        held_out.then(merit(other.reward).total_cmp(&merit(one.reward)))
    });
    Ok(arms)
}

async fn of_run(run: &SweepRun, sweep: &Path, failure: Option<&String>, is_stopped: bool) -> Result<RunResult> {
    let directory = sweep.join(&run.name);
    // A run that died before it had a record has nothing to be read.
    let entry = if records::is_run(&directory) { registry::of_directory(&directory, None).await.ok() } else { None };
    let is_over = entry.as_ref().is_some_and(|entry| entry.state == RunState::Ended);
    let steps = scores::steps(&directory);
    Ok(RunResult {
        run: run.name.clone(),
        seed: run.seed,
        state: match failure {
            Some(_) => State::Failed,
            None if is_over => State::Ended,
            None if is_stopped => State::StoppedEarly,
            None => State::Open,
        },
        held_out: scores::held_out(&steps, u64::MAX),
        reward: scores::training(&steps, u64::MAX),
        updates: scores::updates(&steps),
        minutes: entry.as_ref().map_or(0.0, |entry| entry.wall_seconds) / 60.0,
        tokens: entry.map_or(0, |entry| entry.tokens.sampled),
        error: failure.cloned(),
        directory,
    })
}

/// Whether the run in a directory is over.
pub async fn is_over(run: &Path) -> bool {
    // A run that died before it had a record is not over.
    let Ok((store, recorded)) = registry::open(run).await else { return false };
    let steps = store.runs().steps(&recorded.run_id).await;
    store.close().await;
    steps.is_ok_and(|steps| registry::state(run, &recorded, &steps) == RunState::Ended)
}

/// The file with a row for each run, the best arm's first.
pub fn table_file(keys: &[String], arms: &[ArmResult]) -> String {
    let fixed = ["seed", "state", "held_out", "reward", "updates", "minutes", "tokens", "error"];
    let header = ["run", "arm"].into_iter().chain(keys.iter().map(String::as_str)).chain(fixed);
    let mut out = csv::row(header);
    let number = |score: Option<Score>| score.map_or(String::new(), |score| score.value.to_string());
    for arm in arms {
        for run in &arm.runs {
            let values = keys.iter().map(|key| match arm.keys.get(key) {
                None => String::new(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            });
            let begin = [run.run.clone(), arm.arm.clone()].into_iter().chain(values);
            out += &csv::row(begin.chain([
                run.seed.to_string(),
                run.state.as_str().to_owned(),
                number(run.held_out),
                number(run.reward),
                run.updates.to_string(),
                format!("{:.3}", run.minutes),
                run.tokens.to_string(),
                run.error.clone().unwrap_or_default(),
            ]));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_the_file_keeps_commas_and_quotes_in_their_cells() {
        let run = RunResult {
            run: "x-seed-1".into(),
            directory: "x".into(),
            seed: 1,
            state: State::Failed,
            held_out: None,
            reward: Some(Score { value: 0.5, more_is_better: true }),
            updates: 3,
            minutes: 0.25,
            tokens: 7,
            error: Some("it said \"no\", twice".into()),
        };
        let keys = vec!["trainer.loss".to_owned(), "trainer.kl".to_owned()];
        let arm = ArmResult {
            arm: "x".into(),
            keys: json!({ "trainer.loss": "ppo" }).as_object().unwrap().clone(),
            state: State::Failed,
            held_out: None,
            reward: Spread::of([run.reward, Some(Score { value: 1.0, more_is_better: true })].into_iter()),
            minutes: 0.25,
            tokens: 7,
            error: run.error.clone(),
            runs: vec![run],
        };
        assert_eq!(Spread::text(arm.reward), "+0.750 (+0.500 to +1.000)");
        insta::assert_snapshot!(table_file(&keys, &[arm]), @r#"
        run,arm,trainer.loss,trainer.kl,seed,state,held_out,reward,updates,minutes,tokens,error
        x-seed-1,x,ppo,,1,failed,,0.5,3,0.250,7,"it said ""no"", twice"
        "#);
    }
}
