//! What a runner is told to do.

use crate::{GraderSandboxOptions, RubricOptions, WorldOptions};
use fulgurite_client::ServerOptions;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use uuid::Uuid;

/// What a runner is told to do. [`RunnerOptions::new`] fills in the defaults.
#[derive(Debug, Clone)]
pub struct RunnerOptions {
    /// Base URL of the server that holds the queue, such as `http://127.0.0.1:4747`.
    pub server: String,
    /// The admin key, if the server has one. It is sent with the runner's own requests and kept from the agents.
    pub admin_key: Option<String>,
    /// Names this runner to the server. A runner that is started again under the same name lets go of what its predecessor
    /// held.
    pub worker_id: String,
    /// How many agents run at a time, at least 1.
    pub parallel: usize,
    /// The agent: a program, whose bare name is looked up beside the running executable first and then on `PATH`, and its
    /// arguments, in which `{task}` and `{task.FIELD}` stand for the rollout's input. No shell sees them.
    pub command: Vec<String>,
    /// In place of a command: the agent is a server at this URL, which is told of each attempt by a POST.
    pub agent_url: Option<String>,
    /// The agent is one process that is given tasks as lines and answers with lines, `parallel` of them at a time; no
    /// placeholder in `command` is filled then.
    pub warm: bool,
    /// The grader, written like `command`: it finds the agent's output on its stdin and prints the reward.
    pub grade: Option<Vec<String>>,
    /// The grader runs in a sandbox of its own.
    pub grade_in_sandbox: Option<GraderSandboxOptions>,
    /// What rewards attempts in place of a grader, and the directory in which judgements are kept, if they are to be known to later runners.
    pub rubric: Option<(RubricOptions, Option<PathBuf>)>,
    /// The words of a command that runs [`supervise`](crate::supervise). Agents are started by it, so that nothing of them is
    /// left. Without one they are, as graders always are, this process's own children: what leaves their process group, or
    /// outlives a runner that is killed, stays.
    pub supervisor: Vec<OsString>,
    /// How long the agent and its grader may take together.
    pub timeout: Duration,
    /// How often the server hears which attempts are running, and says which it has given up.
    pub heartbeat_interval: Duration,
    /// Where graders run, and agents that have no world; where the runner runs if `None`.
    pub working_directory: Option<PathBuf>,
    /// Each attempt has a directory of its own, in which its agent runs.
    pub worlds: Option<WorldOptions>,
    /// Leave when the queue is empty and no agent runs, instead of waiting for more.
    pub until_idle: bool,
    /// How long the server may be out of reach before the runner gives up and kills its agents.
    pub patience: Duration,
}

/// Bytes that an answer of the server may have: it holds the tasks of as many rollouts as agents run at a time.
const REPLY_LIMIT: usize = 256 << 20;

impl RunnerOptions {
    /// Where the server is, and how it is asked.
    pub(crate) fn server_options(&self) -> ServerOptions {
        ServerOptions {
            url: self.server.clone(),
            admin_key: self.admin_key.clone(),
            patience: self.patience,
            reply_limit: REPLY_LIMIT,
        }
    }

    /// One agent at a time, graded by its own last line or the rewards it posts, ten minutes each, for ever.
    pub fn new(server: impl Into<String>, command: Vec<String>) -> Self {
        Self {
            server: server.into(),
            admin_key: None,
            worker_id: format!("runner-{}", Uuid::now_v7()),
            parallel: 1,
            command,
            agent_url: None,
            warm: false,
            grade: None,
            grade_in_sandbox: None,
            rubric: None,
            supervisor: Vec::new(),
            timeout: Duration::from_secs(600),
            heartbeat_interval: Duration::from_secs(5),
            working_directory: None,
            worlds: None,
            until_idle: false,
            patience: Duration::from_secs(60),
        }
    }
}
