//! What is behind a model at a server, looked at before a run changes anything there.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use fulgurite_client::Server;
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::models::{Backend, ModelEntry};
use fulgurite_lab::records::exclusive_lock::is_run_held;
use fulgurite_lab::records::run_directory::{is_in_run, run_id_of, run_instance};
use fulgurite_lab::time;
use fulgurite_trainer::{HeldWeights, Record, TrainError, WeightsAtStart, updates_from_checkpoint};
use fulgurite_types::{Publication, PublicationCause, Replaces, WeightsId, WeightsVersion};

use super::commands::{Commands, ResumableRun, RunProgress, RunState};
use super::held_run::is_trained_elsewhere;
use super::rules::{Behind, Callers, Leeway, ServedFiles, StartDecision, StartFlag, decide};
use crate::models::start_weights::start_weights;
use crate::train::begin_run::resumable_directory;

/// For how long a session says that agents call a model whom nobody tells to.
const RECENT_SECONDS: f64 = 3600.0;

/// A run that is to be begun or gone on with beside a server.
pub struct StartAtServer<'s> {
    pub server: &'s Server,
    pub record: &'s dyn Record,
    pub loaded: &'s LoadedConfig,
    pub model: &'s ModelEntry,
    pub model_directory: &'s Path,
    pub commands: &'s Commands,
}

/// How the run's weights come behind the model.
#[derive(Clone, Copy, Debug)]
pub struct ModelStart {
    /// The weights that the run starts from.
    pub start: WeightsId,
    /// What the start does with those that are there.
    pub at_start: WeightsAtStart,
    /// What the run's first weights may take the place of.
    pub replaces: Replaces,
}

