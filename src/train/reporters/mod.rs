//! What a person, or a program, sees of a training run.

mod pace;
mod sft_table;
mod stale_harvest;
mod within_step;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fulgurite_trainer::{
    Failures, Reporter, RewardFinding, RewardOddity, RunSummary, SampleAnswer, Scores, TrainEvent,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};

use self::pace::Pace;
use self::sft_table::{SftTable, summary_lines};
use self::within_step::{SampledTokens, WithinStep};
use crate::terminal::output;
use crate::terminal::paint::Paint;

/// How often a pipe gets a line about something that takes long.
const PLAIN_LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Rollouts with odd rewards that a step names; of the others it says how many there are.
const ODD_REWARDS_NAMED: usize = 5;

/// A reporter that prints JSON, one object for each step and a summary at the end.
pub struct JsonReporter;

impl Reporter for JsonReporter {
    fn report(&mut self, event: TrainEvent) {
        match event {
            TrainEvent::Step { mut metrics, .. } => {
                metrics.insert("event".to_owned(), json!("step"));
                output::line(Value::Object(metrics));
            }
            TrainEvent::Finished(summary) => output::line(Value::Object(summary.to_json())),
            TrainEvent::CheckpointPassedOver { directory, message } => {
                output::line(json!({ "event": "checkpoint_passed_over", "checkpoint": directory, "reason": message }));
            }
            TrainEvent::CheckpointNotUploaded { directory, message } => {
                output::line(json!({ "event": "checkpoint_not_uploaded", "checkpoint": directory, "reason": message }));
            }
            TrainEvent::Waiting { step } => output::line(json!({ "event": "waiting", "step": step })),
            TrainEvent::AgentsAwaited { url } => output::line(json!({ "event": "agents_awaited", "url": url })),
            TrainEvent::RunnersAwaited { url } => output::line(json!({ "event": "runners_awaited", "url": url })),
            TrainEvent::JudgeOnLabels { judge, criterion, labels, share, kappa } => output::line(json!({
                "event": "judge_on_labels", "judge": judge, "criterion": criterion, "labels": labels, "share": share,
                "kappa": kappa,
            })),
            TrainEvent::OddRewards { phase, step, findings } => {
                for RewardFinding { rollout_id, reward, oddity } in findings {
                    let values = match &oddity {
                        RewardOddity::SeveralDiffer { values } => json!(values),
                        RewardOddity::Refused { .. } | RewardOddity::Outlier { .. } => json!([reward]),
                    };
                    output::line(json!({
                        "event": "odd_reward", "phase": phase, "step": step, "rollout_id": rollout_id,
                        "what": oddity.as_str(), "values": values,
                    }));
                }
            }
            TrainEvent::StaleHarvest { step, stale, max_staleness } => {
                output::line(stale_harvest::json(step, stale, max_staleness));
            }
            TrainEvent::NoTrustRegion { max_staleness } => {
                output::line(json!({ "event": "no_trust_region", "max_staleness": max_staleness }));
            }
            TrainEvent::MarksAsText { rows, marks } => {
                output::line(json!({ "event": "marks_as_text", "rows": rows, "marks": marks }));
            }
            TrainEvent::JudgeUndecided { step, undecided, comparisons, answer } => output::line(json!({
                "event": "judge_undecided", "step": step, "undecided": undecided, "comparisons": comparisons,
                "said": answer,
            })),
            TrainEvent::RolloutsFailed { phase, step, failures } => output::line(failures_json(phase, step, &failures)),
            TrainEvent::WithoutGradient { step, updates, untrained, answers } => output::line(json!({
                "event": "without_gradient",
                "step": step,
                "updates": updates,
                "untrained_tokens": untrained,
                "answers": answers.iter().map(answer_json).collect::<Vec<_>>(),
            })),
            TrainEvent::WeightsJudged { step, version, is_published, difference } => output::line(json!({
                "event": if is_published { "weights_published" } else { "weights_kept_back" },
                "step": step,
                "version": version,
                "difference": difference,
            })),
            TrainEvent::WeightsMovedTooFar { step, version, kl, max_kl } => output::line(json!({
                "event": "weights_kept_back", "step": step, "version": version, "kl": kl, "max_kl": max_kl,
            })),
            TrainEvent::SupervisedStep { .. }
            | TrainEvent::RunStarted { .. }
            | TrainEvent::Corpus { .. }
            | TrainEvent::PageServed { .. }
            | TrainEvent::StepRecalled { .. }
            | TrainEvent::Learning { .. }
            | TrainEvent::Sampled { .. }
            | TrainEvent::Rollouts { .. } => {}
        }
    }
}

