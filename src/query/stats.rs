//! `fulgurite stats`.

use anyhow::Result;
use fulgurite_lab::time;
use fulgurite_store::Summary;
use fulgurite_terminal::output;
use fulgurite_terminal::table::Columns;
use serde_json::json;

use super::arguments::StatsArguments;
use super::open;

/// Prints what a store holds, in numbers.
pub async fn stats(arguments: StatsArguments) -> Result<()> {
    let summary = open(&arguments.store).await?.queries().summary().await?;
    if arguments.json {
        output::line(json!(summary));
        return Ok(());
    }
    print_times(&summary);
    print_tables(&summary);
    print_rollouts(&summary);
    print_generations(&summary);
    print_rewards(&summary);
    Ok(())
}

fn print_times(summary: &Summary) {
    if let (Some(oldest), Some(newest)) = (summary.oldest, summary.newest) {
        output::line(format!(" rollouts from {} to {}", time::text(oldest), time::text(newest)));
        output::line("");
    }
}

fn print_tables(summary: &Summary) {
    let mut table = Columns::new(&["table", "rows", "bytes"]);
    for size in &summary.tables {
        table.push(vec![size.table.clone(), size.rows.to_string(), size.bytes.to_string()]);
    }
    let bytes: u64 = summary.tables.iter().map(|size| size.bytes).sum();
    table.push(vec!["all".to_owned(), String::new(), bytes.to_string()]);
    table.print();
}

fn print_rollouts(summary: &Summary) {
    if summary.rollouts.is_empty() {
        return;
    }
    output::line("");
    let mut table = Columns::new(&["status", "mode", "rollouts"]);
    for count in &summary.rollouts {
        table.push(vec![count.status.clone(), count.mode.clone().unwrap_or_default(), count.rollouts.to_string()]);
    }
    table.print();
}

fn print_generations(summary: &Summary) {
    if summary.generations.is_empty() {
        return;
    }
    output::line("");
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
    table.print();
}

fn print_rewards(summary: &Summary) {
    let rewards = &summary.rewards;
    let (Some(mean), Some(least), Some(greatest)) = (rewards.mean, rewards.least, rewards.greatest) else { return };
    output::line("");
    output::line(format!(
        " {} rewards for attempts: mean {mean:+.3}, from {least:+.3} to {greatest:+.3}",
        rewards.rewards
    ));
}
