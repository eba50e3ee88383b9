//! What a check of an agent needs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What a check needs beside its agent.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// How long one trial may take.
    pub timeout: Duration,
    /// The words that start this program as the supervisor of an agent.
    pub supervisor: Vec<OsString>,
    /// The file of this program.
    pub own_program: PathBuf,
}
