//! Checkpoints of training runs: when they are made, which are kept, where they are uploaded to; and which weights are put
//! behind the model.

mod callers;
mod kept;
mod object_store;
mod published;
mod run_ids;
mod starts;
mod uploads;
