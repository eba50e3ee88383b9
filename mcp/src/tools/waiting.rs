//! Waiting for a run, while its host is told how far it has come.

use std::time::Duration;

use fulgurite_types::time;
use serde_json::Value;
use tokio::time::Instant;

use super::spending;
use crate::error::ToolError;
use crate::progress::Progress;
use crate::session::Session;
use crate::training::{Ended, Training};
use crate::workspace::{HELD_OUT_REWARD, REWARD, RunHome, write_whole};

/// Seconds that a call waits where nothing is said: hosts give a tool a minute.
const WAIT: f64 = 45.0;

/// How long a call waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait(Option<Instant>);

impl Wait {
    pub(super) fn of(seconds: Option<f64>) -> Self {
        let seconds = seconds.unwrap_or(WAIT);
        let end = (seconds >= 0.0).then(|| Duration::try_from_secs_f64(seconds).ok()).flatten();
        Self(end.map(|wait| Instant::now() + wait))
    }

    fn left(self) -> Option<Duration> {
        let long = Duration::from_secs(1);
        let Some(end) = self.0 else { return Some(long) };
        let left = end.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left.min(long))
    }
}

/// Waits until so many updates are made, the run is over, or time is up (`None`); tells how far it has come.
pub(super) async fn wait_for(
    session: &Session,
    training: &mut Training,
    home: &RunHome,
    target: u64,
    wait: Wait,
    progress: &Progress,
) -> Result<Option<Ended>, ToolError> {
    while let Some(patience) = wait.left() {
        match training.next(patience).await? {
            None => {}
            Some(Err(ended)) => return Ok(Some(ended)),
            Some(Ok(event)) if event["event"] == "step" => {
                let done = event["step"].as_u64().map_or(0, |step| step + 1);
                let summary = summary(&event);
                note(home, &format!("{done} of {target} updates are made; {summary}"))?;
                progress.tell(done, target, summary).await;
                if let Err(limit) = spending::check(session).await {
                    training.allow(done).await?;
                    return Err(limit);
                }
            }
            Some(Ok(event)) => {
                if let Some(name) = event["event"].as_str() {
                    note(home, name)?;
                }
            }
        }
    }
    Ok(None)
}

/// A step in a few words.
fn summary(metrics: &Value) -> String {
    let number = |name: &str, key: &str| metrics[key].as_f64().map(|value| format!("{name} {value:.3}"));
    let numbers = [number("reward", REWARD), number("held-out", HELD_OUT_REWARD), number("nll", "train_mean_nll")];
    numbers.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Writes how a run stands, for whoever looks.
fn note(home: &RunHome, text: &str) -> Result<(), ToolError> {
    let seconds = time::now() as u64;
    write_whole(&home.progress(), &format!("{seconds} {text}\n"))
}
