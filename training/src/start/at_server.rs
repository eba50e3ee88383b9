//! What is behind a model at a server, looked at before a run changes anything there.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, anyhow};
use fulgurite_client::{ServedModelWeights, Server};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::models::{Backend, ModelEntry};
use fulgurite_lab::records::exclusive_lock::is_run_held;
use fulgurite_lab::records::run_directory::{is_in_run, run_id_of};
use fulgurite_lab::records::weights_in_place::WeightsInPlace;
use fulgurite_trainer::{HeldWeights, MissingFiles, Record, ResumePoint, RunIdentity, TrainError, WeightsAtStart};
use fulgurite_types::{Publication, PublicationCause, Replaces, Step, WeightsId, WeightsVersion};

use super::command_lines::{CommandLines, Found, NamedDirectory, ResumableRun, RunProgress, RunState};
use super::held_run::is_trained_elsewhere;
use super::identity::run_identity;
use super::identity::{RecordedRun, recorded_run};
use super::rules::{Behind, Callers, Learns, Leeway, ServedBase, ServedFiles, StartDecision, StartFlag, decide};
use super::run_directory::{holds_run, resumable_directory};
use super::uploaded_runs::{run_archive, unclaimed_archive};
use crate::models::start_weights::start_weights;

/// For how long after its last call a model counts as called.
const RECENTLY: Duration = Duration::from_secs(3600);

/// A run that is to be begun or gone on with beside a server.
pub(crate) struct StartAtServer<'s> {
    pub server: &'s Server,
    pub record: &'s dyn Record,
    pub loaded: &'s LoadedConfig,
    pub model: &'s ModelEntry,
    pub model_directory: &'s Path,
    pub command_lines: &'s CommandLines,
}

/// How the run's weights come behind the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelStart {
    /// The weights that the run starts from.
    pub start: WeightsId,
    /// What the start does with those that are there.
    pub at_start: WeightsAtStart,
    /// What the run's first weights may take the place of.
    pub replaces: Replaces,
}

