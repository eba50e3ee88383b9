//! The command lines by which one goes on where a start is refused: only those that are not refused themselves.

use std::path::{Path, PathBuf};

use fulgurite_lab::time;
use fulgurite_types::{Publication, PublicationCause};

use super::rules::{Behind, Leeway, Refusal, StartDecision, StartFlag, decide};
use crate::train::arguments::TrainArguments;

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
}

impl ResumableRun {
    /// The flag with which the run goes on, if there is one.
    fn flag(&self) -> Option<StartFlag> {
        let flags = [StartFlag::Resume, StartFlag::ResumeAndReplace].into_iter();
        let mut flags = flags.filter(|_| self.state == RunState::Stopped);
        flags.find(|flag| !matches!(decide(self.behind, *flag, self.leeway), StartDecision::Refuse(_)))
    }
}

impl RunProgress {
    fn weights(self) -> &'static str {
        match self {
            Self::FromStart => "the weights that it starts from",
            Self::FromCheckpoint => "its last checkpoint's weights",
        }
    }

    fn place(self) -> &'static str {
        match self {
            Self::FromStart => "the run's start",
            Self::FromCheckpoint => "the run's last checkpoint",
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
    run_directory: Option<PathBuf>,
    agent: Vec<String>,
}

impl Commands {
    pub fn of(arguments: &TrainArguments, url: &str) -> Self {
        let TrainArguments { config, seed, overrides, max_steps, run_directory, agent, .. } = arguments;
        let seed = seed.map(|seed| format!("--seed {seed}"));
        let overrides = overrides.iter().map(|set| format!("--set {}", quoted(&set.argument())));
        let max_steps = max_steps.map(|steps| format!("--max-steps {steps}"));
        Self {
            config: config.clone(),
            url: url.to_owned(),
            options: seed.into_iter().chain(overrides).chain(max_steps).collect(),
            run_directory: run_directory.clone(),
            agent: agent.clone(),
        }
    }

    /// The directory that the command names.
    pub fn run_directory(&self) -> Option<&Path> {
        self.run_directory.as_deref()
    }

    fn resume(&self, flag: StartFlag) -> String {
        let replaces = if flag == StartFlag::ResumeAndReplace { " --replace-weights" } else { "" };
        self.line(self.run_directory.as_deref(), &format!("--resume{replaces}"))
    }

    /// A new run gets the named directory, unless a run is there.
    fn start_over(&self, resumable: Option<&ResumableRun>) -> String {
        let directory = self.run_directory.as_deref().filter(|_| resumable.is_none());
        self.line(directory, "--start-over")
    }

    fn line(&self, directory: Option<&Path>, flags: &str) -> String {
        let mut words = vec![format!("fulgurite train {} --server {}", quoted_path(&self.config), self.url)];
        words.extend(self.options.iter().cloned());
        words.extend(directory.map(|directory| format!("--run-directory {}", quoted_path(directory))));
        words.push(flags.to_owned());
        if !self.agent.is_empty() {
            words.push("--".to_owned());
            words.extend(self.agent.iter().map(|word| quoted(word)));
        }
        format!("`{}`", words.join(" "))
    }

    /// What is behind a model, why a run does not begin, and what to type. `resumable` is the run that is to go on, or that
    /// could.
    pub fn refusal(
        &self,
        model: &str,
        why: Refusal,
        published: Option<&Publication>,
        resumable: Option<&ResumableRun>,
    ) -> String {
        let there = published.map_or_else(|| "what its server was started with".to_owned(), describe);
        let ways = self.ways(resumable);
        match why {
            Refusal::OtherFiles => format!(
                "the server at {} was started with other files for `{model}` than [[models]] path names: start it with \
                 those, or name its files in the config",
                self.url
            ),
            Refusal::InUse => format!("`{model}` has {there}, and a new run would replace it: {ways}"),
            Refusal::TooFar { distance, most } => format!(
                "`{model}` has {there}, which is {distance} updates from {}, and the run learns from what weights up to {most} \
                 updates away sample: {ways}",
                resumable.map_or("the run", |run| run.progress.place())
            ),
            Refusal::RolledBack => format!("`{model}` has {there}, to which it was taken back: {ways}"),
            Refusal::OfOthers => format!("`{model}` has {there}, which is not the run's: {ways}"),
        }
    }

    /// What ends a run whose model got others' weights.
    pub fn overtaken(&self, model: &str, published: Option<&Publication>, resumable: Option<&ResumableRun>) -> String {
        let there = published.map_or_else(|| "other weights".to_owned(), describe);
        let ways = self.ways(resumable);
        format!("`{model}` has got {there}, which is not what this run put there, so the run ends: {ways}")
    }

    /// The commands that go on.
    fn ways(&self, resumable: Option<&ResumableRun>) -> String {
        let start_over = self.start_over(resumable);
        let start_over = format!("{start_over} begins a new run and puts the config's weights in their place");
        let Some(run) = resumable else { return start_over };
        let run_id = &run.run_id;
        let resume = match run.flag() {
            Some(flag @ StartFlag::ResumeAndReplace) => {
                let (resume, weights) = (self.resume(flag), run.progress.weights());
                format!("{resume} goes on with run {run_id} and puts {weights} in their place")
            }
            Some(flag) => format!("{} goes on with run {run_id}", self.resume(flag)),
            None if run.state == RunState::Running => format!("run {run_id} is being trained, and goes on by itself"),
            None => return start_over,
        };
        format!("{resume}; {start_over}")
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

    use super::*;
    use crate::train::start::rules::{Callers, ServedFiles};

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        train: TrainArguments,
    }

