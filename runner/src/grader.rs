//! Grades what an agent printed, while its attempt runs or at any time after.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::RunnerError;
use crate::agent_environment::{Variables, of_past_attempt};
use crate::grading_environment::{FreshHome, for_grading};
use crate::launch::launcher::Launcher;
use crate::launch::run::{self, EndedBy};
use crate::order::Order;
use crate::placeholders::{Places, check_arguments};
use crate::process::end::ended_how;
use crate::program::Program;
use crate::reward::{Reward, on_last_line};
use crate::sandbox::{GraderSandbox, GraderSandboxOptions, LentWorld};

/// A program that finds an agent's output on its standard input and prints the reward, in an environment that leads to nothing
/// of the agent's.
#[derive(Debug)]
pub struct Grader {
    program: Program,
    directory: Option<PathBuf>,
    /// Where things are for an attempt that has no world.
    places: Places,
    sandbox: Option<GraderSandbox>,
    launcher: Launcher,
}

/// An attempt that is over.
#[derive(Clone, Copy, Debug)]
pub struct GradedAttempt<'a> {
    /// The rollout's id.
    pub rollout_id: &'a str,
    /// The attempt's id.
    pub attempt_id: &'a str,
    /// The rollout's input.
    pub task: &'a Value,
    /// What the agent printed.
    pub output: &'a [u8],
}

