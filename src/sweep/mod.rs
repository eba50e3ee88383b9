//! `fulgurite sweep`: a config with several values of its keys, each trained with the same seeds, and compared.

pub mod arguments;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_lab::records;
use fulgurite_lab::records::exclusive_lock::ExclusiveLock;
use fulgurite_lab::sweep::execution::{Execution, Outcome};
use fulgurite_lab::sweep::plan::{PLAN_FILE, SweepPlan, SweepRun};
use fulgurite_lab::sweep::playing::{Sweep, SweepEvent};
use fulgurite_lab::sweep::{capacity, results, scores};
use fulgurite_terminal::output;
use fulgurite_terminal::tables::sweep::sweep_lines;
use serde_json::json;

use self::arguments::SweepArguments;

/// Plays every arm with every seed, and says which was best.
pub async fn sweep(arguments: SweepArguments) -> Result<()> {
    if let Some(url) = &arguments.server {
        bail!(
            "--server {url}: the runs of a sweep would put their weights in each other's place behind one model of that server, \
             so that each has a server of its own: leave --server out"
        );
    }
    let directory = directory(&arguments)?;
    let plan = plan(&arguments, &directory)?;
    plan.check().with_context(|| plan.config.display().to_string())?;
    std::fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let what = format!("the sweep in {}", directory.display());
    let _lock = ExclusiveLock::take(directory.join("sweep.lock"), &what, "fulgurite sweep", "")?;
    plan.write(&directory)?;
    let capacity = capacity::capacity(&plan, arguments.parallel)?;
    if let Some(reason) = &capacity.reason {
        output::note(format_args!("warning: {reason}"));
    }
    let execution = Execution { plan: &plan, directory: &directory, parallel: capacity.parallel };
    let mut sweep = Sweep::new(execution);
    if !arguments.json {
        let seeds: Vec<String> = plan.seeds.iter().map(u64::to_string).collect();
        output::line(format!(
            "{} runs ({} arms, seeds {}) in {}, {} at a time",
            plan.runs().len(),
            plan.arms.len(),
            seeds.join(", "),
            directory.display(),
            capacity.parallel
        ));
    }
    let played = sweep.play(&mut |event| tell(arguments.json, &event, &directory)).await;
    let arms = results::results(&plan, &directory, &sweep.failures, &sweep.stopped).await?;
    records::write_whole(&directory.join(results::TABLE_FILE), &results::table_file(&plan.keys(), &arms))?;
    played?;
    if arguments.json {
        for arm in &arms {
            let mut line = json!(arm);
            line["event"] = json!("arm");
            output::line(line);
        }
    } else {
        output::line("");
        output::lines(sweep_lines(&arms));
    }
    if !sweep.failures.is_empty() {
        bail!(
            "{} of {} runs failed; their output is in {}, and --resume tries them again",
            sweep.failures.len(),
            plan.runs().len(),
            directory.join("logs").display()
        );
    }
    Ok(())
}

/// Tells of what happened in the sweep.
fn tell(json: bool, event: &SweepEvent<'_>, directory: &Path) {
    match event {
        SweepEvent::RunEnded { run, outcome, ended, all } => say(json, run, outcome, directory, (*ended, *all)),
        SweepEvent::StoppedEarly { arm, updates } if json => {
            output::line(json!({ "event": "stopped_early", "arm": arm, "updates": updates }));
        }
        SweepEvent::StoppedEarly { arm, updates } => {
            output::line(format!("{arm}: stopped early, among the worse half after {updates} updates"));
        }
    }
}

/// Tells of a run that ended.
fn say(json: bool, run: &SweepRun, outcome: &Outcome, directory: &Path, (ended, all): (usize, usize)) {
    let steps = scores::steps(&directory.join(&run.name));
    let held_out = scores::held_out(&steps, u64::MAX);
    let error = match outcome {
        Outcome::Failed(error) => Some(error),
        Outcome::Ended | Outcome::Paused => None,
    };
    if json {
        let state = if error.is_some() { results::State::Failed } else { results::State::Ended };
        output::line(json!({
            "event": "run_ended", "run": run.name, "seed": run.seed, "state": state, "held_out": held_out,
            "error": error,
        }));
        return;
    }
    let how = match (error, held_out) {
        (Some(error), _) => format!("failed: {error}"),
        (None, Some(score)) => format!("ended, held-out {:+.3}", score.value),
        (None, None) => "ended".to_owned(),
    };
    output::line(format!("{ended}/{all} {}: {how}", run.name));
}

/// Where the sweep is.
fn directory(arguments: &SweepArguments) -> Result<PathBuf> {
    let directory = match &arguments.output {
        Some(directory) => directory.clone(),
        None => {
            let loaded = LoadedConfig::read_with(Some(&arguments.config), &arguments.overrides)?;
            let run = &loaded.config.run;
            loaded.resolve(&run.directory).join(format!("{}-sweep", run.name))
        }
    };
    std::path::absolute(directory).context("the working directory is gone")
}

/// What is to be done: what the command line says, or what the directory's sweep was begun with.
fn plan(arguments: &SweepArguments, directory: &Path) -> Result<SweepPlan> {
    let path = directory.join(PLAN_FILE);
    let there = SweepPlan::read(directory)?;
    match (there, arguments.resume) {
        (None, true) => bail!("{} holds no sweep to resume", directory.display()),
        (Some(_), false) => {
            bail!("{} holds a sweep already: --resume goes on with it, -o names another", directory.display())
        }
        (None, false) => SweepPlan::of(&arguments.request()),
        (Some(there), true) => {
            let SweepArguments { keys, list, seeds, overrides, stop_early, agent, .. } = arguments;
            let is_unchanged = keys.is_empty() && seeds.is_empty() && overrides.is_empty() && agent.is_empty();
            let is_unchanged = is_unchanged && list.is_none() && !stop_early;
            if !is_unchanged && SweepPlan::of(&arguments.request())? != there {
                bail!(
                    "{} was begun with others than these arms, seeds or keys: leave them out to go on",
                    path.display()
                );
            }
            Ok(there)
        }
    }
}
