//! `[runner]`: what runs the agent, and the world around each attempt.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use fulgurite_runner::{
    GraderSandboxOptions, RubricOptions, SandboxKind, SandboxOptions, WorldOptions, asks_for_task, asks_for_world,
};
use fulgurite_types::{AttemptStatus, RolloutConfig};
use serde::{Deserialize, Serialize};

use crate::seconds::seconds;

/// `[runner]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunnerConfig {
    /// The agent; `{task}` and `{task.FIELD}` are filled in. None if runners are started elsewhere: the server then
    /// listens where `[server]` says, and rollouts wait for them.
    pub command: Vec<String>,
    /// In place of `command`: the agent is a server at this URL, which is told of each attempt by a POST.
    pub url: Option<String>,
    /// The agent is one process that reads tasks as lines and answers with lines; nothing in its command is filled in.
    pub warm: bool,
    /// The grader; none if the agent prints or posts its own reward.
    pub grade: Vec<String>,
    /// The grader runs in a sandbox of its own (bubblewrap): no network, and it reads nothing but this machine's programs, the
    /// directory that it runs in and what `sandbox.read` lists.
    pub grade_in_sandbox: bool,
    /// Agents at a time.
    pub parallel: usize,
    /// Seconds for agent and grader together.
    pub timeout_seconds: f64,
    /// Attempts of a rollout whose agent fails, runs out of time, or loses its runner.
    pub max_attempts: u32,
    /// Directory that the agent is started in, unless attempts have worlds, and that all other commands are; the config
    /// file's by default.
    pub directory: Option<PathBuf>,
    /// Each attempt has a directory of its own, its world, which the agent is started in and which is gone afterwards; what it
    /// changed there is recorded. So it is with each of the keys below.
    pub world: bool,
    /// Makes a world: runs before the agent, and finds the empty directory in `FULGURITE_WORLD`.
    pub setup: Vec<String>,
    /// Writes what stands for a world's state to the directory `FULGURITE_SNAPSHOT`, before the agent and after it. Without
    /// one the files of the world stand for it.
    pub snapshot: Vec<String>,
    /// Takes away what the setup made outside of the world's directory; it runs also for the worlds of a runner that died.
    pub teardown: Vec<String>,
    /// Seconds for each run of `setup`, `snapshot` and `teardown`.
    pub hook_timeout_seconds: f64,
    /// Names of files and directories that are passed over where a world's states are compared.
    pub unwatched: Vec<String>,
    /// The file in a world that holds the reward: a number, or an object of numbers. Its writer is the grader, if there is
    /// one: what the agent left there is taken away before.
    pub reward_file: Option<PathBuf>,
    /// Which number of the object in `reward_file` is the reward; the only one, or `reward`, by default.
    pub reward_key: Option<String>,
    /// Tasks are Harbor's, and their own tests are the grader.
    pub harbor_tests: bool,
    /// What keeps the agent in its world.
    pub sandbox: SandboxOptions,
    /// In place of a grader: a model judges by criteria, and the reward is the share of them that is met.
    pub rubric: Option<RubricOptions>,
}

impl Default for RunnerConfig {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            url: None,
            warm: false,
            grade: Vec::new(),
            grade_in_sandbox: false,
            parallel: 8,
            timeout_seconds: 600.0,
            max_attempts: 3,
            directory: None,
            world: false,
            setup: Vec::new(),
            snapshot: Vec::new(),
            teardown: Vec::new(),
            hook_timeout_seconds: 300.0,
            unwatched: [".git", "__pycache__", ".pytest_cache", "node_modules", ".venv"].map(str::to_owned).to_vec(),
            reward_file: None,
            reward_key: None,
            harbor_tests: false,
            sandbox: SandboxOptions::default(),
            rubric: None,
        }
    }
}

impl RunnerConfig {
    /// Takes the command line's agent in place of the config's, if it names one.
    pub fn take_agent(&mut self, words: &[String]) {
        if !words.is_empty() {
            self.command = words.to_vec();
            self.url = None;
        }
    }

    /// Whether agents are run; else runners are started elsewhere.
    pub fn runs_agents(&self) -> bool {
        !self.command.is_empty() || self.url.is_some()
    }

    /// Whether each attempt has a world of its own.
    pub fn has_worlds(&self) -> bool {
        let commands = [&self.setup, &self.snapshot, &self.teardown];
        self.world
            || self.sandbox.is_some()
            || self.reward_file.is_some()
            || commands.iter().any(|words| !words.is_empty())
    }

    /// What worlds are like, if there are any; they are made in `directory`, and `own_program` is this program's file.
    pub fn worlds(&self, directory: PathBuf, own_program: PathBuf) -> Result<Option<WorldOptions>> {
        let hook_timeout = self.hook_timeout()?;
        Ok(self.has_worlds().then(|| WorldOptions {
            directory,
            setup: self.setup.clone(),
            snapshot: self.snapshot.clone(),
            teardown: self.teardown.clone(),
            hook_timeout,
            unwatched: self.unwatched.clone(),
            reward_file: self.reward_file.clone(),
            reward_key: self.reward_key.clone(),
            harbor_tests: self.harbor_tests,
            sandbox: self.sandbox.clone(),
            own_program,
        }))
    }

    fn hook_timeout(&self) -> Result<Duration> {
        seconds("[runner] hook_timeout_seconds", self.hook_timeout_seconds)
    }

