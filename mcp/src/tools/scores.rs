//! Scores: of held-out tasks, and what another grader would have given.

use schemars::JsonSchema;
use serde::Deserialize;

use super::graders;
use super::spending;
use crate::error::ToolError;
use crate::program::words;
use crate::progress::Progress;
use crate::session::Session;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Evaluate {
    /// The run whose held-out tasks are scored.
    run: String,
    /// Another checkpoint than its newest, by its name or its updates; "before" is the model as it was before training.
    checkpoint: Option<String>,
    /// Answers to each task; more make the score surer.
    samples: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Regrade {
    /// The run whose recorded rollouts are graded again.
    run: String,
    /// The grader, by its name in write_grader.
    grader: String,
}

pub(super) async fn evaluate(session: &Session, arguments: Evaluate, _: &Progress) -> Result<String, ToolError> {
    let Evaluate { run, checkpoint, samples } = arguments;
    let _turn = session.turn().await?;
    let home = session.workspace.run(&run)?;
    let record = home.sealed_record()?;
    record.guarded.check(&run)?;
    spending::check(session).await?;
    let mut command = words([&"eval", &home.path()]);
    if checkpoint.as_deref() != Some("before") {
        command.extend(words([&"--checkpoint", &home.checkpoint(home.chosen(&record, checkpoint.as_deref())?)]));
    }
    command.extend(samples.iter().flat_map(|samples| words([&"--samples", &samples.to_string()])));
    let output = session.program.run(&command).await?;
    record.guarded.check(&run)?;
    Ok(output.trim_end().to_owned())
}

pub(super) async fn regrade(session: &Session, arguments: Regrade, _: &Progress) -> Result<String, ToolError> {
    let Regrade { run, grader } = arguments;
    let _turn = session.turn().await?;
    let home = session.workspace.run(&run)?;
    let copy = home.path().join("regraded-by").join(&grader);
    graders::copy(session, &grader, &copy)?;
    let words_of_grader = graders::command(&copy);
    if words_of_grader.iter().any(|word| word.contains(char::is_whitespace)) {
        return Err(ToolError::Refused(format!(
            "{} has a space in its path, which regrade cannot take",
            copy.display()
        )));
    }
    let mut command = words([&"regrade", &home.path(), &"--grade", &words_of_grader.join(" ")]);
    if !session.options.unsafe_grader {
        command.extend(words([&"--in-sandbox", &copy]));
    }
    let output = session.program.run(&command).await?;
    Ok(format!(
        "{}\nNothing is changed: a run keeps its grader. Next: start_run(grader = {grader:?}, ...).",
        output.trim_end()
    ))
}
