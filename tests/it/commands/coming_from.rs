//! The pages for people who come from other trainers: every key of ours that their tables name is a key of the config.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::run;

/// Pages with tables whose last column is headed `here`.
const PAGES: [&str; 5] = [
    "docs/how-to/from-axolotl.md",
    "docs/how-to/from-tinker.md",
    "docs/how-to/from-trl.md",
    "docs/how-to/from-verl.md",
    "docs/reference/coming-from.md",
];

fn text(page: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap()
}

/// What stands between backquotes.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The cells of a row of a table; a bar in a code span would end its cell, so none has one.
fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

/// The keys of `docs/reference/config.md` by their whole name, with what their type's cell says; a table's type is its own.
fn keys() -> BTreeMap<String, String> {
    let page = text("docs/reference/config.md");
    let mut keys = BTreeMap::new();
    let mut table = String::new();
    for line in page.split("<!-- end of keys -->").next().unwrap().lines() {
        if let Some(name) = line.strip_prefix("### `") {
            table = name.trim_matches(['[', ']', '`']).to_owned();
            keys.entry(table.clone()).or_insert_with(|| "table".to_owned());
        } else if line.starts_with("| `") {
            let row = cells(line);
            keys.insert(format!("{table}.{}", quoted(row[0])[0]), row[1].to_owned());
        }
    }
    keys
}

