//! One session for all who call: what is trained at the moment, and whose turn it is.

use tokio::sync::{Mutex, MutexGuard};

use crate::error::ToolError;
use crate::options::Options;
use crate::program::Program;
use crate::training::Trainings;
use crate::workspace::{RunHome, RunRecord, Workspace};

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
        let workspace = Workspace::open(&options.directory, &options.project)?;
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

    /// # Errors
    /// If a run's rollouts are a server's, so that nothing of them is here.
    pub(crate) fn check_recorded_here(&self, home: &RunHome) -> Result<(), ToolError> {
        match self.server_of(&home.record()?) {
            None => Ok(()),
            Some(url) => Err(ToolError::Refused(format!(
                "the rollouts of run {:?} are at {url}, and this tool reads what is recorded here: whoever has that server's \
                 store looks there; run_status, sample, compare and evaluate tell of the run here",
                home.name()
            ))),
        }
    }

    /// Has everything that is trained end, its checkpoints kept.
    pub(crate) async fn close(&self) {
        self.trainings.lock().await.end().await;
    }
}
