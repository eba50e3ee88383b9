//! The command lines by which one goes on where a start is refused: only those that are not refused themselves.

use std::path::{Path, PathBuf};

use fulgurite_lab::records::weights_in_place::{StartWay, StartWayKind, WeightsInPlace};
use fulgurite_lab::time;
use fulgurite_types::{Publication, PublicationCause};

use super::rules::{Behind, Callers, Leeway, Refusal, ServedBase, StartDecision, StartFlag, decide};
use crate::train::arguments::TrainArguments;

/// What a start finds at the server.
#[derive(Clone, Copy, Debug)]
pub struct Found<'f> {
    pub base: ServedBase,
    pub published: Option<&'f Publication>,
    /// The run that is to go on, or that could.
    pub resumable: Option<&'f ResumableRun>,
    pub directory: NamedDirectory,
}

/// Whether a new run may have the directory that the command names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedDirectory {
    /// No run is there, or the command names none.
    Free,
    HoldsRun,
}

/// The run that `--resume` goes on with.
#[derive(Clone, Debug, PartialEq)]
pub struct ResumableRun {
    pub run_id: String,
    /// What is behind the model, as that run sees it.
    pub behind: Behind,
    pub leeway: Leeway,
    pub state: RunState,
    pub progress: RunProgress,
}

/// Whether a process trains a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    Running,
    Stopped,
}