fn failures_json(phase: &str, step: u64, failures: &Failures) -> Value {
    let Failures { failed, rollouts, cause, reason, count, calls, ran_out_of_time: _, stderr_tail } = failures;
    json!({
        "event": "rollouts_failed",
        "phase": phase,
        "step": step,
        "failed": failed,
        "rollouts": rollouts,
        "cause": cause,
        "reason": reason,
        "count": count,
        "calls": calls,
        "stderr_tail": stderr_tail,
    })
}

fn answer_json(answer: &SampleAnswer) -> Value {
    let SampleAnswer { task, answer, reward } = answer;
    json!({ "task": task, "answer": answer, "reward": reward })
}

/// A reporter for people: a table that grows by a row a step, and a bar for what takes long.
pub struct TableReporter {
    bar: Option<ProgressBar>,
    terminal: bool,
    last_plain_line: Option<Instant>,
    columns: Columns,
    /// Of a run that learns from conversations.
    sft: Option<SftTable>,
    /// Why rollouts failed that was told last: the same is not told at every step.
    failed_for: Option<String>,
    /// What a step has come to so far; nobody is told in a pipe.
    within_step: Option<WithinStep>,
    /// How fast the run makes updates, once it has begun.
    pace: Option<Pace>,
    /// Where the run's files are, once it has begun.
    directory: Option<PathBuf>,
}

impl TableReporter {
    /// Bars on a terminal, plain lines in a pipe. `sampled` counts the tokens that were sampled in this process.
    pub fn new(sampled: Option<SampledTokens>) -> Self {
        let terminal = std::io::stderr().is_terminal() && std::io::stdout().is_terminal();
        Self {
            bar: None,
            terminal,
            last_plain_line: None,
            columns: Columns::default(),
            sft: None,
            failed_for: None,
            within_step: terminal.then(|| WithinStep::new(sampled)),
            pace: None,
            directory: None,
        }
    }

    fn progress(&mut self, done: u64, total: u64, message: String) {
        if self.terminal {
            let bar = self.bar.get_or_insert_with(|| {
                let bar = ProgressBar::new(total);
                if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
                    bar.set_style(style);
                }
                bar
            });
            bar.set_length(total);
            bar.set_position(done);
            bar.set_message(message);
        } else if self.last_plain_line.is_none_or(|last| last.elapsed() >= PLAIN_LINE_INTERVAL) {
            self.last_plain_line = Some(Instant::now());
            output::line(format!("{message} {done}/{total}"));
        }
    }

    /// Takes the bar away.
    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Prints a line that stays.
    fn line(&mut self, line: &str) {
        self.clear();
        output::line(line);
    }

    fn failures(&mut self, phase: &str, step: u64, failures: &Failures) {
        // Where all failed, the error that ends the run says why.
        let is_known = self.failed_for.as_ref() == Some(&failures.cause);
        if failures.failed < failures.rollouts && !is_known {
            let Failures { failed, rollouts, .. } = failures;
            self.line(&format!(
                "warning: {failed} of {rollouts} rollouts of {phase} at step {step} failed: {failures}"
            ));
            self.failed_for = Some(failures.cause.clone());
        }
    }

    fn step(&mut self, step: u64, metrics: &Map<String, Value>) {
        if let Some(table) = SftTable::of(&mut self.sft, metrics) {
            let lines = table.lines(step, metrics);
            lines.iter().for_each(|line| self.line(line));
            self.time_left(metrics);
            return;
        }
        if self.columns.take_up(metrics) {
            self.line(&header(&self.columns.components));
        }
        self.line(&row(step, metrics, &self.columns.components));
        if let Some(reply) = self.within_step.as_mut().and_then(WithinStep::take_reply) {
            self.line(&Paint::for_stdout().dim(&reply));
        }
        self.time_left(metrics);
    }

    /// Says now and then how long the run may still take.
    fn time_left(&mut self, metrics: &Map<String, Value>) {
        let seconds = metrics.get("time/total").and_then(Value::as_f64);
        if let Some(text) = seconds.and_then(|seconds| self.pace.as_mut()?.after_update(seconds)) {
            self.line(&Paint::for_stdout().dim(&text));
        }
    }

    fn corpus(&mut self, program: &str, lines: u64, is_whole: bool) {
        let stage = if is_whole { "; making its tokenizer" } else { " so far" };
        self.line(&format!("base model: {lines} lines of corpus by {program}{stage}"));
    }
}

