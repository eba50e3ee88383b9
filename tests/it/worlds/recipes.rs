//! Recipes: their own tests, in Python, and their whole path with a model that is hardly trained.

use std::fs;
use std::path::Path;

use serde_json::Value;

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
    eprintln!("NOT RUN: tests.test_flow of twenty_questions, which needs the package crewai");
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

/// Writes a recipe out, and trains it by two updates.
fn walk(name: &str, config: &str) {
    let directory = tempfile::tempdir().unwrap();
    let written = fulgurite(["init", name]).current_dir(directory.path()).output().unwrap();
    assert!(written.status.success(), "{name}: {written:?}");
    let here = directory.path().join(name);
    let real = here.join("models/SmolLM2-135M-Instruct");
    if fs::read_to_string(here.join(config)).unwrap().contains("models/SmolLM2-135M-Instruct") {
        // In the place of the real one, which no test downloads.
        fs::create_dir(here.join("models")).unwrap();
        tiny_model(directory.path(), 2048);
        fs::rename(directory.path().join("model"), &real).unwrap();
    }
    shortened(&here.join(config));
    let mut command =
        in_python(fulgurite(["train", config, "--json", "--max-steps", "2", "--run-directory", "runs/r"]));
    let lines = Ran::from(command.current_dir(&here).output().unwrap()).json_lines();
    let summary = lines.last().unwrap();
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
