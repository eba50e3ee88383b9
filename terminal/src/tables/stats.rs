//! What a store holds, in numbers.

use fulgurite_lab::time;
use fulgurite_store::Summary;

use crate::table::Columns;

/// The times of the rollouts, and tables of what there is.
pub fn stats_lines(summary: &Summary) -> Vec<String> {
    let parts = [tables(summary), rollouts(summary), generations(summary), rewards(summary)];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    times(summary).into_iter().chain(parts).collect::<Vec<_>>().join(&String::new())
}

fn times(summary: &Summary) -> Option<Vec<String>> {
    let (oldest, newest) = summary.oldest.zip(summary.newest)?;
    Some(vec![format!(" rollouts from {} to {}", time::text(oldest), time::text(newest))])
}

fn tables(summary: &Summary) -> Vec<String> {
    let mut table = Columns::new(&["table", "rows", "bytes"]);
    for size in &summary.tables {
        table.push(vec![size.table.clone(), size.rows.to_string(), size.bytes.to_string()]);
    }
    let bytes: u64 = summary.tables.iter().map(|size| size.bytes).sum();
    table.push(vec!["all".to_owned(), String::new(), bytes.to_string()]);
    table.lines()
}

fn rollouts(summary: &Summary) -> Vec<String> {
    if summary.rollouts.is_empty() {
        return Vec::new();
    }
    let mut table = Columns::new(&["status", "mode", "rollouts"]);
    for count in &summary.rollouts {
        table.push(vec![count.status.clone(), count.mode.clone().unwrap_or_default(), count.rollouts.to_string()]);
    }
    table.lines()
}

fn generations(summary: &Summary) -> Vec<String> {
    if summary.generations.is_empty() {
        return Vec::new();
    }
    let mut table = Columns::new(&["model", "weights", "generations", "prompt tokens", "sampled tokens"]);
    for count in &summary.generations {
        let versions: Vec<String> = count.weights.iter().map(u64::to_string).collect();
        table.push(vec![
            count.model.clone(),
            versions.join(" then "),
            count.generations.to_string(),
            count.prompt_tokens.to_string(),
            count.sampled_tokens.to_string(),
        ]);
    }
    table.lines()
}

fn rewards(summary: &Summary) -> Vec<String> {
    let rewards = &summary.rewards;
    let (Some(mean), Some(least), Some(greatest)) = (rewards.mean, rewards.least, rewards.greatest) else {
        return Vec::new();
    };
    vec![format!(" {} rewards for attempts: mean {mean:+.3}, from {least:+.3} to {greatest:+.3}", rewards.rewards)]
}

#[cfg(test)]
mod tests {
    use fulgurite_store::{RewardSummary, RolloutCount, TableSize};

    use super::*;

    #[test]
    fn only_what_there_is_has_a_table() {
        let tables = vec![TableSize { table: "rollouts".to_owned(), rows: 2, bytes: 4096 }];
        let rewards = RewardSummary::default();
        let (rollouts, generations) = (Vec::new(), Vec::new());
        let empty = Summary { tables, rollouts, generations, rewards, oldest: None, newest: None };
        assert_eq!(stats_lines(&empty), [" table     rows  bytes", " rollouts  2     4096", " all             4096"]);
        let rollouts = vec![RolloutCount { status: "succeeded".to_owned(), mode: None, rollouts: 2 }];
        let lines = stats_lines(&Summary { rollouts, ..empty });
        assert_eq!(lines[3..], ["", " status     mode  rollouts", " succeeded        2"]);
    }
}
