//! What a person sees of a run that learns from conversations.

use fulgurite_trainer::RunSummary;
use serde_json::{Map, Value};

/// The table of its updates.
#[derive(Default)]
pub(super) struct SftTable {
    has_header: bool,
}

impl SftTable {
    /// The table, if the steps are such a run's.
    pub(super) fn of<'t>(table: &'t mut Option<Self>, metrics: &Map<String, Value>) -> Option<&'t mut Self> {
        if metrics.contains_key("num_conversations") {
            table.get_or_insert_default();
        }
        table.as_mut()
    }

    /// A step's row, the header before the first.
    pub(super) fn lines(&mut self, step: u64, metrics: &Map<String, Value>) -> Vec<String> {
        let header = (!std::mem::replace(&mut self.has_header, true)).then(header);
        header.into_iter().chain([row(step, metrics)]).collect()
    }
}

fn header() -> String {
    format!(
        "{:>6} {:>5} {:>9} {:>9} {:>9} {:>9} {:>8} {:>9} {:>8} {:>8}",
        "step", "epoch", "train nll", "train bpb", "valid nll", "valid bpb", "tokens", "lr", "clip", "seconds"
    )
}

fn row(step: u64, metrics: &Map<String, Value>) -> String {
    let number = |key: &str| metrics.get(key).and_then(Value::as_f64);
    let fixed = |key: &str, digits: usize| number(key).map_or("-".to_owned(), |value| format!("{value:.digits$}"));
    let rate = number("optim/lr").map_or("-".to_owned(), |value| format!("{value:.2e}"));
    format!(
        "{step:>6} {:>5} {:>9} {:>9} {:>9} {:>9} {:>8} {rate:>9} {:>8} {:>8}",
        fixed("epoch", 0),
        fixed("train_mean_nll", 4),
        fixed("train_mean_bpb", 4),
        fixed("test/nll", 4),
        fixed("test/bpb", 4),
        fixed("num_tokens", 0),
        fixed("optim/clip_factor", 3),
        fixed("time/total", 1),
    )
}

/// What the end of such a run says.
pub(super) fn summary_lines(summary: &RunSummary) -> Vec<String> {
    let mut lines = Vec::new();
    for (when, scores) in [("before", summary.validation_before), ("after", summary.validation_after)] {
        let Some(scores) = scores else { continue };
        let bits = scores.bits_per_byte.map_or(String::new(), |bits| format!(", {bits:.4} bits per byte"));
        lines.push(format!("validation {when}: {:.4} nats a token{bits}", scores.nll));
    }
    if summary.validation_before.is_none() {
        lines.push("no validation: [trainer] source = { ..., validation = 0.1 } holds a share out".to_owned());
    }
    for (cause, rows) in summary.skipped_rows.iter().flatten() {
        lines.push(format!("rows left out, {}: {rows}", cause.replace('_', " ")));
    }
    if let Some(checkpoint) = &summary.checkpoint {
        lines.push(format!("weights: {}", checkpoint.display()));
    }
    if summary.sampled_tokens > 0 {
        lines.push(format!("sampled tokens {}, trained {}", summary.sampled_tokens, summary.trained_tokens));
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_lines_up_with_its_header() {
        let metrics = json!({
            "num_conversations": 8, "epoch": 1, "train_mean_nll": 1.25, "train_mean_bpb": 2.5, "num_tokens": 1234,
            "optim/lr": 5e-4, "optim/clip_factor": 0.25, "time/total": 0.5,
        });
        let mut table = None;
        let metrics = metrics.as_object().unwrap();
        let lines = SftTable::of(&mut table, metrics).unwrap().lines(3, metrics);
        insta::assert_snapshot!(lines.join("\n"), @r"
          step epoch train nll train bpb valid nll valid bpb   tokens        lr     clip  seconds
             3     1    1.2500    2.5000         -         -     1234   5.00e-4    0.250      0.5
        ");
    }
}
