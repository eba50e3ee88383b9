//! All worlds of a runner: makes them, and takes away those of runners that have died.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulgurite_client::{Assignment, Server};

use super::attempt_world::{Made, World};
use super::fault::{WorldFault, on_disk};
use super::harbor::HarborTask;
use super::hook::Hook;
use super::hook_command::HookCommand;
use super::journal::{AGENTS_HOME, Entry, FILES, Home, VARIABLES, abandoned};
use super::options::{Common, WorldOptions};
use super::taking_away::take_away;
use crate::RunnerError;
use crate::agent_environment::{Variables, of_attempt, of_past_attempt};
use crate::placeholders::{Places, check_arguments};
use crate::process::open_files::connections_for_each;
use crate::program::Program;
use crate::sandbox::{Endpoint, Wrapper};

/// Makes the worlds of a runner.
#[derive(Debug)]
pub(crate) struct Worlds {
    common: Arc<Common>,
    directory: PathBuf,
    project: PathBuf,
    setup: Option<Program>,
    snapshot: Option<Program>,
    teardown: Option<Program>,
    /// Of each sandbox, at a time.
    connections: usize,
}

impl Worlds {
    /// Finds the commands, which run in `project`, and makes the directory that worlds are made in, `parallel` at a time.
    ///
    /// # Errors
    /// If there is no such program, or somebody else could look into the directory.
    pub(crate) fn new(options: &WorldOptions, project: PathBuf, parallel: usize) -> Result<Self, RunnerError> {
        let find = |command: &[String], role: &'static str| -> Result<Option<Program>, RunnerError> {
            if command.is_empty() {
                return Ok(None);
            }
            let program = Program::find(command, role, Some(&project))?;
            check_arguments(&program.arguments, [])?;
            Ok(Some(program))
        };
        make_private(&options.directory)
            .map_err(|error| RunnerError::Worlds { path: options.directory.clone(), error })?;
        let [setup, snapshot, teardown] = [
            find(&options.setup, "setup")?,
            find(&options.snapshot, "snapshot")?,
            find(&options.teardown, "teardown")?,
        ];
        Ok(Self {
            directory: std::path::absolute(&options.directory).map_err(RunnerError::CurrentDirectory)?,
            project,
            setup,
            snapshot,
            teardown,
            connections: connections_for_each(parallel),
            common: Arc::new(Common {
                sandbox: Wrapper::new(&options.sandbox, &options.own_program, options.harbor_tests)?,
                options: options.clone(),
            }),
        })
    }

    /// Makes the attempt's world, still empty. From now on it is taken away, whatever becomes of this runner.
    ///
    /// # Errors
    /// If the disk does not, or the task does not fill in a command.
    pub(crate) async fn make(&self, server: &Server, assignment: &Assignment) -> Result<World, WorldFault> {
        let path = self.directory.join(name(assignment));
        let places = self.places(&path);
        let mut own = own_variables(&places, &path, assignment);
        if self.common.sandbox.is_some() {
            let home = path.join(AGENTS_HOME).to_string_lossy().into_owned();
            own.push(("FULGURITE_AGENT_HOME".to_owned(), home));
        }
        let with_own = |mut environment: Variables| {
            environment.extend(own.iter().map(|(name, value)| (name.clone(), Some(value.clone()))));
            environment
        };
        let command = |hook, program: &Option<Program>, environment: Variables| {
            let Some(program) = program else { return Ok(None) };
            let arguments = program.filled_in(&assignment.task, &places);
            let arguments = arguments.map_err(|how| WorldFault::Hook { hook, how, errors: String::new() })?;
            let directory = Some(self.project.clone());
            Ok(Some(HookCommand { program: program.path.clone(), arguments, environment, directory }))
        };
        // What a setup writes for the agent is read where the agent is.
        let live = with_own(of_attempt(server, assignment, self.origin_inside().as_deref()));
        let setup = command(Hook::Setup, &self.setup, live.clone())?;
        let snapshot = command(Hook::Snapshot, &self.snapshot, live)?;
        // It may run when the attempt is over and its keys are of no use, and they are not for the disk.
        let past = of_past_attempt(&assignment.rollout_id, &assignment.attempt_id, &assignment.task);
        let teardown = command(Hook::Teardown, &self.teardown, with_own(past))?;
        let container = self.common.sandbox.as_ref().and_then(|sandbox| sandbox.removal(&name(assignment)));
        let entry = Entry { container, teardown, timeout: self.common.options.hook_timeout };
        let (directory, name) = (self.directory.clone(), name(assignment));
        let harbor = HarborTask::of(&assignment.task);
        let has_endpoint = self.common.sandbox.as_ref().is_some_and(Wrapper::has_endpoint);
        let owner = self.common.sandbox.as_ref().and_then(Wrapper::owner);
        let made = on_disk(path, move || {
            let home = Home::make(&directory, &name, &entry)?;
            Ok((home, name, entry))
        });
        let (home, name, entry) = made.await?;
        let endpoint =
            has_endpoint.then(|| Endpoint::open(home.path(), server, assignment, owner, self.connections)).transpose();
        let endpoint = endpoint.map_err(WorldFault::disk(home.path()))?;
        Ok(World::new(
            Arc::clone(&self.common),
            Made { home, name, entry, harbor, endpoint },
            places,
            own,
            [setup, snapshot],
        ))
    }

    /// Whether the tests of Harbor's tasks are the grader.
    pub(crate) fn have_tests(&self) -> bool {
        self.common.options.harbor_tests
    }

    /// The origin that the server has for agents, if it is another than for this process.
    pub(crate) fn origin_inside(&self) -> Option<String> {
        self.common.sandbox.as_ref()?.origin_inside()
    }

    /// Where arguments say that things are.
    fn places(&self, home: &Path) -> Places {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        Places { project: text(&self.project), world: Some(text(&home.join(FILES))) }
    }

    /// Takes away the worlds that runners have left that are not there any more. What cannot be taken away is logged, and
    /// tried again by the next runner.
    ///
    /// # Errors
    /// If the directory of worlds cannot be read.
    pub(crate) async fn reap(&self) -> Result<(), RunnerError> {
        let directory = self.directory.clone();
        let homes = on_disk(directory.clone(), move || abandoned(&directory)).await;
        let homes = homes.map_err(|fault| RunnerError::Worlds {
            path: self.directory.clone(),
            error: io::Error::other(fault.to_string()),
        })?;
        for home in homes {
            let path = home.path().to_owned();
            tracing::info!(world = %path.display(), "taking away the world of a runner that is gone");
            match home.entry() {
                Ok(entry) => {
                    take_away(home, entry, None).await;
                }
                Err(error) => {
                    tracing::warn!(world = %path.display(), %error, "cannot tell how a world is taken away; it stays");
                }
            }
        }
        Ok(())
    }
}

