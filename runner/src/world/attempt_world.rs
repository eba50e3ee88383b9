//! One world, from its setup to its end.

use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fulgurite_types::{Attempt, WorldChanges};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::changes::changes;
use super::disk::{Measured, measure, open_world};
use super::fault::{WorldFault, on_disk};
use super::harbor::{self, HarborTask};
use super::hook::Hook;
use super::hook_command::HookCommand;
use super::journal::{AGENTS_HOME, Entry, Home};
use super::options::Common;
use super::reward_file::RewardFile;
use super::snapshot::Snapshot;
use super::taking_away::take_away;
use super::variables::{Handed, handed_on};
use crate::agent_environment::Variables;
use crate::grader::{GradeFault, order};
use crate::grading_environment::{FreshHome, clean_in_bash, for_grading};
use crate::launch::launcher::Launcher;
use crate::launch::run::{self, EndedBy};
use crate::placeholders::Places;
use crate::program::Program;
use crate::reward::Reward;
use crate::sandbox::{Endpoint, Image, Inside, Mount, Sandboxed, Wrapper, lend, take_back};

/// Between two looks at how much a world holds, at least.
const MEASURING: Duration = Duration::from_secs(2);
/// How much longer than a look the pause after it is, at least.
const MEASURING_SHARE: u32 = 50;

/// The world of one attempt. One that is dropped without being taken away is taken away by the next runner, or by this one
/// when it leaves.
#[derive(Debug)]
pub(crate) struct World {
    common: Arc<Common>,
    files: PathBuf,
    /// The agent's home directory in a sandbox.
    agents_home: PathBuf,
    made: Made,
    places: Places,
    variables: Vec<(String, String)>,
    /// The variables that its setup handed on, once it has run.
    handed_on: Option<Handed>,
    setup: Option<HookCommand>,
    snapshot: Option<HookCommand>,
    before: Snapshot,
    /// The image that it runs in, if its task brings one.
    image: Option<Image>,
    /// What is kept of each command, in the order in which they ran.
    logs: Vec<Value>,
    /// What else is known of it.
    facts: Map<String, Value>,
}

/// What is there of a world before its setup.
#[derive(Debug)]
pub(super) struct Made {
    /// Its home.
    pub home: Home,
    /// What it is called.
    pub name: String,
    /// How it is taken away.
    pub entry: Entry,
    /// Harbor's task that it is of, if it is one's.
    pub harbor: Option<HarborTask>,
    /// Through which its agent reaches the server, if it reaches nothing else.
    pub endpoint: Option<Endpoint>,
}

impl World {
    pub(super) fn new(
        common: Arc<Common>,
        made: Made,
        places: Places,
        variables: Vec<(String, String)>,
        [setup, snapshot]: [Option<HookCommand>; 2],
    ) -> Self {
        let (before, logs, facts) = (Snapshot::default(), Vec::new(), Map::new());
        let image = None;
        let (files, agents_home) = (made.home.files(), made.home.path().join(AGENTS_HOME));
        Self {
            common,
            files,
            agents_home,
            made,
            places,
            variables,
            handed_on: None,
            setup,
            snapshot,
            before,
            image,
            logs,
            facts,
        }
    }

    /// What starts its agent for the task, in its sandbox if there are sandboxes; the error says why it cannot be started.
    pub(crate) fn order(&self, agent: &Program, task: &Value, mut variables: Variables) -> Result<Sandboxed, String> {
        variables.extend(self.variables());
        let Some(sandbox) = &self.common.sandbox else {
            return order(agent, task, &self.places, variables, Some(self.files.clone())).map(Sandboxed::from);
        };
        let inside = text(self.world_inside());
        let places = Places { world: Some(inside.clone()), ..self.places.clone() };
        variables.push(("FULGURITE_WORLD".to_owned(), Some(inside)));
        sandbox.order(&agent.path, &agent.filled_in(task, &places)?, variables, self.inside(&[]))
    }

