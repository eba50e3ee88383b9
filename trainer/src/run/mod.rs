//! A run, whatever it learns from: steps, checkpoints, publication, the account of every token, metrics, the stop rule.

mod allowed_steps;
mod builder;
mod checkpoint_rules;
mod checkpoints;
mod files;
mod final_weights;
mod gate;
mod ledger;
mod own_record;
mod resume_point;
mod run_checkpoints;
mod safeguards;
mod training_run;
mod uploads;

pub(crate) use self::builder::{Course, CourseRules, Publishing, RunBuilder};
pub(crate) use self::checkpoint_rules::{CheckpointTriggers, Checkpointing, KeptCheckpoints};
pub use self::checkpoints::MissingFiles;
pub(crate) use self::gate::{GateRule, PublishGate};
pub(crate) use self::ledger::leftovers;
pub use self::own_record::{KeptCheckpointsAt, require_steps};
pub use self::resume_point::ResumePoint;
pub(crate) use self::training_run::TrainingRun;
