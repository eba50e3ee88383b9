//! When the command is told to end.

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ends at ctrl-c or when the process is told to terminate.
pub async fn interrupted() -> Result<()> {
    Interruptions::listen()?.next().await;
    Ok(())
}

/// Ctrl-c, and being told to terminate.
pub struct Interruptions {
    interrupt: Signal,
    terminate: Signal,
}

impl Interruptions {
    /// Signals count from now on, not only once somebody waits for them.
    pub fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Ends at the next of them.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
