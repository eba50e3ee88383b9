//! The `fulgurite` command: read the config, wire the rooms, print.

#![allow(unreachable_pub, reason = "nothing of a program is reached from elsewhere")]

mod ask;
mod chat;
mod command_line;
mod dashboard;
mod data;
mod doctor;
mod dry_run;
mod enqueue;
mod evaluation;
mod harness;
mod init;
mod issued_keys;
mod learners;
mod mcp;
mod model_commands;
mod plan;
mod query;
mod regrade;
mod report;
mod rescore;
mod reward;
mod run;
mod runs;
mod serve;
mod skills;
mod sweep;
mod template;
mod train;
mod transfer;
mod watch;

use std::process::ExitCode;

use anyhow::Context;
use fulgurite_lab::error_chain::error_chain;
use tokio::runtime::Runtime;
use tracing_subscriber::EnvFilter;

use command_line::arguments::{Cli, Command};
use query::arguments::StoreAction;

/// A server makes and drops many small things on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(ended) = run::part_of_runner() {
        return ended;
    }
    let cli = Cli::read();
    match begin_log(usual_log(&cli.command))
        .and_then(|()| runtime())
        .and_then(|runtime| runtime.block_on(dispatch(cli.command)))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn begin_log(usual: &str) -> anyhow::Result<()> {
    let log = tracing_subscriber::fmt()
        .with_env_filter(log_filter(usual)?)
        .with_writer(|| fulgurite_terminal::output::LogLines);
    log.with_ansi(fulgurite_terminal::paint::log_has_colours()).init();
    Ok(())
}

fn runtime() -> anyhow::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(workers()?).thread_stack_size(STACK).enable_all().build().context("cannot start")
}

/// Stack of a thread that serves, in bytes: more than what clients send can make it need. What is not used of it takes no
/// memory.
const STACK: usize = 16 << 20;

/// Threads that serve: one for every two processors, so that the others are left to those who sample, train and commit,
/// each on threads of their own; but two at least, so that no call waits for another's. [`WORKERS`] says otherwise.
fn workers() -> anyhow::Result<usize> {
    let Some(value) = std::env::var_os(WORKERS) else {
        return Ok(std::thread::available_parallelism().map_or(1, |processors| processors.get() / 2).max(2));
    };
    let number = value.to_str().and_then(|value| value.parse().ok()).filter(|number| *number > 0);
    number.with_context(|| format!("{WORKERS} is {value:?}, but must be a whole number above 0"))
}

/// In the environment: as many threads serve. Tokio's own name for it.
const WORKERS: &str = "TOKIO_WORKER_THREADS";

/// What is logged of a command if the environment does not say: warnings, but not of faults that are made on purpose.
fn usual_log(command: &Command) -> &'static str {
    match command {
        Command::Harness(_) => "warn,fulgurite_proxy=off",
        _ => "warn",
    }
}

/// What is logged: what the environment says, or else what is usual.
fn log_filter(usual: &str) -> anyhow::Result<EnvFilter> {
    let value = FILTERS.into_iter().find_map(|name| Some((name, std::env::var_os(name)?)));
    let Some((name, value)) = value else { return filter(usual) };
    filter(&value.to_string_lossy()).with_context(|| format!("{name} is {value:?}, which is no filter of the log"))
}

/// A filter with the requests of a server that is to log them, unless it says itself what becomes of those.
fn filter(directives: &str) -> anyhow::Result<EnvFilter> {
    let filter = EnvFilter::try_new(directives)?;
    Ok(match directives.contains(ACCESS) {
        true => filter,
        false => filter.add_directive(format!("{ACCESS}=info").parse()?),
    })
}

/// In the environment: what is logged. The first that is there counts.
const FILTERS: [&str; 2] = ["FULGURITE_LOG", "RUST_LOG"];

/// Under this name requests are logged.
const ACCESS: &str = "fulgurite::access";

async fn dispatch(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Serve(arguments) => serve::command::serve(arguments).await,
        Command::Train(arguments) if arguments.dry_run => dry_run::dry_run(arguments).await,
        Command::Train(arguments) => train::train(arguments).await,
        Command::Plan(arguments) => plan::plan(arguments),
        Command::Data(arguments) => data::data(arguments).await,
        Command::Ask(arguments) => ask::ask(arguments).await,
        Command::Chat(arguments) => chat::chat(arguments).await,
        Command::Sweep(arguments) => sweep::sweep(arguments).await,
        Command::Eval(arguments) => evaluation::eval(arguments).await,
        Command::Regrade(arguments) => regrade::regrade(arguments).await,
        Command::Rescore(arguments) => rescore::rescore(arguments).await,
        Command::Run(arguments) => run::run(arguments).await,
        Command::WorkerKey(arguments) => issued_keys::worker_key(arguments).await,
        Command::ReaderKey(arguments) => issued_keys::reader_key(arguments).await,
        Command::Enqueue(arguments) => enqueue::enqueue(arguments).await,
        Command::Reward(arguments) => reward::reward(arguments).await,
        Command::Rollouts(arguments) => query::rollouts(arguments).await,
        Command::Attempts(arguments) => query::attempts(arguments).await,
        Command::Spans(arguments) => query::spans(arguments).await,
        Command::Generations(arguments) => query::generations(arguments).await,
        Command::Drift(arguments) => query::drift(arguments).await,
        Command::Triplets(arguments) => query::triplets(arguments).await,
        Command::Rewards(arguments) => query::rewards(arguments).await,
        Command::Workers(arguments) => query::workers(arguments).await,
        Command::Resources(arguments) => query::resources(arguments).await,
        Command::Show(arguments) => query::show(arguments).await,
        Command::Report(arguments) => report::report(&arguments).await,
        Command::Runs(arguments) => runs::runs(arguments).await,
        Command::Watch(arguments) => watch::watch(arguments).await,
        Command::Dashboard(arguments) => dashboard::dashboard(arguments).await,
        Command::Doctor(arguments) => doctor::doctor(&arguments).await,
        Command::Harness(arguments) => harness::harness(arguments).await,
        Command::Learners(arguments) => learners::learners(arguments).await,
        Command::Mcp(arguments) => mcp::mcp(arguments).await,
        Command::Model(arguments) => model_commands::command::model(&arguments).await,
        Command::Template(arguments) => template::template(arguments),
        Command::Skills(arguments) => skills::skills(&arguments),
        Command::Init(arguments) => init::init(&arguments),
        Command::Stats(arguments) => query::stats(arguments).await,
        Command::Sql(arguments) => query::sql(arguments).await,
        Command::Export(arguments) => transfer::export(arguments).await,
        Command::Import(arguments) => transfer::import(arguments).await,
        Command::Prune(arguments) => query::prune(arguments).await,
        Command::Store(arguments) => match arguments.action {
            StoreAction::Check(arguments) => query::check(arguments).await,
            StoreAction::RenewChecksums(arguments) => query::renew_checksums(arguments).await,
        },
        Command::Config(arguments) => command_line::show_config::run(arguments),
        Command::Completions(arguments) => command_line::completions::completions(&arguments),
        Command::Man(arguments) => command_line::reference::man(&arguments),
    }
}

/// An error, and a line for each cause.
fn fail(error: &anyhow::Error) -> ExitCode {
    fulgurite_terminal::output::note(format_args!("error: {}", error_chain(error).join("\n  caused by: ")));
    ExitCode::from(1)
}