    /// Where its agent finds it.
    fn world_inside(&self) -> &Path {
        let stated = self.common.sandbox.as_ref().and_then(Wrapper::world);
        match (stated, &self.image, &self.made.harbor) {
            (Some(stated), ..) => stated,
            (None, Some(image), _) => &image.files,
            (None, None, Some(_)) => Path::new(harbor::WORLD),
            (None, None, None) => &self.files,
        }
    }

    /// What its agent changed, once it has been looked at again.
    pub(crate) fn changes(&self) -> Option<&Value> {
        self.facts.get(WorldChanges::KEY)
    }

    /// Whether tests of Harbor's find its reward.
    pub(crate) fn has_tests(&self) -> bool {
        self.common.options.harbor_tests
    }

    /// Runs Harbor's tests beside what its agent left at `/app`. They begin in `/tests`, with a home directory and a place for
    /// what they say, none of which the agent could write to.
    ///
    /// # Errors
    /// If they cannot be run, take too long, or give no reward. How they exit does not matter.
    pub(crate) async fn test(
        &self,
        launcher: &Launcher,
        mut variables: Variables,
        deadline: Instant,
    ) -> Result<Reward, GradeFault> {
        let failed = |why: String| GradeFault::Failed(format!("Harbor's tests {why}"));
        let (Some(task), Some(sandbox)) = (&self.made.harbor, &self.common.sandbox) else {
            return Err(failed("need a task of Harbor's, and a sandbox to run in".to_owned()));
        };
        let place = |error: std::io::Error| failed(format!("have no place for what they say: {error}"));
        let logs = FreshHome::make(self.made.home.path()).map_err(place)?;
        let home = FreshHome::make(self.made.home.path()).map_err(place)?;
        let verdicts = logs.path().join("verifier");
        std::fs::create_dir(&verdicts).map_err(place)?;
        let mounts = [
            Mount { outside: task.tests().map_err(failed)?, inside: harbor::TESTS, is_writable: false },
            Mount { outside: logs.path().to_owned(), inside: harbor::LOGS, is_writable: true },
        ];
        variables.push(("FULGURITE_WORLD".to_owned(), Some(text(self.world_inside()))));
        // An image has variables of its own, which may lead into the world.
        let (clean, tests) = (clean_in_bash(&text(self.world_inside())), harbor::TESTS);
        let script = format!("{clean} cd {tests} && exec /bin/bash {tests}/test.sh");
        let inside = Inside { home: home.path(), ..self.inside(&mounts) };
        let sandboxed = sandbox.order(Path::new("/bin/bash"), &["-pc".to_owned(), script], variables, inside);
        let Sandboxed { order, cgroup: _bounded } = sandboxed.map_err(|why| failed(format!("cannot be run: {why}")))?;
        let order = for_grading(order, Some(home.path()), &[self.made.home.path(), self.world_inside()]);
        let directories = [self.files.as_path(), logs.path(), home.path()].map(Path::to_owned);
        self.lend(directories.to_vec()).await?;
        let tested = run::run_unless(launcher, &order, b"", deadline, self.outgrown()).await;
        self.take_back(directories.to_vec()).await?;
        let tested = tested.map_err(|error| failed(error.to_string()))?;
        match tested.ended_by {
            EndedBy::Itself => {}
            EndedBy::Deadline => return Err(GradeFault::TestsTimedOut),
            EndedBy::Stopped(why) => {
                return Err(GradeFault::NoRewardOfTests(format!("Harbor's tests were stopped {why}")));
            }
        }
        let file = |name| RewardFile {
            world: &verdicts,
            path: Path::new(name),
            key: self.common.options.reward_key.as_deref(),
        };
        let name = if verdicts.join("reward.json").symlink_metadata().is_ok() { "reward.json" } else { "reward.txt" };
        file(name).read().map_err(|none| {
            let errors = String::from_utf8_lossy(&tested.errors);
            GradeFault::NoRewardOfTests(format!(
                "Harbor's tests gave no reward: {none}; they wrote: {} (help: test.sh begins in {}, the world is at {}, and the reward \
                 belongs in {}/verifier/reward.txt)",
                errors.trim(),
                harbor::TESTS,
                self.world_inside().display(),
                harbor::LOGS,
            ))
        })
    }