    /// The sandbox of its grader, if it runs in one; relative paths start from `directory`, and `own_program` is this program's
    /// file.
    pub fn grader_sandbox(&self, directory: Option<&Path>, own_program: PathBuf) -> Option<GraderSandboxOptions> {
        let project = std::path::absolute(directory.unwrap_or(Path::new("."))).unwrap_or_default();
        self.grade_in_sandbox.then(|| GraderSandboxOptions {
            readable: self.sandbox.readable(&project.display().to_string()),
            bounds: self.sandbox.bounds(),
            own_program,
        })
    }

    /// How long an attempt may take, in seconds, with its world made and looked at.
    pub fn whole_seconds(&self) -> f64 {
        // Setup, a snapshot before and one after, and the teardown.
        self.timeout_seconds + if self.has_worlds() { 4.0 * self.hook_timeout_seconds } else { 0.0 }
    }

    /// The commands beside the agent's and the grader's, each with its key.
    pub fn hooks(&self) -> [(&'static str, &Vec<String>); 3] {
        [("setup", &self.setup), ("snapshot", &self.snapshot), ("teardown", &self.teardown)]
    }

    /// Looks at the numbers, and at keys that contradict each other.
    pub fn check(&self) -> Result<()> {
        seconds("[runner] timeout_seconds", self.timeout_seconds)?;
        self.hook_timeout()?;
        for (key, value) in [("parallel", self.parallel as u64), ("max_attempts", self.max_attempts.into())] {
            if value == 0 {
                bail!("[runner] {key} is 0, but must be at least 1");
            }
        }
        if self.url.is_some() && (!self.command.is_empty() || self.warm) {
            bail!("[runner] url is an agent that lives elsewhere: leave out `command` and `warm`, or `url`");
        }
        if (self.warm || self.url.is_some()) && self.has_worlds() {
            let key = if self.warm { "warm" } else { "url" };
            bail!("[runner] {key}: one agent for all attempts cannot be given a world for each; leave one of them out");
        }
        if let Some(argument) = self.command.iter().skip(1).find(|argument| self.warm && asks_for_task(argument)) {
            bail!(
                "[runner] command: {argument:?} asks for the task, but a warm agent is given tasks as lines on its standard \
                 input: leave it out, or warm = true (docs/how-to/warm-agents.md)"
            );
        }
        let words = self.command.iter().chain(&self.grade);
        if let Some(argument) = words.filter(|_| !self.has_worlds()).find(|argument| asks_for_world(argument)) {
            bail!("[runner] {argument:?} asks for the attempt's world, and there are none: world = true makes them");
        }
        if self.harbor_tests && (!self.grade.is_empty() || self.reward_file.is_some()) {
            bail!(
                "[runner] harbor_tests: the tests of Harbor's tasks are the grader; leave out `grade` and `reward_file`"
            );
        }
        if self.harbor_tests && self.sandbox.kind == SandboxKind::None {
            bail!(
                "[runner] harbor_tests: Harbor's files are at /app, where sandbox = {{ kind = \"bubblewrap\" }}, \"docker\" or \
                 \"podman\" puts them"
            );
        }
        if let Some(rubric) = &self.rubric {
            rubric.check()?;
            let is_graded = !self.grade.is_empty() || self.harbor_tests || self.reward_file.is_some();
            match rubric.share {
                None if is_graded => bail!(
                    "[runner.rubric] rewards attempts: leave out `grade`, `harbor_tests` and `reward_file`, or the rubric, \
                     or say by `share` what part of the reward it gives"
                ),
                Some(_) if !is_graded => bail!(
                    "[runner.rubric] share: the rest of the reward is given by `grade`, `harbor_tests` or `reward_file`, \
                     and there is none"
                ),
                _ => {}
            }
        }
        if self.grade_in_sandbox && self.grade.is_empty() {
            bail!("[runner] grade_in_sandbox: there is no `grade` to be kept in one");
        }
        match (&self.reward_file, &self.reward_key) {
            (Some(path), _)
                if !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) =>
            {
                bail!(
                    "[runner] reward_file is {path:?}, but names a file within the world: it must be relative, without `..`"
                )
            }
            (None, Some(_)) if !self.harbor_tests => {
                bail!("[runner] reward_key says which number of reward_file is meant, and there is none")
            }
            _ => Ok(()),
        }
    }

    /// Looks for arguments that mean a file of the project's, where the agent is started in a world.
    pub fn check_paths(&self, project: &Path) -> Result<()> {
        if !self.has_worlds() {
            return Ok(());
        }
        let relative = |argument: &&String| {
            let path = Path::new(argument.as_str());
            path.is_relative() && !argument.starts_with('-') && project.join(path).is_file()
        };
        if let Some(argument) = self.command.iter().skip(1).find(relative) {
            bail!(
                "[runner] command: {argument:?} is a file in {}, but the agent is started in its world: write \
                 \"{{project}}/{argument}\"",
                project.components().collect::<PathBuf>().display()
            );
        }
        let is_shown = |file: &str| self.sandbox.read.iter().any(|path| Path::new(file).starts_with(path));
        let hidden = |argument: &&String| argument.starts_with("{project}") && !is_shown(argument);
        if let Some(argument) = self.command.iter().find(hidden).filter(|_| self.sandbox.is_some()) {
            bail!("[runner] command: the sandbox hides {argument:?} from the agent: read = [{argument:?}] shows it");
        }
        Ok(())
    }
}

/// No limits but on attempts: whichever ends badly calls for another.
pub fn tried_again(max_attempts: u32) -> RolloutConfig {
    RolloutConfig {
        max_attempts,
        retry_condition: vec![AttemptStatus::Failed, AttemptStatus::Timeout, AttemptStatus::Unresponsive],
        ..RolloutConfig::default()
    }
}
