//! Whether the run in a directory is the one that a record has under its id.

use std::path::Path;

use anyhow::Result;
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_lab::records::run_directory::{RUN_DIRECTORY, SERVERS_STORE, run_file, run_id_of};
use fulgurite_trainer::{KeptCheckpointsAt, Record, TrainError, require_steps};
use fulgurite_types::Run;
use serde_json::Value;

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
    let run_id = run_id_of(directory);
    let recorded = record.run(&run_id).await?;
    let file = run_file(directory).unwrap_or_default();
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

/// Whether a recorded run is the one of a directory's file. Runs of earlier releases have their id alone.
pub(super) fn is_same(run: &Run, file: &Value) -> bool {
    run.config["instance"].as_str() == file["instance"].as_str()
}

/// Where a run was begun, in words that follow "begun".
pub(super) fn started_in(run: &Run) -> String {
    run.config[RUN_DIRECTORY].as_str().map(|directory| format!(" in {directory}")).unwrap_or_default()
}
