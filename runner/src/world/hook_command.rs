//! The commands of a world, and what is kept of how each went.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::fault::WorldFault;
use super::hook::Hook;
use crate::grading_environment::{FreshHome, for_grading};
use crate::launch::launcher::Launcher;
use crate::launch::run::{self, EndedBy, Finished};
use crate::order::Order;
use crate::process::end::{ProcessError, ended_how};

/// Bytes that are kept of what a command printed.
const KEPT_OUTPUT: usize = 2 << 10;

/// A command with all that it takes to run it, now or when its runner has died.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HookCommand {
    /// An absolute path.
    pub program: PathBuf,
    /// Its arguments, filled in.
    pub arguments: Vec<String>,
    /// Its variables beside the runner's own; none removes one.
    pub environment: Vec<(String, Option<String>)>,
    /// Where it runs; where the runner does if `None`.
    pub directory: Option<PathBuf>,
}

impl HookCommand {
    fn order(&self) -> Order {
        let variable = |(name, value): &(String, Option<String>)| (name.into(), value.as_ref().map(Into::into));
        Order {
            program: self.program.clone(),
            arguments: self.arguments.iter().map(Into::into).collect(),
            environment: self.environment.iter().map(variable).collect(),
            directory: self.directory.clone(),
        }
    }

    /// Runs it for the world in `home`, for at most `timeout`, and gives what is kept of it. What it leaves in its process group
    /// is killed. After the setup, which comes before the agent, its environment leads to nothing of the agent's.
    ///
    /// # Errors
    /// With what is kept, if it cannot be run, fails or takes too long.
    pub(crate) async fn run(&self, hook: Hook, home: &Path, timeout: Duration) -> (Value, Result<(), WorldFault>) {
        let started = Instant::now();
        let ended = match hook {
            Hook::Setup => run::run(&Launcher::Direct, &self.order(), b"", started + timeout).await,
            Hook::Snapshot | Hook::Teardown => match FreshHome::make(home) {
                Ok(fresh) => {
                    let order = for_grading(self.order(), Some(fresh.path()), &[home]);
                    run::run(&Launcher::Direct, &order, b"", started + timeout).await
                }
                Err(error) => Err(ProcessError::cannot_run(&self.program, error)),
            },
        };
        let failed = |how: String, errors: &[u8]| WorldFault::Hook { hook, how, errors: lossy(errors) };
        let log = |code: Option<i32>, output: &[u8], errors: &[u8]| {
            json!({
                "hook": hook.to_string(), "seconds": started.elapsed().as_secs_f64(), "exit_status": code,
                "stdout_tail": lossy(&output[output.len().saturating_sub(KEPT_OUTPUT)..]), "stderr_tail": lossy(errors),
            })
        };
        match ended {
            Err(error) => {
                let why = error.to_string();
                (log(None, b"", why.as_bytes()), Err(WorldFault::HookNotRun { hook, why }))
            }
            Ok(Finished { status, ended_by, output, errors }) => {
                let outcome = match ended_by {
                    EndedBy::Deadline => Err(failed(format!("still ran after {timeout:?}"), &errors)),
                    EndedBy::Itself if status.success() => Ok(()),
                    EndedBy::Itself | EndedBy::Stopped(_) => Err(failed(ended_how(status), &errors)),
                };
                (log(status.code(), &output, &errors), outcome)
            }
        }
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