impl Reporter for TableReporter {
    fn report(&mut self, event: TrainEvent) {
        match event {
            TrainEvent::SupervisedStep { step, max_steps, loss, validation_accuracy } => {
                let accuracy = validation_accuracy.map_or(String::new(), |is| format!(", validation accuracy {is:.3}"));
                self.progress(step, max_steps, format!("base model: loss {loss:.3}{accuracy}, step"));
            }
            TrainEvent::RunStarted { run_id, directory, step, checkpoint, max_steps } => {
                let from = checkpoint
                    .map_or(String::new(), |checkpoint| format!(", resuming after {step} from {checkpoint}"));
                self.line(&format!("run {run_id} in {}: at most {max_steps} updates{from}", directory.display()));
                self.pace = Some(Pace::new(step, max_steps));
                self.directory = Some(directory);
            }
            TrainEvent::Corpus { program, lines, is_whole } => self.corpus(&program, lines, is_whole),
            TrainEvent::PageServed { url } => self.line(&format!("the page is at {url}")),
            TrainEvent::CheckpointPassedOver { directory, message } => {
                self.line(&format!("{directory} is passed over, as it cannot be gone on from: {message}"));
            }
            TrainEvent::CheckpointNotUploaded { directory, message } => {
                self.line(&format!("warning: {directory} is not uploaded: {message}"));
            }
            TrainEvent::Waiting { step } => {
                self.line(&format!(
                    "waiting after {step} updates, as many as the run may make: POST .../runs/RUN/allowed-steps, or --resume \
                     --allowed-steps N, has it go on"
                ));
            }
            TrainEvent::AgentsAwaited { url } => {
                self.line(&format!("harvesting: agents that call {url} and are rewarded there are learnt from"));
            }
            TrainEvent::RunnersAwaited { url } => {
                self.line(&format!("no [runner] command: rollouts wait at {url} for runners that you start, with"));
                self.line(&format!("  fulgurite run --server {url} -- AGENT"));
                self.line("or as Agent-lightning's runners with that address as their store");
            }
            TrainEvent::JudgeOnLabels { judge, criterion, labels, share, kappa } => {
                let kappa = kappa.map_or(String::new(), |kappa| format!(", kappa {kappa:.2}"));
                self.line(&format!("judge {judge} on {criterion}: agrees with {share:.2} of {labels} labels{kappa}"));
            }
            TrainEvent::Rollouts { phase, step, done, total } => {
                // A bar of something else would show its numbers for a moment.
                if done == 0 {
                    self.clear();
                }
                if let Some(text) = self.within_step.as_mut().map(|within| within.rollouts(phase, step)) {
                    self.progress(done as u64, total as u64, text);
                }
            }
            TrainEvent::Learning { step, done, total } => {
                if self.terminal {
                    if done == 0 {
                        self.clear();
                    }
                    self.progress(done as u64, total as u64, WithinStep::learning(step));
                }
            }
            TrainEvent::Sampled { answer, .. } => {
                if let Some(within) = &mut self.within_step {
                    within.keep_reply(&answer);
                }
            }
            TrainEvent::OddRewards { phase, step, findings } => {
                findings.iter().take(ODD_REWARDS_NAMED).for_each(|finding| {
                    self.line(&format!("warning: {phase} rewards of step {step}: {finding}"));
                });
                if let Some(more) = findings.len().checked_sub(ODD_REWARDS_NAMED).filter(|more| *more > 0) {
                    self.line(&format!("warning: {phase} rewards of step {step}: and {more} more such"));
                }
            }
            TrainEvent::StaleHarvest { step, stale, max_staleness } => {
                self.line(&stale_harvest::text(step, stale, max_staleness));
            }
            TrainEvent::NoTrustRegion { max_staleness } => self.line(&format!(
                "warning: [trainer] schedule trains on tokens that weights up to {max_staleness} updates older sampled, and the \
                 loss importance_sampling has no bounds: one unlikely token can throw the policy far. `loss = \"ppo\"` or \
                 `\"cispo\"`, or importance_mask, keeps steps near"
            )),
            TrainEvent::MarksAsText { rows, marks } => self.line(&marks_as_text(rows, marks)),
            TrainEvent::JudgeUndecided { step: _, undecided, comparisons, answer } => self.line(&format!(
                "warning: the judge said neither letter of {undecided} of {comparisons} comparisons, which tie (it said {answer:?})"
            )),
            TrainEvent::RolloutsFailed { phase, step, failures } => self.failures(phase, step, &failures),
            TrainEvent::WithoutGradient { step: _, updates, untrained, answers } => {
                self.line(&without_gradient_text(updates, &untrained, &answers));
            }
            TrainEvent::WeightsJudged { step, version, is_published, difference } => self.line(&match is_published {
                true => format!("version {step} is behind the model: held-out conversations cost {difference:+.4} nats a token"),
                false => format!(
                    "version {step} is kept back, and version {version} stays: held-out conversations cost {difference:+.4} \
                     nats a token"
                ),
            }),
            TrainEvent::WeightsMovedTooFar { step, version, kl, max_kl } => self.line(&format!(
                "the weights of update {step} are kept back, and version {version} stays: they are {kl:.3} nats a token from \
                 what sampled, and [trainer] publish_max_kl is {max_kl}"
            )),
            TrainEvent::Step { step, metrics } => self.step(step, &metrics),
            TrainEvent::StepRecalled { metrics, .. } => self.columns.recall(&metrics),
            TrainEvent::Finished(summary) => {
                self.line(&summary_text(&summary));
                if let Some(directory) = self.directory.take() {
                    self.line(&next_commands(&directory));
                }
            }
        }
    }
}

