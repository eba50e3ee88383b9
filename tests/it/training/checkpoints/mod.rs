//! Checkpoints of training runs: when they are made, which are kept, where they are uploaded to; and which weights are put
//! behind the model.

mod kept;
mod object_store;
mod published;
mod starts;
mod uploads;
