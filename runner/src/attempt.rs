//! One attempt: runs the agent, finds its reward, tells the server how it ended.

use crate::agent_environment::{KEPT_BACK, variables};
use crate::placeholders::{check_arguments, fill};
use crate::process::{self, Finished};
use crate::program::Program;
use crate::reward::{Reward, on_last_line};
use crate::running::RunningAttempts;
use crate::server::{Assignment, Server};
use crate::{RunnerError, RunnerOptions};
use fulgurite_store::model::AttemptStatus;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// What every attempt of a runner has in common.
#[derive(Debug)]
pub struct Workshop {
    server: Server,
    agent: Program,
    grader: Option<Program>,
    supervisor: Vec<OsString>,
    timeout: Duration,
    heartbeat_interval: Duration,
    working_directory: Option<PathBuf>,
    running: RunningAttempts,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With this status, as the server has been told.
    Reported(AttemptStatus),
    /// With another status on the server, which had given it up before, or would not hear how it ended.
    Unreported,
}

/// What was found out about an attempt that is over.
struct Verdict {
    status: AttemptStatus,
    reason: Option<String>,
    agent: Option<Finished>,
}

impl Verdict {
    fn succeeded(agent: Finished) -> Self {
        Self { status: AttemptStatus::Succeeded, reason: None, agent: Some(agent) }
    }

    fn failed(reason: impl Into<String>, agent: Option<Finished>) -> Self {
        Self { status: AttemptStatus::Failed, reason: Some(reason.into()), agent }
    }

    /// The attempt's metadata: what a person needs who asks how it went.
    fn metadata(&self, wall: Duration) -> Value {
        let mut metadata = json!({"wall_seconds": wall.as_secs_f64()});
        if let Some(reason) = &self.reason {
            metadata["reason"] = json!(reason);
        }
        if let Some(agent) = &self.agent {
            metadata["exit_status"] = json!(agent.status.code());
            metadata["stderr_tail"] = json!(String::from_utf8_lossy(&agent.errors));
        }
        metadata
    }
}

/// Why an attempt's program gave nothing that can be used.
enum Trouble {
    /// It was still running at the attempt's deadline.
    TimedOut,
    /// Anything else.
    Failed(String),
}

impl Workshop {
    /// Finds the programs and looks at the folder before any attempt needs them.
    pub fn new(options: &RunnerOptions, server: Server) -> Result<Self, RunnerError> {
        if let Some(path) = options.working_directory.as_ref().filter(|path| !path.is_dir()) {
            return Err(RunnerError::WorkingDirectory { path: path.clone() });
        }
        let agent = Program::find(&options.command, "agent")?;
        let grader = options.grade.as_deref().map(|grade| Program::find(grade, "grader")).transpose()?;
        for program in std::iter::once(&agent).chain(&grader) {
            check_arguments(&program.arguments, [])?;
        }
        Ok(Self {
            server,
            agent,
            grader,
            supervisor: options.supervisor.clone(),
            timeout: options.timeout,
            heartbeat_interval: options.heartbeat_interval,
            working_directory: options.working_directory.clone(),
            running: RunningAttempts::default(),
        })
    }

    /// What the server is told of who grades: the program's bare name.
    pub fn grader_name(&self) -> Option<String> {
        let path = &self.grader.as_ref()?.path;
        Some(path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned())
    }

    /// Runs one attempt to its end and reports it. One that the server gives up meanwhile is killed. Dropping the future kills
    /// every process of the attempt and reports nothing.
    ///
    /// # Errors
    ///
    /// Fails if the server stays out of reach. Whatever goes wrong with the agent is reported to the server instead.
    pub async fn run(&self, assignment: &Assignment) -> Result<Ending, RunnerError> {
        let started = Instant::now();
        let Assignment { rollout_id, attempt_id, .. } = assignment;
        let mut running = self.running.enter(assignment.name());
        let verdict = tokio::select! {
            biased;
            verdict = self.judge(assignment) => verdict?,
            status = running.ended_elsewhere() => {
                tracing::info!(rollout_id, attempt_id, %status, "the server has given an attempt up; it is killed");
                return Ok(Ending::Unreported);
            }
        };
        drop(running);
        let metadata = verdict.metadata(started.elapsed());
        let status = verdict.status;
        tracing::debug!(rollout_id, attempt_id, %status, "attempt ended");
        // What programs wrote to standard error may be prompts and keys.
        tracing::trace!(rollout_id, attempt_id, %metadata, "what was found out about the attempt");
        match self.server.report(assignment, status, &metadata).await {
            Ok(recorded) if recorded == status => Ok(Ending::Reported(status)),
            Ok(recorded) => {
                tracing::info!(rollout_id, attempt_id, %status, %recorded, "an attempt ended too late to count");
                Ok(Ending::Unreported)
            }
            Err(RunnerError::Refused { url, status, body }) => {
                tracing::warn!(url, status, body, "the server refused to hear how an attempt ended");
                Ok(Ending::Unreported)
            }
            Err(lost) => Err(lost),
        }
    }