impl StartAtServer<'_> {
    /// What a new run does.
    pub async fn begin(&self, flag: StartFlag) -> Result<ModelStart> {
        self.look(flag, None).await
    }

    /// What the run in a directory does that goes on from its last checkpoint.
    pub async fn resume(&self, flag: StartFlag, directory: &Path) -> Result<ModelStart> {
        self.look(flag, Some(directory)).await
    }

    async fn look(&self, flag: StartFlag, resumed: Option<&Path>) -> Result<ModelStart> {
        let model = &self.model.name;
        let start = start_weights(self.model, self.model_directory)?;
        let published = self.record.publication(model).await?;
        let served = self.server.weights_version(model).await?;
        let files = match &published {
            None => self.served_files(served, start).await?,
            Some(_) => ServedFiles::OfConfig,
        };
        let behind = match (resumed, files, &published) {
            (_, ServedFiles::Others, _) | (None, _, None) => Behind::Files(files),
            (None, _, Some(_)) => Behind::Others,
            (Some(directory), _, published) => self.behind_resumed(directory, start, published.as_ref()).await?,
        };
        let at_start = match decide(behind, flag, self.leeway(behind).await?) {
            // Tokens of what nobody can name could not be trained: the run's start is put there, which computes the same.
            StartDecision::Keep if files == ServedFiles::Unknown => WeightsAtStart::Replace,
            StartDecision::Keep => self.held(published.as_ref().filter(|_| resumed.is_some())),
            StartDecision::Replace => WeightsAtStart::Replace,
            StartDecision::Refuse(why) => {
                let resumable = match resumed {
                    Some(directory) => self.resumable(directory, start, published.as_ref(), RunState::Stopped).await?,
                    None => self.resumable_here(start, published.as_ref()).await?,
                };
                bail!(self.commands.refusal(model, why, published.as_ref(), resumable.as_ref()))
            }
        };
        let replaces = match (at_start, &published, served) {
            (WeightsAtStart::Keep | WeightsAtStart::Hold(_), Some(published), _) => {
                Replaces::Version(published.weights.version)
            }
            (WeightsAtStart::Keep, None, Some(WeightsVersion(version))) => Replaces::Version(version),
            _ => Replaces::Anything,
        };
        Ok(ModelStart { start, at_start, replaces })
    }

    /// How long a run that goes on leaves its own weights where they are. A harvest learns from the same rewards again until
    /// it has caught up; agents of a driven run are sampled from what its learner has.
    fn held(&self, own: Option<&Publication>) -> WeightsAtStart {
        let harvest = self.loaded.config.trainer.harvest();
        match (harvest, own.and_then(|own| Some((own.weights.step?, own.weights.version)))) {
            (Some(harvest), Some((step, version))) => {
                WeightsAtStart::Hold(HeldWeights { step, version, max_distance: harvest.max_staleness })
            }
            _ => WeightsAtStart::Keep,
        }
    }

    /// How the server's own files compare with the config's, where the server knows which weights they hold.
    async fn served_files(&self, served: Option<WeightsVersion>, start: WeightsId) -> Result<ServedFiles> {
        let Some(WeightsVersion(served)) = served else { return Ok(ServedFiles::Unknown) };
        let named = self.record.named_weights(&self.model.name, None).await?;
        Ok(match named.into_iter().find(|named| named.version == served) {
            Some(named) if named.weights_id == start => ServedFiles::OfConfig,
            // A service has them for the run: nobody can look at its files.
            Some(_) if self.model.backend == Backend::Tinker => ServedFiles::Unknown,
            Some(_) => ServedFiles::Others,
            None => ServedFiles::Unknown,
        })
    }

    async fn behind_resumed(
        &self,
        directory: &Path,
        start: WeightsId,
        published: Option<&Publication>,
    ) -> Result<Behind> {
        let run_id = run_id_of(directory);
        let instance = run_instance(directory)?;
        let version = published.map(|published| published.weights.version);
        let record = self.record;
        let distance = updates_from_checkpoint(record, &self.model.name, (&run_id, &instance), start, version).await?;
        let distance = match (distance, published) {
            (None, Some(published)) => self.updates_in_earlier_release(&run_id, directory, published).await?,
            (distance, _) => distance,
        };
        Ok(match (distance, published.map(|published| published.cause)) {
            (Some(_), Some(PublicationCause::Rollback)) => Behind::RolledBack,
            (Some(distance), _) => Behind::Own { distance },
            (None, _) => Behind::Others,
        })
    }

    /// How far weights are from the run's checkpoint that an earlier release put behind the model for it: their versions are
    /// numbers of updates, and they are in the run's directory. `None` of all others.
    async fn updates_in_earlier_release(
        &self,
        run_id: &str,
        directory: &Path,
        published: &Publication,
    ) -> Result<Option<u64>> {
        let Publication { weights, source, .. } = published;
        let path = ["model", "adapter"].into_iter().find_map(|kind| source[kind].as_str());
        let is_runs = weights.run_id.is_none() && weights.time <= 0.0;
        if !is_runs || !path.is_some_and(|path| is_in_run(Path::new(path), directory)) {
            return Ok(None);
        }
        let checkpoint = self.record.latest_checkpoint(run_id).await?;
        let step = checkpoint.and_then(|checkpoint| checkpoint.state["step"].as_u64()).unwrap_or_default();
        Ok(Some(weights.version.abs_diff(step)))
    }

    /// The run that `--resume` would go on with.
    async fn resumable_here(&self, start: WeightsId, published: Option<&Publication>) -> Result<Option<ResumableRun>> {
        let named = self.commands.run_directory();
        let Some(directory) = resumable_directory(self.loaded, named) else { return Ok(None) };
        let run_id = run_id_of(&directory);
        let is_running = is_run_held(&directory) || is_trained_elsewhere(self.record, &run_id, &directory).await?;
        let state = if is_running { RunState::Running } else { RunState::Stopped };
        self.resumable(&directory, start, published, state).await
    }

    /// What the run in a directory would go on from; `None` if the server does not know that run.
    async fn resumable(
        &self,
        directory: &Path,
        start: WeightsId,
        published: Option<&Publication>,
        state: RunState,
    ) -> Result<Option<ResumableRun>> {
        let run_id = run_id_of(directory);
        if self.record.run(&run_id).await?.is_none() {
            return Ok(None);
        }
        let behind = self.behind_resumed(directory, start, published).await?;
        let leeway = self.leeway(behind).await?;
        let progress = match self.record.latest_checkpoint(&run_id).await? {
            Some(_) => RunProgress::FromCheckpoint,
            None => RunProgress::FromStart,
        };
        Ok(Some(ResumableRun { run_id, behind, leeway, state, progress }))
    }

    /// The error of a run whose publication was refused, for the person who started it.
    pub async fn overtaken(&self, directory: &Path, error: &TrainError) -> anyhow::Error {
        let model = &self.model.name;
        let found = async {
            let start = start_weights(self.model, self.model_directory)?;
            let published = self.record.publication(model).await?;
            let resumable = self.resumable(directory, start, published.as_ref(), RunState::Stopped).await?;
            anyhow::Ok(self.commands.overtaken(model, published.as_ref(), resumable.as_ref()))
        };
        found.await.map_or_else(|_| anyhow!("{error}"), |text| anyhow!(text))
    }

    /// Whoever else calls the model counts only where the run's own weights are too far away to stay: nothing else is asked
    /// of the server's rollouts, which may be many.
    async fn leeway(&self, behind: Behind) -> Result<Leeway> {
        let trainer = &self.loaded.config.trainer;
        if let Some(harvest) = trainer.harvest() {
            return Ok(Leeway { max_staleness: harvest.max_staleness, callers: Callers::Others });
        }
        let max_staleness = trainer.rollouts().map_or(0, |rollouts| rollouts.schedule.max_staleness());
        let is_too_far = matches!(behind, Behind::Own { distance } if distance > max_staleness);
        let has_callers = is_too_far && self.server.has_sessions_since(time::now() - RECENT_SECONDS).await?;
        let callers = if has_callers { Callers::Others } else { Callers::RunAlone };
        Ok(Leeway { max_staleness, callers })
    }
}
