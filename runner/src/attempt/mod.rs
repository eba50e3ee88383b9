//! One attempt: runs the agent, finds its reward, tells the server how it ended.

mod connection_help;
mod fault_rules;
mod remote_agent;
mod running;
mod verdict;

use fulgurite_types::{AttemptStatus, Fault};

use self::connection_help::{Client, connection_help};
use self::fault_rules::{AgentNotRun, SharedTime, of_agent, of_grading, of_world_left};
use self::remote_agent::{NoRemoteAnswer, RemoteAgent};
use self::running::RunningAttempts;
use self::verdict::{Facts, Verdict, errors_facts, facts, output_facts};
use crate::agent_environment::{Variables, of_attempt, without_an_attempts};
use crate::grader::{GradeFault, Grader, order, reward_in};
use crate::launch::launcher::Launcher;
use crate::launch::run::{self, EndedBy, Finished};
use crate::order::Order;
use crate::placeholders::{Places, asks_for_task, check_arguments};
use crate::process::end::ended_how;
use crate::program::Program;
use crate::reward::{NoReward, Reward, on_last_line};
use crate::rubric::{Material, Rubric, shared_reward};
use crate::sandbox::{Cgroup, Sandboxed};
use crate::warm::{Answer, CrashLoop, Lost, NoAnswer, WarmAgent, task_line};
use crate::world::{RewardFile, World, WorldFault, Worlds};
use crate::{RunnerError, RunnerOptions};
use fulgurite_client::{Assignment, Server};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// What every attempt of a runner has in common.
#[derive(Debug)]
pub(crate) struct Workspace {
    server: Server,
    agent: Agent,
    grader: Option<Grader>,
    rubric: Option<Rubric>,
    launcher: Launcher,
    timeout: Duration,
    heartbeat_interval: Duration,
    working_directory: Option<PathBuf>,
    /// Where things are for attempts without worlds.
    places: Places,
    worlds: Option<Worlds>,
    running: RunningAttempts,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With this status, as the server has been told.
    Reported(AttemptStatus),
    /// With another status on the server, which had given it up before, or would not hear how it ended.
    Unreported,
}

/// What plays the attempts.
#[derive(Debug)]
enum Agent {
    /// A process for each.
    Cold(Program),
    /// One process for all.
    Warm(WarmAgent),
    /// A server of the user's.
    Remote(RemoteAgent),
}

/// What an agent has left behind that played to its end.
struct Played {
    output: Vec<u8>,
    reward: Result<Reward, NoReward>,
    facts: Facts,
}

impl Workspace {
    /// Finds the programs and looks at the folder before any attempt needs them.
    pub(crate) fn new(options: &RunnerOptions, server: Server) -> Result<Self, RunnerError> {
        if let Some(path) = options.working_directory.as_ref().filter(|path| !path.is_dir()) {
            return Err(RunnerError::WorkingDirectory { path: path.clone() });
        }
        let launcher = Launcher::new(&options.supervisor);
        let agent = Agent::new(options, &launcher)?;
        let directory = &options.working_directory;
        let grader = options.grade.as_deref().map(|grade| Grader::find(grade, directory.clone())).transpose()?;
        let grader = match (grader, &options.grade_in_sandbox) {
            (Some(grader), Some(sandbox)) => Some(grader.in_sandbox(sandbox.clone())?),
            (grader, _) => grader,
        };
        let grader = grader.map(|grader| grader.launched_by(launcher.clone()));
        let rubric = options.rubric.as_ref().map(|(rubric, directory)| Rubric::new(rubric, directory.clone()));
        let places = Places::of_project(directory.as_deref()).map_err(RunnerError::CurrentDirectory)?;
        let worlds =
            options.worlds.as_ref().map(|worlds| Worlds::new(worlds, PathBuf::from(&places.project), options.parallel));
        if worlds.is_some() && (options.warm || options.agent_url.is_some()) {
            return Err(RunnerError::SharedWorlds);
        }
        Ok(Self {
            server,
            agent,
            grader,
            rubric: rubric.transpose()?,
            launcher,
            timeout: options.timeout,
            heartbeat_interval: options.heartbeat_interval,
            working_directory: options.working_directory.clone(),
            places,
            worlds: worlds.transpose()?,
            running: RunningAttempts::default(),
        })
    }