    /// Sends heartbeats for all attempts that run until the server is lost.
    pub async fn keep_alive(&self) -> RunnerError {
        let mut beats = interval(self.heartbeat_interval);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            let running = self.running.names();
            if running.is_empty() {
                continue;
            }
            match self.server.heartbeat(&running).await {
                Ok(known) => known.iter().for_each(|attempt| self.running.tell(attempt)),
                Err(RunnerError::Refused { url, status, body }) => {
                    tracing::warn!(url, status, body, "the server refused the heartbeats");
                }
                Err(lost) => return lost,
            }
        }
    }

    /// Runs the attempt's programs and settles its reward.
    async fn judge(&self, assignment: &Assignment) -> Result<Verdict, RunnerError> {
        let deadline = Instant::now() + self.timeout;
        let agent = match self.run_program(&self.agent, assignment, b"", deadline).await {
            Ok(agent) => agent,
            Err(why) => return Ok(Verdict::failed(format!("agent {why}"), None)),
        };
        if agent.timed_out {
            return Ok(self.timed_out("agent", agent));
        }
        if !agent.status.success() {
            return Ok(Verdict::failed(format!("agent {}", ended_how(agent.status)), Some(agent)));
        }
        let reward = match &self.grader {
            Some(grader) => match self.grade(grader, assignment, &agent.output, deadline).await {
                Ok(reward) => Ok(reward),
                Err(Trouble::TimedOut) => return Ok(self.timed_out("grader", agent)),
                Err(Trouble::Failed(why)) => return Ok(Verdict::failed(why, Some(agent))),
            },
            None => on_last_line(&agent.output),
        };
        match reward {
            Ok(reward) => self.post(assignment, &reward, agent).await,
            Err(_) if self.server.has_reward(assignment).await? => Ok(Verdict::succeeded(agent)),
            Err(none) => {
                let reason = format!("no reward: none was posted, and of the agent's output: {none}");
                Ok(Verdict::failed(reason, Some(agent)))
            }
        }
    }

    /// The verdict when the program of `role` was still running at the deadline.
    fn timed_out(&self, role: &str, agent: Finished) -> Verdict {
        let reason = format!("{role} still ran after {:?}", self.timeout);
        Verdict { status: AttemptStatus::Timeout, reason: Some(reason), agent: Some(agent) }
    }

    /// Posts the reward; a server that will not have it fails the attempt.
    async fn post(&self, assignment: &Assignment, reward: &Reward, agent: Finished) -> Result<Verdict, RunnerError> {
        match self.server.reward(assignment, reward).await {
            Ok(()) => Ok(Verdict::succeeded(agent)),
            Err(refused @ RunnerError::Refused { .. }) => {
                Ok(Verdict::failed(format!("the reward was refused: {refused}"), Some(agent)))
            }
            Err(lost) => Err(lost),
        }
    }

    /// What the grader makes of the agent's output.
    async fn grade(
        &self,
        grader: &Program,
        assignment: &Assignment,
        output: &[u8],
        deadline: Instant,
    ) -> Result<Reward, Trouble> {
        let graded = self
            .run_program(grader, assignment, output, deadline)
            .await
            .map_err(|why| Trouble::Failed(format!("grader {why}")))?;
        if graded.timed_out {
            return Err(Trouble::TimedOut);
        }
        if !graded.status.success() {
            let errors = String::from_utf8_lossy(&graded.errors);
            return Err(Trouble::Failed(format!("grader {}: {}", ended_how(graded.status), errors.trim())));
        }
        on_last_line(&graded.output)
            .map_err(|none| Trouble::Failed(format!("no reward: of the grader's output: {none}")))
    }

    /// Runs one of the attempt's programs with its arguments filled in. The error is why it could not be run.
    async fn run_program(
        &self,
        program: &Program,
        assignment: &Assignment,
        input: &[u8],
        deadline: Instant,
    ) -> Result<Finished, String> {
        let mut command = match self.supervisor.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(&program.path);
                command
            }
            None => Command::new(&program.path),
        };
        for argument in &program.arguments {
            command.arg(fill(argument, &assignment.task).map_err(|unknown| format!("cannot be started: {unknown}"))?);
        }
        if let Some(folder) = &self.working_directory {
            command.current_dir(folder);
        }
        for name in KEPT_BACK {
            command.env_remove(name);
        }
        command.envs(variables(&self.server, assignment));
        let path = program.path.display();
        let finished = match self.supervisor.is_empty() {
            true => process::run(command, input, deadline).await,
            false => process::run_supervised(command, input, deadline).await,
        };
        finished.map_err(|error| format!("cannot be run as {path}: {error}"))
    }
}

/// How a process ended, as the end of a sentence about it.
fn ended_how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => format!("ended with {status}"),
    }
}
