//! A run, whatever it learns from: steps, checkpoints, publication, the account of every token, metrics, the stop rule.

mod checkpoints;
mod ledger;
mod metrics_file;
mod summary;
mod training_run;
mod without_gradient;

pub(crate) use self::ledger::leftovers;
pub use self::summary::RunSummary;
pub(crate) use self::training_run::{Checkpointing, TrainingRun};
