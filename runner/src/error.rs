//! Why a runner stops before it is told to.

use crate::PlaceholderError;
use fulgurite_client::ServerError;
use std::io;
use std::path::PathBuf;

/// Why a runner stops before it is told to. How a single agent fails is not among them: that is reported to the server as
/// the end of its attempt.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// The server's URL cannot be used, it stayed out of reach for longer than the runner's patience, or it said what a
    /// server does not say.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// There is no such program beside the running executable or on `PATH`, or it may not be executed.
    #[error("cannot find the program {program:?} beside the running executable or on PATH{hint}")]
    ProgramNotFound {
        /// The name that was looked up.
        program: String,
        /// What may be meant, after a colon; empty if nothing can be told.
        hint: String,
    },
    /// A placeholder in the command or the grader is misspelt.
    #[error(transparent)]
    Placeholder(#[from] PlaceholderError),
    /// The command or the grader is an empty list.
    #[error("the {role} is empty: it needs at least a program")]
    EmptyCommand {
        /// `agent` or `grader`.
        role: &'static str,
    },
    /// A warm agent's command asks for a task, which it is not given there.
    #[error("a warm agent is given tasks on its standard input: leave {argument:?} out of its command")]
    TaskInWarmCommand {
        /// The argument that asks for it.
        argument: String,
    },
    /// A warm agent's processes keep ending before they have answered anything.
    #[error(
        "the warm agent ended {processes} times in a row without an answer; the last time it {how}, and the last that it \
         wrote was: {last_words} (a warm agent reads tasks from its standard input until that is closed: see \
         docs/how-to/warm-agents.md)"
    )]
    AgentCrashLoop {
        /// How many processes ended in a row.
        processes: u32,
        /// How the last one ended.
        how: String,
        /// The last line of what it wrote.
        last_words: String,
    },
    /// No agent could ever run.
    #[error("a runner needs room for at least one agent at a time")]
    NoParallelism,
    /// An agent that lives elsewhere has a URL.
    #[error("the agent's URL {url:?} cannot be used: {reason}")]
    AgentUrl {
        /// The URL.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// What judges have cost is kept in a file.
    #[error("what the judges of [runner.rubric] have cost cannot be kept in {}: {error}", directory.display())]
    JudgesSpending {
        /// The directory.
        directory: PathBuf,
        /// What the system says.
        #[source]
        error: std::io::Error,
    },
    /// A judge is asked over HTTP.
    #[error("the judge of [runner.rubric] cannot be asked: {reason}")]
    JudgeClient {
        /// Why not.
        reason: String,
    },
    /// One process for all attempts cannot live in a directory of each.
    #[error("a warm agent, or one that lives elsewhere, is one for all attempts, and cannot be given a world for each")]
    SharedWorlds,
    /// A container is made of an image.
    #[error("[runner.sandbox] image is missing: a container is made of one, such as \"python:3.12-slim\"")]
    SandboxImage,
    /// Sandboxes are made of what other systems lack.
    #[error(
        "[runner.sandbox] is for runners on Linux, which alone has what a sandbox is made of (help: run the agents on Linux, \
         with `fulgurite run --attach`, or without a sandbox)"
    )]
    SandboxSystem,
    /// A sandbox cannot be made, or would not keep in what runs inside.
    #[error(
        "no sandbox is made here that holds: {why} (docs/how-to/worlds.md says what a machine needs; help: start the runner as a user \
         other than root, or allow user namespaces)"
    )]
    NoIsolation {
        /// What was said or found.
        why: String,
    },
    /// The directory that worlds are made in cannot be used.
    #[error("worlds cannot be made in {}: {error}", path.display())]
    Worlds {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        error: io::Error,
    },
    /// Agents cannot run where they are told to.
    #[error("{} is not a folder that agents can run in", path.display())]
    WorkingDirectory {
        /// The folder that was given.
        path: PathBuf,
    },
    /// The operating system would not say where the runner runs.
    #[error("cannot tell the folder that the runner runs in")]
    CurrentDirectory(#[source] io::Error),
}
