//! An evaluation as a table, and as JSON.

use std::collections::BTreeMap;

use fulgurite_lab::visible::cut;
use fulgurite_trainer::{Difference, Estimate, ScoreSummary};
use fulgurite_training::evaluation::against::Comparison;
use fulgurite_training::evaluation::result_file::ResultFile;
use serde_json::{Map, Value, json};

use crate::table::Columns;

/// One object, with the comparison to another evaluation if there is one.
pub fn evaluation_json(result: &ResultFile, comparison: Option<&Comparison>, pass_reward: f64) -> Value {
    let ResultFile { run_id, directory, evaluated, weights, weights_from, step, samples, seed, scores, .. } = result;
    let mut all = json!({
        "event": "evaluation",
        "run_id": run_id,
        "run_directory": directory,
        "evaluated": evaluated,
        "weights": weights,
        "weights_from": weights_from,
        "step": step,
        "samples": samples,
        "seed": seed,
        "pass_reward": pass_reward,
        "wall_seconds": result.wall_seconds,
        "failures": failures(result),
        "tags": ScoreSummary::by_tag(scores, *samples, pass_reward),
    });
    if let (Some(all), Value::Object(summary)) =
        (all.as_object_mut(), json!(ScoreSummary::of(scores, *samples, pass_reward)))
    {
        all.extend(summary);
        if let Some(Comparison { name, scores }) = comparison {
            let mut against = Map::from_iter([("name".to_owned(), json!(name))]);
            if let Value::Object(scores) = json!(scores) {
                against.extend(scores);
            }
            all.insert("against".to_owned(), Value::Object(against));
        }
    }
    all
}

/// A table, a line for all tasks and one for each tag; below it the failures and the comparison.
pub fn evaluation_lines(result: &ResultFile, comparison: Option<&Comparison>, pass_reward: f64) -> Vec<String> {
    let ResultFile { run_id, directory, evaluated, weights_from, samples, scores, .. } = result;
    let tasks = if evaluated == "final" { "final" } else { "held-out" };
    let mut lines = vec![
        format!("evaluation {run_id} in {}", directory.display()),
        format!("{weights_from}, {} {tasks} tasks, {samples} samples of each", scores.len()),
        String::new(),
    ];
    lines.extend(score_table(result, pass_reward));
    for (cause, count) in failures(result) {
        lines.push(format!("failed: {count} x {}", cut(&cause)));
        let example = scores.iter().find_map(|score| score.failure_examples.get(&cause));
        lines.extend(example.map(|example| format!("  for example: {example}")));
    }
    lines.extend(comparison.into_iter().flat_map(comparison_lines));
    lines
}

fn score_table(result: &ResultFile, pass_reward: f64) -> Vec<String> {
    let ResultFile { samples, scores, .. } = result;
    let all = ScoreSummary::of(scores, *samples, pass_reward);
    let mut header: Vec<String> = ["", "tasks", "rollouts", "failed", "reward", "95 %"].map(str::to_owned).into();
    for k in all.pass.keys() {
        header.push(if *k == 1 { format!("pass@1[avg-of-{samples}]") } else { format!("pass@{k}") });
        header.push("95 %".to_owned());
    }
    header.extend(all.components.keys().map(|name| cut(name)));
    let mut columns = Columns::new(&header.iter().map(String::as_str).collect::<Vec<_>>());
    let row = |name: String, summary: &ScoreSummary| {
        let mut row = vec![name];
        row.extend([summary.tasks, summary.rollouts, summary.failed].map(|count| count.to_string()));
        row.extend([signed(summary.reward.as_ref()), interval(summary.reward.as_ref(), true)]);
        for k in all.pass.keys() {
            row.extend([plain(summary.pass.get(k)), interval(summary.pass.get(k), false)]);
        }
        row.extend(all.components.keys().map(|name| plain(summary.components.get(name))));
        row
    };
    columns.push(row("all".to_owned(), &all));
    for (tag, summary) in &ScoreSummary::by_tag(scores, *samples, pass_reward) {
        columns.push(row(cut(tag), summary));
    }
    columns.lines()
}

fn comparison_lines(comparison: &Comparison) -> Vec<String> {
    let Comparison { name, scores } = comparison;
    let mut columns = Columns::new(&["", "here", "there", "difference", "95 %", ""]);
    let named = [("reward", &scores.reward), ("pass@1", &scores.pass_1)];
    let components = scores.components.iter().map(|(name, difference)| (name.as_str(), difference));
    for (name, difference) in named.into_iter().chain(components) {
        columns.push(vec![
            cut(name),
            format!("{:+.3}", difference.here),
            format!("{:+.3}", difference.there),
            format!("{:+.3}", difference.difference.value),
            interval(Some(&difference.difference), true),
            verdict(difference).to_owned(),
        ]);
    }
    let title = format!("against {name}: {} tasks in common", scores.common_tasks);
    [String::new(), title].into_iter().chain(columns.lines()).collect()
}

/// What the interval of a difference says.
fn verdict(difference: &Difference) -> &'static str {
    match (difference.is_clear(), difference.difference.value > 0.0) {
        (true, true) => "more",
        (true, false) => "less",
        (false, _) => "may be chance",
    }
}

fn signed(estimate: Option<&Estimate>) -> String {
    estimate.map_or("-".to_owned(), |estimate| format!("{:+.3}", estimate.value))
}

fn plain(estimate: Option<&Estimate>) -> String {
    estimate.map_or("-".to_owned(), |estimate| format!("{:.3}", estimate.value))
}

fn interval(estimate: Option<&Estimate>, is_signed: bool) -> String {
    match estimate.and_then(|estimate| estimate.interval) {
        None => "-".to_owned(),
        Some(interval) if is_signed => format!("{:+.3} .. {:+.3}", interval.low, interval.high),
        Some(interval) => format!("{:.3} .. {:.3}", interval.low, interval.high),
    }
}

/// Rollouts that failed, by their cause.
fn failures(result: &ResultFile) -> BTreeMap<String, usize> {
    let mut failures = BTreeMap::new();
    for (why, count) in result.scores.iter().flat_map(|score| &score.failed) {
        *failures.entry(why.clone()).or_insert(0) += count;
    }
    failures
}