impl StartAtServer<'_> {
    /// What a new run does.
    pub(crate) async fn begin(&self, flag: StartFlag) -> Result<ModelStart> {
        self.look(flag, None).await
    }

    /// What the run in a directory does that goes on from its last checkpoint.
    pub(crate) async fn resume(&self, flag: StartFlag, directory: &Path) -> Result<ModelStart> {
        self.look(flag, Some(directory)).await
    }

    async fn look(&self, flag: StartFlag, resumed: Option<&Path>) -> Result<ModelStart> {
        let model = &self.model.name;
        let there = self.there().await?;
        let Found { base, published, .. } = there.found();
        let place = match resumed {
            Some(directory) if published.is_some() || base.files != ServedFiles::Others => {
                Some(self.resume_place(directory, MissingFiles::Download).await?)
            }
            _ => None,
        };
        let behind = match (&place, published) {
            (Some(place), _) => self.behind_resumed(place, there.start, published).await?,
            (None, None) => Behind::Nothing,
            (None, Some(_)) => Behind::Others,
        };
        let leeway = self.leeway(behind, resumed).await?;
        let at_start = match decide(base, behind, flag, leeway) {
            // Tokens of what nobody can name could not be trained: the run's start is put there, which computes the same.
            StartDecision::Keep if published.is_none() && base.files == ServedFiles::Unknown => WeightsAtStart::Replace,
            // The run does not start from the files alone.
            StartDecision::Keep if published.is_none() && self.model.adapter.is_some() => WeightsAtStart::Replace,
            // The same weights under a name of the run's.
            StartDecision::Keep
                if behind == (Behind::Own { distance: 0 }) && published.is_some_and(is_of_earlier_release) =>
            {
                WeightsAtStart::Replace
            }
            StartDecision::Keep => self.held(published.filter(|_| resumed.is_some())),
            StartDecision::Replace => WeightsAtStart::Replace,
            StartDecision::Refuse(why) => {
                let resumable = match resumed {
                    Some(directory) => self.resumable(directory, place, &there, RunState::Stopped).await?,
                    None => self.resumable_here(&there).await?,
                };
                let found = Found { resumable: resumable.as_ref(), directory: self.directory(), ..there.found() };
                return Err(self.command_lines.refusal(model, why, found).into());
            }
        };
        let replaces = match (at_start, published, there.served) {
            (WeightsAtStart::Keep | WeightsAtStart::Hold(_), Some(published), _) => {
                Replaces::Version(published.weights.version)
            }
            (WeightsAtStart::Keep, None, Some(WeightsVersion(version))) => Replaces::Version(version),
            _ => Replaces::Anything,
        };
        Ok(ModelStart { start: there.start, at_start, replaces })
    }

    async fn there(&self) -> Result<ModelThere> {
        let model = &self.model.name;
        let start = start_weights(self.model, self.model_directory)?;
        let published = self.record.publication(model).await?;
        let weights = self.server.model_weights(model).await?;
        let files = self.served_files(weights, published.as_ref(), start).await?;
        let learns = if self.model.trains_adapter() { Learns::Adapter } else { Learns::AllWeights };
        Ok(ModelThere { start, published, served: weights.version, base: ServedBase { files, learns } })
    }

    /// Whether a new run may have the directory that the command names.
    fn directory(&self) -> NamedDirectory {
        match self.command_lines.run_directory() {
            Some(directory) if holds_run(directory) => NamedDirectory::HoldsRun,
            _ => NamedDirectory::Free,
        }
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

    /// How the server's own files compare with the config's, where the server knows which weights they hold. A server of an
    /// earlier release says only what is behind the model, which is its own files until something is published.
    async fn served_files(
        &self,
        weights: ServedModelWeights,
        published: Option<&Publication>,
        start: WeightsId,
    ) -> Result<ServedFiles> {
        // A service has them for the run: nobody can look at its files.
        if self.model.backend == Backend::Tinker {
            return Ok(ServedFiles::Unknown);
        }
        let own = match (weights.own, weights.version) {
            (Some(own), Some(_)) => Some(own),
            (None, Some(WeightsVersion(served))) if published.is_none() => {
                let named = self.record.named_weights(&self.model.name, None).await?;
                named.into_iter().find(|named| named.version == served).map(|named| named.weights_id)
            }
            _ => None,
        };
        Ok(match own {
            Some(own) if own == start => ServedFiles::OfConfig,
            Some(_) => ServedFiles::Others,
            None => ServedFiles::Unknown,
        })
    }

    /// Where the run in a directory goes on from.
    async fn resume_place(&self, directory: &Path, missing: MissingFiles) -> Result<ResumePlace> {
        let run_id = run_id_of(directory);
        let archive = match missing {
            MissingFiles::Download => run_archive(self.loaded, directory, &run_id).await?,
            MissingFiles::Ignore => unclaimed_archive(self.loaded, &run_id)?,
        };
        let identity = run_identity(self.loaded, run_id, directory, archive)?;
        let point = ResumePoint::find(self.record, &identity, &self.loaded.config.trainer.common, missing).await?;
        Ok(ResumePlace { identity, point })
    }

    async fn behind_resumed(
        &self,
        place: &ResumePlace,
        start: WeightsId,
        published: Option<&Publication>,
    ) -> Result<Behind> {
        let ResumePlace { identity, point } = place;
        let version = published.map(|published| published.weights.version);
        let distance = point.updates_to(self.record, &self.model.name, identity, start, version).await?;
        let distance = match (distance, published) {
            (None, Some(published)) => updates_in_earlier_release(place, published),
            (distance, _) => distance,
        };
        Ok(match (distance, published.map(|published| published.cause)) {
            (Some(_), Some(PublicationCause::Rollback)) => Behind::RolledBack,
            (Some(distance), _) => Behind::Own { distance },
            (None, _) => Behind::Others,
        })
    }

    /// The run that `--resume` would go on with.
    async fn resumable_here(&self, there: &ModelThere) -> Result<Option<ResumableRun>> {
        let named = self.command_lines.run_directory();
        let Some(directory) = resumable_directory(self.loaded, named) else { return Ok(None) };
        let run_id = run_id_of(&directory);
        let is_running = is_run_held(&directory) || is_trained_elsewhere(self.record, &run_id, &directory).await?;
        let state = if is_running { RunState::Running } else { RunState::Stopped };
        self.resumable(&directory, None, there, state).await
    }

    /// What the run in a directory would go on from, which is looked for unless it is known; `None` if the server does not
    /// know that run, or has another of its name.
    async fn resumable(
        &self,
        directory: &Path,
        place: Option<ResumePlace>,
        there: &ModelThere,
        state: RunState,
    ) -> Result<Option<ResumableRun>> {
        let RecordedRun::Same = recorded_run(self.record, self.loaded, directory).await? else { return Ok(None) };
        let found = match place {
            Some(place) => Ok(place),
            None => self.resume_place(directory, MissingFiles::Ignore).await,
        };
        let place = match found {
            Ok(place) => place,
            Err(error) if is_without_checkpoint(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let behind = self.behind_resumed(&place, there.start, there.published.as_ref()).await?;
        let leeway = self.leeway(behind, Some(directory)).await?;
        let progress = self.progress(&place).await?;
        Ok(Some(ResumableRun { run_id: place.identity.run_id, behind, leeway, state, progress }))
    }

    /// How far a run is where it goes on.
    async fn progress(&self, place: &ResumePlace) -> Result<RunProgress> {
        let ResumePlace { identity, point } = place;
        let trainer = &self.loaded.config.trainer;
        let steps = self.record.steps(&identity.run_id).await?;
        let Some(Step { step, weights_version, .. }) = steps.last() else { return Ok(RunProgress::FromStart) };
        // Only the record after the last update has no update of its own.
        let (updates, has_ended) = (*weights_version.min(step), weights_version < step);
        let has_rule = trainer.stops_early();
        // Without a limit in the config, whatever has no rule has ended at the default one.
        let is_at_limit = match trainer.common.max_steps {
            Some(most) => updates > most || has_ended && updates == most,
            None => has_ended && !has_rule,
        };
        if is_at_limit {
            return Ok(RunProgress::AtLimit { updates });
        }
        if has_ended && has_rule {
            return Ok(RunProgress::Ended { updates });
        }
        Ok(match point.step {
            0 => RunProgress::FromStart,
            _ => RunProgress::FromCheckpoint,
        })
    }

    /// Refuses to go on with the run in a directory where the server has another of that name, or where the run's steps are in
    /// another store. It only looks.
    pub(crate) async fn check_recorded(&self, directory: &Path) -> Result<()> {
        let what = match recorded_run(self.record, self.loaded, directory).await? {
            RecordedRun::Same | RecordedRun::Missing => return Ok(()),
            RecordedRun::Another { started_in } => format!(
                "{} holds a run that the server at {} does not have: its run {} is another, which was begun{started_in}",
                directory.display(),
                self.command_lines.url(),
                run_id_of(directory),
            ),
            RecordedRun::InAnotherStore { error } => error,
        };
        let there = self.there().await?;
        // Whoever resumes without naming a directory has one in the default place, and a new run gets the next.
        let found = Found { directory: self.directory(), ..there.found() };
        Err(self.command_lines.with_ways(&what, found).into())
    }

    /// The error of a run whose publication was refused, for the person who started it.
    pub(crate) async fn overtaken(&self, directory: &Path, error: &TrainError) -> anyhow::Error {
        let model = &self.model.name;
        let found = async {
            let there = self.there().await?;
            let resumable = self.resumable(directory, None, &there, RunState::Stopped).await?;
            let directory = self.directory();
            let found = Found { resumable: resumable.as_ref(), directory, ..there.found() };
            anyhow::Ok(self.command_lines.overtaken(model, found))
        };
        let found: Result<WeightsInPlace> = found.await;
        found.map_or_else(|_| anyhow!("{error}"), anyhow::Error::new)
    }

    /// Whoever else calls the model counts only where the run's own weights are too far away to stay: nothing else is asked
    /// of the server's calls, which may be many. A server of an earlier release cannot say: somebody may.
    async fn leeway(&self, behind: Behind, resumed: Option<&Path>) -> Result<Leeway> {
        let trainer = &self.loaded.config.trainer;
        if let Some(harvest) = trainer.harvest() {
            return Ok(Leeway { max_staleness: harvest.max_staleness, callers: Callers::Others });
        }
        let max_staleness = trainer.rollouts().map_or(0, |rollouts| rollouts.schedule.max_staleness());
        let callers = match (behind, resumed) {
            (Behind::Own { distance }, Some(directory)) if distance > max_staleness => {
                let run_id = run_id_of(directory);
                let others = self.server.other_callers(&run_id, &self.model.name, RECENTLY).await?;
                match others.is_none_or(|others| others.are_there()) {
                    true => Callers::Others,
                    false => Callers::RunAlone,
                }
            }
            _ => Callers::RunAlone,
        };
        Ok(Leeway { max_staleness, callers })
    }
}

/// Whether nobody knows which weights were published: an earlier release had only their number.
fn is_of_earlier_release(published: &Publication) -> bool {
    published.weights.run_id.is_none() && published.weights.time <= 0.0
}

/// How far weights are from the run's checkpoint that an earlier release put behind the model for it: their versions are
/// numbers of updates, and they are in the run's directory. `None` of all others.
fn updates_in_earlier_release(place: &ResumePlace, published: &Publication) -> Option<u64> {
    let Publication { weights, source, .. } = published;
    let path = ["model", "adapter"].into_iter().find_map(|kind| source[kind].as_str())?;
    let is_runs = is_of_earlier_release(published) && is_in_run(Path::new(path), &place.identity.directory);
    is_runs.then(|| weights.version.abs_diff(place.point.step))
}

/// Whether a run cannot go on, since none of its checkpoints can be loaded with the command's seed.
fn is_without_checkpoint(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(TrainError::NoCheckpointLeft { .. } | TrainError::Checkpoint { .. }))
}

/// A run in a directory, and where it goes on from.
struct ResumePlace {
    identity: RunIdentity,
    point: ResumePoint,
}

/// A model as its server has it.
struct ModelThere {
    /// The weights of the config's files.
    start: WeightsId,
    published: Option<Publication>,
    /// The version of what is behind it.
    served: Option<WeightsVersion>,
    base: ServedBase,
}

impl ModelThere {
    /// The same, without a run that goes on.
    fn found(&self) -> Found<'_> {
        let published = self.published.as_ref();
        Found { base: self.base, published, resumable: None, directory: NamedDirectory::Free }
    }
}
