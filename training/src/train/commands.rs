//! Commands to a run while it goes on: how many updates it may make, and that it is to end.

use std::io::BufRead;
use std::sync::Arc;

use anyhow::{Context, Result};
use fulgurite_trainer::{Record, RecordError};
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::start::options::{StandardInput, TrainOptions};

/// A line of standard input, as JSON.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Command {
    /// Updates that the run may make before it waits for another line.
    allowed_steps: u64,
}

/// Commands to a run, those on the command line first.
pub(super) struct Commands {
    first: Option<u64>,
    later: Option<mpsc::UnboundedReceiver<u64>>,
}

impl Commands {
    /// Listens, if the command line says so. Once standard input closes this process is interrupted, as by Ctrl-C: whoever
    /// started it may have died.
    pub(super) fn of(options: &TrainOptions) -> Self {
        let later = (options.input == StandardInput::Commands).then(|| {
            let (sender, receiver) = mpsc::unbounded_channel();
            std::thread::spawn(move || listen(&sender));
            receiver
        });
        Self { first: options.allowed_steps, later }
    }

    /// Has the run follow them from now on: its record says what it may.
    pub(super) async fn follow(self, record: &Arc<dyn Record>, run_id: &str) -> Result<()> {
        let Self { first, later } = self;
        if let Some(steps) = first {
            allow(record.as_ref(), run_id, steps).await.context("--allowed-steps")?;
        }
        if let Some(mut later) = later {
            let (record, run_id) = (Arc::clone(record), run_id.to_owned());
            #[expect(clippy::disallowed_methods, reason = "it ends with the process, as its input does")]
            tokio::spawn(async move {
                while let Some(steps) = later.recv().await {
                    if let Err(error) = allow(record.as_ref(), &run_id, steps).await {
                        tracing::warn!(%error, steps, "cannot have the run go on");
                    }
                }
            });
        }
        Ok(())
    }
}

async fn allow(record: &dyn Record, run_id: &str, steps: u64) -> Result<(), RecordError> {
    record.allow_steps(run_id, Some(steps)).await
}

fn listen(commands: &mpsc::UnboundedSender<u64>) {
    // An error is an end as well.
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match read(&line) {
            // Nobody follows the commands of a run that has ended.
            Ok(Command { allowed_steps }) => drop(commands.send(allowed_steps)),
            Err(error) => tracing::warn!(%error, "a line of standard input is no command"),
        }
    }
    let own = rustix::process::getpid();
    if let Err(error) = rustix::process::kill_process(own, rustix::process::Signal::TERM) {
        tracing::warn!(%error, "standard input is closed, but this process cannot be interrupted");
    }
}

fn read(line: &str) -> serde_json::Result<Command> {
    serde_json::from_str(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_a_line_of_json() {
        assert_eq!(read("{\"allowed_steps\": 7}").unwrap(), Command { allowed_steps: 7 });
        for line in ["", "7", "{}", "{\"allowed_steps\": -1}", "{\"allowed_steps\": 1, \"more\": 1}"] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
