use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use fulgurite_types::Message;
use serde::Deserialize;
use serde_json::{Value, json};

const SCRIPT: &str = include_str!("apply_chat_template.py");

/// A Python process with Hugging Face's transformers, which renders when it is asked.
#[derive(Debug)]
pub struct Python {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// What it says to a conversation.
#[derive(Debug, Deserialize)]
pub struct Rendered {
    /// How long each repetition took.
    pub seconds: Vec<f64>,
    /// Text, or token ids.
    pub rendered: Value,
}

impl Python {
    /// Starts an interpreter on a model directory.
    pub fn start(interpreter: &Path, model: &Path) -> Result<Self> {
        let mut child = Command::new(interpreter)
            .args(["-c", SCRIPT])
            .arg(model)
            .envs([("HF_HUB_OFFLINE", "1"), ("TRANSFORMERS_VERBOSITY", "error")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", interpreter.display()))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("{} has no standard streams", interpreter.display());
        };
        let mut this = Self { child, input, output: BufReader::new(output) };
        this.read::<Value>().context("does this Python have the package transformers?")?;
        Ok(this)
    }

    /// Renders a conversation some times over.
    pub fn render(&mut self, messages: &[Message], tools: &[Value], tokenize: bool, repeat: usize) -> Result<Rendered> {
        let request = json!({"messages": messages, "tools": tools, "tokenize": tokenize, "repeat": repeat});
        writeln!(self.input, "{request}")?;
        self.read()
    }

    fn read<T: serde::de::DeserializeOwned>(&mut self) -> Result<T> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("the Python process went away: {}", self.child.wait()?);
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
