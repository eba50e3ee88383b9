//! That the commands which a refused start prints are commands that this program takes.

use clap::Parser;
use fulgurite_lab::records::weights_in_place::WeightsInPlace;
use fulgurite_training::start::command_lines::{
    CommandLines, Found, NamedDirectory, ResumableRun, RunProgress, RunState,
};
use fulgurite_training::start::options::TrainOptions;
use fulgurite_training::start::rules::{
    Behind, Callers, Learns, Leeway, Refusal, ServedBase, ServedFiles, StartDecision, StartFlag, decide,
};
use fulgurite_types::{NamedWeights, Publication, PublicationCause, WeightsId};
use serde_json::Value;

use super::arguments::TrainArguments;

#[derive(Parser)]
struct Typed {
    #[command(flatten)]
    train: TrainArguments,
}

fn parsed(line: &str) -> TrainOptions {
    let words = line.strip_prefix("fulgurite train ").unwrap().split(' ').map(|word| word.trim_matches('\''));
    Typed::try_parse_from(["train"].into_iter().chain(words)).unwrap().train.options()
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

const LEEWAYS: [Leeway; 2] =
    [Leeway { max_staleness: 4, callers: Callers::Others }, Leeway { max_staleness: 4, callers: Callers::RunAlone }];

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
    let states = progress.flat_map(|progress| [RunState::Running, RunState::Stopped].map(|state| (state, progress)));
    let runs = states.flat_map(|(state, progress)| {
        let of = move |behind| ResumableRun { run_id: "own".into(), behind, leeway, state, progress };
        seen(base, published).into_iter().map(of).map(Some).collect::<Vec<_>>()
    });
    runs.chain([None]).collect()
}

/// All that may be said where a start finds this, by whatever it was refused.
fn refusals(commands: &CommandLines, found: Found<'_>, leeway: Leeway) -> Vec<WeightsInPlace> {
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
    let flag = typed.start;
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
        let commands = CommandLines::of(&parsed(line), "http://s");
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
                    for WeightsInPlace { message, ways, .. } in refusals(&commands, found, leeway) {
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
    let commands = CommandLines::of(&parsed("fulgurite train c.toml --server http://s"), "http://s");
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
    let commands = CommandLines::of(&parsed("fulgurite train c.toml --server http://s --max-steps 2"), "http://s");
    let published = publication();
    let found = Found { published: Some(&published), ..found(&run) };
    let text = commands.refusal("m", Refusal::InUse, found).message;
    insta::assert_snapshot!(text, @"`m` has version 2 of run theirs after 2 updates, put there 1970-01-01 00:00:00 UTC, and a new run would replace it: `fulgurite train c.toml --server http://s --max-steps 4 --resume` goes on with run own to 4 updates, since it has made the 2 that it may ([trainer] max_steps); `fulgurite train c.toml --server http://s --max-steps 2 --start-over` begins a new run and puts the config's weights in their place");
}
