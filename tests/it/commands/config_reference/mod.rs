//! docs/reference/config.md has every key of the config, as the code declares it: name, type, default and meaning are read from the
//! declarations and from `config show`, and the document must say the same.
mod declarations;
mod tables;

use std::path::Path;

use serde_json::{Map, Value};

use crate::common::run;

/// Between these lines the document is made.
const BEGIN: &str = "<!-- keys: made by the command above -->\n";
const END: &str = "<!-- end of keys -->\n";

/// With this variable set, the test writes what it would compare.
const UPDATE: &str = "UPDATE_DOCS";

/// Says what must be said, and leaves everything else to its default.
const LEAST: &str = r#"
[[models]]
name = "m"
backend = "embedded"
path = "m"

[base]
corpus = ["c"]
vocabulary_size = 300
shape = { hidden_size = 32, layers = 1, heads = 2, key_value_heads = 1, head_size = 16, intermediate_size = 64, context_length = 128 }

[tasks]
train = [1]
held_out = [1]

[prices]

[runner.sandbox]

[runner.rubric]
judge = "j"
criteria = [{ name = "c", text = "t" }]
second = { judge = "k" }
labelled = { file = "f" }

[proxy]
auxiliary_rules = [{ name = "r" }]

[trainer]
"#;

/// The tables of `[trainer]`, by an objective that has them; what several say is what the first says.
const OF_OBJECTIVES: [&str; 4] = [
    r#"
harvest = {}
advantages = { per_call = {} }
dynamic_sampling = {}
pairwise = { judge = "shorter" }
conversations = { file = "f" }
kl = { coefficient = 0.1 }
"#,
    "objective = \"dpo\"\npreference = { losses = [{ loss = \"sigmoid\" }] }\n",
    "objective = \"sft\"\nsource = { mixture = [{ file = \"f\" }] }\n",
    "objective = \"on_policy_distillation\"\ndistillation = {}\n",
];

#[test]
fn the_document_has_every_key_of_the_config() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/config.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = document.split_once(BEGIN).expect("the line that begins the keys");
    let (written, after) = rest.split_once(END).expect("the line that ends the keys");
    let made = tables::tables(&declarations::Declarations::read(), &defaults());
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{made}{END}{after}")).unwrap();
        return;
    }
    assert!(
        written == made,
        "docs/reference/config.md is not what the code declares. This makes it anew:\n\n    \
         {UPDATE}=1 cargo nextest run -p fulgurite config_reference\n\n{}",
        first_difference(written, &made)
    );
}

#[test]
fn the_document_has_every_variable_of_the_command_and_the_runner() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(root.join("docs/reference/config.md")).unwrap();
    let named = declarations::quoted_words(
        &["src", "config/src", "hub/src", "lab/src", "server/src", "runner/src"],
        "FULGURITE_",
    );
    assert!(named.len() > 8, "{named:?}");
    let missing: Vec<&String> = named.iter().filter(|name| !document.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/reference/config.md says nothing of {missing:?}");
}

/// What `config show` says of each key that nobody has set.
fn defaults() -> Map<String, Value> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("least.toml");
    let mut defaults = Map::new();
    for tables in OF_OBJECTIVES {
        std::fs::write(&file, format!("{LEAST}{tables}")).unwrap();
        let shown = run(["config", "show", "--json", "--config", file.to_str().unwrap()]).json_lines();
        for line in shown.into_iter().filter(|line| line["from"] == "default") {
            defaults.entry(line["key"].as_str().unwrap()).or_insert(line["value"].clone());
        }
    }
    defaults
}

fn first_difference(written: &str, made: &str) -> String {
    let different = written.lines().zip(made.lines()).find(|(written, made)| written != made);
    different.map_or("one of them is longer".to_owned(), |(written, made)| format!("it says\n{written}\nfor\n{made}"))
}
