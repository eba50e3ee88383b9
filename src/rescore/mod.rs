//! `fulgurite rescore`: how likely other weights hold the tokens that a run has sampled.

pub mod arguments;

use anyhow::Result;
use fulgurite_lab::rescore::scores::{Difference, Moved, Split, by_step, most_moved};
use fulgurite_terminal::notices::TerminalNotices;
use fulgurite_terminal::output;
use fulgurite_terminal::progress::Progress;
use fulgurite_terminal::table::Columns;
use fulgurite_training::rescore::{self, RescoredRun};
use serde_json::json;

use arguments::RescoreArguments;

/// Tokens that are shown of those that rose, and of those that fell.
const SHOWN: usize = 8;

/// Scores what a run has sampled.
pub async fn rescore(arguments: RescoreArguments) -> Result<()> {
    let RescoreArguments { run, checkpoint, expression, .. } = &arguments;
    let (checkpoint, expression) = (checkpoint.as_deref(), expression.as_ref());
    let mut progress = Progress::new(arguments.json);
    let rescored = rescore::rescore(run, checkpoint, expression, &TerminalNotices, &mut progress).await?;
    progress.finish();
    match arguments.json {
        true => print_json(&rescored),
        false => print_tables(&rescored, arguments.tokens),
    }
    Ok(())
}

fn print_json(rescored_run: &RescoredRun) {
    let RescoredRun { calls: rescored, left_out, description, .. } = rescored_run;
    rescored.iter().for_each(|call| output::line(json!(call)));
    let (risen, fallen) = most_moved(rescored, SHOWN);
    let split = Split::of(rescored.iter());
    output::line(json!({
        "checkpoint": description, "calls": rescored.len(), "left_out": left_out, "all": split.all,
        "engine": split.engine, "weights": split.weights, "risen": risen, "fallen": fallen,
    }));
}

fn print_tables(rescored_run: &RescoredRun, with_tokens: bool) {
    let RescoredRun { calls: rescored, left_out, description, .. } = rescored_run;
    let word = |token: u32| rescored_run.word(token);
    if with_tokens {
        let mut table = Columns::new(&["generation", "token", "recorded", "rescored", "change"]);
        for call in rescored {
            for ((token, from), to) in call.tokens.iter().zip(&call.recorded).zip(&call.rescored) {
                let numbers = [*from, *to, to - from].map(|number| format!("{number:.4}"));
                table.push([vec![call.generation_id.clone(), word(*token)], numbers.to_vec()].concat());
            }
        }
        table.print();
    }
    let mut table = Columns::new(&[
        "update",
        "calls",
        "tokens",
        "mean change",
        "KL",
        "greatest",
        "of the engine",
        "of the weights",
    ]);
    let numbers = |of: Difference| if of.tokens == 0 { "-".to_owned() } else { format!("{:+.6}", of.mean) };
    for (step, calls) in by_step(rescored) {
        let Split { all, engine, weights } = Split::of(calls.iter().copied());
        table.push(vec![
            step.map_or("-".to_owned(), |step| step.to_string()),
            calls.len().to_string(),
            all.tokens.to_string(),
            format!("{:+.6}", all.mean),
            format!("{:.6}", all.kl),
            format!("{:.6}", all.greatest),
            numbers(engine),
            numbers(weights),
        ]);
    }
    table.print();
    let Split { all, engine, .. } = Split::of(rescored.iter());
    output::line(format!(
        "under {}: mean change {:+.6}, KL {:.6} over {} tokens",
        description, all.mean, all.kl, all.tokens
    ));
    match engine.tokens {
        0 => output::line("no checkpoint of the weights that sampled is kept, so that the engine's part is not known"),
        tokens => output::line(format!(
            "the same weights scored again differ by {:+.6} on average, {:.6} at most, over {tokens} tokens",
            engine.mean, engine.greatest
        )),
    }
    let (risen, fallen) = most_moved(rescored, SHOWN);
    let described = |moved: &[Moved]| {
        let words = moved.iter().map(|moved| format!("{} {:+.2} ({}x)", word(moved.token), moved.mean, moved.count));
        words.collect::<Vec<_>>().join(", ")
    };
    for (what, moved) in [("more likely now", risen), ("less likely now", fallen)] {
        if !moved.is_empty() {
            output::line(format!("{what}: {}", described(&moved)));
        }
    }
    if *left_out > 0 {
        output::line(format!(
            "{left_out} calls have no exact logprobs of the model's own distribution, and are left out"
        ));
    }
}
