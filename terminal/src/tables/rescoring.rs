//! How likely other weights hold recorded tokens, as tables and as JSON.

use fulgurite_lab::rescore::scores::{Difference, Moved, Split, by_step, most_moved};
use fulgurite_training::rescore::RescoredRun;
use serde_json::{Value, json};

use crate::table::Columns;

/// Tokens that are shown of those that rose, and of those that fell.
const SHOWN: usize = 8;

/// An object for each call, and one for all.
pub fn rescoring_json(rescored: &RescoredRun) -> Vec<Value> {
    let RescoredRun { calls, left_out, description, .. } = rescored;
    let (risen, fallen) = most_moved(calls, SHOWN);
    let Split { all, engine, weights } = Split::of(calls.iter());
    let summary = json!({
        "checkpoint": description, "calls": calls.len(), "left_out": left_out, "all": all, "engine": engine,
        "weights": weights, "risen": risen, "fallen": fallen,
    });
    calls.iter().map(|call| json!(call)).chain([summary]).collect()
}

/// A table of the tokens.
pub fn token_table(rescored: &RescoredRun) -> Vec<String> {
    let mut table = Columns::new(&["generation", "token", "recorded", "rescored", "change"]);
    for call in &rescored.calls {
        for ((token, from), to) in call.tokens.iter().zip(&call.recorded).zip(&call.rescored) {
            let numbers = [*from, *to, to - from].map(|number| format!("{number:.4}"));
            table.push([vec![call.generation_id.clone(), rescored.word(*token)], numbers.to_vec()].concat());
        }
    }
    table.lines()
}

/// A table of the updates; below it what all calls and the most changed tokens show.
pub fn rescoring_lines(rescored: &RescoredRun) -> Vec<String> {
    let RescoredRun { calls, left_out, description, .. } = rescored;
    let mut lines = update_table(rescored);
    let Split { all, engine, .. } = Split::of(calls.iter());
    lines.push(format!(
        "under {description}: mean change {:+.6}, KL {:.6} over {} tokens",
        all.mean, all.kl, all.tokens
    ));
    lines.push(match engine.tokens {
        0 => "no checkpoint of the weights that sampled is kept, so that the engine's part is not known".to_owned(),
        tokens => format!(
            "the same weights scored again differ by {:+.6} on average, {:.6} at most, over {tokens} tokens",
            engine.mean, engine.greatest
        ),
    });
    let described = |moved: &Moved| format!("{} {:+.2} ({}x)", rescored.word(moved.token), moved.mean, moved.count);
    let (risen, fallen) = most_moved(calls, SHOWN);
    for (what, moved) in [("more likely now", risen), ("less likely now", fallen)] {
        if !moved.is_empty() {
            let words: Vec<String> = moved.iter().map(described).collect();
            lines.push(format!("{what}: {}", words.join(", ")));
        }
    }
    if *left_out > 0 {
        lines
            .push(format!("{left_out} calls have no exact logprobs of the model's own distribution, and are left out"));
    }
    lines
}

fn update_table(rescored: &RescoredRun) -> Vec<String> {
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
    let mean = |of: Difference| if of.tokens == 0 { "-".to_owned() } else { format!("{:+.6}", of.mean) };
    for (step, calls) in by_step(&rescored.calls) {
        let Split { all, engine, weights } = Split::of(calls.iter().copied());
        table.push(vec![
            step.map_or("-".to_owned(), |step| step.to_string()),
            calls.len().to_string(),
            all.tokens.to_string(),
            format!("{:+.6}", all.mean),
            format!("{:.6}", all.kl),
            format!("{:.6}", all.greatest),
            mean(engine),
            mean(weights),
        ]);
    }
    table.lines()
}
