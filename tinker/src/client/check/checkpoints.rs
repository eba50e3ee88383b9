//! Checkpoints: saved, loaded, and sampled from.

use fulgurite_backends::{BackendError, LossFunction};

use super::batch;
use super::expectation::{is_close, mean_difference};
use super::finding::{CheckFinding, CheckNumbers, CheckVerdict};
use super::probe_model::Workbench;
use super::sampling::sample;
use super::update::{optimizer, update};
use crate::wire::LoraConfig;

fn finding(check: &str, is_right: bool, difference: f64, right: &str, wrong: &str) -> CheckFinding {
    let numbers = CheckNumbers { logprob_difference: Some(difference), ..CheckNumbers::default() };
    let (verdict, message) = if is_right { (CheckVerdict::Ok, right) } else { (CheckVerdict::Wrong, wrong) };
    CheckFinding::new(check, verdict, format!("{message}: logprobs differ by {difference:.1e}")).with(numbers)
}

/// Whether a checkpoint that is loaded is what was saved.
pub(super) async fn check_saving(
    bench: &Workbench,
    lora: LoraConfig,
    name: &str,
) -> Result<CheckFinding, BackendError> {
    let data = batch::supervised(&[1.0, 0.5]);
    let model = bench.model(lora).await?;
    let saved = update(&model, &data, LossFunction::CrossEntropy, optimizer(0.0)).await?;
    let path = model.save(name).await?;
    let other = bench.model(lora).await?;
    other.load(path).await?;
    let loaded = other.forward(&data).await?;
    let (difference, of_base) = (mean_difference(&loaded, &saved.after), mean_difference(&loaded, &saved.before));
    let (right, wrong) = ("what was saved is loaded", "what is loaded is not what was saved");
    Ok(finding("save and load", difference < of_base / 2.0, difference, right, wrong))
}

/// Whether weights that were saved for sampling are those that were trained.
pub(super) async fn check_weights_for_sampler(
    bench: &Workbench,
    lora: LoraConfig,
    name: &str,
) -> Result<CheckFinding, BackendError> {
    let data = batch::supervised(&[1.0, 0.5]);
    let model = bench.model(lora).await?;
    update(&model, &data, LossFunction::CrossEntropy, optimizer(0.0)).await?;
    let path = model.save_for_sampler(name).await?;
    let sample = sample(bench, Some(path)).await?;
    let base = bench.model(lora).await?;
    let (difference, of_base) = (sample.difference_from(&model).await?, sample.difference_from(&base).await?);
    let (right, wrong) = ("new weights are sampled from", "the sampler has not the weights that were trained");
    let is_right = difference < of_base && is_close(difference);
    Ok(finding("weights for the sampler", is_right, difference, right, wrong))
}
