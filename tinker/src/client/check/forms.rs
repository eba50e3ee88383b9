//! What may be trained beside the base: ranks and modules; and whether a gradient is clipped.

use fulgurite_backends::{BackendError, LossFunction};

use super::batch;
use super::expectation::{changes, greatest};
use super::finding::{CheckFinding, CheckVerdict};
use super::probe_model::Workbench;
use super::update::update;
use crate::wire::LoraConfig;

/// Ranks that are tried.
pub(super) const RANKS: [u32; 6] = [1, 4, 16, 32, 64, 128];
/// So small that a clipped gradient is lost in Adam's epsilon.
const TINY_NORM: f64 = 1e-12;
/// Changes that are this share of each other are one.
const SAME: f64 = 1e-4;
/// A clipped update is smaller than this share of one that is not.
const CLIPPED: f64 = 0.05;

/// Whether an adapter of a rank can be had.
pub(super) async fn check_rank(bench: &Workbench, lora: LoraConfig) -> Result<CheckFinding, BackendError> {
    bench.model(lora).await?;
    Ok(CheckFinding::new(format!("rank {}", lora.rank), CheckVerdict::Ok, "a model is made"))
}

/// One update of cross entropy: how it moves the logprobs.
pub(super) async fn moved(bench: &Workbench, lora: LoraConfig, clip: f64) -> Result<Vec<f64>, BackendError> {
    let model = bench.model(lora).await?;
    let update = update(&model, &batch::supervised(&[1.0, 0.5]), LossFunction::CrossEntropy, clip).await?;
    Ok(changes(&update.before, &update.after))
}

/// A switch that leaves modules untrained.
#[derive(Clone, Copy, Debug)]
pub(super) struct ModuleSwitch {
    pub(super) name: &'static str,
    pub(super) turn_off: fn(LoraConfig) -> LoraConfig,
}

pub(super) const SWITCHES: [ModuleSwitch; 3] = [
    ModuleSwitch { name: "train_attn = false", turn_off: |lora| LoraConfig { train_attn: false, ..lora } },
    ModuleSwitch { name: "train_mlp = false", turn_off: |lora| LoraConfig { train_mlp: false, ..lora } },
    ModuleSwitch { name: "train_unembed = false", turn_off: |lora| LoraConfig { train_unembed: false, ..lora } },
];

/// Whether modules that shall not be trained are not. An update of the same seed that is the same with and without them says
/// that they were not left out.
pub(super) async fn check_modules(
    bench: &Workbench,
    lora: LoraConfig,
    switch: ModuleSwitch,
    with_all: &[f64],
) -> Result<CheckFinding, BackendError> {
    let without = moved(bench, (switch.turn_off)(lora), 0.0).await?;
    let difference: Vec<f64> = without.iter().zip(with_all).map(|(one, other)| one - other).collect();
    let finding = if greatest(&difference) <= SAME * greatest(with_all) {
        CheckFinding::new(switch.name, CheckVerdict::Ignored, "an update is the same as with all modules")
    } else {
        CheckFinding::new(switch.name, CheckVerdict::Ok, "an update is another than with all modules")
    };
    Ok(finding)
}

/// Whether gradients are clipped.
pub(super) async fn check_clipping(
    bench: &Workbench,
    lora: LoraConfig,
    unclipped: &[f64],
) -> Result<CheckFinding, BackendError> {
    const CHECK: &str = "gradient clipping";
    let clipped = moved(bench, lora, TINY_NORM).await?;
    let (clipped, unclipped) = (greatest(&clipped), greatest(unclipped));
    let finding = if clipped <= CLIPPED * unclipped {
        CheckFinding::new(CHECK, CheckVerdict::Ok, format!("a gradient clipped to {TINY_NORM:e} moves nothing"))
    } else {
        let message = format!(
            "a gradient clipped to {TINY_NORM:e} moves logprobs by {clipped:.1e}, one that is not by {unclipped:.1e}"
        );
        CheckFinding::new(CHECK, CheckVerdict::Ignored, message)
    };
    Ok(finding)
}
