//! What is behind a model at a server, looked at before a run changes anything there.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use fulgurite_client::Server;
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::models::{Backend, ModelEntry};
use fulgurite_trainer::{HeldWeights, Record, TrainError, WeightsAtStart, updates_from_checkpoint};
use fulgurite_types::{Publication, PublicationCause, Replaces, WeightsId, WeightsVersion};

use super::start_rules::{Behind, Callers, Leeway, Refusal, ServedFiles, StartDecision, StartFlag, decide};
use crate::models::start_weights::start_weights;
use crate::records::run_directory::{run_file, run_instance};
use crate::terminal::time;
use crate::train::arguments::TrainArguments;

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
            StartDecision::Refuse(why) => bail!(self.commands.refusal(model, why, published.as_ref())),
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
        let harvest = self.loaded.config.trainer.harvest.as_ref();
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
        let run_id = run_file(directory)?["run_id"].as_str().unwrap_or_default().to_owned();
        let instance = run_instance(directory)?;
        let version = published.map(|published| published.weights.version);
        let record = self.record;
        let distance = updates_from_checkpoint(record, &self.model.name, (&run_id, &instance), start, version).await?;
        Ok(match (distance, published.map(|published| published.cause)) {
            (Some(_), Some(PublicationCause::Rollback)) => Behind::RolledBack,
            (Some(distance), _) => Behind::Own { distance },
            (None, _) => Behind::Others,
        })
    }

    /// Whoever else calls the model counts only where the run's own weights are too far away to stay: nothing else is asked
    /// of the server's rollouts, which may be many.
    async fn leeway(&self, behind: Behind) -> Result<Leeway> {
        let trainer = &self.loaded.config.trainer;
        if let Some(harvest) = &trainer.harvest {
            return Ok(Leeway { max_staleness: harvest.max_staleness, callers: Callers::Others });
        }
        let max_staleness = trainer.schedule.max_staleness();
        let is_too_far = matches!(behind, Behind::Own { distance } if distance > max_staleness);
        let has_callers = is_too_far && self.server.has_sessions_since(time::now() - RECENT_SECONDS).await?;
        let callers = if has_callers { Callers::Others } else { Callers::RunAlone };
        Ok(Leeway { max_staleness, callers })
    }
}

/// The command lines by which one goes on where a start is refused.
pub struct Commands {
    config: PathBuf,
    url: String,
    seed: Option<u64>,
    run_directory: Option<PathBuf>,
}

impl Commands {
    pub fn of(arguments: &TrainArguments, url: &str) -> Self {
        let TrainArguments { config, seed, run_directory, .. } = arguments;
        Self { config: config.clone(), url: url.to_owned(), seed: *seed, run_directory: run_directory.clone() }
    }

    fn resume(&self, more: &str) -> String {
        let directory = self.run_directory.as_ref().map(|directory| format!(" --run-directory {}", quoted(directory)));
        format!("`{}{} --resume{more}`", self.common(), directory.unwrap_or_default())
    }

    fn start_over(&self) -> String {
        format!("`{} --start-over`", self.common())
    }

    fn common(&self) -> String {
        let seed = self.seed.map(|seed| format!(" --seed {seed}")).unwrap_or_default();
        format!("fulgurite train {} --server {}{seed}", quoted(&self.config), self.url)
    }

    /// What is behind a model, why a run does not begin, and what to type.
    pub fn refusal(&self, model: &str, why: Refusal, published: Option<&Publication>) -> String {
        let there = published.map_or_else(|| "what its server was started with".to_owned(), describe);
        let replace = self.resume(" --replace-weights");
        let replaces = format!("{replace} goes on and puts the checkpoint's weights in their place");
        let start_over = format!("{} begins a new run and puts the config's weights in their place", self.start_over());
        let resume = self.resume("");
        match why {
            Refusal::OtherFiles => format!(
                "the server at {} was started with other files for `{model}` than [[models]] path names: start it with \
                 those, or name its files in the config",
                self.url
            ),
            Refusal::InUse => format!(
                "`{model}` has {there}, and a new run would replace it. If that run is to go on, type {resume}; {start_over}"
            ),
            Refusal::TooFar { distance, most } => format!(
                "`{model}` has {there}, which is {distance} updates from the run's last checkpoint, and the run learns from \
                 what weights up to {most} updates away sample: {replaces}; {start_over}"
            ),
            Refusal::RolledBack => {
                format!("`{model}` has {there}, to which it was taken back: {replaces}; {start_over}")
            }
            Refusal::OfOthers => format!("`{model}` has {there}, which is not the run's: {replaces}; {start_over}"),
        }
    }

    /// What ends a run whose model got others' weights.
    pub fn overtaken(&self, model: &str, published: Option<&Publication>) -> String {
        let there = published.map_or_else(|| "other weights".to_owned(), describe);
        format!(
            "`{model}` has got {there}, which is not what this run put there, so the run ends: {} goes on and puts the \
             checkpoint's weights in their place; {} begins a new run",
            self.resume(" --replace-weights"),
            self.start_over()
        )
    }
}

/// Which weights were put behind a model, by whom and when.
fn describe(published: &Publication) -> String {
    let Publication { weights, cause, published_time, .. } = published;
    let from = match (&weights.run_id, weights.step) {
        (Some(run), Some(step)) => format!(" of run {run} after {step} updates"),
        (Some(run), None) => format!(" of run {run}"),
        (None, _) => " that no run made".to_owned(),
    };
    let put = match cause {
        PublicationCause::Update => "put there",
        PublicationCause::Rollback => "rolled back to",
    };
    format!("version {}{from}, {put} {} UTC", weights.version, time::text(*published_time))
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// The error of a run whose publication was refused, for the person who started it.
pub async fn overtaken(commands: &Commands, record: &dyn Record, model: &str, error: &TrainError) -> anyhow::Error {
    match record.publication(model).await {
        Ok(published) => anyhow::anyhow!(commands.overtaken(model, published.as_ref())),
        Err(_) => anyhow::anyhow!("{error}"),
    }
}
