//! The benchmarks as scripts run them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    clippy::disallowed_methods,
    unreachable_pub
)]

mod engine;
mod proxy;
mod render;

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// How a command ended and what it printed.
pub struct Ran(Output);

impl Ran {
    /// The lines of `--json`, of a command that must have succeeded.
    pub fn json_lines(&self) -> Vec<Value> {
        assert!(self.0.status.success(), "{}", String::from_utf8_lossy(&self.0.stderr));
        let lines = std::str::from_utf8(&self.0.stdout).unwrap().lines();
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What a command that must have failed says, `directory` left out of it.
    pub fn failure(&self, directory: &Path) -> String {
        let printed = String::from_utf8_lossy(&self.0.stderr);
        assert_eq!((self.0.status.code(), self.0.stdout.len()), (Some(1), 0), "{printed}");
        printed.replace(directory.to_str().unwrap(), "[directory]")
    }
}

/// Runs the command to its end.
pub fn run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Ran {
    Ran(Command::new(env!("CARGO_BIN_EXE_fulgurite-bench")).args(arguments).stdin(Stdio::null()).output().unwrap())
}

/// A server of this program, which is a gateway of Agent-lightning's wire too.
pub struct Gateway {
    pub url: String,
    pub process: Child,
}

impl Gateway {
    pub fn start(directory: &Path) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_fulgurite-bench")).with_file_name("fulgurite");
        let ready = directory.join("ready.json");
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--store"]).arg(directory.join("store.db"));
        let mut process = command.arg("--ready-file").arg(&ready).stdout(Stdio::null()).spawn().unwrap();
        let printed = loop {
            match std::fs::read(&ready) {
                Ok(printed) => break printed,
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(5)),
            }
            assert!(process.try_wait().unwrap().is_none(), "the server did not start");
        };
        let printed: Value = serde_json::from_slice(&printed).unwrap();
        Self { url: printed["url"].as_str().unwrap().to_owned(), process }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}
