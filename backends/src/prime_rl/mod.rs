//! prime-rl's trainer behind `Learner`, by files of a directory that both see.
//!
//! - [`learner`]: an update as one file for each of the trainer's ranks, and the weights that come of it.
//! - [`micro_batch`]: a sequence as the trainer reads it; [`message_pack`]: its bytes.
//! - [`directory`]: the files, written whole or not at all, and the signs that weights are whole.
//! - [`tensor_file`]: whether a file of weights is whole by its own header.

mod directory;
pub(crate) mod learner;
mod message_pack;
mod micro_batch;
pub(crate) mod options;
mod tensor_file;
