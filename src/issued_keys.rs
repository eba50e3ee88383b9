//! `fulgurite worker-key` and `fulgurite reader-key`: keys for who cannot be trusted with the admin key.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use fulgurite_client::{Server, ServerOptions};
use fulgurite_config::admin_key::{self, WORKERS_VARIABLE};
use fulgurite_terminal::output;

/// Bytes of the server's answer.
const REPLY_LIMIT: usize = 1 << 20;
const SECONDS_OF_AN_HOUR: f64 = 3600.0;

/// `fulgurite worker-key`.
#[derive(Debug, Args)]
pub struct WorkerKeyArguments {
    /// What the runners are called: `NAME`, or `NAME-` and more
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Server that issues the key; its admin key is taken from FULGURITE_ADMIN_KEY
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:4747", env = "FULGURITE_SERVER")]
    pub server: String,
    /// Hours that it opens anything
    #[arg(long, value_name = "N", default_value_t = 24.0)]
    pub hours: f64,
}

/// `fulgurite reader-key`.
#[derive(Debug, Args)]
pub struct ReaderKeyArguments {
    /// Server that issues the key; its admin key is taken from FULGURITE_ADMIN_KEY
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:4747", env = "FULGURITE_SERVER")]
    pub server: String,
    /// Hours that it opens anything
    #[arg(long, value_name = "N", default_value_t = 24.0)]
    pub hours: f64,
}

/// Prints a worker's key.
pub async fn worker_key(arguments: WorkerKeyArguments) -> Result<()> {
    let (server, seconds) = issuer(&arguments.server, arguments.hours)?;
    output::line(server.worker_key(&arguments.name, seconds).await?);
    Ok(())
}

/// Prints a reader's key.
pub async fn reader_key(arguments: ReaderKeyArguments) -> Result<()> {
    let (server, seconds) = issuer(&arguments.server, arguments.hours)?;
    output::line(server.reader_key(seconds).await?);
    Ok(())
}

/// The server, asked with the admin key of the environment, and how many seconds a key is to open anything.
fn issuer(url: &str, hours: f64) -> Result<(Server, u64)> {
    let Ok(lifetime) = Duration::try_from_secs_f64(hours * SECONDS_OF_AN_HOUR) else {
        bail!("--hours must be a number above 0")
    };
    if lifetime.as_secs() == 0 {
        bail!("--hours must be a second at least");
    }
    let Some(key) = admin_key::of_environment()? else {
        bail!("only the admin key issues keys: set {} to the server's", admin_key::VARIABLE)
    };
    Ok((server(url, key.expose())?, lifetime.as_secs()))
}

/// The name of the workers whose key is in the environment, and the key.
pub async fn of_environment(url: &str) -> Result<(String, String)> {
    let key = std::env::var(WORKERS_VARIABLE).ok().filter(|key| !key.is_empty());
    let key = key.with_context(|| {
        format!("--attach needs a worker's key in {WORKERS_VARIABLE}; `fulgurite worker-key NAME` prints one")
    })?;
    let found = server(url, &key)?.worker_name().await;
    let found = found.with_context(|| format!("--attach: the key in {WORKERS_VARIABLE}"))?;
    let name = found.with_context(|| format!("--attach: the key in {WORKERS_VARIABLE} is no worker's"))?;
    Ok((name, key))
}

fn server(url: &str, key: &str) -> Result<Server> {
    Ok(Server::new(ServerOptions {
        url: url.trim_end_matches('/').to_owned(),
        admin_key: Some(key.to_owned()),
        patience: Duration::ZERO,
        reply_limit: REPLY_LIMIT,
    })?)
}
