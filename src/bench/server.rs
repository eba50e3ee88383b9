//! The servers under measurement.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::admin_key;

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
    /// Starts this program's own server over the store in `directory`.
    pub async fn start(name: &str, directory: TempDir) -> Result<Self> {
        let ready = directory.path().join("ready.json");
        let program = std::env::current_exe().context("cannot find this program")?;
        let child = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--store"])
            .arg(directory.path().join(STORE))
            .arg("--ready-file")
            .arg(&ready)
            .env_remove(admin_key::VARIABLE)
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start a server")?;
        let pid = child.id();
        let mut own = (child, directory);
        let url = wait_until_ready(&mut own.0, &ready).await;
        let mut server = Self { name: name.to_owned(), url: String::new(), pid, own: Some(own) };
        server.url = url?;
        Ok(server)
    }

    /// A server that somebody else has started.
    pub fn running(name: &str, url: &str, pid: u32) -> Self {
        Self { name: name.to_owned(), url: url.trim_end_matches('/').to_owned(), pid, own: None }
    }

    /// Seconds that all of its threads have spent on a processor, in its own code and in the system's.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let path = format!("/proc/{}/stat", self.pid);
        let stat = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {path}; processor time is measured on Linux only"))?;
        // The program's name, in brackets, may hold anything; user and system time are fields 14 and 15 of the line.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ticks: Vec<f64> =
            fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
        let [user, system] = ticks[..] else { bail!("{path} is not as expected") };
        Ok((user + system) / rustix::param::clock_ticks_per_second() as f64)
    }
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