    /// What the server is told of who grades: the program's bare name, or Harbor's tests.
    pub(crate) fn grader_name(&self) -> Option<String> {
        let has_tests = self.worlds.as_ref().is_some_and(Worlds::have_tests);
        let rubric = self.rubric.as_ref().map(Rubric::name);
        let grader = self.grader.as_ref().map(Grader::name).or_else(|| has_tests.then(|| "harbor".to_owned()));
        let names: Vec<String> = grader.into_iter().chain(rubric).collect();
        (!names.is_empty()).then(|| names.join("+"))
    }

    /// Runs one attempt to its end and reports it. One that the server gives up meanwhile is killed. Dropping the future kills
    /// every process of the attempt and reports nothing.
    ///
    /// # Errors
    ///
    /// Fails if the server stays out of reach. Whatever goes wrong with the agent is reported to the server instead.
    pub(crate) async fn run(&self, assignment: &Assignment) -> Result<Ending, RunnerError> {
        let started = Instant::now();
        let Assignment { rollout_id, attempt_id, .. } = assignment;
        let mut running = self.running.enter(assignment.name());
        let mut world = None;
        let verdict = tokio::select! {
            biased;
            verdict = self.judge(assignment, &mut world) => Some(verdict),
            status = running.ended_elsewhere() => {
                tracing::info!(rollout_id, attempt_id, %status, "the server has given an attempt up; it is killed");
                None
            }
        };
        let of_world = match world {
            Some(world) => world.take_away().await,
            None => Facts::new(),
        };
        drop(running);
        let Some(verdict) = verdict else { return Ok(Ending::Unreported) };
        let mut verdict = verdict?;
        verdict.facts.extend(of_world);
        let wall = started.elapsed();
        let metadata = verdict.metadata(wall);
        let status = verdict.status;
        tracing::debug!(rollout_id, attempt_id, %status, "attempt ended");
        // What programs wrote to standard error may be prompts and keys.
        tracing::trace!(rollout_id, attempt_id, %metadata, "what was found out about the attempt");
        let reported = match self.server.report(assignment, status, &metadata).await {
            // An attempt whose end is not recorded would be lost by its runner, and run again.
            Err(error) if error.refusal().is_some_and(|(status, _)| matches!(status, 400 | 413)) => {
                tracing::warn!(%error, rollout_id, attempt_id, "what is known of an attempt is refused; only its end is reported");
                verdict.facts.clear();
                self.server.report(assignment, status, &verdict.metadata(wall)).await
            }
            reported => reported,
        };
        match reported {
            Ok(recorded) if recorded == status => Ok(Ending::Reported(status)),
            Ok(recorded) => {
                tracing::info!(rollout_id, attempt_id, %status, %recorded, "an attempt ended too late to count");
                Ok(Ending::Unreported)
            }
            Err(error) => match error.refusal() {
                Some((status, message)) => {
                    tracing::warn!(status, message, "the server refused to hear how an attempt ended");
                    Ok(Ending::Unreported)
                }
                None => Err(error.into()),
            },
        }
    }

