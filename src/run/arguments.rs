//! What `fulgurite run` takes.

use std::path::PathBuf;

use clap::Args;

/// `fulgurite run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// Server whose queue is worked off; its admin key, if it has one, is taken from FULGURITE_ADMIN_KEY
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:4747", env = "FULGURITE_SERVER")]
    pub server: String,
    /// With a worker's key (FULGURITE_WORKER_KEY) in place of the admin key, as from within a sandbox that can only call out
    #[arg(long)]
    pub attach: bool,
    /// Name of this runner in the store; a new one of the same name takes over what the old one held
    #[arg(long, value_name = "ID")]
    pub worker_id: Option<String>,
    /// Config whose [runner] says what is run and in what worlds; what is given here comes before it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What a run has its runner do.
    #[arg(long, value_name = "JSON", hide = true, conflicts_with = "config")]
    pub settings: Option<String>,
    /// Agents at a time [default: 4, or the config's]
    #[arg(long, value_name = "N")]
    pub parallel: Option<usize>,
    /// The agent is one process that reads tasks as lines from its standard input and writes answers as lines; see
    /// docs/how-to/warm-agents.md
    #[arg(long)]
    pub warm: bool,
    /// Program that grades: run after the agent with its output on stdin, prints {"reward": 1.0}.
    /// One string, split at spaces; {task} and {task.FIELD} are filled in
    #[arg(long, value_name = "COMMAND")]
    pub grade: Option<String>,
    /// The same, one word at a time (repeatable)
    #[arg(long, value_name = "WORD", conflicts_with = "grade", allow_hyphen_values = true)]
    pub grade_word: Vec<String>,
    /// Seconds that agent and grader may take together; then their whole process group is killed [default: 600, or the
    /// config's]
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<f64>,
    /// Directory that worlds are made in, one of each attempt [default: a directory of this user's among the system's
    /// temporary files]
    #[arg(long, value_name = "DIR")]
    pub worlds: Option<PathBuf>,
    /// Directory that the agent is started in
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Leave when the queue is empty and nothing runs
    #[arg(long)]
    pub until_idle: bool,
    /// Leave, and kill the agents, when standard input is closed
    #[arg(long)]
    pub until_stdin_closes: bool,
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
    /// The agent: program and arguments; {task} and {task.FIELD} are filled in, never through a shell
    #[arg(last = true, required_unless_present_any = ["config", "settings"], value_name = "AGENT")]
    pub agent: Vec<String>,
}
