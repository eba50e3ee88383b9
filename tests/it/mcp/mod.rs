//! The tools by which a coding agent trains models, as hosts of the Model Context Protocol call them.

mod clients;
mod graders;
mod host;
mod interruptions;
mod limits;
mod objectives;
mod servers;
mod skills;
mod tool_sets;
mod training;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::common::project::{Project, SMALL, UNEVEN};
use crate::worlds::there_are_no_sandboxes;

/// A project with a small model that has learnt nothing.
fn project() -> Project {
    let project = Project::new(UNEVEN, SMALL);
    // Makes the base model.
    project.train("made", &["--max-steps", "1"]);
    fs::remove_dir_all(project.path("made")).unwrap();
    project
}

/// What the tools are told on a machine where nothing can be kept in a sandbox.
fn flags() -> &'static [&'static str] {
    if there_are_no_sandboxes() { &["--unsafe-grader"] } else { &[] }
}

/// Tasks of a range of numbers.
fn tasks(range: std::ops::Range<u32>) -> Value {
    range.map(|number| json!({ "prompt": format!("Say you are {number}."), "answer": number.to_string() })).collect()
}

/// A grader that pays for short answers.
fn short() -> Value {
    json!({
        "name": "short",
        "code": "def grade(task, answer):\n    length = len(answer.encode())\n    return {'reward': 1 - min(length, 20) / 20, 'length': length}\n",
        "examples": [
            { "task": { "answer": "7" }, "answer": "", "reward": 1 },
            { "task": { "answer": "7" }, "answer": "abc", "reward": 0.85 },
        ],
    })
}

/// A run that the tools can begin: few answers, each of a few tokens.
fn run(name: &str, grader: &str) -> Value {
    json!({
        "name": name, "model": "model-1", "grader": grader, "max_tokens": 8, "tasks": tasks(0..40), "held_out": tasks(40..44),
        "settings": { "trainer.group_size": 4, "trainer.groups_per_batch": 2, "trainer.learning_rate": 0.01 },
    })
}

/// Ids of the processes whose command line holds this text.
fn processes_of(text: &Path) -> Vec<u32> {
    let of = |id: &u32| fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    let text = text.as_os_str().as_encoded_bytes();
    let ids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter(|id| of(id).windows(text.len()).any(|part| part == text)).collect()
}