    /// Sends heartbeats for all attempts that run until the server is lost.
    pub(crate) async fn keep_alive(&self) -> RunnerError {
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
                Err(error) => match error.refusal() {
                    Some((status, message)) => tracing::warn!(status, message, "the server refused the heartbeats"),
                    None => return error.into(),
                },
            }
        }
    }

    /// Waits until the agent is of no use any more, which only a warm one can be.
    pub(crate) async fn agent_given_up(&self) -> RunnerError {
        match &self.agent {
            Agent::Cold(_) | Agent::Remote(_) => std::future::pending().await,
            Agent::Warm(agent) => {
                let CrashLoop { processes, how, mut last_words } = agent.given_up().await;
                last_words.push_str(connection_help(&last_words, Client::OfTask));
                RunnerError::AgentCrashLoop { processes, how, last_words }
            }
        }
    }

    /// Takes away the worlds of runners that have died.
    ///
    /// # Errors
    /// If the directory of worlds cannot be read.
    pub(crate) async fn reap(&self) -> Result<(), RunnerError> {
        match &self.worlds {
            Some(worlds) => worlds.reap().await,
            None => Ok(()),
        }
    }

    /// Ends what outlives attempts.
    pub(crate) async fn close(&self) {
        if let Agent::Warm(agent) = &self.agent {
            agent.close().await;
        }
        // Attempts that were cut off have left theirs.
        if let Err(error) = self.reap().await {
            tracing::warn!(%error, "worlds stay for the next runner to take away");
        }
    }

    /// Makes the attempt's world, if it is to have one, has the agent play and settles its reward.
    async fn judge(&self, assignment: &Assignment, world: &mut Option<World>) -> Result<Verdict, RunnerError> {
        if let Some(worlds) = &self.worlds {
            let broken = |fault: WorldFault| Ok(Verdict::of_world(&fault, Fault::World, Facts::new()));
            let made = match worlds.make(&self.server, assignment).await {
                Ok(made) => world.insert(made),
                Err(fault) => return broken(fault),
            };
            if let Err(fault) = made.set_up().await {
                return broken(fault);
            }
        }
        let started = Instant::now();
        let deadline = started + self.timeout;
        let played = match &self.agent {
            Agent::Cold(program) => self.play_cold(program, assignment, world.as_ref(), deadline).await,
            Agent::Warm(agent) => self.play_warm(agent, assignment, deadline).await,
            Agent::Remote(agent) => self.play_remote(agent, assignment, deadline).await?,
        };
        let agent_took = started.elapsed();
        let seen = match world.as_mut() {
            Some(world) => world.look_again().await,
            None => Ok(()),
        };
        let Played { output, reward, mut facts } = match played {
            Ok(played) => played,
            Err(verdict) => return Ok(verdict),
        };
        if let Err(fault) = seen {
            return Ok(Verdict::of_world(&fault, of_world_left(&fault), facts));
        }
        let time = SharedTime { agent: agent_took, grader: deadline.saturating_duration_since(Instant::now()) };
        let rewarded = self.reward(assignment, world.as_ref(), &output, reward, deadline, &mut facts).await;
        let reward = match rewarded {
            Ok(reward) => reward,
            Err(fault) => return Ok(self.not_graded(&fault, facts).fault_of(of_grading(&fault, time))),
        };
        match reward {
            Ok(reward) => self.post(assignment, &reward, facts).await,
            Err(_) if self.server.has_reward(assignment).await? => Ok(Verdict::succeeded(facts)),
            Err(none) => {
                let (was, help) =
                    (format!("none was posted, and of the agent's output: {none}"), none.help_for_agent());
                Ok(Verdict::failed(format!("no reward: {was} (help: {help})"), facts))
            }
        }
    }

    /// What the attempt earned: by whoever grades, or else by the agent's `own` word.
    async fn reward(
        &self,
        assignment: &Assignment,
        world: Option<&World>,
        output: &[u8],
        own: Result<Reward, NoReward>,
        deadline: Instant,
        facts: &mut Facts,
    ) -> Result<Result<Reward, NoReward>, GradeFault> {
        let judging = self.rubric.as_ref().map(|rubric| (rubric, rubric.share()));
        if let Some((rubric, None)) = judging {
            return Ok(Ok(self.judge_by_rubric(rubric, assignment, world, output, deadline, facts).await?));
        }
        let graded = match (&self.grader, world) {
            (Some(grader), world) => Ok(self.grade(grader, assignment, world, output, deadline).await?),
            (None, Some(world)) if world.has_tests() => {
                Ok(world.test(&self.launcher, self.environment(assignment, Some(world)), deadline).await?)
            }
            (None, world) => world.and_then(World::reward_file).map_or(own, RewardFile::read),
        };
        match (graded, judging) {
            (Ok(graded), Some((rubric, Some(share)))) => {
                let judged = self.judge_by_rubric(rubric, assignment, world, output, deadline, facts).await?;
                Ok(Ok(shared_reward(share, graded, judged)?))
            }
            (graded, _) => Ok(graded),
        }
    }

    /// Has the judge of the rubric find the reward; what it says is kept with the attempt.
    async fn judge_by_rubric(
        &self,
        rubric: &Rubric,
        assignment: &Assignment,
        world: Option<&World>,
        output: &[u8],
        deadline: Instant,
        facts: &mut Facts,
    ) -> Result<Reward, GradeFault> {
        let (answer, changes) = (String::from_utf8_lossy(output), world.and_then(World::changes));
        let material = Material { task: &assignment.task, answer: &answer, changes };
        let (reward, judgements) = rubric.judge(&self.server, assignment, material, deadline).await?;
        facts.extend(judgements);
        Ok(reward)
    }

    /// Has the grader find the reward, which it prints, or writes to the world's `file`. What stood there before is the agent's
    /// and does not count.
    async fn grade(
        &self,
        grader: &Grader,
        assignment: &Assignment,
        world: Option<&World>,
        output: &[u8],
        deadline: Instant,
    ) -> Result<Reward, GradeFault> {
        let file = world.and_then(World::reward_file);
        if let Some(file) = file {
            file.clear().map_err(|error| GradeFault::World { path: file.path.to_owned(), error })?;
        }
        let variables = self.environment(assignment, world);
        let printed = grader.run(variables, self.places(world), &assignment.task, output, deadline).await?;
        match file {
            Some(file) => file.read().map_err(|none| {
                GradeFault::Failed(format!("no reward of the grader: {none} (help: {})", none.help_for_grader()))
            }),
            None => reward_in(&printed),
        }
    }

    /// Runs the agent's program for this attempt.
    async fn play_cold(
        &self,
        program: &Program,
        assignment: &Assignment,
        world: Option<&World>,
        deadline: Instant,
    ) -> Result<Played, Verdict> {
        let (agent, reached) = self
            .run_agent(program, assignment, world, deadline)
            .await
            .map_err(|why| Verdict::failed(format!("agent {why}"), Facts::new()).fault_of(of_agent(&why)))?;
        let mut facts = facts(&agent);
        if !reached.is_empty() {
            facts.insert("sandbox_bounds_reached".to_owned(), serde_json::json!(reached));
        }
        match agent.ended_by {
            EndedBy::Itself => {}
            EndedBy::Deadline => return Err(self.timed_out("agent", facts)),
            EndedBy::Stopped(why) => return Err(Verdict::failed(format!("agent was stopped {why}"), facts)),
        }
        if !agent.status.success() {
            let help = connection_help(&String::from_utf8_lossy(&agent.errors), Client::OfEnvironment);
            return Err(Verdict::failed(format!("agent {}{help}", ended_how(agent.status)), facts));
        }
        Ok(Played { reward: on_last_line(&agent.output), output: agent.output, facts })
    }

    /// Has the agent's process do this attempt.
    async fn play_warm(
        &self,
        agent: &WarmAgent,
        assignment: &Assignment,
        deadline: Instant,
    ) -> Result<Played, Verdict> {
        let failed = |why: String| Verdict::failed(format!("agent {why}"), Facts::new());
        let line = task_line(&self.server, assignment, self.timeout).map_err(failed)?;
        match agent.ask(assignment, line, deadline).await {
            Ok(answer) => self.answered(answer),
            Err(NoAnswer::TimedOut { log }) => Err(self.timed_out("agent", errors_facts(&log))),
            Err(NoAnswer::Lost(Lost { reason, log })) => {
                let help = connection_help(&log, Client::OfTask);
                Err(Verdict::failed(format!("agent {reason}{help}"), errors_facts(&log)))
            }
        }
    }

    /// Has the agent's server do this attempt. The outer error is of our own server.
    async fn play_remote(
        &self,
        agent: &RemoteAgent,
        assignment: &Assignment,
        deadline: Instant,
    ) -> Result<Result<Played, Verdict>, RunnerError> {
        let failed = |why: String| Verdict::failed(format!("agent {why}"), Facts::new());
        let line = match task_line(&self.server, assignment, self.timeout) {
            Ok(line) => line,
            Err(why) => return Ok(Err(failed(why))),
        };
        Ok(match agent.ask(&self.server, assignment, line, deadline).await {
            Ok(answer) => self.answered(answer),
            Err(NoRemoteAnswer::TimedOut) => Err(self.timed_out("agent", Facts::new())),
            // The policy cannot bring that about.
            Err(NoRemoteAnswer::Unreachable(why)) => Err(failed(why).fault_of(Fault::Runner)),
            Err(NoRemoteAnswer::Wrong(why)) => Err(failed(why)),
            Err(NoRemoteAnswer::Server(lost)) => return Err(lost.into()),
        })
    }

    /// What an answer leaves behind.
    fn answered(&self, answer: Answer) -> Result<Played, Verdict> {
        let failed = |why: String| Verdict::failed(format!("agent {why}"), Facts::new());
        match answer {
            Answer::Done { output: None, .. } if self.grader.is_some() => {
                Err(failed("answered without an `output`, which the grader needs".to_owned()))
            }
            Answer::Done { reward, output } => {
                let output = output.unwrap_or_default().into_bytes();
                Ok(Played { facts: output_facts(&output), output, reward })
            }
            Answer::Failed(error) => {
                let help = connection_help(&error, Client::OfTask);
                Err(failed(format!("failed: {error}{help}")))
            }
        }
    }

    /// The verdict when the program of `role` was still running at the deadline.
    fn timed_out(&self, role: &str, facts: Facts) -> Verdict {
        Verdict::timed_out(role, self.timeout, facts)
    }

    /// The verdict on an attempt that was not graded, by the agent's doing until another is named.
    fn not_graded(&self, fault: &GradeFault, facts: Facts) -> Verdict {
        match fault {
            GradeFault::TimedOut => self.timed_out("grader", facts),
            GradeFault::TestsTimedOut => self.timed_out("Harbor's tests", facts),
            other => Verdict::failed(other.to_string(), facts),
        }
    }

    /// Posts the reward; a server that will not have it fails the attempt.
    async fn post(&self, assignment: &Assignment, reward: &Reward, facts: Facts) -> Result<Verdict, RunnerError> {
        match self.server.reward(assignment, reward).await {
            Ok(()) => Ok(Verdict::succeeded(facts)),
            Err(refused) if refused.refusal().is_some() => {
                Ok(Verdict::failed(format!("the reward was refused: {refused}"), facts))
            }
            Err(lost) => Err(lost.into()),
        }
    }

    /// Runs the agent's program with its arguments filled in, and gives the bounds of its sandbox that it ran into. The error is
    /// why it could not be run.
    async fn run_agent(
        &self,
        program: &Program,
        assignment: &Assignment,
        world: Option<&World>,
        deadline: Instant,
    ) -> Result<(Finished, Vec<&'static str>), AgentNotRun> {
        let sandboxed: Sandboxed = match world {
            Some(world) => {
                let inside = self.worlds.as_ref().and_then(Worlds::origin_inside);
                let variables = of_attempt(&self.server, assignment, inside.as_deref());
                world.order(program, &assignment.task, variables).map_err(AgentNotRun::NotStarted)?
            }
            None => {
                let (variables, directory) = (self.environment(assignment, None), self.working_directory.clone());
                let order = order(program, &assignment.task, &self.places, variables, directory);
                order.map_err(AgentNotRun::NotStarted)?.into()
            }
        };
        let outgrown = async {
            match world {
                Some(world) => world.outgrown().await,
                None => std::future::pending().await,
            }
        };
        let finished = run::run_unless(&self.launcher, &sandboxed.order, b"", deadline, outgrown).await;
        let reached = sandboxed.cgroup.as_ref().map(Cgroup::reached).unwrap_or_default();
        Ok((finished?, reached))
    }

    /// What an attempt's programs find in their environment outside of a sandbox.
    fn environment(&self, assignment: &Assignment, world: Option<&World>) -> Variables {
        let mut variables = of_attempt(&self.server, assignment, None);
        variables.extend(world.map(World::variables).unwrap_or_default());
        variables
    }

    /// Where an attempt's arguments say that things are.
    fn places<'p>(&'p self, world: Option<&'p World>) -> &'p Places {
        world.map_or(&self.places, World::places)
    }
}

