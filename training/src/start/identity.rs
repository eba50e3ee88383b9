//! Who a run is, and whether the run in a directory is the one that a record has under its id.

use std::path::Path;

use anyhow::{Context, Result};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_lab::records::run_directory::{RUN_DIRECTORY, SERVERS_STORE, run_file, run_id_of, run_instance};
use fulgurite_lab::records::run_files::CONFIG_FILE;
use fulgurite_trainer::{KeptCheckpointsAt, Record, RunArchive, RunIdentity, TrainError, require_steps};
use fulgurite_types::Run;
use serde_json::Value;

/// The run that has begun in a directory.
///
/// # Errors
/// If the run's own file cannot be read.
pub(crate) fn run_identity(
    loaded: &LoadedConfig,
    run_id: String,
    directory: &Path,
    archive: Option<RunArchive>,
) -> Result<RunIdentity> {
    Ok(RunIdentity {
        run_id,
        instance: run_instance(directory)?,
        seed: loaded.config.run.seed,
        directory: directory.to_owned(),
        archive,
    })
}

/// What a record has of the run in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RecordedRun {
    /// That run.
    Same,
    /// Nothing, and nothing is missing: the run has made no update yet, or its record comes back with its checkpoints.
    Missing,
    /// A run of the same id that was begun elsewhere.
    Another {
        /// Where, in words that follow "begun".
        started_in: String,
    },
    /// Nothing, or no step, of a run that has made some.
    InAnotherStore {
        /// What is wrong, and what to do.
        error: String,
    },
}

/// Looks for the run in a directory.
pub(super) async fn recorded_run(record: &dyn Record, loaded: &LoadedConfig, directory: &Path) -> Result<RecordedRun> {
    let file = file_if_any(directory)?;
    let run_id = run_id_of(directory);
    let recorded = record.run(&run_id).await?;
    if let Some(run) = &recorded
        && !is_same(run, &file)
    {
        return Ok(RecordedRun::Another { started_in: started_in(run) });
    }
    let checkpoints = match loaded.config.trainer.common.checkpoint_url {
        Some(_) => KeptCheckpointsAt::ObjectStore,
        None => KeptCheckpointsAt::Directory,
    };
    match require_steps(record, &run_id, directory, checkpoints).await {
        Ok(()) if recorded.is_some() => Ok(RecordedRun::Same),
        Ok(()) => Ok(RecordedRun::Missing),
        Err(TrainError::OtherStore { run_id, path, steps }) => {
            let store = file[SERVERS_STORE].as_str().map(|store| format!(" ({store})")).unwrap_or_default();
            let error = format!(
                "run {run_id} has recorded steps in another store{store}: {} has {steps} of them, and this server's store \
                 none. It goes on at a server of its own store",
                path.display()
            );
            Ok(RecordedRun::InAnotherStore { error })
        }
        Err(error) => Err(error.into()),
    }
}

/// The run's file; nothing where there is none yet.
fn file_if_any(directory: &Path) -> Result<Value> {
    let path = directory.join(CONFIG_FILE);
    let is_there = path.try_exists().with_context(|| format!("cannot look for {}", path.display()))?;
    if is_there { run_file(directory) } else { Ok(Value::Null) }
}

/// Whether a recorded run is the one of a directory's file. Runs of earlier releases have their id alone.
pub(super) fn is_same(run: &Run, file: &Value) -> bool {
    run.config["instance"].as_str() == file["instance"].as_str()
}

/// Where a run was begun, in words that follow "begun".
pub(super) fn started_in(run: &Run) -> String {
    run.config[RUN_DIRECTORY].as_str().map(|directory| format!(" in {directory}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runs_file_that_cannot_be_read_is_an_error_that_names_it() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(file_if_any(directory.path()).unwrap(), Value::Null);
        let path = directory.path().join(CONFIG_FILE);
        std::fs::write(&path, "{ \"run_id\": ").unwrap();
        let error = file_if_any(directory.path()).unwrap_err();
        assert!(format!("{error:#}").contains(&path.display().to_string()), "{error:#}");
    }
}
