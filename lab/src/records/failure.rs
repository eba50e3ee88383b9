//! The error that a run's process ended with, for `fulgurite runs`.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::run_directory::write_whole;
use super::weights_in_place::WeightsInPlace;

/// Name of the file in a run's directory that holds the error.
const FAILURE_FILE: &str = "failure.json";

/// A run was told to end: no failure, and what `--resume` goes on with.
#[derive(Debug)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted; --resume goes on from the last checkpoint, or begins anew where there is none yet")
    }
}

impl std::error::Error for Interrupted {}

/// The error that the run in a directory ended with, if its last process did.
pub fn of_run(directory: &Path) -> Option<String> {
    let text = std::fs::read_to_string(directory.join(FAILURE_FILE)).ok()?;
    let failure: Value = serde_json::from_str(&text).ok()?;
    Some(failure["error"].as_str()?.to_owned())
}

/// Trains in a directory whose lock is held, and keeps the error there if that fails.
pub async fn kept(directory: &Path, training: impl Future<Output = Result<()>>) -> Result<()> {
    let path = directory.join(FAILURE_FILE);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "cannot remove the error of the run's last process");
        }
        _ => {}
    }
    let outcome = training.await;
    if let Err(error) = &outcome
        && !error.is::<Interrupted>()
        && let Err(unwritten) = write_whole(&path, &format!("{:#}\n", file(error)))
    {
        tracing::warn!(error = format!("{unwritten:#}"), "the run's error is not kept");
    }
    outcome
}

/// What the file holds; of a run whose model got other weights, the ways to go on as well.
fn file(error: &anyhow::Error) -> Value {
    let mut file = json!({ "error": format!("{error:#}") });
    if let Some(in_place) = error.downcast_ref::<WeightsInPlace>() {
        file["weights_in_place"] = json!(in_place);
    }
    file
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[tokio::test]
    async fn an_error_is_kept_until_the_next_process_and_an_interruption_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let failed = async { Err(anyhow!("no such file")).context("model `tiny`") };
        assert!(kept(directory, failed).await.is_err());
        assert_eq!(of_run(directory).unwrap(), "model `tiny`: no such file");
        assert!(kept(directory, async { Err(Interrupted.into()) }).await.is_err());
        assert_eq!(of_run(directory), None);
        assert!(kept(directory, async { Err(anyhow!("again")) }).await.is_err());
        kept(directory, async { Ok(()) }).await.unwrap();
        assert_eq!(of_run(directory), None);
    }
}
