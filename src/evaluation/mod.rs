//! `fulgurite eval`: its command line, and what it prints.

pub mod arguments;

use anyhow::Result;
use fulgurite_terminal::notices::TerminalNotices;
use fulgurite_terminal::output;
use fulgurite_terminal::progress::Progress;
use fulgurite_terminal::reporters::{JsonReporter, TableReporter};
use fulgurite_terminal::tables::evaluation::{evaluation_json, evaluation_lines};
use fulgurite_trainer::{Reporter, TrainEvent};
use fulgurite_training::evaluation::{Evaluation, evaluate, import_inspect_log};

use self::arguments::EvalArguments;

/// Scores tasks, or takes over what Inspect scored, and prints the result, held against another if there is one.
pub async fn eval(arguments: EvalArguments) -> Result<()> {
    let (json, pass_reward) = (arguments.json, arguments.pass_reward);
    let Evaluation { result, against } = match &arguments.inspect_log {
        Some(log) => import_inspect_log(log, arguments.scorer.as_deref(), arguments.against.as_deref())?,
        None => {
            let mut reporter = EvalReporter::new(json);
            let evaluation = evaluate(&arguments.options(), &mut reporter, &TerminalNotices).await?;
            reporter.finish();
            evaluation
        }
    };
    let comparison = against.map(|against| against.compare(&result, pass_reward)).transpose()?;
    match json {
        true => output::line(evaluation_json(&result, comparison.as_ref(), pass_reward)),
        false => output::lines(evaluation_lines(&result, comparison.as_ref(), pass_reward)),
    }
    Ok(())
}

/// Tells how far it is on standard error, and what is amiss as a training run does.
struct EvalReporter {
    progress: Progress,
    inner: Box<dyn Reporter>,
}

impl EvalReporter {
    fn new(json: bool) -> Self {
        let inner: Box<dyn Reporter> = if json { Box::new(JsonReporter) } else { Box::new(TableReporter::new(None)) };
        Self { progress: Progress::new(json), inner }
    }

    fn finish(&self) {
        self.progress.finish();
    }
}

impl Reporter for EvalReporter {
    fn report(&mut self, event: TrainEvent) {
        match event {
            TrainEvent::Rollouts { done, total, .. } => {
                self.progress.set("rollouts", done as u64, Some(total as u64));
            }
            other => self.inner.report(other),
        }
    }
}
