//! `fulgurite rescore`: how likely other weights hold the tokens that a run has sampled.

pub mod arguments;

use anyhow::Result;
use fulgurite_terminal::notices::TerminalNotices;
use fulgurite_terminal::output;
use fulgurite_terminal::progress::Progress;
use fulgurite_terminal::tables::rescoring::{rescoring_json, rescoring_lines, token_table};
use fulgurite_training::rescore;

use arguments::RescoreArguments;

/// Scores what a run has sampled.
pub async fn rescore(arguments: RescoreArguments) -> Result<()> {
    let RescoreArguments { run, checkpoint, expression, .. } = &arguments;
    let (checkpoint, expression) = (checkpoint.as_deref(), expression.as_ref());
    let mut progress = Progress::new(arguments.json);
    let rescored = rescore::rescore(run, checkpoint, expression, &TerminalNotices, &mut progress).await?;
    progress.finish();
    if arguments.json {
        output::lines(rescoring_json(&rescored));
        return Ok(());
    }
    if arguments.tokens {
        output::lines(token_table(&rescored));
    }
    output::lines(rescoring_lines(&rescored));
    Ok(())
}
