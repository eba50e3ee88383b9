//! Which weights a run ended with.

use fulgurite_trainer::{BestWeights, FinalWeights, RunSummary};

/// Where the final weights are, and which they are.
pub(super) fn weights_line(summary: &RunSummary) -> Option<String> {
    let checkpoint = summary.checkpoint.as_ref()?.display();
    let Some(BestWeights { metric, score, steps, checkpoint: best, start }) = &summary.best else {
        return Some(format!("weights: {checkpoint}"));
    };
    let start = start.map_or(String::new(), |start| format!("; the weights that the run began with had {start:.4}"));
    Some(match summary.final_weights {
        FinalWeights::Best => {
            format!("weights: {checkpoint}, the best by {metric}: {score:.4} after {steps} updates{start}")
        }
        FinalWeights::Last => format!(
            "weights: {checkpoint}, the last; the best by {metric}, {score:.4} after {steps} updates, are {}{start}",
            best.display()
        ),
    })
}