/// Where a run goes on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunProgress {
    /// It has no checkpoint yet.
    FromStart,
    FromCheckpoint,
    /// It has made as many updates as it may: it goes on with a greater `max_steps`.
    AtLimit {
        updates: u64,
    },
    /// It has ended by its stop rule.
    Ended {
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

/// What the command line says of the start.
pub fn start_flag(arguments: &TrainArguments) -> StartFlag {
    match arguments {
        TrainArguments { start_over: true, .. } => StartFlag::StartOver,
        TrainArguments { replace_weights: true, .. } => StartFlag::ResumeAndReplace,
        TrainArguments { resume: true, .. } => StartFlag::Resume,
        _ => StartFlag::New,
    }
}

/// The command line of this process, which others are made of.
pub struct Commands {
    config: PathBuf,
    url: String,
    /// What stands in front of the flags.
    options: Vec<String>,
    max_steps: Option<u64>,
    run_directory: Option<PathBuf>,
    agent: Vec<String>,
}

impl Commands {
    pub fn of(arguments: &TrainArguments, url: &str) -> Self {
        let TrainArguments { config, seed, overrides, max_steps, allowed_steps, run_directory, agent, .. } = arguments;
        let seed = seed.map(|seed| format!("--seed {seed}"));
        let overrides = overrides.iter().map(|set| format!("--set {}", quoted(&set.argument())));
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
            line += &self.agent.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
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
    quoted(&path.display().to_string())
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%=,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use fulgurite_types::{NamedWeights, WeightsId};
    use serde_json::Value;

    use super::*;
    use crate::train::start::rules::{Learns, ServedFiles};

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        train: TrainArguments,
    }

    fn parsed(line: &str) -> TrainArguments {
        let words = line.strip_prefix("fulgurite train ").unwrap().split(' ').map(|word| word.trim_matches('\''));
        Typed::try_parse_from(["train"].into_iter().chain(words)).unwrap().train
    }

    fn publication() -> Publication {
        let (run_id, step) = (Some("theirs".to_owned()), Some(2));
        let (model, weights_id) = ("m".to_owned(), WeightsId::of_digest([1; 32]));
        Publication {
            position: 1,
            weights: NamedWeights { model, version: 2, weights_id, parent_id: None, run_id, step, time: 0.0 },
            source: Value::Null,
            files_id: None,
            base_id: None,
            cause: PublicationCause::Update,
            published_time: 0.0,
        }
    }

    const LEEWAYS: [Leeway; 2] = [
        Leeway { max_staleness: 4, callers: Callers::Others },
        Leeway { max_staleness: 4, callers: Callers::RunAlone },
    ];

    fn bases() -> Vec<ServedBase> {
        let files = [ServedFiles::OfConfig, ServedFiles::Unknown, ServedFiles::Others];
        let learns = [Learns::Adapter, Learns::AllWeights];
        files.into_iter().flat_map(|files| learns.map(|learns| ServedBase { files, learns })).collect()
    }

    /// How a run may see what is behind its model: without a publication, it is what the server was started with.
    fn seen(base: ServedBase, published: Option<&Publication>) -> Vec<Behind> {
        let near = [0, 4, 5].map(|distance| Behind::Own { distance });
        match published {
            Some(_) => near.into_iter().chain([Behind::RolledBack, Behind::Others]).collect(),
            None if base.files == ServedFiles::Others => vec![Behind::Nothing],
            None => near.into_iter().chain([Behind::Others]).collect(),
        }
    }

    /// Runs that `--resume` may find, and none.
    fn resumable(base: ServedBase, published: Option<&Publication>, leeway: Leeway) -> Vec<Option<ResumableRun>> {
        let limits = [RunProgress::AtLimit { updates: 7 }, RunProgress::Ended { updates: 7 }];
        let progress = [RunProgress::FromStart, RunProgress::FromCheckpoint].into_iter().chain(limits);
        let states =
            progress.flat_map(|progress| [RunState::Running, RunState::Stopped].map(|state| (state, progress)));
        let runs = states.flat_map(|(state, progress)| {
            let of = move |behind| ResumableRun { run_id: "own".into(), behind, leeway, state, progress };
            seen(base, published).into_iter().map(of).map(Some).collect::<Vec<_>>()
        });
        runs.chain([None]).collect()
    }

    /// All that may be said where a start finds this, by whatever it was refused.
    fn said(commands: &Commands, found: Found<'_>, leeway: Leeway) -> Vec<WeightsInPlace> {
        let behind = if found.published.is_some() { Behind::Others } else { Behind::Nothing };
        let new = [StartFlag::New, StartFlag::StartOver].map(|flag| decide(found.base, behind, flag, leeway));
        // A process that goes on with a run has it, so that no other has.
        let own = found.resumable.filter(|run| run.state == RunState::Stopped);
        let goes_on = [StartFlag::Resume, StartFlag::ResumeAndReplace];
        let goes_on = own.map(|run| goes_on.map(|flag| decide(found.base, run.behind, flag, run.leeway)));
        let decided = new.into_iter().chain(goes_on.into_iter().flatten());
        let refused = decided.filter_map(|decision| match decision {
            StartDecision::Refuse(why) => Some(commands.refusal("m", why, found)),
            StartDecision::Keep | StartDecision::Replace => None,
        });
        // A directory of another run, or of another store, holds no run that could go on.
        let of_another = found.resumable.is_none().then(|| commands.with_ways("it is another run's", found));
        let overtaken = found.published.map(|_| commands.overtaken("m", found));
        refused.chain(of_another).chain(overtaken).collect()
    }

    /// That a printed command is not refused where it was printed.
    fn check(command: &str, line: &str, found: Found<'_>, text: &str) {
        let (typed, given) = (parsed(command), parsed(line));
        assert_eq!((typed.seed, &typed.agent), (given.seed, &given.agent), "{text}");
        assert_eq!((&typed.overrides, typed.allowed_steps), (&given.overrides, given.allowed_steps), "{text}");
        let flag = start_flag(&typed);
        let decided = match flag {
            StartFlag::New | StartFlag::StartOver => {
                let is_free = found.directory == NamedDirectory::Free && given.run_directory.is_some();
                assert_eq!(typed.run_directory.is_some(), is_free, "{text}");
                let behind = if found.published.is_some() { Behind::Others } else { Behind::Nothing };
                decide(found.base, behind, flag, LEEWAYS[0])
            }
            StartFlag::Resume | StartFlag::ResumeAndReplace => {
                assert_eq!(typed.run_directory, given.run_directory, "{text}");
                let run = found.resumable.filter(|run| run.state == RunState::Stopped);
                let run = run.unwrap_or_else(|| panic!("no run goes on: {text}"));
                match run.progress {
                    RunProgress::Ended { .. } => panic!("it makes no update: {text}"),
                    RunProgress::AtLimit { updates } => {
                        assert!(typed.max_steps.is_some_and(|most| most > updates), "it makes no update: {text}");
                    }
                    RunProgress::FromStart | RunProgress::FromCheckpoint => {
                        assert_eq!(typed.max_steps, given.max_steps, "{text}");
                    }
                }
                decide(found.base, run.behind, flag, run.leeway)
            }
        };
        assert!(!matches!(decided, StartDecision::Refuse(_)), "{found:?}: {text}");
    }

    #[test]
    fn no_printed_command_is_refused_where_it_is_printed() {
        let lines = [
            "fulgurite train c.toml --server http://s",
            "fulgurite train c.toml --server http://s --run-directory r --seed 7 --max-steps 7 --allowed-steps 5 --set trainer.learning_rate=0.5 -- agent",
        ];
        let published = publication();
        let mut printed = 0;
        for (line, base) in lines.into_iter().flat_map(|line| bases().into_iter().map(move |base| (line, base))) {
            let commands = Commands::of(&parsed(line), "http://s");
            for (published, leeway) in
                [None, Some(&published)].into_iter().flat_map(|published| LEEWAYS.map(|leeway| (published, leeway)))
            {
                for run in resumable(base, published, leeway) {
                    let directories = match (parsed(line).run_directory, &run) {
                        (None, _) => vec![NamedDirectory::Free],
                        (Some(_), Some(_)) => vec![NamedDirectory::HoldsRun],
                        (Some(_), None) => vec![NamedDirectory::Free, NamedDirectory::HoldsRun],
                    };
                    for directory in directories {
                        let found = Found { base, published, resumable: run.as_ref(), directory };
                        for WeightsInPlace { message, ways, .. } in said(&commands, found, leeway) {
                            if run.as_ref().is_none_or(|run| run.progress == RunProgress::FromStart) {
                                assert!(!message.contains("checkpoint"), "{message}");
                            }
                            let texts = message.split('`').filter(|part| part.starts_with("fulgurite "));
                            let offered: Vec<&str> = ways.iter().map(|way| way.command.as_str()).collect();
                            assert_eq!(texts.collect::<Vec<_>>(), offered, "{message}");
                            printed += offered.len();
                            offered.into_iter().for_each(|command| check(command, line, found, &message));
                        }
                    }
                }
            }
        }
        assert!(printed > 500, "{printed}");
    }

    fn found(run: &ResumableRun) -> Found<'_> {
        let base = ServedBase { files: ServedFiles::OfConfig, learns: Learns::AllWeights };
        Found { base, published: None, resumable: Some(run), directory: NamedDirectory::HoldsRun }
    }

    #[test]
    fn a_run_that_is_being_trained_is_not_gone_on_with() {
        let leeway = Leeway { max_staleness: 0, callers: Callers::Others };
        let (state, progress) = (RunState::Running, RunProgress::FromCheckpoint);
        let behind = Behind::Own { distance: 0 };
        let run = ResumableRun { run_id: "own".into(), behind, leeway, state, progress };
        let commands = Commands::of(&parsed("fulgurite train c.toml --server http://s"), "http://s");
        let published = publication();
        let found = Found { published: Some(&published), ..found(&run) };
        let text = commands.refusal("m", Refusal::InUse, found).message;
        insta::assert_snapshot!(text, @"`m` has version 2 of run theirs after 2 updates, put there 1970-01-01 00:00:00 UTC, and a new run would replace it: run own is being trained, and goes on by itself; `fulgurite train c.toml --server http://s --start-over` begins a new run and puts the config's weights in their place");
    }

    #[test]
    fn a_run_at_its_limit_is_offered_with_the_key_to_raise() {
        let leeway = Leeway { max_staleness: 0, callers: Callers::Others };
        let (state, progress) = (RunState::Stopped, RunProgress::AtLimit { updates: 2 });
        let behind = Behind::Own { distance: 0 };
        let run = ResumableRun { run_id: "own".into(), behind, leeway, state, progress };
        let commands = Commands::of(&parsed("fulgurite train c.toml --server http://s --max-steps 2"), "http://s");
        let published = publication();
        let found = Found { published: Some(&published), ..found(&run) };
        let text = commands.refusal("m", Refusal::InUse, found).message;
        insta::assert_snapshot!(text, @"`m` has version 2 of run theirs after 2 updates, put there 1970-01-01 00:00:00 UTC, and a new run would replace it: `fulgurite train c.toml --server http://s --max-steps 4 --resume` goes on with run own to 4 updates, since it has made the 2 that it may ([trainer] max_steps); `fulgurite train c.toml --server http://s --max-steps 2 --start-over` begins a new run and puts the config's weights in their place");
    }
}