/// What the programs of an attempt find of its world in their environment.
fn own_variables(places: &Places, home: &Path, assignment: &Assignment) -> Vec<(String, String)> {
    let mut own = vec![
        ("FULGURITE_PROJECT".to_owned(), places.project.clone()),
        ("FULGURITE_WORLD".to_owned(), places.world.clone().unwrap_or_default()),
        ("FULGURITE_WORLD_VARIABLES".to_owned(), home.join(VARIABLES).to_string_lossy().into_owned()),
    ];
    if let Some(seed) = assignment.world_seed {
        own.push(("FULGURITE_WORLD_SEED".to_owned(), seed.to_string()));
    }
    own
}

/// What a world is called: attempts' ids are of one rollout only, and other servers' may be no names of files.
fn name(assignment: &Assignment) -> String {
    let Assignment { rollout_id, attempt_id, .. } = assignment;
    let fits = |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
    let part = |id: &str| id.chars().map(|character| if fits(character) { character } else { '_' }).collect::<String>();
    format!("{}.{}", part(rollout_id), part(attempt_id))
}

/// Makes a directory into which nobody else can put anything; each world's home is closed by itself.
fn make_private(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let metadata = directory.symlink_metadata()?;
    let own = metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw();
    match own && metadata.mode() & 0o022 == 0 {
        true => Ok(()),
        false => {
            Err(io::Error::other("it must be a directory of this user's that nobody else can write to (chmod 700)"))
        }
    }
}
