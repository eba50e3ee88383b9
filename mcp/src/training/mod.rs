//! Runs as child processes.

mod child;
mod events;

pub(crate) use child::{Beginning, Ended, Training, Trainings};