fn marks_as_text(rows: u64, marks: u64) -> String {
    format!(
        "warning: {rows} rows spell control tokens of the model in their answers ({marks} in all, such as <think> behind \
         the beginning), which are trained as text: put reasoning in `reasoning_content`, or at the answer's beginning"
    )
}

fn without_gradient_text(updates: usize, untrained: &BTreeMap<String, u64>, answers: &[SampleAnswer]) -> String {
    let causes: Vec<String> = untrained.iter().map(|(cause, tokens)| format!("{cause} {tokens}")).collect();
    let mut lines = vec![format!(
        "warning: {updates} updates in a row changed nothing, for no group of rollouts differed in what its members earned \
         (sampled tokens that were not trained, by cause: {})",
        causes.join(", ")
    )];
    lines.extend(
        answers
            .iter()
            .map(|SampleAnswer { task, answer, reward }| format!("  task {task:?}, reward {reward}: {answer:?}")),
    );
    lines.join("\n")
}

/// The table's columns that depend on the run: the held-out tasks' named components, in the order in which they appeared.
#[derive(Default)]
struct Columns {
    components: Vec<String>,
    /// Whether the last header has all of them.
    are_shown: bool,
}

impl Columns {
    /// Adds a column for each component of a step that has none yet.
    fn recall(&mut self, metrics: &Map<String, Value>) {
        for name in component_names(metrics) {
            if !self.components.contains(&name) {
                self.components.push(name);
                self.are_shown = false;
            }
        }
    }

