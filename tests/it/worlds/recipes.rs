//! Recipes: their own tests, in Python, and their whole path with a model that is hardly trained.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{in_python, python_tests};
use crate::common::{Ran, fulgurite, tiny_model};

#[test]
fn rewards_of_recipes_cannot_be_forged_and_what_is_held_out_is_in_no_corpus() {
    let examples =
        ["arithmetic", "guess_number", "wordle", "local_search", "two_players", "chat_sft", "dpo_shorter", "distill"];
    for example in examples {
        python_tests(example, &["discover", "-q"]);
    }
}

#[test]
fn the_answerer_of_twenty_questions_reads_what_is_asked_and_its_game_cannot_be_forged() {
    python_tests(
        "twenty_questions",
        &["tests.test_corpus", "tests.test_facts", "tests.test_game", "tests.test_grammar"],
    );
}

/// The environment that has CrewAI, which is too large for tests/run to make: what CREWAI_ENVIRONMENT names, or the example's
/// own. Prints that there is none.
fn crewai() -> Option<PathBuf> {
    let named = std::env::var_os("CREWAI_ENVIRONMENT").map(PathBuf::from);
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/twenty_questions/.venv");
    let environment = named.clone().unwrap_or(own);
    let look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('crewai') is None)";
    let looked = Command::new(environment.join("bin/python")).args(["-c", look]).output();
    if looked.is_ok_and(|looked| looked.status.success()) {
        return Some(fs::canonicalize(environment).unwrap());
    }
    assert_eq!(named, None, "CREWAI_ENVIRONMENT names an environment without crewai");
    eprintln!("NOT RUN: the Flow of twenty_questions needs the package crewai, in {}", environment.display());
    None
}

#[test]
fn the_flow_of_twenty_questions_plays_and_is_trained_where_crewai_is_installed() {
    let Some(environment) = crewai() else { return };
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/twenty_questions");
    let mut flow = Command::new(environment.join("bin/python"));
    flow.args(["-m", "unittest", "tests.test_flow"]);
    done(&tests, flow);
    let directory = tempfile::tempdir().unwrap();
    let here = written_out("twenty_questions", "warmup.toml", directory.path());
    std::os::unix::fs::symlink(environment, here.join(".venv")).unwrap();
    let mut corpus = script("corpus.py");
    corpus.args(["--seed", "1", "--count", "40"]).stdout(fs::File::create(here.join("games.jsonl")).unwrap());
    done(&here, corpus);
    assert_eq!(trained(&here, "warmup.toml", "runs/warmup-1")["steps"], 2);
    done(&here, fulgurite(["model", "export", "runs/warmup-1", "--format", "merged", "--output", "models/warm-1"]));
    first_lines(&here.join("held_out.jsonl"), 2);
    shortened(&here.join("twenty_questions.toml"));
    let summary = trained(&here, "twenty_questions.toml", "runs/r");
    is_walked("twenty_questions", &summary);
    assert_eq!(summary["held_out_turns_after"], 20.0, "held-out games are whole ones: {summary}");
}

#[test]
fn no_two_recipes_share_a_run_and_figures_of_readmes_are_those_of_their_curves() {
    python_tests("", &["tests.test_run_all", "tests.test_figures"]);
}

#[test]
fn the_grader_of_the_calculator_goes_by_calls_that_were_made() {
    python_tests("calculator", &["discover", "-q"]);
}

/// A recipe's config whose base is hardly trained, and whose scored tasks are one or two of its own.
fn shortened(config: &Path) {
    let text = fs::read_to_string(config).unwrap();
    let mut table: toml::Table = text.parse().unwrap();
    let base = table.get_mut("base").and_then(toml::Value::as_table_mut);
    if let Some(base) = base {
        let corpus = base["corpus"].as_array_mut().unwrap();
        let count = corpus.iter().position(|word| word.as_str() == Some("--count")).unwrap();
        corpus[count + 1] = "3000".into();
        let training = base["training"].as_table_mut().unwrap();
        training.insert("max_steps".into(), 4.into());
        training.insert("cooldown_steps".into(), 1.into());
        training.remove("validation_accuracy");
    }
    let tasks = table["tasks"].as_table_mut().unwrap();
    for name in ["held_out", "final"] {
        if let Some(range) = tasks.get_mut(name).and_then(|tasks| tasks.get_mut("range")) {
            let first = range[0].as_integer().unwrap();
            range[1] = (first + 2).into();
        }
    }
    let trainer = table["trainer"].as_table_mut().unwrap();
    for (key, value) in [("groups_per_batch", 2), ("group_size", 3)] {
        trainer.insert(key.into(), value.into());
    }
    trainer["evaluation"].as_table_mut().unwrap().insert("samples_per_task".into(), 1.into());
    fs::write(config, table.to_string()).unwrap();
}

