use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use super::shapes::Shape;
use super::work::{Request, Work};
use crate::server::{cpu_seconds, resident_bytes};

const TORCH_HOST: &str = include_str!("torch_host.py");

/// One of the two whose speed is compared.
#[derive(Clone, Debug)]
pub enum Side {
    /// This program.
    Engine,
    /// PyTorch, run by this interpreter.
    Torch(PathBuf),
}

/// A process that works when it is asked.
#[derive(Debug)]
pub struct Host {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// What one turn gave.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Tokens, or floating-point operations.
    pub amount: f64,
    /// By the clock.
    pub seconds: f64,
    /// That all threads were on a processor.
    pub cpu_seconds: f64,
    /// Bytes that the process held afterwards.
    pub resident: u64,
}

#[derive(Deserialize)]
struct Reply {
    amount: f64,
    seconds: f64,
}

impl Side {
    /// What reports call it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Engine => "fulgurite",
            Self::Torch(_) => "torch",
        }
    }

    /// Starts a process with a fresh model of this shape.
    pub fn start(&self, shape: Shape, threads: usize) -> Result<Host> {
        let mut command = match self {
            Self::Engine => {
                let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
                let threads = threads.to_string();
                command.args(["engine-host", "--shape", shape.name(), "--threads", &threads]);
                command
            }
            Self::Torch(interpreter) => {
                let mut spec = serde_json::to_value(shape.config())?;
                spec["threads"] = threads.into();
                let mut command = Command::new(interpreter);
                command.args(["-c", TORCH_HOST]).arg(spec.to_string());
                command
            }
        };
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("{} has no standard streams", command.get_program().display());
        };
        let mut host = Host { child, input, output: BufReader::new(output) };
        host.read::<Value>().with_context(|| match self {
            Self::Engine => "the engine did not start",
            Self::Torch(_) => "does this Python have the package torch?",
        })?;
        Ok(host)
    }
}

impl Host {
    /// Has the work done for so many seconds.
    pub fn turn(&mut self, work: Work, seconds: f64) -> Result<Turn> {
        let pid = self.child.id();
        let before = cpu_seconds(pid)?;
        writeln!(self.input, "{}", serde_json::to_string(&Request { work, seconds })?)?;
        let Reply { amount, seconds } = self.read()?;
        Ok(Turn { amount, seconds, cpu_seconds: cpu_seconds(pid)? - before, resident: resident_bytes(pid)? })
    }

    fn read<T: serde::de::DeserializeOwned>(&mut self) -> Result<T> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("a measured process went away: {}", self.child.wait()?);
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
