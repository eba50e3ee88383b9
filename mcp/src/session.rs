//! One session for all who call: what is trained at the moment, and whose turn it is.

use tokio::sync::{Mutex, MutexGuard};

use crate::error::ToolError;
use crate::options::Options;
use crate::program::Program;
use crate::training::Trainings;
use crate::workspace::{RunRecord, Seal, Workspace};

/// What tools work on.
pub(crate) struct Session {
    pub(crate) options: Options,
    pub(crate) workspace: Workspace,
    pub(crate) program: Program,
    trainings: Mutex<Trainings>,
}

impl Session {
    /// Makes the directories that are missing.
    pub(crate) fn open(options: Options) -> Result<Self, ToolError> {
        let workspace = Workspace::open(&options.directory, &options.project, Seal::new(options.seal_key.clone()))?;
        let program = Program::new(options.program.clone(), options.project.clone());
        Ok(Self { options, workspace, program, trainings: Mutex::default() })
    }

    /// The turn of a call that changes something: one at a time.
    pub(crate) async fn turn(&self) -> Result<MutexGuard<'_, Trainings>, ToolError> {
        match self.options.patience {
            None => Ok(self.trainings.lock().await),
            Some(patience) => {
                let turn = tokio::time::timeout(patience, self.trainings.lock()).await;
                turn.map_err(|_| ToolError::Busy { seconds: patience.as_secs() })
            }
        }
    }

    /// The server of a run: those that learn from data need none.
    pub(crate) fn server_of(&self, record: &RunRecord) -> Option<&str> {
        self.options.server.as_deref().filter(|_| !record.learns_from_data())
    }

    /// Has everything that is trained end, its checkpoints kept.
    pub(crate) async fn close(&self) {
        self.trainings.lock().await.end().await;
    }
}
