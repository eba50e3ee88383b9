//! The command lines by which one goes on where a start is refused: only those that are not refused themselves.

use std::path::{Path, PathBuf};

use fulgurite_lab::records::weights_in_place::{StartWay, StartWayKind, WeightsInPlace};
use fulgurite_lab::shell_word::shell_word;
use fulgurite_lab::time;
use fulgurite_types::{Publication, PublicationCause};

use super::options::TrainOptions;
use super::rules::{Behind, Callers, Leeway, Refusal, ServedBase, StartDecision, StartFlag, decide};

/// What a start finds at the server.
#[derive(Clone, Copy, Debug)]
pub struct Found<'f> {
    /// The model as the server and the config have it.
    pub base: ServedBase,
    /// What was published behind it, if anything.
    pub published: Option<&'f Publication>,
    /// The run that is to go on, or that could.
    pub resumable: Option<&'f ResumableRun>,
    /// The directory that the command names.
    pub directory: NamedDirectory,
}

/// Whether a new run may have the directory that the command names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedDirectory {
    /// No run is there, or the command names none.
    Free,
    /// A run is there.
    HoldsRun,
}

/// The run that `--resume` goes on with.
#[derive(Clone, Debug, PartialEq)]
pub struct ResumableRun {
    /// Its id.
    pub run_id: String,
    /// What is behind the model, as that run sees it.
    pub behind: Behind,
    /// How far that may be from its checkpoint.
    pub leeway: Leeway,
    /// Whether a process trains it.
    pub state: RunState,
    /// Where it goes on from.
    pub progress: RunProgress,
}

/// Whether a process trains a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// One does.
    Running,
    /// None does.
    Stopped,
}

/// Where a run goes on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunProgress {
    /// It has no checkpoint yet.
    FromStart,
    /// It has one.
    FromCheckpoint,
    /// It has made as many updates as it may: it goes on with a greater `max_steps`.
    AtLimit {
        /// Updates that it has made.
        updates: u64,
    },
    /// It has ended by its stop rule.
    Ended {
        /// Updates that it has made.
        updates: u64,
    },
}

impl ResumableRun {
    /// The flag with which the run goes on, if there is one.
    fn flag(&self, base: ServedBase) -> Option<StartFlag> {
        let can_go_on = self.state == RunState::Stopped && !matches!(self.progress, RunProgress::Ended { .. });
        let mut flags = [StartFlag::Resume, StartFlag::ResumeAndReplace].into_iter().filter(|_| can_go_on);
        flags.find(|flag| !is_refused(base, self.behind, *flag, self.leeway))
    }
}

fn is_refused(base: ServedBase, behind: Behind, flag: StartFlag, leeway: Leeway) -> bool {
    matches!(decide(base, behind, flag, leeway), StartDecision::Refuse(_))
}

impl RunProgress {
    fn weights(self) -> &'static str {
        match self {
            Self::FromStart => "the weights that it starts from",
            Self::FromCheckpoint | Self::AtLimit { .. } | Self::Ended { .. } => "its last checkpoint's weights",
        }
    }

    fn place(self) -> &'static str {
        match self {
            Self::FromStart => "the run's start",
            Self::FromCheckpoint | Self::AtLimit { .. } | Self::Ended { .. } => "the run's last checkpoint",
        }
    }
}

/// The command line of this process, which others are made of.
pub struct CommandLines {
    config: PathBuf,
    url: String,
    /// What stands in front of the flags.
    options: Vec<String>,
    max_steps: Option<u64>,
    run_directory: Option<PathBuf>,
    agent: Vec<String>,
}

impl CommandLines {
    /// That of a run with these options, at the server with this URL.
    pub fn of(options: &TrainOptions, url: &str) -> Self {
        let TrainOptions { config, seed, overrides, max_steps, allowed_steps, run_directory, agent, .. } = options;
        let seed = seed.map(|seed| format!("--seed {seed}"));
        let overrides = overrides.iter().map(|set| format!("--set {}", shell_word(&set.argument())));
        let allowed_steps = allowed_steps.map(|steps| format!("--allowed-steps {steps}"));
        Self {
            config: config.clone(),
            url: url.to_owned(),
            options: seed.into_iter().chain(overrides).chain(allowed_steps).collect(),
            max_steps: *max_steps,
            run_directory: run_directory.clone(),
            agent: agent.clone(),
        }
    }

    /// The directory that the command names.
    pub fn run_directory(&self) -> Option<&Path> {
        self.run_directory.as_deref()
    }

