//! `fulgurite regrade`: another grader over rollouts that are recorded, without sampling anything anew.

pub mod arguments;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fulgurite_config::declarations::StoreConfig;
use fulgurite_config::seconds::seconds;
use fulgurite_lab::records;
use fulgurite_lab::records::exclusive_lock::ExclusiveLock;
use fulgurite_lab::records::open_store::open_store;
use fulgurite_lab::regrade::grading::{GradedAgain, GraderFault, Grading};
use fulgurite_lab::regrade::recorded::{LeftOut, recorded};
use fulgurite_lab::runs::registry;
use fulgurite_runner::{Bounds, Grader, GraderSandboxOptions, SUPERVISE_AGENT};
use fulgurite_store::{Store, redact_url};
use fulgurite_terminal::output;
use fulgurite_terminal::progress::Progress;
use fulgurite_terminal::tables::regrading::{NewRewards, Regrading};

use crate::run::{own_program, this_program};
use arguments::RegradeArguments;

/// Which rollouts, and what grades them.
struct Task {
    store_url: String,
    run_id: Option<String>,
    grader: Grader,
}

/// Grades recorded rollouts again, and gives the new rewards if that is wanted.
pub async fn regrade(arguments: RegradeArguments) -> Result<()> {
    let timeout = seconds("--timeout", arguments.timeout)?;
    if arguments.parallel == 0 {
        bail!("--parallel must be at least 1");
    }
    let Task { store_url, run_id, grader } = task(&arguments)?;
    let _store_lock = match arguments.apply {
        true => ExclusiveLock::of_store(&store_url, "fulgurite regrade --apply")?,
        false => None,
    };
    let store = match arguments.apply {
        true => open_store(&store_url, &StoreConfig::default()).await?,
        false => Store::open_read_only(&store_url)
            .await
            .with_context(|| format!("cannot open the store {}", redact_url(&store_url)))?,
    };
    let (rollouts, mut left_out) = recorded(&store, run_id.as_deref(), arguments.expression.as_ref()).await?;
    if rollouts.is_empty() {
        bail!("there is nothing to grade again: {}", none_why(&left_out));
    }
    let mut progress = Progress::new(arguments.json);
    let mut show = |done: u64, all: u64| progress.set("rollouts graded", done, Some(all));
    let given_to = arguments.apply.then_some(&store);
    let grading = Grading { grader: &grader, timeout, parallel: arguments.parallel, given_to };
    let GradedAgain { regraded, faults } = grading.grade(&rollouts, &mut show).await?;
    progress.finish();
    store.close().await;
    if !faults.is_empty() {
        left_out.insert(LeftOut::Grader, faults.len());
    }
    if let (true, Some(GraderFault { rollout_id, fault })) = (regraded.is_empty(), faults.first()) {
        bail!("the grader gave none of {} rollouts a reward; of {rollout_id}: {fault}", faults.len());
    }
    let new_rewards = if arguments.apply { NewRewards::Given } else { NewRewards::Shown };
    let first_fault = faults.first();
    let regrading = Regrading { regraded: &regraded, left_out: &left_out, first_fault, new_rewards };
    match arguments.json {
        true => output::lines(regrading.json()),
        false => output::lines(regrading.lines()),
    }
    Ok(())
}

fn task(arguments: &RegradeArguments) -> Result<Task> {
    let words = |command: &String| command.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let grade = arguments.grade.as_ref().map(words);
    let Some(run) = &arguments.run else {
        let store_url = arguments.store.clone().context("a RUN or --store says whose rollouts are graded")?;
        let grade = grade.context("--grade is missing: the store of no run names no grader")?;
        return Ok(Task { store_url, run_id: None, grader: grader(arguments, &grade, None, None)? });
    };
    let run = registry::directory(run)?;
    let loaded = records::config_of_run(&run)?;
    let run_id = records::run_file(&run)?["run_id"].as_str().map(str::to_owned);
    let runner = &loaded.config.runner;
    if grade.is_none() && runner.has_worlds() {
        bail!(
            "the graders of {} looked at worlds, which are gone: say by --grade what grades by the agents' outputs alone",
            run.display()
        );
    }
    let own = || (!runner.grade.is_empty()).then(|| runner.grade.clone());
    let directory = grade.is_none().then(|| loaded.resolve(runner.directory.as_deref().unwrap_or(Path::new(""))));
    let grade = grade.or_else(own).with_context(|| {
        format!("{} was trained without [runner] grade: say by --grade what is to grade it", run.display())
    })?;
    let in_sandbox = match directory.as_deref() {
        Some(directory) => runner.grader_sandbox(Some(directory), this_program()?),
        None => None,
    };
    let store_url = records::store_of_run(&run)?;
    Ok(Task { store_url, run_id, grader: grader(arguments, &grade, directory, in_sandbox)? })
}

/// The grader of a command, which runs in `directory`, or here without one; in the sandbox that the command line names if it
/// names one.
fn grader(
    arguments: &RegradeArguments,
    grade: &[String],
    directory: Option<PathBuf>,
    in_sandbox: Option<GraderSandboxOptions>,
) -> Result<Grader> {
    let (directory, in_sandbox) = match &arguments.in_sandbox {
        None => (directory, in_sandbox),
        Some(named) => {
            let (readable, bounds) = (Vec::new(), Bounds::default());
            (Some(named.clone()), Some(GraderSandboxOptions { readable, bounds, own_program: this_program()? }))
        }
    };
    let grader = Grader::find(grade, directory)?.supervised(&own_program(SUPERVISE_AGENT)?);
    Ok(match in_sandbox {
        Some(options) => grader.in_sandbox(options)?,
        None => grader,
    })
}

/// Why no rollout can be graded.
fn none_why(left_out: &BTreeMap<LeftOut, usize>) -> String {
    if left_out.is_empty() {
        return "no rollout is meant".to_owned();
    }
    let causes: Vec<String> = left_out.iter().map(|(cause, count)| format!("{count} {}", cause.words())).collect();
    causes.join(", ")
}
