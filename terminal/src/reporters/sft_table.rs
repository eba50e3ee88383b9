//! What a person sees of a run that learns from conversations, or from comparisons.

use fulgurite_trainer::RunSummary;
use serde_json::{Map, Value};

use super::weights_line::weights_line;

/// The table of its updates.
pub(super) struct SftTable {
    has_header: bool,
    columns: &'static [Column],
}

/// A heading, its width, the metric (the first that there is), and its digits.
struct Column(&'static str, usize, &'static [&'static str], usize);

/// Of conversations.
const CONVERSATIONS: [Column; 6] = [
    Column("epoch", 5, &["epoch"], 0),
    Column("train nll", 9, &["train_mean_nll"], 4),
    Column("train bpb", 9, &["train_mean_bpb"], 4),
    Column("valid nll", 9, &["test/nll"], 4),
    Column("valid bpb", 9, &["test/bpb"], 4),
    Column("tokens", 8, &["num_tokens"], 0),
];

/// Of comparisons.
const COMPARISONS: [Column; 7] = [
    Column("epoch", 5, &["epoch"], 0),
    Column("loss", 9, &["dpo_loss", "ipo_loss", "orpo_loss", "simpo_loss", "kto_loss", "bradley_terry_loss"], 4),
    Column("accuracy", 9, &["accuracy"], 3),
    Column("margin", 9, &["margin"], 4),
    Column("valid acc", 9, &["test/accuracy"], 3),
    Column("valid nll", 9, &["test/nll"], 4),
    Column("tokens", 8, &["num_tokens"], 0),
];

impl SftTable {
    /// The table, if the steps are such a run's.
    pub(super) fn of<'t>(table: &'t mut Option<Self>, metrics: &Map<String, Value>) -> Option<&'t mut Self> {
        let columns: Option<&'static [Column]> = match () {
            () if metrics.contains_key("num_conversations") => Some(&CONVERSATIONS),
            () if metrics.contains_key("num_pairs") => Some(&COMPARISONS),
            () => None,
        };
        if let Some(columns) = columns {
            table.get_or_insert(Self { has_header: false, columns });
        }
        table.as_mut()
    }

    /// A step's row, the header before the first.
    pub(super) fn lines(&mut self, step: u64, metrics: &Map<String, Value>) -> Vec<String> {
        let header = (!std::mem::replace(&mut self.has_header, true)).then(|| header(self.columns));
        header.into_iter().chain([row(step, metrics, self.columns)]).collect()
    }
}

fn header(columns: &[Column]) -> String {
    let own: String = columns.iter().map(|Column(name, width, ..)| format!(" {name:>width$}")).collect();
    format!("{:>6}{own} {:>9} {:>8} {:>8}", "step", "lr", "clip", "seconds")
}

fn row(step: u64, metrics: &Map<String, Value>, columns: &[Column]) -> String {
    let number = |key: &str| metrics.get(key).and_then(Value::as_f64);
    let fixed = |keys: &[&str], digits: usize| {
        let value = keys.iter().find_map(|key| number(key));
        value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let rate = number("optim/lr").map_or("-".to_owned(), |value| format!("{value:.2e}"));
    let own: String =
        columns.iter().map(|Column(_, width, keys, digits)| format!(" {:>width$}", fixed(keys, *digits))).collect();
    let (clip, seconds) = (fixed(&["optim/clip_factor"], 3), fixed(&["time/total"], 1));
    format!("{step:>6}{own} {rate:>9} {clip:>8} {seconds:>8}")
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
    lines.extend(weights_line(summary));
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
