//! A run that makes as many updates as it was told it may, and waits for leave to make more.

use std::time::Duration;

use super::training_run::TrainingRun;
use crate::{Reporter, TrainError, TrainEvent};

/// How often a run that waits looks whether it may go on.
const INTERVAL: Duration = Duration::from_millis(200);

impl<Data> TrainingRun<Data> {
    /// Returns once the record says that a run of so many updates may make more.
    pub(super) async fn wait_for_permission(&self, step: u64, reporter: &mut dyn Reporter) -> Result<(), TrainError> {
        // What ends the run needs no leave.
        if self.schedule.is_over(step) || self.may_go_on(step).await? {
            return Ok(());
        }
        reporter.report(TrainEvent::Waiting { step });
        while !self.may_go_on(step).await? {
            tokio::time::sleep(INTERVAL).await;
        }
        Ok(())
    }

    /// Whether a run of so many updates may make more.
    pub(super) async fn may_go_on(&self, step: u64) -> Result<bool, TrainError> {
        let run = self.record.run(&self.identity.run_id).await?;
        Ok(run.and_then(|run| run.allowed_steps).is_none_or(|allowed| step < allowed))
    }
}
