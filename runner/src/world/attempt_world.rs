//! One world, from its setup to its end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulgurite_types::{Attempt, WorldChanges};
use serde_json::{Map, Value, json};

use super::changes::changes;
use super::fault::WorldFault;
use super::hook::{Hook, HookCommand};
use super::journal::{Entry, Home};
use super::reward_file::RewardFile;
use super::snapshot::Snapshot;
use super::variables::handed_on;
use super::worlds::{VARIABLES, Worlds, on_disk, take_away};
use crate::agent_environment::Variables;
use crate::placeholders::Places;

/// The world of one attempt. One that is dropped without being taken away is taken away by the next runner, or by this one
/// when it leaves.
#[derive(Debug)]
pub(crate) struct World {
    worlds: Arc<Worlds>,
    home: Home,
    files: PathBuf,
    entry: Entry,
    places: Places,
    variables: Vec<(String, String)>,
    setup: Option<HookCommand>,
    snapshot: Option<HookCommand>,
    before: Snapshot,
    /// What is kept of each command, in the order in which they ran.
    logs: Vec<Value>,
    /// What else is known of it.
    facts: Map<String, Value>,
}

impl World {
    pub(super) fn new(
        worlds: Arc<Worlds>,
        home: Home,
        entry: Entry,
        places: Places,
        variables: Vec<(String, String)>,
        setup: Option<HookCommand>,
        snapshot: Option<HookCommand>,
    ) -> Self {
        let (before, logs, facts) = (Snapshot::default(), Vec::new(), Map::new());
        Self { worlds, files: home.files(), home, entry, places, variables, setup, snapshot, before, logs, facts }
    }

    /// The directory that its agent lives in.
    pub(crate) fn files(&self) -> PathBuf {
        self.files.clone()
    }

    /// The file that is to hold its reward, if one is.
    pub(crate) fn reward_file(&self) -> Option<RewardFile<'_>> {
        let path = self.worlds.reward_file.as_deref()?;
        Some(RewardFile { world: &self.files, path, key: self.worlds.reward_key.as_deref() })
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
        if let Some(setup) = self.setup.take() {
            self.run(Hook::Setup, &setup).await?;
            let given = handed_on(&self.home.path().join(VARIABLES))?;
            self.variables.extend(given.iter().cloned());
            let given = given.into_iter().map(|(name, value)| (name, Some(value)));
            if let Some(snapshot) = &mut self.snapshot {
                snapshot.environment.extend(given);
            }
        }
        self.before = self.look("before").await?;
        self.facts.insert(Attempt::WORLD_DIGEST.to_owned(), json!(self.before.digest()));
        Ok(())
    }

    /// Looks at what is there after the agent, keeps what has changed, and hands it to who grades.
    ///
    /// # Errors
    /// If a command fails, or the disk does.
    pub(crate) async fn look_again(&mut self) -> Result<(), WorldFault> {
        let after = self.look("after").await?;
        let before = std::mem::take(&mut self.before);
        let path = self.home.path().join("changes.json");
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
        let Self { home, entry, mut logs, mut facts, .. } = self;
        logs.extend(take_away(home, Some(entry)).await);
        if !logs.is_empty() {
            facts.insert("hooks".to_owned(), Value::Array(logs));
        }
        facts
    }

    async fn run(&mut self, hook: Hook, command: &HookCommand) -> Result<(), WorldFault> {
        let (log, outcome) = command.run(hook, self.worlds.hook_timeout).await;
        self.logs.push(log);
        outcome
    }

    /// The state that it is in.
    async fn look(&mut self, when: &str) -> Result<Snapshot, WorldFault> {
        let directory = match self.snapshot.clone() {
            None => self.files(),
            Some(mut command) => {
                let directory = self.home.path().join(when);
                std::fs::create_dir(&directory).map_err(WorldFault::disk(&directory))?;
                command.environment.push(("FULGURITE_SNAPSHOT".to_owned(), Some(text(&directory))));
                self.run(Hook::Snapshot, &command).await?;
                directory
            }
        };
        let unwatched = self.worlds.unwatched.clone();
        on_disk(directory.clone(), move || Snapshot::take(&directory, &unwatched)).await
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
