//! What worlds are to be like.

use std::path::PathBuf;
use std::time::Duration;

use crate::SandboxOptions;
use crate::sandbox::Wrapper;

/// What worlds are to be like. Commands are written as an agent's is, and run where the grader does; they find the world's
/// directory in `FULGURITE_WORLD`.
#[derive(Debug, Clone, PartialEq)]
pub struct WorldOptions {
    /// Where worlds are made. Only this user may write to it.
    pub directory: PathBuf,
    /// Fills the empty directory of a new world; none leaves it empty.
    pub setup: Vec<String>,
    /// Writes what stands for the world's state into the empty directory `FULGURITE_SNAPSHOT`, before the agent and after it;
    /// none: the world's own files stand for it.
    pub snapshot: Vec<String>,
    /// Takes away what a setup made outside of the world's directory, also that of a runner that died.
    pub teardown: Vec<String>,
    /// How long each of these commands may take.
    pub hook_timeout: Duration,
    /// Names of files and directories that are passed over where before and after are compared.
    pub unwatched: Vec<String>,
    /// The tests of Harbor's tasks are the grader.
    pub harbor_tests: bool,
    /// What keeps agents in their worlds.
    pub sandbox: SandboxOptions,
    /// The program that runs [`sandbox_part`](crate::sandbox_part); sandboxes need it.
    pub own_program: PathBuf,
    /// The file in a world that holds the reward.
    pub reward_file: Option<PathBuf>,
    /// Which number of that file, if it holds an object, is the reward.
    pub reward_key: Option<String>,
}

/// What all worlds of a runner have in common.
#[derive(Debug)]
pub(super) struct Common {
    /// What they are like.
    pub options: WorldOptions,
    /// What starts their sandboxes, if they have some.
    pub sandbox: Option<Wrapper>,
}