    fn parsed(line: &str) -> TrainArguments {
        let words = line.strip_prefix("fulgurite train ").unwrap().split(' ').map(|word| word.trim_matches('\''));
        Typed::try_parse_from(["train"].into_iter().chain(words)).unwrap().train
    }

    const STATES: [Behind; 8] = [
        Behind::Files(ServedFiles::OfConfig),
        Behind::Files(ServedFiles::Unknown),
        Behind::Files(ServedFiles::Others),
        Behind::Own { distance: 0 },
        Behind::Own { distance: 4 },
        Behind::Own { distance: 5 },
        Behind::RolledBack,
        Behind::Others,
    ];

    /// What is published does not depend on the run that looks at it.
    fn is_possible(there: Behind, seen: Behind) -> bool {
        match (there, seen) {
            (Behind::Files(there), Behind::Files(seen)) => there == seen,
            (Behind::Files(_), _) | (_, Behind::Files(_)) => false,
            _ => true,
        }
    }

    /// Runs that `--resume` may find in one state of a model, and none.
    fn resumable(there: Behind, leeway: Leeway) -> Vec<Option<ResumableRun>> {
        let mut runs = vec![None];
        for behind in STATES.into_iter().filter(|behind| is_possible(there, *behind)) {
            for state in [RunState::Running, RunState::Stopped] {
                for progress in [RunProgress::FromStart, RunProgress::FromCheckpoint] {
                    runs.push(Some(ResumableRun { run_id: "own".into(), behind, leeway, state, progress }));
                }
            }
        }
        runs
    }

    #[test]
    fn no_printed_command_is_refused_where_it_is_printed() {
        let lines = [
            "fulgurite train c.toml --server http://s",
            "fulgurite train c.toml --server http://s --run-directory r --seed 7 --set trainer.learning_rate=0.5 -- agent",
        ];
        let mut printed = 0;
        for (line, there) in lines.into_iter().flat_map(|line| STATES.map(|there| (line, there))) {
            let leeways = [Callers::Others, Callers::RunAlone].map(|callers| Leeway { max_staleness: 4, callers });
            for (leeway, flag) in
                leeways.into_iter().flat_map(|leeway| [StartFlag::New, StartFlag::Resume].map(|flag| (leeway, flag)))
            {
                for run in resumable(there, leeway) {
                    let seen = match (flag, &run) {
                        (StartFlag::New, _) => there,
                        // This process has the run, so that no other has.
                        (_, Some(run)) if run.state == RunState::Stopped => run.behind,
                        _ => continue,
                    };
                    let StartDecision::Refuse(why) = decide(seen, flag, leeway) else { continue };
                    let commands = Commands::of(&parsed(line), "http://s");
                    let overtaken = commands.overtaken("m", None, run.as_ref());
                    let refusal = commands.refusal("m", why, None, run.as_ref());
                    // Nobody overtakes a run by files that a server was started with.
                    let is_published = !matches!(there, Behind::Files(_));
                    for text in [refusal].into_iter().chain(is_published.then_some(overtaken)) {
                        if run.as_ref().is_none_or(|run| run.progress == RunProgress::FromStart) {
                            assert!(!text.contains("checkpoint"), "{text}");
                        }
                        for command in text.split('`').filter(|part| part.starts_with("fulgurite ")) {
                            printed += 1;
                            let typed = parsed(command);
                            let (flag, is_named) = (start_flag(&typed), line.contains("--run-directory"));
                            let decided = match flag {
                                // Of a directory in which a run is, a new one is refused.
                                StartFlag::StartOver => {
                                    assert_eq!(typed.run_directory.is_some(), is_named && run.is_none(), "{text}");
                                    decide(there, flag, leeway)
                                }
                                _ => {
                                    assert_eq!(typed.run_directory.is_some(), is_named, "{text}");
                                    let run = run.as_ref().filter(|run| run.state == RunState::Stopped);
                                    decide(run.unwrap_or_else(|| panic!("{text}")).behind, flag, leeway)
                                }
                            };
                            let given = parsed(line);
                            assert_eq!((typed.seed, &typed.agent), (given.seed, &given.agent), "{text}");
                            assert_eq!(typed.overrides, given.overrides, "{text}");
                            assert!(!matches!(decided, StartDecision::Refuse(_)), "{there:?} {run:?}: {text}");
                        }
                    }
                }
            }
        }
        assert!(printed > 100, "{printed}");
    }

    #[test]
    fn a_run_that_is_being_trained_is_not_gone_on_with() {
        let leeway = Leeway { max_staleness: 0, callers: Callers::Others };
        let (state, progress) = (RunState::Running, RunProgress::FromCheckpoint);
        let behind = Behind::Own { distance: 0 };
        let run = ResumableRun { run_id: "own".into(), behind, leeway, state, progress };
        let commands = Commands::of(&parsed("fulgurite train c.toml --server http://s"), "http://s");
        let text = commands.refusal("m", Refusal::InUse, None, Some(&run));
        insta::assert_snapshot!(text, @"`m` has what its server was started with, and a new run would replace it: run own is being trained, and goes on by itself; `fulgurite train c.toml --server http://s --start-over` begins a new run and puts the config's weights in their place");
    }
}