impl Agent {
    /// The agent that the options say; a warm one is started with the first attempt.
    fn new(options: &RunnerOptions, launcher: &Launcher) -> Result<Self, RunnerError> {
        if let Some(url) = &options.agent_url {
            return Ok(Self::Remote(RemoteAgent::new(url)?));
        }
        let has_own_programs = options.worlds.as_ref().is_some_and(|worlds| worlds.sandbox.has_own_programs());
        let program = match has_own_programs {
            true => Program::as_written(&options.command, "agent")?,
            false => Program::find(&options.command, "agent", options.working_directory.as_deref())?,
        };
        check_arguments(&program.arguments, [])?;
        if !options.warm {
            return Ok(Self::Cold(program));
        }
        if let Some(argument) = program.arguments.iter().find(|argument| asks_for_task(argument)) {
            return Err(RunnerError::TaskInWarmCommand { argument: argument.clone() });
        }
        Ok(Self::Warm(WarmAgent::new(launcher.clone(), warm_order(program, options.working_directory.clone()))))
    }
}

/// What starts a warm agent.
fn warm_order(program: Program, directory: Option<PathBuf>) -> Order {
    // Python would keep answers back until there are several thousand bytes of them.
    let unbuffered = ("PYTHONUNBUFFERED".to_owned(), Some("1".to_owned()));
    let variables = without_an_attempts().into_iter().chain([unbuffered]);
    Order {
        program: program.path,
        arguments: program.arguments.into_iter().map(Into::into).collect(),
        environment: variables.map(|(name, value)| (name.into(), value.map(Into::into))).collect(),
        directory,
    }
}
