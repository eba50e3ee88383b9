//! Runs that are given leave to go on, and from whom it is taken back.

use std::sync::{Arc, Mutex};

use fulgurite_store::Store;
use fulgurite_trainer::{Reporter, TrainEvent, TrainerOptions};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::accounting::{Reached, run_with};

/// The updates that the run waited after, each with that of its newest checkpoint.
type Waits = Arc<Mutex<Vec<(u64, Option<u64>)>>>;

/// Takes leave back once the first update is told of, and gives it again where the run waits.
struct Moody {
    store: Store,
    waited: Waits,
}

impl Reporter for Moody {
    fn report(&mut self, event: TrainEvent) {
        let allow = async |steps| self.store.runs().allow_steps("run", steps).await.unwrap();
        let answer = async {
            match event {
                TrainEvent::Step { step: 0, .. } => allow(Some(0)).await,
                TrainEvent::Waiting { step } => {
                    let checkpoint = self.store.runs().latest_checkpoint("run").await.unwrap();
                    self.waited.lock().unwrap().push((step, checkpoint.map(|checkpoint| checkpoint.step)));
                    allow(None).await;
                }
                _ => {}
            }
        };
        block_in_place(|| Handle::current().block_on(answer));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_leave_is_taken_back_between_updates_waits_where_it_has_a_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let waited = Waits::default();
    let moody = |store: &Store| Moody { store: store.clone(), waited: Arc::clone(&waited) };
    let mut options = TrainerOptions::default();
    (options.common.max_steps, options.common.checkpoint_every) = (Some(3), Some(100));
    let (tasks, pupil) = (["honest"], Arc::default());
    let (_, summary) = run_with(moody, directory.path(), Reached::InProcess, &tasks, &pupil, options).await;
    summary.unwrap();
    assert_eq!(*waited.lock().unwrap(), [(2, Some(2))]);
}