    /// As [`Columns::recall`], for a step that is about to be shown; tells whether a header has to come before it.
    fn take_up(&mut self, metrics: &Map<String, Value>) -> bool {
        self.recall(metrics);
        !std::mem::replace(&mut self.are_shown, true)
    }
}

/// The held-out tasks' named components, in the order of the metrics.
fn component_names(metrics: &Map<String, Value>) -> Vec<String> {
    let reserved = ["reward/total", "total_episodes", "failed_episodes"];
    let names = metrics.keys().filter_map(|key| key.strip_prefix("test/env/all/"));
    names.filter(|name| !reserved.contains(name)).map(str::to_owned).collect()
}

fn header(components: &[String]) -> String {
    let mut line = format!("{:>5} {:>8} {:>9}", "step", "train", "held-out");
    for name in components {
        line.push_str(&format!(" {name:>9}"));
    }
    line + &format!(" {:>9} {:>9} {:>9} {:>8} {:>8}", "kl", "max diff", "grad/tok", "clip", "seconds")
}

fn row(step: u64, metrics: &Map<String, Value>, components: &[String]) -> String {
    let number = |key: &str| metrics.get(key).and_then(Value::as_f64);
    let fixed = |key: &str| number(key).map_or("-".to_owned(), |value| format!("{value:+.3}"));
    let tiny = |key: &str| number(key).map_or("-".to_owned(), |value| format!("{value:.1e}"));
    let held_out = fixed("test/env/all/reward/total");
    let mut line = format!("{step:>5} {:>8} {held_out:>9}", fixed("env/all/reward/total"));
    for name in components {
        line.push_str(&format!(" {:>9}", fixed(&format!("test/env/all/{name}"))));
    }
    let seconds = number("time/total").map_or("-".to_owned(), |value| format!("{value:.1}"));
    let short = |key: &str| number(key).map_or("-".to_owned(), |value| format!("{value:.3}"));
    let (gradient, clip) = (short("optim/gradient_norm_per_token"), short("optim/clip_factor"));
    line + &format!(
        " {:>9} {:>9} {gradient:>9} {clip:>8} {seconds:>8}",
        tiny("optim/kl_sample_train_v1"),
        tiny("optim/logprob_difference_max"),
    )
}

fn summary_text(summary: &RunSummary) -> String {
    let why = if summary.stopped_by_rule { "the stop rule was met" } else { "the limit of updates was reached" };
    let mut lines = vec![String::new(), format!("{} updates in {:.1} s: {why}", summary.steps, summary.wall_seconds)];
    let scored = [
        ("held-out tasks before", &summary.held_out_before),
        ("held-out tasks after", &summary.held_out_after),
        ("final tasks, scored once", &summary.final_after),
    ];
    lines.extend(scored.into_iter().filter_map(|(label, scores)| Some(scores_text(label, scores.as_ref()?))));
    if summary.skipped_rows.is_some() {
        lines.extend(summary_lines(summary));
        return lines.join("\n");
    }
    lines.push(format!("greatest sampler-trainer logprob difference: {:.1e}", summary.max_logprob_difference));
    if let Some(checkpoint) = &summary.checkpoint {
        lines.push(format!("weights: {}", checkpoint.display()));
    }
    if let Some(bytes) = summary.peak_memory_bytes {
        lines.push(format!("peak memory of this process: {:.2} GB", bytes as f64 / 1e9));
    }
    lines.push(String::new());
    lines.push(format!("{:<24} {:>10}", "sampled tokens", summary.sampled_tokens));
    lines.push(format!("  {:<22} {:>10}", "trained", summary.trained_tokens));
    for (cause, tokens) in &summary.untrained_tokens {
        lines.push(format!("  {cause:<22} {tokens:>10}"));
    }
    if let Some(total) = summary.failed_rollouts.get("total") {
        lines.extend([String::new(), format!("{:<24} {total:>10}", "rollouts that failed")]);
        let causes = summary.failed_rollouts.iter().filter(|(cause, _)| *cause != "total");
        lines.extend(causes.map(|(cause, rollouts)| format!("  {cause:<22} {rollouts:>10}")));
    }
    lines.join("\n")
}