/// Parts of a text between commas that stand in no brackets and no quotes.
fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut is_text, mut start, mut parts) = (0, false, 0, Vec::new());
    for (place, character) in text.char_indices() {
        match character {
            '"' => is_text = !is_text,
            '{' | '[' if !is_text => depth += 1,
            '}' | ']' if !is_text => depth -= 1,
            ',' if depth == 0 && !is_text => {
                parts.push(text[start..place].trim());
                start = place + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

/// Reads the code spans of one cell, and says which of them are no key or no value of the config.
struct Cell<'k> {
    keys: &'k BTreeMap<String, String>,
    /// Tables that keys of this cell may be of, the nearest last.
    tables: Vec<String>,
    /// The key that values without one are of.
    latest: Option<String>,
    known: usize,
    unknown: Vec<String>,
}

impl<'k> Cell<'k> {
    fn new(keys: &'k BTreeMap<String, String>) -> Self {
        Self { keys, tables: vec!["trainer".to_owned()], latest: None, known: 0, unknown: Vec::new() }
    }

    fn read(&mut self, span: &str) {
        let mut rest = span;
        if span.starts_with("fulgurite ") || span.ends_with(".jsonl") {
            return;
        }
        if rest.starts_with('[') {
            let (table, behind) = rest.split_once(']').unwrap();
            let table = table.trim_start_matches('[');
            if !self.keys.contains_key(table) {
                self.unknown.push(span.to_owned());
            }
            self.known += 1;
            self.tables.push(table.to_owned());
            rest = behind.trim_start_matches(']').trim();
        }
        match (rest.chars().next(), self.latest.clone()) {
            (None, _) => {}
            (Some('"' | '{'), Some(key)) => self.value(&key, rest),
            (Some('"' | '{'), None) => self.unknown.push(span.to_owned()),
            _ => self.key(rest),
        }
    }

    /// `key`, or `key = value`.
    fn key(&mut self, span: &str) {
        let (name, value) = span.split_once('=').map_or((span, None), |(name, value)| (name, Some(value.trim())));
        let name = name.trim();
        let places = self.latest.iter().chain(self.tables.iter().rev()).map(|table| format!("{table}.{name}"));
        let Some(key) = places.chain([name.to_owned()]).find(|whole| self.keys.contains_key(whole)) else {
            self.unknown.push(span.to_owned());
            return;
        };
        self.known += 1;
        if let Some((table, _)) = key.rsplit_once('.') {
            self.tables.push(table.to_owned());
        }
        self.latest = Some(key.clone());
        if let Some(value) = value {
            self.value(&key, value);
        }
    }

    /// A text is one of those that the key takes, and what a table says are keys of it.
    fn value(&mut self, key: &str, value: &str) {
        let kind = &self.keys[key];
        if let Some(text) = value.strip_prefix('"') {
            let choices = quoted(kind);
            let text = text.trim_end_matches('"');
            if !choices.is_empty() && !choices.contains(&text) {
                self.unknown.push(format!("{key} = {value}"));
            }
        } else if let Some(table) = value.strip_prefix('{') {
            let inner = table.trim_end().strip_suffix('}').unwrap();
            let is_open = kind.contains("the forms of") || !self.keys.keys().any(|known| is_below(known, key));
            for part in parts(inner.trim()) {
                let name = part.split('=').next().unwrap().trim();
                // What has a form of its own is written out in its type's cell.
                let is_known =
                    self.keys.contains_key(&format!("{key}.{name}")) || kind.contains(&format!("{{ {name} ="));
                if !is_known && (!is_open || kind.contains("{ ")) {
                    self.unknown.push(format!("{key}.{name}"));
                }
                self.known += 1;
            }
        }
    }
}

fn is_below(key: &str, table: &str) -> bool {
    key.strip_prefix(table).is_some_and(|rest| rest.starts_with('.'))
}

#[test]
fn every_key_of_ours_in_the_tables_of_other_trainers_is_a_key_of_the_config() {
    let keys = keys();
    let mut unknown = Vec::new();
    for page in PAGES {
        let (mut is_table, mut known) = (false, 0);
        for line in text(page).lines() {
            let row = cells(line);
            is_table = line.starts_with('|') && (is_table || row.last() == Some(&"here"));
            if !is_table {
                continue;
            }
            let names = if row[1] == "the same" { row[0] } else { row[1] };
            let mut cell = Cell::new(&keys);
            quoted(names).into_iter().for_each(|span| cell.read(span));
            known += cell.known;
            unknown.extend(cell.unknown.iter().map(|span| format!("{page}: {span}")));
        }
        assert!(known > 5, "{page}: {known}");
    }
    assert_eq!(unknown, [""; 0]);
}

#[test]
fn a_key_or_a_value_that_the_config_does_not_have_is_found() {
    let keys = keys();
    for (cell, wrong) in [
        ("`learning_rate`, `learning_rates`", vec!["learning_rates"]),
        ("`objective = \"dpo\"`, `\"dqo\"`", vec!["trainer.objective = \"dqo\""]),
        ("`kl = { coefficient = C, on = \"loss\" }`", vec!["trainer.kl.on"]),
        ("`[[models]] lora_rank`, `lora_beta`", vec!["lora_beta"]),
        ("`schedule = { sync = { max_staleness = K } }`", vec!["trainer.schedule.sync"]),
        ("`sampling_parameters = { temperature = T }`, `source.mixture` with `weight`", vec![]),
        ("`[model] path`", vec!["[model] path", "path"]),
        ("`fulgurite train CONFIG --resume`, `metrics.jsonl`, `loss_parameters.clip_low`, `clip_high`", vec![]),
    ] {
        let mut found = Cell::new(&keys);
        quoted(cell).into_iter().for_each(|span| found.read(span));
        assert_eq!(found.unknown, wrong, "{cell}");
    }
}

/// The configs of `examples/coming_from`, by their text without the comment that they begin with.
fn configs() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/coming_from");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let configs = files.filter(|file| file.extension().is_some_and(|extension| extension == "toml"));
    let body = |text: String| {
        let kept: Vec<&str> = text.lines().skip_while(|line| line.is_empty() || line.starts_with('#')).collect();
        kept.join("\n") + "\n"
    };
    configs.map(|file| (body(std::fs::read_to_string(&file).unwrap()), file.to_str().unwrap().to_owned())).collect()
}

#[test]
fn every_config_of_the_pages_about_other_trainers_is_one_that_was_run_and_is_taken() {
    let configs = configs();
    let mut shown = 0;
    for page in PAGES {
        for block in text(page).split("```toml\n").skip(1) {
            let block = block.split("```").next().unwrap();
            assert!(configs.contains_key(block), "{page}: no file of examples/coming_from is\n{block}");
            shown += 1;
        }
    }
    assert!(shown > 2, "{shown}");
    for file in configs.values() {
        let ran = run(["config", "show", "--json", "--config", file]);
        assert_eq!(ran.code, Some(0), "{file}: {}", ran.stderr);
    }
}
