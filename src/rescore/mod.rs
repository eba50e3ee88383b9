//! `fulgurite rescore`: how likely other weights hold the tokens that a run has sampled.

pub mod arguments;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_lab::records;
use fulgurite_lab::rescore::calls::{Call, Calls};
use fulgurite_lab::rescore::scores::{Difference, Moved, Rescored, Split, by_step, most_moved};
use fulgurite_lab::runs::checkpoints::checkpoints;
use fulgurite_lab::runs::registry;
use fulgurite_proxy::{SampledModel, ServedModel};
use fulgurite_store::Store;
use serde_json::json;
use tempfile::TempDir;

use crate::terminal::notices::TerminalNotices;
use crate::terminal::output;
use crate::terminal::progress::Progress;
use crate::terminal::table::Columns;
use fulgurite_training::evaluation::evaluated_weights::{EvaluatedWeights, OpenWeights};

use arguments::RescoreArguments;

/// Tokens that are shown of those that rose, and of those that fell.
const SHOWN: usize = 8;

/// Scores what a run has sampled.
pub async fn rescore(arguments: RescoreArguments) -> Result<()> {
    let run = registry::directory(&arguments.run)?;
    let loaded = records::config_of_run(&run)?;
    let checkpoint = arguments.checkpoint.as_deref().unwrap_or(&run);
    let others = EvaluatedWeights::of_checkpoint(&loaded, checkpoint)?;
    let (store, recorded) = registry::open(&run).await?;
    let Calls { calls, left_out } =
        Calls::of(&store, &recorded.run_id, &others.entry.name, arguments.expression.as_ref()).await?;
    let steps = steps_by_version(&store, &recorded.run_id, &others.entry.name).await?;
    store.close().await;
    if calls.is_empty() {
        bail!(
            "{} has no call of `{}` to score: {left_out} have no exact logprobs of their own distribution, or nobody is meant",
            run.display(),
            others.entry.name
        );
    }
    let mut progress = Progress::new(arguments.json);
    // Weights are open one after the other: each takes the memory of a model.
    let mut same: BTreeMap<usize, Vec<f32>> = BTreeMap::new();
    for (version, of_version) in by_version(&calls) {
        let Some(directory) = steps.get(&version).and_then(|step| checkpoint_of(&run, *step)) else { continue };
        let weights = Open::new(&EvaluatedWeights::of_checkpoint(&loaded, &directory)?, &loaded).await?;
        let scored = weights.score(&calls, &of_version, &mut progress).await?;
        same.extend(of_version.into_iter().zip(scored));
    }
    let all: Vec<usize> = (0..calls.len()).collect();
    let open = Open::new(&others, &loaded).await?;
    let scored = open.score(&calls, &all, &mut progress).await?;
    progress.finish();
    let rescored = calls.iter().zip(scored).enumerate();
    let rescored: Vec<Rescored> =
        rescored.map(|(index, (call, scored))| call.rescored(same.remove(&index), scored)).collect();
    match arguments.json {
        true => print_json(&rescored, left_out, &others),
        false => print_tables(&rescored, left_out, &others.description, &open, arguments.tokens),
    }
    Ok(())
}

/// The calls, by their places, of each version of weights.
fn by_version(calls: &[Call]) -> BTreeMap<u64, Vec<usize>> {
    let mut versions: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, call) in calls.iter().enumerate() {
        if let Some(version) = call.weights_version {
            versions.entry(version).or_default().push(index);
        }
    }
    versions
}

/// For each version that a checkpoint holds: the updates that made it.
async fn steps_by_version(store: &Store, run_id: &str, model: &str) -> Result<BTreeMap<u64, u64>> {
    let named = store.weights().named(model, Some(run_id)).await?;
    let version_of = |id: &str| named.iter().find(|named| named.weights_id.to_string() == id).map(|one| one.version);
    let steps = store.runs().checkpoints(run_id).await?.into_iter().filter_map(|checkpoint| {
        let step = checkpoint.state["step"].as_u64()?;
        // Versions were the numbers of updates before weights had identities.
        let version = checkpoint.state["weights"]["weights_id"].as_str().map_or(Some(step), version_of)?;
        Some((version, step))
    });
    Ok(steps.collect())
}

/// The checkpoint of a run after so many updates, if it is kept.
fn checkpoint_of(run: &Path, step: u64) -> Option<PathBuf> {
    checkpoints(run).into_iter().find(|checkpoint| checkpoint.step == step).map(|checkpoint| checkpoint.directory)
}

/// Weights that tell how likely they hold tokens.
struct Open {
    model: SampledModel,
    what: String,
    /// They work as long as these are kept.
    _weights: (OpenWeights, TempDir),
}

impl Open {
    async fn new(weights: &EvaluatedWeights, loaded: &LoadedConfig) -> Result<Self> {
        let directory = tempfile::tempdir().context("cannot make a directory for weights")?;
        let open = weights.open(loaded, directory.path(), &TerminalNotices).await?;
        let model = match &open.served {
            ServedModel::Sampled(model) => model.clone(),
            ServedModel::Upstream(_) => {
                bail!("`{}` is answered by an upstream, whose weights nobody has", weights.entry.name)
            }
        };
        Ok(Self { model, what: format!("calls under {}", weights.description), _weights: (open, directory) })
    }

    /// The logprobs of the sampled tokens of these calls.
    async fn score(&self, calls: &[Call], which: &[usize], progress: &mut Progress) -> Result<Vec<Vec<f32>>> {
        let mut scored = Vec::with_capacity(which.len());
        for index in which {
            scored.push(calls[*index].score(self.model.sampler.as_ref()).await?);
            progress.set(&self.what, scored.len() as u64, Some(which.len() as u64));
        }
        Ok(scored)
    }

    /// A token as people read it.
    fn word(&self, token: u32) -> String {
        format!("{:?}", self.model.renderer.tokenizer().decode(&[token]))
    }
}

fn print_json(rescored: &[Rescored], left_out: usize, others: &EvaluatedWeights) {
    rescored.iter().for_each(|call| output::line(json!(call)));
    let (risen, fallen) = most_moved(rescored, SHOWN);
    let split = Split::of(rescored.iter());
    output::line(json!({
        "checkpoint": others.description, "calls": rescored.len(), "left_out": left_out, "all": split.all,
        "engine": split.engine, "weights": split.weights, "risen": risen, "fallen": fallen,
    }));
}

fn print_tables(rescored: &[Rescored], left_out: usize, description: &str, open: &Open, with_tokens: bool) {
    let word = |token: u32| open.word(token);
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
    if left_out > 0 {
        output::line(format!(
            "{left_out} calls have no exact logprobs of the model's own distribution, and are left out"
        ));
    }
}