/// What to do with a run that is over.
fn next_commands(directory: &Path) -> String {
    let run = shell_word(&directory.display().to_string());
    format!(
        "\nnext:\n  fulgurite chat {run}\n  fulgurite report {run} -o report.html\n  fulgurite dashboard {run}\n  \
         fulgurite model export {run} --format merged"
    )
}

/// A word as a shell takes it for one.
fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:@%,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Means, and how many rollouts they are of.
fn scores_text(label: &str, scores: &Scores) -> String {
    let components = scores.components.iter().map(|(name, mean)| format!(", {name} {mean:.3}"));
    let components: String = components.collect();
    let rollouts = scores.rollouts + scores.failed;
    let failed = match scores.failed {
        0 => String::new(),
        failed => format!("; {failed} of {rollouts} rollouts failed and are in no mean"),
    };
    format!("{label}: reward {:.3}{components} ({rollouts} rollouts{failed})", scores.reward)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_lines_up_with_its_header() {
        let metrics = json!({
            "env/all/reward/total": -0.25, "test/env/all/reward/total": 0.5, "test/env/all/exact": 0.75,
            "test/env/all/total_episodes": 96, "optim/kl_sample_train_v1": 0.0, "time/total": 1.25,
            "optim/gradient_norm_per_token": 0.277, "optim/clip_factor": 0.0018,
        });
        let metrics = metrics.as_object().unwrap();
        let components = component_names(metrics);
        assert_eq!(components, ["exact"]);
        insta::assert_snapshot!(format!("{}\n{}", header(&components), row(3, metrics, &components)), @r"
         step    train  held-out     exact        kl  max diff  grad/tok     clip  seconds
            3   -0.250    +0.500    +0.750     0.0e0         -     0.277    0.002      1.2
        ");
    }

    #[test]
    fn a_component_that_appears_later_has_a_column_from_then_on() {
        let step = |metrics: Value| metrics.as_object().unwrap().clone();
        let (first, plain) = (step(json!({ "test/env/all/exact": 1 })), step(json!({ "env/all/reward/total": 1 })));
        let later = step(json!({ "test/env/all/brief": 1, "test/env/all/exact": 1 }));
        let mut columns = Columns::default();
        assert!(columns.take_up(&first) && !columns.take_up(&plain));
        assert!(columns.take_up(&later) && !columns.take_up(&later));
        assert_eq!(columns.components, ["exact", "brief"]);

        let mut resumed = Columns::default();
        [&first, &plain, &later].into_iter().for_each(|step| resumed.recall(step));
        assert!(resumed.take_up(&plain) && !resumed.take_up(&later));
        assert_eq!(resumed.components, columns.components);
    }

    #[test]
    fn failed_rollouts_are_a_count_in_the_summary() {
        let scores = |failed| Scores { reward: -0.5, rollouts: 24 - failed, failed, ..Scores::default() };
        insta::assert_snapshot!(scores_text("held-out tasks before", &scores(0)), @"held-out tasks before: reward -0.500 (24 rollouts)");
        insta::assert_snapshot!(scores_text("after", &scores(1)), @"after: reward -0.500 (24 rollouts; 1 of 24 rollouts failed and are in no mean)");
    }
}
