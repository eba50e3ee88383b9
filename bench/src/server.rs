//! The servers under measurement.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::processors;

/// A server and what its process has cost so far.
pub struct Server {
    /// What the table calls it.
    pub name: String,
    /// Where it answers.
    pub url: String,
    pid: u32,
    /// Ours: stopped, and its store removed, when the measurement ends.
    own: Option<(Child, TempDir)>,
}

impl Server {
    /// Starts a program's server over the store in `directory`.
    pub async fn start(name: &str, program: &Path, directory: TempDir) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--store"]).arg(directory.path().join(STORE));
        Self::spawn(name, command, directory).await
    }

    /// Starts a command that takes `--ready-file` and says there where it answers. `directory` is its own.
    pub async fn spawn(name: &str, mut command: Command, directory: TempDir) -> Result<Self> {
        let ready = directory.path().join("ready.json");
        command.arg("--ready-file").arg(&ready).env_remove("FULGURITE_ADMIN_KEY").stdout(Stdio::null());
        let child = command.spawn().with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let pid = child.id();
        let mut server = Self { name: name.to_owned(), url: String::new(), pid, own: Some((child, directory)) };
        if let Some((child, _)) = &mut server.own {
            server.url = wait_until_ready(child, &ready).await?;
        }
        Ok(server)
    }

    /// A server that somebody else has started.
    pub fn running(name: &str, url: &str, pid: u32) -> Self {
        Self { name: name.to_owned(), url: url.trim_end_matches('/').to_owned(), pid, own: None }
    }

    /// Lets it run on these processors alone.
    pub fn hold(&self, processors: &[usize]) -> Result<()> {
        processors::hold(self.pid, processors)
    }

    /// Seconds that all of its threads have spent on a processor, in its own code and in the system's.
    pub fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds(self.pid)
    }

    /// Bytes of memory that it holds.
    pub fn resident_bytes(&self) -> Result<u64> {
        resident_bytes(self.pid)
    }
}

/// Seconds that all threads of a process have spent on a processor, in its own code and in the system's.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {path}; processor time is measured on Linux only"))?;
    // The program's name, in brackets, may hold anything; user and system time are fields 14 and 15 of the line.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: Vec<f64> = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    let [user, system] = ticks[..] else { bail!("{path} is not as expected") };
    Ok((user + system) / rustix::param::clock_ticks_per_second() as f64)
}

/// Bytes of memory that a process holds.
pub fn resident_bytes(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/statm");
    let statm = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {path}; memory is measured on Linux only"))?;
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    Ok(pages.with_context(|| format!("{path} is not as expected"))? * rustix::param::page_size() as u64)
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some((child, _)) = &mut self.own {
            // It may have ended by itself; its store is thrown away either way.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The program that is measured: the one that is named, or the one beside this.
pub fn measured_program(named: Option<PathBuf>) -> Result<PathBuf> {
    let program = match named {
        Some(program) => program,
        None => std::env::current_exe().context("cannot find this program")?.with_file_name("fulgurite"),
    };
    if program.exists() {
        return Ok(program);
    }
    bail!("{} is not there: `cargo build --release` makes it, or --program names another", program.display())
}

/// File name of a store under measurement.
pub const STORE: &str = "bench.db";

async fn wait_until_ready(child: &mut Child, ready: &Path) -> Result<String> {
    loop {
        if let Some(status) = child.try_wait()? {
            bail!("the server did not start: {status}");
        }
        let url = std::fs::read(ready)
            .ok()
            .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok())
            .and_then(|ready| ready["url"].as_str().map(str::to_owned));
        if let Some(url) = url {
            return Ok(url);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
