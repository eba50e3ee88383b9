//! What the data of a run are, as lines: counts, lengths, what is left out, and rows with what of them is trained.

use fulgurite_trainer::{DataPart, DataReport, Lengths, MixtureReads, ShownPart, ShownRow};

use crate::paint::Paint;
use crate::table::Columns;

/// Rows of a histogram.
const BUCKETS: u64 = 10;
/// Characters of the longest bar.
const BAR: u64 = 40;
/// Characters of a part that is only read which are shown.
const READ_SHOWN: usize = 400;

/// A report as lines for people.
pub fn data_lines(report: &DataReport, paint: Paint) -> Vec<String> {
    let mut table = Columns::new(&["", "rows", "sequences", "tokens", "trained", "duplicates", "file"]);
    table.push(part_row("training", &report.training));
    for validation in &report.validation {
        table.push(part_row(&validation_name(validation), validation));
    }
    let mut lines = table.lines();
    lines.push(String::new());
    let held_out = report.validation.iter().map(|part| (validation_name(part), part));
    for (name, part) in std::iter::once(("training".to_owned(), &report.training)).chain(held_out) {
        if let Some(form) = &part.form {
            lines.push(format!("rows of {name} are found to be in the form {form}"));
        }
    }
    for MixtureReads { file, rows } in &report.mixture {
        lines.push(format!("an epoch reads {rows} rows of {}", file.display()));
    }
    lines.extend(findings(report, paint));
    lines.push(String::new());
    lines.extend(histogram(&report.training, report.max_tokens));
    for (index, row) in report.rows.iter().enumerate() {
        lines.push(String::new());
        lines.extend(row_lines(index, row, paint));
    }
    lines
}

fn validation_name(part: &DataPart) -> String {
    part.name.as_ref().map_or_else(|| "validation".to_owned(), |name| format!("validation {name}"))
}

fn part_row(name: &str, part: &DataPart) -> Vec<String> {
    let files: Vec<String> = part.files.iter().map(|file| file.display().to_string()).collect();
    let share = part.trained_tokens as f64 / part.tokens.max(1) as f64;
    let numbers = [part.rows, part.sequences, part.tokens].map(|number| number.to_string());
    let trained = format!("{} ({:.1}%)", part.trained_tokens, 100.0 * share);
    let rest = [trained, part.duplicates.to_string(), files.join(", ")];
    [vec![name.to_owned()], numbers.to_vec(), rest.to_vec()].concat()
}

/// What somebody should look at.
fn findings(report: &DataReport, paint: Paint) -> Vec<String> {
    let mut lines = Vec::new();
    for left_out in &report.left_out {
        let word = if left_out.ends_run { paint.red("ends the run") } else { "left out".to_owned() };
        let file = left_out.file.display();
        lines.push(format!(
            "{word}: {} rows of {file} are {}, the first at {}: it {}",
            left_out.rows, left_out.cause, left_out.first, left_out.reason
        ));
    }
    if report.cut_sequences > 0 {
        let most = report.max_tokens.map_or(String::new(), |most| format!(" to {most} tokens"));
        lines.push(format!("cut: {} sequences{most}, which lose {} tokens", report.cut_sequences, report.cut_tokens));
    }
    if report.training.duplicates > 0 {
        lines.push(format!("duplicates: {} rows of training repeat one before them", report.training.duplicates));
    }
    if report.shared_rows > 0 || report.shared_prompts > 0 {
        lines.push(format!(
            "{}: {} rows of validation are trained too, and the prompts of {}",
            paint.red("shared"),
            report.shared_rows,
            report.shared_prompts
        ));
    }
    lines
}

/// How many rows have how many tokens.
fn histogram(part: &DataPart, max_tokens: Option<usize>) -> Vec<String> {
    let Lengths { least, median, p90, p99, greatest } = part.length;
    let most = max_tokens.map_or(String::new(), |most| format!(", and a sequence may have {most}"));
    let mut lines = vec![format!(
        "tokens of a row: {least} at least, {median} in the median, {p90} and {p99} in 90 and 99 of 100, {greatest} at \
         most{most}"
    )];
    let width = (greatest - least + 1).div_ceil(BUCKETS).max(1);
    let of_bucket = |bucket: u64| (least + bucket * width, least + (bucket + 1) * width - 1);
    let count = |(from, to): (u64, u64)| {
        let below = |limit: u64| part.lengths.partition_point(|length| *length < limit);
        (below(to + 1) - below(from)) as u64
    };
    let buckets = (greatest - least) / width + 1;
    let fullest = (0..buckets).map(|bucket| count(of_bucket(bucket))).max().unwrap_or_default().max(1);
    let digits = greatest.to_string().len();
    for bucket in 0..buckets {
        let (from, to) = of_bucket(bucket);
        let rows = count((from, to));
        let bar = "#".repeat((rows * BAR).div_ceil(fullest) as usize);
        lines.push(format!("{from:>digits$}-{to:<digits$} {rows:>8} {bar}").trim_end().to_owned());
    }
    lines
}

