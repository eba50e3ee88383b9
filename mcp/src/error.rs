//! What a tool answers when it cannot do what it is asked.

use std::io;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::at_start::{StartTools, WeightsInPlace};

/// Why a tool did not do what it was asked. The agent reads it: each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The arguments are not those of the tool.
    #[error("arguments of {tool}: {why}")]
    Arguments {
        /// The tool.
        tool: &'static str,
        /// What is wrong.
        why: String,
    },
    /// Another call is at work.
    #[error(
        "busy: another call is at work, and this one has waited {seconds} s for it; call again, or look with run_status"
    )]
    Busy {
        /// How long it waited.
        seconds: u64,
    },
    /// There is no such thing.
    #[error("there is no {kind} {name:?}; {}", those(.known))]
    Unknown {
        /// `run`, `model`, `grader`, `checkpoint`, `tool`, `prompt`.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// It is there already.
    #[error("there is a {kind} {name:?} already: take another name")]
    Exists {
        /// `run`, `model`, `checkpoint`.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// A run is at work, and the call needs it at rest.
    #[error(
        "run {run:?} is being trained right now, and one is at a time: wait with train_steps(run = {run:?}, steps = 0)"
    )]
    AtWork {
        /// The run.
        run: String,
    },
    /// It must not be done, or cannot be as things stand.
    #[error("{0}")]
    Refused(String),
    /// What the user allowed is used up.
    #[error("the user's limit is reached: {spent} {what} of {limit}; nothing more is spent until the user raises it")]
    Limit {
        /// Of what.
        what: &'static str,
        /// What all runs have taken.
        spent: String,
        /// What they may.
        limit: String,
    },
    /// A file that a run was begun with is not what it was.
    #[error(
        "{} has been changed since run {run:?} began, so that its rewards and scores would mean something else: begin a new \
         run with it, or put it back", path.display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// The run.
        run: String,
    },
    /// What the tools know of a run is not what they wrote.
    #[error(
        "{} was not written by these tools for run {run:?}, or has been changed since: its grader, tasks and settings are not known \
         to be what it began with, so that nothing is trained or scored by it; begin a new run", path.display()
    )]
    Unsealed {
        /// The file.
        path: PathBuf,
        /// The run.
        run: String,
    },
    /// One of the program's own commands failed.
    #[error("`fulgurite {command}` failed: {message}")]
    Command {
        /// Its first words.
        command: String,
        /// What it said last.
        message: String,
    },
    /// Weights are behind the model that a run's start would replace.
    #[error("{}", with_choices(.found, .tools))]
    WeightsInPlace {
        /// What the trainer found.
        found: WeightsInPlace,
        /// The tools of the choices.
        tools: StartTools,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl ToolError {
    /// With the tool that a refused start began with.
    pub(crate) fn of_start(self, begins: &'static str) -> Self {
        match self {
            Self::WeightsInPlace { found, tools } => {
                Self::WeightsInPlace { found, tools: StartTools { begins, ..tools } }
            }
            other => other,
        }
    }

    /// With the tools of another set.
    pub(crate) fn with_tools(self, tools: StartTools) -> Self {
        match self {
            Self::WeightsInPlace { found, .. } => Self::WeightsInPlace { found, tools },
            other => other,
        }
    }

    /// The error as data, where it leaves choices.
    pub(crate) fn data(&self) -> Option<Value> {
        match self {
            Self::WeightsInPlace { found, tools } => {
                let (message, choices) = (&found.message, found.choices(*tools));
                Some(json!({ "error": "weights_in_place", "message": message, "choices": choices }))
            }
            _ => None,
        }
    }

    /// Of a file, for `map_err`.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |source| Self::File { path, source }
    }
}

fn with_choices(found: &WeightsInPlace, tools: &StartTools) -> String {
    let choices: Vec<String> = found.choices(*tools).iter().map(|choice| format!("- {choice}")).collect();
    format!("{}\nChoices:\n{}", found.message, choices.join("\n"))
}

fn those(names: &[String]) -> String {
    if names.is_empty() { "there are none yet".to_owned() } else { format!("there are {}", names.join(", ")) }
}
