//! What all runs together have taken, held against what the user allows.

use std::collections::BTreeSet;

use fulgurite_lab::runs::registry::{self, RunEntry};

use crate::error::ToolError;
use crate::options::Limits;
use crate::program::failure_of;
use crate::session::Session;

/// What all runs together have taken.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Spent {
    tokens: u64,
    seconds: f64,
    money: f64,
}

/// # Errors
/// If one of the user's limits is reached.
pub(super) async fn check(session: &Session) -> Result<(), ToolError> {
    let limits = session.options.limits;
    if limits == Limits::default() {
        return Ok(());
    }
    let failed = failure_of("runs");
    let prices = session.options.prices.as_deref().map(registry::prices_in).transpose().map_err(&failed)?;
    let (mut spent, mut counted) = (Spent::default(), BTreeSet::new());
    for directory in [session.workspace.runs(), session.workspace.evaluations()] {
        if !directory.is_dir() {
            continue;
        }
        for run in registry::directories(&directory).map_err(&failed)? {
            // One that cannot be read hides no other, and is missed below.
            let Ok(entry) = registry::of_directory(&run, prices.as_ref()).await else { continue };
            spent.add(Spent::of(&entry));
            counted.insert(entry.run_id);
        }
    }
    let uncounted = |name: &String| !counted.contains(name) && session.workspace.home(name).metrics().updates() > 0;
    if let Some(name) = session.workspace.names("runs").into_iter().find(uncounted) {
        let why = "the user limits what all runs may take, and the record of this one cannot be read here, so that nobody can count it";
        return Err(ToolError::Refused(format!("run {name:?}: {why}")));
    }
    spent.within(limits)
}

impl Spent {
    fn of(run: &RunEntry) -> Self {
        let money = run.cost.as_ref().map_or(0.0, |cost| cost.total);
        Self { tokens: run.tokens.sampled, seconds: run.wall_seconds, money }
    }

    fn add(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.seconds += other.seconds;
        self.money += other.money;
    }

    fn within(self, limits: Limits) -> Result<(), ToolError> {
        let reached = |what, spent: String, limit: String| Err(ToolError::Limit { what, spent, limit });
        if let Some(limit) = limits.tokens.filter(|limit| self.tokens >= *limit) {
            return reached("sampled tokens", self.tokens.to_string(), limit.to_string());
        }
        if let Some(limit) = limits.seconds.filter(|limit| self.seconds >= *limit) {
            return reached("seconds", format!("{:.1}", self.seconds), limit.to_string());
        }
        if let Some(limit) = limits.money.filter(|limit| self.money >= *limit) {
            return reached("of money", format!("{:.6}", self.money), limit.to_string());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_runs_took_counts_together() {
        let mut spent = Spent::default();
        for tokens in [60, 40] {
            spent.add(Spent { tokens, seconds: 1.5, money: 0.25 });
        }
        let of = |tokens, seconds, money| spent.within(Limits { tokens, seconds, money });
        assert!(of(None, None, None).is_ok() && of(Some(101), Some(3.1), Some(0.51)).is_ok());
        let message = of(Some(100), None, None).unwrap_err().to_string();
        assert!(message.starts_with("the user's limit is reached: 100 sampled tokens of 100"), "{message}");
        assert!(of(None, Some(3.0), None).is_err() && of(None, None, Some(0.5)).is_err());
    }
}
