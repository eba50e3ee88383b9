//! Updates: so many more, waited for, and told of.

use schemars::JsonSchema;
use serde::Deserialize;

use super::runs::{signal, table};
use super::spending;
use super::waiting::{Wait, wait_for};
use crate::at_start::AtStart;
use crate::error::ToolError;
use crate::progress::Progress;
use crate::session::Session;
use crate::training::{Beginning, Ended, Training};
use crate::workspace::{REWARD, RunHome, RunRecord};

/// Updates of one call.
const STEPS: u64 = 10_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TrainSteps {
    /// The run.
    pub(super) run: String,
    /// Updates that are made; 0 only waits for those that were asked for before.
    pub(super) steps: u64,
    /// What to do where other weights than the run's are behind the model at the server, if its trainer begins with this
    /// call: refuse (the default), or replace_weights, which puts the run's checkpoint in their place.
    #[serde(default)]
    pub(super) at_start: AtStart,
    /// Seconds to wait for them; 45 unless told otherwise, -1 for as long as it takes. The run goes on all the same.
    pub(super) wait_seconds: Option<f64>,
}

pub(super) async fn train(session: &Session, arguments: TrainSteps, progress: &Progress) -> Result<String, ToolError> {
    let TrainSteps { run, steps, at_start, wait_seconds } = arguments;
    if steps > STEPS {
        let why = format!("{steps} steps in a call, and {STEPS} are the most");
        return Err(ToolError::Arguments { tool: "train_steps", why });
    }
    let mut trainings = session.turn().await?;
    let home = session.workspace.run(&run)?;
    let mut record = home.sealed_record()?;
    if record.finished {
        return Err(ToolError::Refused(format!(
            "run {run:?} is finished, and its final tasks are scored: load_checkpoint begins another run from it"
        )));
    }
    record.guarded.check(&run)?;
    spending::check(session).await?;
    trainings.check_no_other(&home)?;
    let before = home.metrics().updates();
    let target = match trainings.of(&home) {
        Some(training) if steps > 0 => training.allowed().max(before) + steps,
        Some(training) => training.allowed(),
        None => before + steps,
    };
    let training = match trainings.of(&home).is_some() {
        true => trainings.of(&home),
        false => {
            let server = session.server_of(&record);
            let beginning = Beginning::Allowed(target);
            Some(trainings.begin(&session.program, server, &home, &record, beginning, at_start).await?)
        }
    };
    let Some(training) = training else { return Err(ToolError::Refused(format!("run {run:?} has just ended"))) };
    if target > training.allowed() {
        training.allow(target).await?;
    }
    let pause = PauseUnlessDone { training: Some(training) };
    let ended = pause.wait(session, &home, target, Wait::of(wait_seconds), progress).await?;
    record.guarded.check(&run)?;
    let metrics = home.metrics();
    let made = metrics.updates();
    if matches!(ended, Some(Ended::Over)) {
        record.finished = true;
        home.write(&record)?;
    }
    let named = autocheckpoint(session, &home, &mut record)?;
    let rows = metrics.after(before);
    let mut lines = vec![progress_made(&run, &ended, Made { before, made, target })];
    lines.push(table(rows));
    lines.extend(signal(&home, rows).await);
    lines.extend(named);
    lines.push(next(&run, &ended));
    Ok(lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n"))
}

/// Updates of a run before a call, after it, and those that it was to make.
struct Made {
    before: u64,
    made: u64,
    target: u64,
}

fn progress_made(run: &str, ended: &Option<Ended>, Made { before, made, target }: Made) -> String {
    match ended {
        None => format!("Run {run:?} goes on: {made} of {target} updates are made."),
        Some(Ended::Waiting) => {
            format!("Run {run:?} has made {made} updates ({} in this call) and waits.", made - before.min(made))
        }
        Some(Ended::Over) => {
            format!("Run {run:?} is over after {made} updates: its stop rule or its last step is reached.")
        }
    }
}

fn next(run: &str, ended: &Option<Ended>) -> String {
    match ended {
        None => {
            format!("Next: train_steps(run = {run:?}, steps = 0) goes on waiting; run_status looks without waiting.")
        }
        Some(Ended::Waiting) => format!(
            "Next: show_rollouts(run = {run:?}) and read them; train_steps for more; evaluate for a held-out score now; finish when \
             it is good."
        ),
        Some(Ended::Over) => format!("Next: export_weights(run = {run:?}, ...), compare, report."),
    }
}

/// A call that the host cancels has the run wait at the end of the step that it is at.
struct PauseUnlessDone<'t> {
    training: Option<&'t mut Training>,
}

impl PauseUnlessDone<'_> {
    async fn wait(
        mut self,
        session: &Session,
        home: &RunHome,
        target: u64,
        wait: Wait,
        progress: &Progress,
    ) -> Result<Option<Ended>, ToolError> {
        let Some(training) = self.training.as_deref_mut() else { return Ok(None) };
        let ended = wait_for(session, training, home, target, wait, progress).await;
        self.training = None;
        ended
    }
}

impl Drop for PauseUnlessDone<'_> {
    fn drop(&mut self) {
        if let Some(training) = self.training.take() {
            training.hold();
        }
    }
}

/// Names the newest checkpoint, if the last step earned enough, and more than any before that was named so.
fn autocheckpoint(session: &Session, home: &RunHome, record: &mut RunRecord) -> Result<Option<String>, ToolError> {
    let rule = session.options.autocheckpoint;
    let Some(step) = home.checkpoints().last().copied().filter(|step| *step >= rule.updates) else { return Ok(None) };
    let reward = home.metrics().of(REWARD).iter().rev().find(|(made, _)| made + 1 == step).map(|(_, reward)| *reward);
    let best = record.best_reward.unwrap_or(f64::NEG_INFINITY);
    let Some(reward) = reward.filter(|reward| *reward >= rule.reward && *reward > best) else { return Ok(None) };
    let name = format!("auto-{step}");
    record.checkpoints.insert(name.clone(), step);
    record.best_reward = Some(reward);
    home.write(record)?;
    Ok(Some(format!("Checkpoint {name:?} is kept: reward {reward:.3}.")))
}
