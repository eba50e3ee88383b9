//! The beginning and the resumption of a run: its directory, its id, the lease on it, and what is behind its model at a server.

pub(crate) mod at_server;
pub mod command_lines;
pub(crate) mod held_run;
pub(crate) mod identity;
pub(crate) mod new_run;
pub mod options;
pub(crate) mod own_run;
pub(crate) mod owner;
pub mod rules;
pub(crate) mod run_directory;
pub(crate) mod uploaded_runs;