/// Why there is no grade.
#[derive(Debug, thiserror::Error)]
pub enum GradeFault {
    /// The grader was still running at its deadline.
    #[error("grader still ran after its time")]
    TimedOut,
    /// Harbor's tests were still running at their deadline.
    #[error("Harbor's tests still ran after their time")]
    TestsTimedOut,
    /// Harbor's tests ran, and left no reward.
    #[error("{0}")]
    NoRewardOfTests(String),
    /// What the agent left cannot be made ready for who grades.
    #[error("the attempt's world cannot be graded at {}: {error}", path.display())]
    World {
        /// What is meant.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

impl Grader {
    /// Finds the program of a grader's command; it runs in `directory`, or where this process does.
    ///
    /// # Errors
    /// If there is no such program, or a placeholder in its arguments is misspelt.
    pub fn find(command: &[String], directory: Option<PathBuf>) -> Result<Self, RunnerError> {
        let program = Program::find(command, "grader", directory.as_deref())?;
        check_arguments(&program.arguments, [])?;
        let places = Places::of_project(directory.as_deref()).map_err(RunnerError::CurrentDirectory)?;
        Ok(Self { program, directory, places, sandbox: None, launcher: Launcher::Direct })
    }

    /// Has it run in a sandbox: it reads this machine's programs, the directory that it runs in and what the options list, writes to
    /// the attempt's world if there is one, and reaches no network.
    ///
    /// # Errors
    /// If there is no bubblewrap, or it makes no sandbox that holds.
    pub fn in_sandbox(mut self, options: GraderSandboxOptions) -> Result<Self, RunnerError> {
        self.sandbox = Some(GraderSandbox::find(options)?);
        Ok(self)
    }

    /// Has it run below a supervisor, which that command starts: what the grader leaves ends with it, and with this process.
    pub fn supervised(self, supervisor: &[OsString]) -> Self {
        self.launched_by(Launcher::new(supervisor))
    }

    /// Has it started by a launcher.
    pub(crate) fn launched_by(self, launcher: Launcher) -> Self {
        Self { launcher, ..self }
    }

    /// What servers are told of who grades: the program's bare name.
    pub fn name(&self) -> String {
        let path = &self.program.path;
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
    }

    /// Grades an attempt that is over, with no server to be reached: of an attempt's variables there are its ids and its task.
    ///
    /// # Errors
    /// If the grader fails, prints no reward, or takes longer than `timeout`.
    pub async fn grade(&self, attempt: &GradedAttempt<'_>, timeout: Duration) -> Result<Reward, GradeFault> {
        let GradedAttempt { rollout_id, attempt_id, task, output } = *attempt;
        let variables = of_past_attempt(rollout_id, attempt_id, task);
        let printed = self.run(variables, &self.places, task, output, Instant::now() + timeout).await?;
        reward_in(&printed)
    }

    /// Runs the grader with these variables, and gives what it printed.
    pub(crate) async fn run(
        &self,
        variables: Variables,
        places: &Places,
        task: &Value,
        output: &[u8],
        deadline: Instant,
    ) -> Result<Vec<u8>, GradeFault> {
        let failed = |why: String| GradeFault::Failed(format!("grader {why}"));
        let order = order(&self.program, task, places, variables, self.directory.clone()).map_err(failed)?;
        let world = places.world.as_deref().map(Path::new);
        let home = FreshHome::of_attempt(world);
        let home = home.map_err(|error| failed(format!("cannot be run: it gets no home directory: {error}")))?;
        let agents: Vec<&Path> = world.into_iter().flat_map(|world| [Some(world), world.parent()]).flatten().collect();
        let (sandboxed, lent) = match &self.sandbox {
            Some(sandbox) => {
                let order = for_grading(order, None, &agents);
                let (sandboxed, lent) = sandbox.around(order, Path::new(&self.places.project)).map_err(failed)?;
                (sandboxed, Some(lent))
            }
            None => (for_grading(order, Some(home.path()), &agents).into(), None),
        };
        let graded = run::run(&self.launcher, &sandboxed.order, output, deadline).await;
        lent.map_or(Ok(()), LentWorld::take_back).map_err(failed)?;
        let graded = graded.map_err(|error| failed(error.to_string()))?;
        if graded.ended_by == EndedBy::Deadline {
            return Err(GradeFault::TimedOut);
        }
        if !graded.status.success() {
            let errors = String::from_utf8_lossy(&graded.errors);
            return Err(failed(format!("{}: {}", ended_how(graded.status), errors.trim())));
        }
        Ok(graded.output)
    }
}

/// The reward that a grader printed.
pub(crate) fn reward_in(printed: &[u8]) -> Result<Reward, GradeFault> {
    on_last_line(printed).map_err(|none| {
        GradeFault::Failed(format!("no reward of the grader: of its output: {none} (help: {})", none.help_for_grader()))
    })
}

/// What starts an attempt's program with its arguments filled in; the error is why it cannot be started.
pub(crate) fn order(
    program: &Program,
    task: &Value,
    places: &Places,
    variables: Variables,
    directory: Option<PathBuf>,
) -> Result<Order, String> {
    let arguments = program.filled_in(task, places)?.into_iter().map(OsString::from).collect();
    let variables = variables.into_iter().map(|(name, value)| (name.into(), value.map(Into::into)));
    Ok(Order { program: program.path.clone(), arguments, environment: variables.collect(), directory })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, to_value};

    fn shell(script: &str) -> Grader {
        Grader::find(&["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()], None).unwrap()
    }

    async fn grade(script: &str, timeout: Duration) -> Result<Value, String> {
        let task = json!({ "answer": 4 });
        let attempt = GradedAttempt { rollout_id: "ro-1", attempt_id: "at-1", task: &task, output: b"it is 4" };
        let graded = shell(script).grade(&attempt, timeout).await;
        graded.map(|reward| to_value(reward).unwrap()["value"].clone()).map_err(|fault| fault.to_string())
    }

    #[tokio::test]
    async fn an_attempt_that_is_over_is_graded_by_its_task_and_its_output() {
        let long = Duration::from_secs(600);
        let script = r#"read said
            test "$said" = "it is {task.answer}" || exit 3
            test "$FULGURITE_ROLLOUT_ID/$FULGURITE_ATTEMPT_ID/$FULGURITE_TASK" = 'ro-1/at-1/{"answer":4}' || exit 4
            test -z "$OPENAI_BASE_URL$OPENAI_API_KEY$FULGURITE_REWARD_URL" || exit 5
            echo '{"reward": 0.5}'"#;
        assert_eq!(grade(script, long).await, Ok(json!(0.5)));
        assert!(grade("echo lost >&2; exit 7", long).await.unwrap_err().contains("lost"));
        assert!(grade("echo 1", long).await.unwrap_err().contains("is not a JSON object"));
        assert!(grade("echo {task.no}", long).await.unwrap_err().contains("`no`"));
        assert_eq!(grade("sleep 600", Duration::ZERO).await.unwrap_err(), "grader still ran after its time");
    }

    #[tokio::test]
    async fn a_grader_has_a_home_of_its_own_that_is_gone_afterwards() {
        let script = "echo $HOME; test -d $HOME && test -z \"$(ls -A $HOME)\" && touch $HOME/.cache >&2; exit 9";
        let reason = grade(&format!("( {script} ) >&2; exit 9"), Duration::from_secs(600)).await.unwrap_err();
        let home = reason.strip_prefix("grader exited with status 9: ").unwrap();
        assert!(Path::new(home).starts_with(std::env::temp_dir()) && !Path::new(home).exists(), "{reason}");
    }
}