fn row_lines(index: usize, row: &ShownRow, paint: Paint) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, sequence) in row.sequences.iter().enumerate() {
        let answer = sequence.answer.map_or(String::new(), |answer| format!(", {answer}"));
        let of = if row.sequences.len() > 1 && sequence.answer.is_none() {
            format!(".{}", number + 1)
        } else {
            String::new()
        };
        let title = format!("row {}{of}{answer}: what is trained stands between « and »", index + 1);
        lines.push(paint.bold(&title));
        let text: String = sequence.parts.iter().map(|part| painted(part, paint)).collect();
        lines.extend(text.lines().map(|line| format!("  {line}")));
    }
    lines
}

/// The text of a part, line by line, so that each line has its own colour.
fn painted(part: &ShownPart, paint: Paint) -> String {
    let is_trained = part.weight > 0.0;
    let text = if is_trained { part.text.clone() } else { shortened(&part.text) };
    let colour = |line: &str| match (line.is_empty(), is_trained) {
        (true, _) => String::new(),
        (_, true) => paint.green(line),
        (_, false) => paint.dim(line),
    };
    let lines: Vec<String> = text.split('\n').map(colour).collect();
    let weight = if part.weight == 1.0 { String::new() } else { format!("{}×", part.weight) };
    if is_trained { format!("«{weight}{}»", lines.join("\n")) } else { lines.join("\n") }
}

/// A long text without its middle.
fn shortened(text: &str) -> String {
    let count = text.chars().count();
    if count <= READ_SHOWN {
        return text.to_owned();
    }
    let head: String = text.chars().take(READ_SHOWN / 2).collect();
    let tail: String = text.chars().skip(count - READ_SHOWN / 2).collect();
    format!("{head} ... {} characters ... {tail}", count - READ_SHOWN)
}

#[cfg(test)]
mod tests {
    use fulgurite_trainer::{LeftOut, ShownSequence};

    use super::*;

    #[test]
    fn data_are_counted_measured_and_shown_by_their_mask() {
        let part = |weight: f32, text: &str| ShownPart { weight, tokens: 1, text: text.to_owned() };
        let lengths = vec![3, 4, 4, 12];
        let report = DataReport {
            training: DataPart {
                name: None,
                files: vec!["a.jsonl".into()],
                form: Some("sharegpt".to_owned()),
                rows: 4,
                sequences: 4,
                tokens: 23,
                trained_tokens: 8,
                duplicates: 1,
                length: Lengths { least: 3, median: 4, p90: 12, p99: 12, greatest: 12 },
                lengths,
            },
            validation: vec![DataPart {
                files: vec!["a.jsonl".into()],
                rows: 1,
                sequences: 1,
                tokens: 4,
                ..DataPart::default()
            }],
            mixture: vec![MixtureReads { file: "a.jsonl".into(), rows: 8 }],
            shared_rows: 0,
            shared_prompts: 1,
            left_out: vec![LeftOut {
                file: "a.jsonl".into(),
                cause: "too_long",
                rows: 2,
                first: 7,
                reason: "has a sequence of 20 tokens".to_owned(),
                ends_run: true,
            }],
            cut_sequences: 0,
            cut_tokens: 0,
            max_tokens: Some(16),
            rows: vec![ShownRow {
                sequences: vec![ShownSequence {
                    answer: None,
                    parts: vec![part(0.0, "user\na\n"), part(1.0, "b\nc"), part(0.5, "d")],
                }],
            }],
        };
        insta::assert_snapshot!(data_lines(&report, Paint::plain()).join("\n"), @r"
                     rows  sequences  tokens  trained    duplicates  file
         training    4     4          23      8 (34.8%)  1           a.jsonl
         validation  1     1          4       0 (0.0%)   0           a.jsonl

        rows of training are found to be in the form sharegpt
        an epoch reads 8 rows of a.jsonl
        ends the run: 2 rows of a.jsonl are too_long, the first at 7: it has a sequence of 20 tokens
        duplicates: 1 rows of training repeat one before them
        shared: 0 rows of validation are trained too, and the prompts of 1

        tokens of a row: 3 at least, 4 in the median, 12 and 12 in 90 and 99 of 100, 12 at most, and a sequence may have 16
         3-3         1 ####################
         4-4         2 ########################################
         5-5         0
         6-6         0
         7-7         0
         8-8         0
         9-9         0
        10-10        0
        11-11        0
        12-12        1 ####################

        row 1: what is trained stands between « and »
          user
          a
          «b
          c»«0.5×d»
        ");
    }
}