    fn inside<'i>(&'i self, mounts: &'i [Mount]) -> Inside<'i> {
        Inside {
            name: &self.made.name,
            world: &self.files,
            world_inside: self.world_inside(),
            mounts,
            home: &self.agents_home,
            image: self.image.as_ref().map(|image| image.name.as_str()),
            socket: self.made.endpoint.as_ref().map(Endpoint::path),
            project: &self.places.project,
        }
    }

    /// The file that is to hold its reward, if one is.
    pub(crate) fn reward_file(&self) -> Option<RewardFile<'_>> {
        let path = self.common.options.reward_file.as_deref()?;
        Some(RewardFile { world: &self.files, path, key: self.common.options.reward_key.as_deref() })
    }

    /// Where arguments say that things are.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// What the programs of its attempt find of it in their environment.
    pub(crate) fn variables(&self) -> Variables {
        self.variables.iter().map(|(name, value)| (name.clone(), Some(value.clone()))).collect()
    }

    /// Fills it, and looks at what is there before the agent comes.
    ///
    /// # Errors
    /// If a command fails, or the disk does.
    pub(crate) async fn set_up(&mut self) -> Result<(), WorldFault> {
        if self.common.sandbox.is_some() {
            std::fs::create_dir(&self.agents_home).map_err(WorldFault::disk(&self.agents_home))?;
        }
        if let Some(harbor) = self.made.harbor.clone() {
            self.image = self.fill_from_image(&harbor).await?;
            let files = self.files.clone();
            if self.image.is_none() {
                on_disk(files.clone(), move || harbor.fill(&files)).await?;
            }
        }
        if let Some(setup) = self.setup.take() {
            self.run(Hook::Setup, &setup).await?;
            let given = handed_on(self.made.home.path())?;
            self.variables.extend(given.iter().cloned());
            self.handed_on = Some(given.clone());
            let given = given.into_iter().map(|(name, value)| (name, Some(value)));
            if let Some(snapshot) = &mut self.snapshot {
                snapshot.environment.extend(given);
            }
        }
        self.before = self.look("before").await?;
        self.facts.insert(Attempt::WORLD_DIGEST.to_owned(), json!(self.before.digest()));
        self.lend(self.agents_own()).await
    }

    /// What its agent may write to.
    fn agents_own(&self) -> Vec<PathBuf> {
        vec![self.files.clone(), self.agents_home.clone()]
    }

    /// Waits until what its agent may write to has grown beyond the sandbox's bound; gives why the agent is stopped, as the end
    /// of a sentence about it.
    pub(crate) async fn outgrown(&self) -> String {
        let bound = self.common.options.sandbox.disk_bytes;
        if self.common.sandbox.is_none() || bound == 0 {
            return pending().await;
        }
        let measured = async || {
            // What Harbor's tests may write to is there as well.
            let home = self.made.home.path().to_owned();
            on_disk(home.clone(), move || measure(&home)).await
        };
        let before = match measured().await {
            Ok(Measured::Bytes(bytes)) => bytes,
            Ok(Measured::TooDeep) | Err(_) => 0,
        };
        let mut pause = MEASURING;
        loop {
            sleep(pause).await;
            let started = Instant::now();
            let key = "[runner.sandbox] disk_bytes";
            match measured().await {
                Ok(Measured::Bytes(bytes)) if bytes.saturating_sub(before) > bound => {
                    let grown = bytes - before;
                    return format!(
                        "because its world outgrew {key}: it grew by {grown} bytes, and {bound} are allowed"
                    );
                }
                Ok(Measured::Bytes(_)) => {}
                Ok(Measured::TooDeep) => {
                    return format!(
                        "because its world cannot be held to {key}: directories lie too deep in each other"
                    );
                }
                Err(fault) => tracing::warn!(%fault, "a world is not measured"),
            }
            pause = MEASURING.max(started.elapsed() * MEASURING_SHARE);
        }
    }

    /// Gives directories to whoever runs in its sandbox, if that is another than the runner.
    async fn lend(&self, directories: Vec<PathBuf>) -> Result<(), WorldFault> {
        let Some(owner) = self.common.sandbox.as_ref().and_then(Wrapper::owner) else { return Ok(()) };
        let lend = move || directories.iter().try_for_each(|directory| lend(directory, owner));
        on_disk(self.files.clone(), lend).await
    }

    /// Takes them back, so that what comes after the sandbox finds files of the runner's.
    async fn take_back(&self, directories: Vec<PathBuf>) -> Result<(), WorldFault> {
        let Some(owner) = self.common.sandbox.as_ref().and_then(Wrapper::owner) else { return Ok(()) };
        let take = move || directories.iter().try_for_each(|directory| take_back(directory, owner));
        on_disk(self.files.clone(), take).await
    }

    /// Fills it with the files of the image that the task brings, if that can be and it does.
    async fn fill_from_image(&self, task: &HarborTask) -> Result<Option<Image>, WorldFault> {
        let Some(sandbox) = &self.common.sandbox else { return Ok(None) };
        let image = task.image().map_err(WorldFault::disk(&self.files))?;
        if task.is_built() {
            let task = task.clone();
            on_disk(self.files.clone(), move || task.check_build()).await?;
        }
        let filled = sandbox.fill(image, &self.made.name, &self.files).await;
        filled.map_err(|why| WorldFault::Image { image: image.unwrap_or("of a container").to_owned(), why })
    }

    /// Looks at what is there after the agent, keeps what has changed, and hands it to who grades.
    ///
    /// # Errors
    /// If a command fails, or the disk does.
    pub(crate) async fn look_again(&mut self) -> Result<(), WorldFault> {
        self.take_back(self.agents_own()).await?;
        let (home, files) = (self.made.home.path().to_owned(), self.files.clone());
        on_disk(files.clone(), move || open_world(&home, &files)).await?;
        let after = self.look("after").await?;
        let before = std::mem::take(&mut self.before);
        let path = self.made.home.path().join("changes.json");
        let written = path.clone();
        let changes = on_disk(path.clone(), move || {
            let changes = changes(&before, &after);
            std::fs::write(written, serde_json::to_vec(&changes)?)?;
            Ok(changes)
        });
        let changes = changes.await?;
        self.facts.insert(WorldChanges::KEY.to_owned(), json!(changes));
        let path = path.to_string_lossy().into_owned();
        self.variables.push(("FULGURITE_WORLD_CHANGES".to_owned(), path));
        Ok(())
    }

    /// Takes it away, and gives what is to be kept of it.
    pub(crate) async fn take_away(self) -> Map<String, Value> {
        let Self { made: Made { home, entry, .. }, handed_on, mut logs, mut facts, .. } = self;
        logs.extend(take_away(home, Some(entry), handed_on).await);
        if !logs.is_empty() {
            facts.insert("hooks".to_owned(), Value::Array(logs));
        }
        facts
    }

    async fn run(&mut self, hook: Hook, command: &HookCommand) -> Result<(), WorldFault> {
        let (log, outcome) = command.run(hook, self.made.home.path(), self.common.options.hook_timeout).await;
        self.logs.push(log);
        outcome
    }

    /// The state that it is in.
    async fn look(&mut self, when: &str) -> Result<Snapshot, WorldFault> {
        let directory = match self.snapshot.clone() {
            None => self.files.clone(),
            Some(mut command) => {
                let directory = self.made.home.path().join(when);
                std::fs::create_dir(&directory).map_err(WorldFault::disk(&directory))?;
                command.environment.push(("FULGURITE_SNAPSHOT".to_owned(), Some(text(&directory))));
                self.run(Hook::Snapshot, &command).await?;
                directory
            }
        };
        let unwatched = self.common.options.unwatched.clone();
        on_disk(directory.clone(), move || Snapshot::take(&directory, &unwatched)).await
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
