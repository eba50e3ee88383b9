//! What judges have been asked and have cost, over all runners of a run.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use super::options::{JudgePrices, RubricOptions};

/// The file that holds every call, a line each, beside the judgements.
const FILE: &str = "calls.jsonl";

/// Calls that judges were asked in a run, and what they have cost, by what stands in the directory of its judgements.
///
/// # Errors
/// If the file there cannot be read.
pub fn judges_spending(directory: &Path) -> io::Result<(u64, f64)> {
    match fs::read_to_string(directory.join(FILE)) {
        Ok(text) => Ok(sums(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((0, 0.0)),
        Err(error) => Err(error),
    }
}

fn sums(text: &str) -> (u64, f64) {
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.fold((0, 0.0), |(calls, cost), line| {
        (calls + line["calls"].as_u64().unwrap_or_default(), cost + line["cost"].as_f64().unwrap_or_default())
    })
}

/// Counts calls and money, and refuses what would exceed either.
///
/// A call is written down at the most that it may cost before it is made, so that no runner that dies forgets it.
#[derive(Debug)]
pub(super) struct Spending {
    max_calls: Option<u64>,
    max_cost: Option<f64>,
    spent: Mutex<Spent>,
}

#[derive(Debug, Default)]
struct Spent {
    calls: u64,
    cost: f64,
    file: Option<File>,
}

/// A call that may be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed {
    /// What it costs at most, which counts until it is settled.
    at_most: f64,
    prices: JudgePrices,
}

impl Spending {
    /// What was spent before, by what stands in `directory`, counts too.
    ///
    /// # Errors
    /// If the file there cannot be read or made.
    pub(super) fn new(options: &RubricOptions, directory: Option<&Path>) -> io::Result<Self> {
        let mut spent = Spent::default();
        if let Some(directory) = directory {
            let path: PathBuf = directory.join(FILE);
            fs::create_dir_all(directory)?;
            let mut file = OpenOptions::new().create(true).append(true).read(true).open(&path)?;
            let text = fs::read_to_string(&path)?;
            // The last line may be half of one, of a runner that was killed; the next call begins a line of its own.
            if !text.is_empty() && !text.ends_with('\n') {
                file.write_all(b"\n")?;
            }
            (spent.calls, spent.cost) = sums(&text);
            spent.file = Some(file);
        }
        Ok(Self { max_calls: options.max_calls, max_cost: options.max_cost, spent: Mutex::new(spent) })
    }

    /// Leave for one more call, whose prompt has `bytes` bytes, more than tokens, and whose answer has so many tokens at most.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn allow(&self, bytes: usize, max_tokens: u64, prices: Option<JudgePrices>) -> Result<Allowed, String> {
        let prices = prices.unwrap_or_default();
        let at_most = cost(bytes as u64, max_tokens, prices);
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(limit) = self.max_calls.filter(|limit| spent.calls >= *limit) {
            return Err(format!("[runner.rubric] max_calls = {limit} are made"));
        }
        if let Some(limit) = self.max_cost.filter(|limit| spent.cost + at_most > *limit) {
            // Without the sums, so that the same failure has the same words.
            return Err(format!("[runner.rubric] max_cost = {limit}: the next call may exceed it"));
        }
        spent.add(1, at_most).map_err(|error| format!("what judges cost cannot be written down: {error}"))?;
        Ok(Allowed { at_most, prices })
    }

    /// A call has cost what its usage says; what says nothing has cost the most that it may.
    pub(super) fn settle(&self, allowed: Allowed, usage: &Value) {
        let number = |key: &str| usage[key].as_u64();
        let (Some(prompt), Some(sampled)) = (number("prompt_tokens"), number("completion_tokens")) else { return };
        self.correct(cost(prompt, sampled, allowed.prices) - allowed.at_most);
    }

    /// A call was refused, and has cost nothing.
    pub(super) fn refund(&self, allowed: Allowed) {
        self.correct(-allowed.at_most);
    }

    fn correct(&self, by: f64) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        // A correction that is lost leaves the greater cost standing.
        if let Err(error) = spent.add(0, by) {
            tracing::warn!(%error, "what a judge has cost cannot be written down");
        }
    }
}

impl Spent {
    fn add(&mut self, calls: u64, cost: f64) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            file.write_all(format!("{}\n", json!({ "calls": calls, "cost": cost })).as_bytes())?;
        }
        self.calls += calls;
        self.cost += cost;
        Ok(())
    }
}

/// Of tokens, by prices of a million each.
#[expect(clippy::cast_precision_loss, reason = "a prompt has far fewer tokens than 2^52")]
fn cost(prompt: u64, sampled: u64, prices: JudgePrices) -> f64 {
    (prompt as f64).mul_add(prices.prefilled, sampled as f64 * prices.sampled) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICES: JudgePrices = JudgePrices { prefilled: 1.0, sampled: 10.0 };

    fn options(more: &Value) -> RubricOptions {
        let mut options = json!({ "judge": "j", "criteria": [], "prices": { "prefilled": 1.0, "sampled": 10.0 } });
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(options).unwrap()
    }

    #[test]
    fn money_is_never_spent_beyond_the_limit_even_by_runners_that_were_killed() {
        let directory = tempfile::tempdir().unwrap();
        // A call of 1,000 bytes and 100 tokens costs 0.002 at most.
        let options = options(&json!({ "max_cost": 0.005 }));
        let spending = Spending::new(&options, Some(directory.path())).unwrap();
        let first = spending.allow(1000, 100, Some(PRICES)).unwrap();
        let second = spending.allow(1000, 100, Some(PRICES)).unwrap();
        assert!(spending.allow(1000, 100, Some(PRICES)).unwrap_err().contains("max_cost = 0.005: the next call may"));
        spending.settle(first, &json!({ "prompt_tokens": 200, "completion_tokens": 10 }));
        spending.refund(second);
        let third = spending.allow(1000, 100, Some(PRICES)).unwrap();
        // What says nothing of its usage has cost the most.
        spending.settle(third, &Value::Null);
        drop(spending);
        fs::OpenOptions::new().append(true).open(directory.path().join(FILE)).unwrap().write_all(b"{\"cal").unwrap();
        let later = Spending::new(&options, Some(directory.path())).unwrap();
        later.allow(1000, 100, Some(PRICES)).unwrap();
        assert!(later.allow(1000, 100, Some(PRICES)).unwrap_err().contains("the next call may exceed it"));
        let third = Spending::new(&options, Some(directory.path())).unwrap();
        assert!(third.allow(1000, 100, Some(PRICES)).is_err(), "the half line has not swallowed the next");
    }

    #[test]
    fn calls_are_counted_over_all_runners_of_a_run() {
        let directory = tempfile::tempdir().unwrap();
        let options = options(&json!({ "max_calls": 2 }));
        Spending::new(&options, Some(directory.path())).unwrap().allow(1, 1, None).unwrap();
        let later = Spending::new(&options, Some(directory.path())).unwrap();
        later.allow(1, 1, None).unwrap();
        assert_eq!(later.allow(1, 1, None).unwrap_err(), "[runner.rubric] max_calls = 2 are made");
    }
}
