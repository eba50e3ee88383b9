//! How likely other weights hold the tokens that a run has sampled.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_lab::records;
use fulgurite_lab::rescore::calls::{Call, Calls};
use fulgurite_lab::rescore::scores::Rescored;
use fulgurite_lab::runs::checkpoints::checkpoints;
use fulgurite_lab::runs::registry;
use fulgurite_proxy::{SampledModel, ServedModel};
use fulgurite_store::Store;
use fulgurite_types::RolloutExpression;
use tempfile::TempDir;

use crate::evaluation::evaluated_weights::{EvaluatedWeights, OpenWeights};
use crate::notices::{Notices, ShownProgress};

/// The calls of a run, scored by other weights.
pub struct RescoredRun {
    /// The calls.
    pub calls: Vec<Rescored>,
    /// Calls that have no exact logprobs of the model's own distribution.
    pub left_out: usize,
    /// The other weights, for people.
    pub description: String,
    weights: ScoringWeights,
}

impl RescoredRun {
    /// A token as people read it.
    pub fn word(&self, token: u32) -> String {
        self.weights.word(token)
    }
}

/// Scores what a run has sampled by the weights of a checkpoint, or else of its last one. Each call is also scored by the
/// weights that sampled it, where a checkpoint holds them.
///
/// # Errors
/// If the run or the checkpoint cannot be read, or has no call to score.
pub async fn rescore(
    run: &Path,
    checkpoint: Option<&Path>,
    expression: Option<&RolloutExpression>,
    notices: &dyn Notices,
    progress: &mut dyn ShownProgress,
) -> Result<RescoredRun> {
    let run = registry::directory(run)?;
    let loaded = records::config_of_run(&run)?;
    let others = EvaluatedWeights::of_checkpoint(&loaded, checkpoint.unwrap_or(&run))?;
    let (store, recorded) = registry::open(&run).await?;
    let Calls { calls, left_out } = Calls::of(&store, &recorded.run_id, &others.entry.name, expression).await?;
    let steps = steps_by_version(&store, &recorded.run_id, &others.entry.name).await?;
    store.close().await;
    if calls.is_empty() {
        bail!(
            "{} has no call of `{}` to score: {left_out} have no exact logprobs of their own distribution, or nobody is meant",
            run.display(),
            others.entry.name
        );
    }
    // Weights are open one after the other: each takes the memory of a model.
    let mut same: BTreeMap<usize, Vec<f32>> = BTreeMap::new();
    for (version, of_version) in by_version(&calls) {
        let Some(directory) = steps.get(&version).and_then(|step| checkpoint_of(&run, *step)) else { continue };
        let weights = EvaluatedWeights::of_checkpoint(&loaded, &directory)?;
        let weights = ScoringWeights::new(&weights, &loaded, notices).await?;
        let scored = weights.score(&calls, &of_version, progress).await?;
        same.extend(of_version.into_iter().zip(scored));
    }
    let all: Vec<usize> = (0..calls.len()).collect();
    let weights = ScoringWeights::new(&others, &loaded, notices).await?;
    let scored = weights.score(&calls, &all, progress).await?;
    let rescored = calls.iter().zip(scored).enumerate();
    let calls = rescored.map(|(index, (call, scored))| call.rescored(same.remove(&index), scored)).collect();
    Ok(RescoredRun { calls, left_out, description: others.description, weights })
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

/// Weights that score tokens.
struct ScoringWeights {
    model: SampledModel,
    what: String,
    /// They work as long as these are kept.
    _weights: (OpenWeights, TempDir),
}

impl ScoringWeights {
    async fn new(weights: &EvaluatedWeights, loaded: &LoadedConfig, notices: &dyn Notices) -> Result<Self> {
        let directory = tempfile::tempdir().context("cannot make a directory for weights")?;
        let open = weights.open(loaded, directory.path(), notices).await?;
        let model = match &open.served {
            ServedModel::Sampled(model) => model.clone(),
            ServedModel::Upstream(_) => {
                bail!("`{}` is answered by an upstream, whose weights nobody has", weights.entry.name)
            }
        };
        Ok(Self { model, what: format!("calls under {}", weights.description), _weights: (open, directory) })
    }

    /// The logprobs of the sampled tokens of these calls.
    async fn score(&self, calls: &[Call], which: &[usize], progress: &mut dyn ShownProgress) -> Result<Vec<Vec<f32>>> {
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
