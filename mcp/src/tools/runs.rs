//! Runs as a whole: how they stand, why they learn nothing, their end.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fulgurite_lab::doctor::finding_lines::{finding_lines, nothing_found};
use fulgurite_lab::doctor::findings_of;
use fulgurite_lab::page::page_of;
use fulgurite_lab::runs::registry;
use fulgurite_lab::visible::visible;
use fulgurite_terminal::tables::runs::{run_lines, run_table};
use fulgurite_types::shortened_line;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::looking::{Order, rollouts, transcript};
use crate::at_start::AtStart;
use crate::error::ToolError;
use crate::program::failure_of;
use crate::progress::Progress;
use crate::session::Session;
use crate::training::{Beginning, Ended};
use crate::workspace::{HELD_OUT_REWARD, REWARD, RunHome, write_whole};

/// Rows of a table that are shown.
const ROWS: usize = 12;
/// What stands in the table of a run's steps, where a run has it: a heading and a metric.
const COLUMNS: [(&str, &str); 10] = [
    ("reward", REWARD),
    ("held-out", HELD_OUT_REWARD),
    ("mixed", "env/all/by_group/frac_mixed"),
    ("failed", "env/all/failed_episodes"),
    ("kl", "optim/kl_sample_train_v1"),
    ("nll", "train_mean_nll"),
    ("held-out nll", "test/nll"),
    ("accuracy", "dpo/accuracy"),
    ("grad/tok", "optim/gradient_norm_per_token"),
    ("seconds", "time/total"),
];
/// Answers that are shown.
const ANSWERS: usize = 3;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunName {
    /// The run.
    pub(super) run: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListRuns {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Report {
    /// The runs.
    runs: Vec<String>,
}

/// A row for each of these steps, the last ones if they are many.
pub(super) fn table(steps: &[Value]) -> String {
    let of = |key: &str| steps.iter().any(|step| step[key].is_number());
    let columns: Vec<_> = COLUMNS.into_iter().filter(|(_, key)| of(key)).collect();
    if columns.is_empty() {
        return String::new();
    }
    let mut lines = vec![columns.iter().map(|(name, _)| format!("{name:>12}")).collect::<String>()];
    lines[0].insert_str(0, "  step");
    for step in &steps[steps.len().saturating_sub(ROWS)..] {
        let cell = |key: &str| step[key].as_f64().map_or("-".to_owned(), number);
        let row: String = columns.iter().map(|(_, key)| format!("{:>12}", cell(key))).collect();
        lines.push(format!("{:>6}{row}", step["step"].as_u64().unwrap_or(0)));
    }
    lines.join("\n")
}

fn number(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-3 { format!("{value:.1e}") } else { format!("{value:.3}") }
}

/// What to do if none of these steps had anything to learn from: counted, with answers.
pub(super) async fn signal(home: &RunHome, steps: &[Value]) -> Option<String> {
    let sum = |key: &str| steps.iter().filter_map(|step| step[key].as_u64()).sum::<u64>();
    let (groups, without) = (sum("sampling/groups"), sum("sampling/groups_without_signal"));
    if groups == 0 || without < groups {
        return None;
    }
    let mean = |key: &str| {
        let values: Vec<f64> = steps.iter().filter_map(|step| step[key].as_f64()).collect();
        values.iter().sum::<f64>() / values.len().max(1) as f64
    };
    let (good, bad) = (mean("env/all/by_group/frac_all_good"), mean("env/all/by_group/frac_all_bad"));
    let what = match (good, bad) {
        (good, _) if good >= 0.99 => {
            "All earn much: the task is learnt or too easy. Finish this run, or begin one with harder tasks."
        }
        (_, bad) if bad >= 0.99 => {
            "All earn little: the task is too hard, the grader too strict, or answers are cut off. Look at the answers below; \
             warm the model up by sft on good answers, ease the tasks, raise max_tokens or the group size, or have the grader \
             pay for a part; then begin another run."
        }
        _ => {
            "Within each group all earn the same: raise the temperature or the group size, or have the grader tell better answers \
             from worse ones; then begin another run."
        }
    };
    let answers = answers(home).await.unwrap_or_default();
    Some(format!(
        "NO SIGNAL: {without} of {groups} groups were constant ({:.0} % all good, {:.0} % all bad), so that nothing was learnt. \
         {what}\n{answers}why_no_signal(run = {:?}) says more.",
        100.0 * good,
        100.0 * bad,
        home.name()
    ))
}

/// The latest answers, with what they earned.
async fn answers(home: &RunHome) -> Result<String, ToolError> {
    let rollouts = rollouts(home, "mode = train and status = succeeded", Order::Latest, ANSWERS).await?;
    let mut lines = String::new();
    for rollout in rollouts {
        lines += &transcript(home, &rollout).await?;
    }
    Ok(lines)
}

pub(super) async fn status(session: &Session, arguments: RunName, _: &Progress) -> Result<String, ToolError> {
    let home = session.workspace.run(&arguments.run)?;
    let record = home.record()?;
    if !home.has_started() {
        return Ok(format!("Run {:?} is beginning.", arguments.run));
    }
    let metrics = home.metrics();
    let shown = shown(&home).await?;
    let recent = metrics.after(metrics.updates().saturating_sub(ROWS as u64)).to_vec();
    let named: Vec<String> = record.checkpoints.iter().map(|(name, step)| format!("{name} (after {step})")).collect();
    let mut lines = vec![shown, table(&recent)];
    if !named.is_empty() {
        lines.push(format!("named checkpoints: {}", named.join(", ")));
    }
    lines.push(findings(&home).await?);
    let next = if record.finished {
        "export_weights, compare, report"
    } else {
        "train_steps, show_rollouts, evaluate, finish"
    };
    lines.push(format!("Next: {next}."));
    Ok(lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n"))
}

/// What is known of a run, line by line.
async fn shown(home: &RunHome) -> Result<String, ToolError> {
    let entry = registry::of_directory(home.path(), None).await.map_err(failure_of("runs show"))?;
    Ok(visible_text(&run_lines(&entry)))
}

pub(super) async fn list(session: &Session, _: ListRuns, _: &Progress) -> Result<String, ToolError> {
    if session.workspace.names("runs").is_empty() {
        return Ok("No runs yet. Next: start_run.".to_owned());
    }
    let unreadable = |directory: &Path, error: &anyhow::Error| {
        tracing::warn!(directory = %directory.display(), "a run cannot be read: {error:#}");
    };
    let entries = registry::of_directories_below(&session.workspace.runs(), None, unreadable).await;
    Ok(visible_text(&run_table(&entries.map_err(failure_of("runs"))?)))
}

/// Lines as a terminal shows them: nothing in them steers it.
fn visible_text(lines: &[String]) -> String {
    lines.iter().map(|line| visible(line)).collect::<Vec<_>>().join("\n")
}

/// What is wrong with a run, in words.
async fn findings(home: &RunHome) -> Result<String, ToolError> {
    let found = async {
        let (store, run) = registry::open(home.path()).await?;
        let found = findings_of(&store, &run).await?;
        store.close().await;
        if found.is_empty() {
            return Ok(nothing_found(&run.run_id));
        }
        let lines = found.iter().flat_map(|finding| finding_lines(finding, finding.severity.word()));
        Ok(lines.collect::<Vec<_>>().join("\n"))
    };
    found.await.map_err(failure_of("doctor"))
}

pub(super) async fn why_no_signal(session: &Session, arguments: RunName, _: &Progress) -> Result<String, ToolError> {
    let home = session.workspace.run(&arguments.run)?;
    let metrics = home.metrics();
    if metrics.updates() == 0 {
        return Ok(format!("Run {:?} has made no update yet. Next: train_steps.", arguments.run));
    }
    let last = metrics.after(metrics.updates().saturating_sub(ROWS as u64));
    let found = findings(&home).await?;
    let constant = signal(&home, last).await;
    let mut lines = vec![table(last), found];
    match constant {
        Some(constant) => lines.push(constant),
        None => lines.push(format!("The latest answers:\n{}", answers(&home).await?)),
    }
    Ok(lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n"))
}

pub(super) async fn report(session: &Session, arguments: Report, _: &Progress) -> Result<String, ToolError> {
    let homes = arguments.runs.iter().map(|run| session.workspace.run(run)).collect::<Result<Vec<_>, _>>()?;
    let Some(first) = homes.first() else {
        return Err(ToolError::Arguments { tool: "report", why: "`runs` names none".to_owned() });
    };
    let page = first.path().join("report.html");
    let directories: Vec<PathBuf> = homes.iter().map(|home| home.path().to_owned()).collect();
    write_whole(&page, &page_of(&directories).await.map_err(failure_of("report"))?)?;
    Ok(format!("The page is {}.", session.workspace.shown(&page)))
}

pub(super) async fn finish(session: &Session, arguments: RunName, progress: &Progress) -> Result<String, ToolError> {
    let mut trainings = session.turn().await?;
    finished(session, &mut trainings, &arguments.run, progress).await
}

/// Ends a run, once.
pub(super) async fn finished(
    session: &Session,
    trainings: &mut crate::training::Trainings,
    run: &str,
    progress: &Progress,
) -> Result<String, ToolError> {
    let home = session.workspace.run(run)?;
    let mut record = home.sealed_record()?;
    if record.finished {
        return Err(ToolError::Refused(format!("run {run:?} is finished already; its scores are in run_status")));
    }
    record.guarded.check(run)?;
    trainings.check_no_other(&home)?;
    trainings.check_at_rest(&home)?;
    let updates = home.metrics().updates();
    if updates == 0 {
        return Err(ToolError::Refused(format!("run {run:?} has made no update: there is nothing to score")));
    }
    let server = session.server_of(&record);
    let beginning = Beginning::Last(updates);
    let training = trainings.begin(&session.program, server, &home, &record, beginning, AtStart::Refuse).await?;
    loop {
        match training.next(Duration::from_secs(1)).await? {
            Some(Err(Ended::Over)) => break,
            Some(Err(Ended::Waiting)) => {
                return Err(ToolError::Refused(format!("run {run:?} waits, and does not end")));
            }
            Some(Ok(event)) => progress.tell(updates, updates, event["event"].as_str().unwrap_or("").to_owned()).await,
            None => progress.tell(updates, updates, "scoring what is held out".to_owned()).await,
        }
    }
    trainings.end().await;
    record.finished = true;
    home.write(&record)?;
    let shown = shown(&home).await?;
    let last = home
        .metrics()
        .of("final/env/all/reward/total")
        .last()
        .map_or(String::new(), |(_, reward)| format!("final tasks, scored once: {reward:+.3}\n"));
    Ok(format!(
        "{}\n{last}Run {run:?} is finished.\nNext: compare(run = {run:?}), export_weights(run = {run:?}, format = \"merged\"), report.",
        cut_lines(&shown)
    ))
}

fn cut_lines(text: &str) -> String {
    text.lines().map(|line| shortened_line(line, 200, "...")).collect::<Vec<_>>().join("\n")
}
