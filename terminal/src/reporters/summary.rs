//! What the end of a run says, and what to do with the run then.

use std::path::Path;

use fulgurite_lab::shell_word::shell_word;
use fulgurite_trainer::{RunSummary, Scores};

use super::sft_table::summary_lines;
use super::weights_line::weights_line;

/// What the end of a run says.
pub(super) fn summary_text(summary: &RunSummary) -> String {
    let why = match summary.evaluations_without_improvement {
        Some(evaluations) => format!("no improvement of the held-out score in {evaluations} evaluations"),
        None if summary.stopped_by_rule => "the stop rule was met".to_owned(),
        None => "the limit of updates was reached".to_owned(),
    };
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
    let difference = summary.max_logprob_difference.map_or("not measured".to_owned(), |most| format!("{most:.1e}"));
    lines.push(format!("greatest sampler-trainer logprob difference: {difference}"));
    lines.extend(weights_line(summary));
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
pub(super) fn next_commands(directory: &Path) -> String {
    let run = shell_word(&directory.display().to_string());
    format!(
        "\nnext:\n  fulgurite chat {run}\n  fulgurite report {run} -o report.html\n  fulgurite dashboard {run}\n  \
         fulgurite model export {run} --format merged"
    )
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
    fn failed_rollouts_are_a_count_in_the_summary() {
        let scores = |failed| Scores { reward: -0.5, rollouts: 24 - failed, failed, ..Scores::default() };
        insta::assert_snapshot!(scores_text("held-out tasks before", &scores(0)), @"held-out tasks before: reward -0.500 (24 rollouts)");
        insta::assert_snapshot!(scores_text("after", &scores(1)), @"after: reward -0.500 (24 rollouts; 1 of 24 rollouts failed and are in no mean)");
    }
}