/// Writes a recipe out; with a tiny model, where its config names SmolLM2, which no test downloads.
pub(super) fn written_out(name: &str, config: &str, directory: &Path) -> PathBuf {
    let written = fulgurite(["init", name]).current_dir(directory).output().unwrap();
    assert!(written.status.success(), "{name}: {written:?}");
    let here = directory.join(name);
    if fs::read_to_string(here.join(config)).unwrap().contains("models/SmolLM2-135M-Instruct") {
        fs::create_dir(here.join("models")).unwrap();
        tiny_model(directory, 2048);
        fs::rename(directory.join("model"), here.join("models/SmolLM2-135M-Instruct")).unwrap();
    }
    here
}

/// Two updates of a config, and how they ended.
fn trained(here: &Path, config: &str, run: &str) -> Value {
    let command = fulgurite(["train", config, "--json", "--max-steps", "2", "--run-directory", run]);
    let lines = Ran::from(in_python(command).current_dir(here).output().unwrap()).json_lines();
    lines.last().unwrap().clone()
}

/// What is run in a recipe's directory, and must succeed.
pub(super) fn done(here: &Path, mut command: Command) {
    let ended = command.current_dir(here).output().unwrap();
    assert!(ended.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ended.stderr));
}

pub(super) fn script(name: &str) -> Command {
    let mut command = Command::new("python3");
    command.arg(name);
    command
}

/// Leaves a file its first lines alone.
fn first_lines(file: &Path, count: usize) {
    let text = fs::read_to_string(file).unwrap();
    fs::write(file, text.lines().take(count).map(|line| format!("{line}\n")).collect::<String>()).unwrap();
}

/// Writes a recipe out, and trains it by two updates.
fn walk(name: &str, config: &str) {
    let directory = tempfile::tempdir().unwrap();
    let here = written_out(name, config, directory.path());
    shortened(&here.join(config));
    is_walked(name, &trained(&here, config, "runs/r"));
}

/// Two updates were made of rollouts that none failed, and it was scored.
fn is_walked(name: &str, summary: &Value) {
    assert_eq!(summary["steps"], 2, "{name}: {summary}");
    assert_eq!(summary["failed_rollouts"], Value::Null, "{name}: {summary}");
    assert!(summary["sampled_tokens"].as_u64().unwrap() > 0, "{name}: {summary}");
    assert!(summary["held_out_reward_after"].is_number(), "{name}: {summary}");
}

#[test]
fn recipes_run_from_where_they_were_written_out() {
    for (name, config) in [
        ("guess_number", "guess_number.toml"),
        ("guess_number", "smollm2.toml"),
        ("wordle", "wordle.toml"),
        ("local_search", "local_search.toml"),
        ("two_players", "two_players.toml"),
        ("calculator", "calculator.toml"),
        ("arithmetic", "arithmetic.toml"),
    ] {
        walk(name, config);
    }
}

#[test]
fn a_style_is_taught_from_where_the_recipe_was_written_out() {
    let directory = tempfile::tempdir().unwrap();
    let here = written_out("chat_sft", "chat_sft.toml", directory.path());
    done(&here, script("make_data.py"));
    let summary = trained(&here, "chat_sft.toml", "runs/r");
    assert_eq!((&summary["steps"], summary["validation_nll_after"].is_number()), (&2.into(), true), "{summary}");
    done(&here, in_python(fulgurite(["eval", "ask.toml", "--checkpoint", "runs/r"])));
}

#[test]
fn shorter_answers_are_preferred_from_where_the_recipe_was_written_out() {
    let directory = tempfile::tempdir().unwrap();
    let here = written_out("dpo_shorter", "dpo_shorter.toml", directory.path());
    done(&here, script("questions.py"));
    // What a model that has learnt nothing says is no answer to compare.
    let pair = |number: u32| {
        let prompt = format!("What comes after {number}?");
        json!({ "prompt": prompt, "chosen": "Another number.", "rejected": "Another number. Or more of them, who knows." })
    };
    let pairs: String = (0..24).map(|number| format!("{}\n", pair(number))).collect();
    fs::write(here.join("pairs.jsonl"), pairs).unwrap();
    let summary = trained(&here, "dpo_shorter.toml", "runs/r");
    assert_eq!(summary["steps"], 2, "{summary}");
    done(&here, in_python(fulgurite(["eval", "ask.toml", "--checkpoint", "runs/r", "--samples", "1"])));
}

#[test]
fn a_prompt_is_distilled_from_where_the_recipe_was_written_out() {
    let directory = tempfile::tempdir().unwrap();
    let here = written_out("distill", "heed.toml", directory.path());
    done(&here, script("make_data.py"));
    assert_eq!(trained(&here, "heed.toml", "runs/heed")["steps"], 2);
    let merged = ["model", "export", "runs/heed", "--format", "merged", "--output", "models/heeding"];
    done(&here, fulgurite(merged));
    for file in ["held_out.jsonl", "final.jsonl"] {
        first_lines(&here.join(file), 2);
    }
    let summary = trained(&here, "distill.toml", "runs/r");
    assert_eq!(summary["steps"], 2, "{summary}");
    assert!(summary["sampled_tokens"].as_u64().unwrap() > 0, "{summary}");
}
