//! The program's own commands, run to their end as children: those that open a model, whose memory is given back then.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Stdio;

use fulgurite_lab::error_chain::error_chain;
use serde_json::Value;
use tokio::process::Command;

use crate::error::ToolError;

/// Text of a failure that is handed on, in bytes.
const LONGEST_MESSAGE: usize = 2000;

/// The `fulgurite` program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    path: PathBuf,
    /// Where its commands run.
    directory: PathBuf,
}

impl Program {
    pub(crate) fn new(path: PathBuf, directory: PathBuf) -> Self {
        Self { path, directory }
    }

    /// A command that ends when nobody waits for it any more.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.directory).stdin(Stdio::null()).kill_on_drop(true);
        // Set for this process, they would mean another run or store to its children.
        for name in ["FULGURITE_STORE", "FULGURITE_SEED", "FULGURITE_MAX_STEPS"] {
            command.env_remove(name);
        }
        command
    }

    /// What a command prints.
    pub(crate) async fn run(&self, words: &[OsString]) -> Result<String, ToolError> {
        let shown = words.iter().take(2).map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let failed = |message: String| ToolError::Command { command: shown.clone(), message };
        let ended = self.command().args(words).output().await.map_err(|error| failed(error.to_string()))?;
        match ended.status.success() {
            true => Ok(String::from_utf8_lossy(&ended.stdout).into_owned()),
            false => Err(failed(last_part(&String::from_utf8_lossy(&ended.stderr)))),
        }
    }

    /// The JSON objects that a command prints, a line each.
    pub(crate) async fn lines(&self, words: &[OsString]) -> Result<Vec<Value>, ToolError> {
        let printed = self.run(words).await?;
        Ok(printed.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }
}

/// The failure of what a command would do, which is done here, as the command would tell it.
pub(crate) fn failure_of(command: &'static str) -> impl Fn(anyhow::Error) -> ToolError {
    move |error| {
        let message = format!("error: {}", error_chain(&error).join("\n  caused by: "));
        ToolError::Command { command: command.to_owned(), message: last_part(&message) }
    }
}

/// Words of a command.
pub(crate) fn words<const N: usize>(words: [&dyn AsWord; N]) -> Vec<OsString> {
    words.iter().map(|word| word.word()).collect()
}

/// What can be a word of a command.
pub(crate) trait AsWord {
    fn word(&self) -> OsString;
}

impl<T: AsRef<OsStr>> AsWord for T {
    fn word(&self) -> OsString {
        self.as_ref().to_owned()
    }
}

/// The end of a text, whole lines if it has several.
pub(crate) fn last_part(text: &str) -> String {
    let text = text.trim();
    let start = (text.len().saturating_sub(LONGEST_MESSAGE)..text.len())
        .find(|place| text.is_char_boundary(*place))
        .unwrap_or(0);
    text[start..].to_owned()
}