    /// The server that the command names.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn resume(&self, flag: StartFlag, max_steps: Option<u64>) -> String {
        let replaces = if flag == StartFlag::ResumeAndReplace { " --replace-weights" } else { "" };
        self.line(self.run_directory.as_deref(), max_steps, &format!(" --resume{replaces}"))
    }

    fn line(&self, directory: Option<&Path>, max_steps: Option<u64>, flags: &str) -> String {
        let mut words = vec![format!("fulgurite train {} --server {}", quoted_path(&self.config), self.url)];
        words.extend(self.options.iter().cloned());
        words.extend(max_steps.map(|steps| format!("--max-steps {steps}")));
        words.extend(directory.map(|directory| format!("--run-directory {}", quoted_path(directory))));
        let mut line = words.join(" ") + flags;
        if !self.agent.is_empty() {
            line += " -- ";
            line += &self.agent.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ");
        }
        line
    }

    /// What is behind a model, why a run does not begin, and what to type.
    pub fn refusal(&self, model: &str, why: Refusal, found: Found<'_>) -> WeightsInPlace {
        let Found { published, resumable, .. } = found;
        let there = published.map_or_else(|| "what its server was started with".to_owned(), describe);
        let has = match why {
            Refusal::OtherFiles => {
                let message = format!(
                    "the server at {} was started with other files for `{model}` than [[models]] path names: start it with \
                     those, or name its files in the config",
                    self.url
                );
                return WeightsInPlace { message, published_run: run_of(published), ways: Vec::new() };
            }
            Refusal::InUse => format!("`{model}` has {there}, and a new run would replace it"),
            Refusal::TooFar { distance, most } => {
                let place = resumable.map_or("the run", |run| run.progress.place());
                format!(
                    "`{model}` has {there}, which is {distance} updates from {place}, and others than the run call it; it learns from what weights \
                     up to {most} updates away sample"
                )
            }
            Refusal::RolledBack => format!("`{model}` has {there}, to which it was taken back"),
            Refusal::OfOthers => format!("`{model}` has {there}, which is not the run's"),
        };
        self.with_ways(&has, found)
    }

    /// What ends a run whose model got others' weights.
    pub fn overtaken(&self, model: &str, found: Found<'_>) -> WeightsInPlace {
        let there = found.published.map_or_else(|| "other weights".to_owned(), describe);
        self.with_ways(
            &format!("`{model}` has got {there}, which is not what this run put there, so the run ends"),
            found,
        )
    }

    /// What was found, and the ways to go on.
    pub fn with_ways(&self, found_text: &str, found: Found<'_>) -> WeightsInPlace {
        let (mut texts, mut ways) = (Vec::new(), Vec::new());
        if let Some(run) = found.resumable {
            let (text, way) = self.going_on(run, found.base);
            texts.extend(text);
            ways.extend(way);
        }
        match self.new_run(found) {
            Some((text, way)) => {
                texts.push(text);
                ways.push(way);
            }
            None => texts.push(format!(
                "for a new run, start the server at {} with the files that [[models]] path names",
                self.url
            )),
        }
        let message = format!("{found_text}: {}", texts.join("; "));
        WeightsInPlace { message, published_run: run_of(found.published), ways }
    }

    /// How a run goes on: in words if there is anything to say, and as a way if there is one.
    fn going_on(&self, run: &ResumableRun, base: ServedBase) -> (Option<String>, Option<StartWay>) {
        let run_id = &run.run_id;
        let Some(flag) = run.flag(base) else {
            let text = match (run.state, run.progress) {
                (RunState::Running, _) => Some(format!("run {run_id} is being trained, and goes on by itself")),
                (_, RunProgress::Ended { updates }) => Some(format!("run {run_id} has ended after {updates} updates")),
                _ => None,
            };
            return (text, None);
        };
        let (max_steps, limit) = match run.progress {
            RunProgress::AtLimit { updates } => {
                let more = updates.saturating_mul(2).max(1);
                (
                    Some(more),
                    format!(" to {more} updates, since it has made the {updates} that it may ([trainer] max_steps)"),
                )
            }
            _ => (self.max_steps, String::new()),
        };
        let (way, replaces) = match flag {
            StartFlag::ResumeAndReplace => {
                (StartWayKind::ReplaceWeights, format!(" and puts {} in their place", run.progress.weights()))
            }
            _ => (StartWayKind::Resume, String::new()),
        };
        let command = self.resume(flag, max_steps);
        let text = format!("`{command}` goes on with run {run_id}{limit}{replaces}");
        (Some(text), Some(StartWay { way, run_id: Some(run_id.clone()), command }))
    }

    /// How a new run begins, unless that would be refused.
    fn new_run(&self, found: Found<'_>) -> Option<(String, StartWay)> {
        let behind = if found.published.is_some() { Behind::Others } else { Behind::Nothing };
        let leeway = Leeway { max_staleness: 0, callers: Callers::Others };
        let mut flags = [StartFlag::New, StartFlag::StartOver].into_iter();
        let flag = flags.find(|flag| !is_refused(found.base, behind, *flag, leeway))?;
        // A directory that holds a run is refused to a new one.
        let directory = self.run_directory.as_deref().filter(|_| found.directory == NamedDirectory::Free);
        let (way, word, does) = match flag {
            StartFlag::StartOver => (
                StartWayKind::StartOver,
                " --start-over",
                "begins a new run and puts the config's weights in their place",
            ),
            _ => (StartWayKind::NewRun, "", "begins a new run"),
        };
        let command = self.line(directory, self.max_steps, word);
        Some((format!("`{command}` {does}"), StartWay { way, run_id: None, command }))
    }
}

/// The run that made published weights.
fn run_of(published: Option<&Publication>) -> Option<String> {
    published.and_then(|published| published.weights.run_id.clone())
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

fn quoted_path(path: &Path) -> String {
    shell_word(&path.display().to_string())
}
