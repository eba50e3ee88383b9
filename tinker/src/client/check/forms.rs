//! What may be trained beside the base: ranks and modules; and whether the optimizer does as it is told.

use fulgurite_backends::{AdamParameters, BackendError, LossFunction};

use super::batch;
use super::expectation::{changes, greatest, share_along};
use super::finding::{CheckFinding, CheckVerdict};
use super::probe_model::Workbench;
use super::update::{LEARNING_RATE, optimizer, update};
use crate::wire::LoraConfig;

/// Ranks that are tried.
pub(super) const RANKS: [u32; 6] = [1, 4, 16, 32, 64, 128];
/// So small that a clipped gradient is lost in Adam's epsilon.
const TINY_NORM: f64 = 1e-12;
/// A smaller learning rate, as a share of the usual one.
const SLOWER: f64 = 0.25;
/// How far an update at that rate may go, as a share of one at the usual rate: models are not linear, and numbers are rounded.
const SLOWER_SHARES: std::ops::RangeInclusive<f64> = 0.1..=0.5;
/// Changes that are this share of each other are one.
const SAME: f64 = 1e-4;
/// A clipped update is smaller than this share of one that is not.
const CLIPPED: f64 = 0.05;

/// The update of a rank that another rank's is compared with.
pub(super) struct RankUpdate<'u> {
    pub(super) rank: u32,
    pub(super) changes: &'u [f64],
}

/// Whether an adapter of a rank can be had, and is of that rank: as the service reports it, and by an update, which is another
/// one than that of `known`.
pub(super) async fn check_rank(
    bench: &Workbench,
    lora: LoraConfig,
    known: Option<RankUpdate<'_>>,
) -> Result<CheckFinding, BackendError> {
    let finding = |verdict, message: String| Ok(CheckFinding::new(format!("rank {}", lora.rank), verdict, message));
    let model = bench.model(lora).await?;
    if let Some(rank) = model.reported_rank().await?.filter(|rank| *rank != lora.rank) {
        return finding(CheckVerdict::Ignored, format!("a model of rank {rank} is made"));
    }
    let Some(RankUpdate { rank, changes }) = known.filter(|known| known.rank != lora.rank) else {
        return finding(CheckVerdict::Ok, "a model is made".to_owned());
    };
    if is_same(&moved(bench, lora, optimizer(0.0)).await?, changes) {
        return finding(CheckVerdict::Ignored, format!("an update is the same as at rank {rank}"));
    }
    finding(CheckVerdict::Ok, format!("a model is made, whose update is another than at rank {rank}"))
}

/// One update of cross entropy: how it moves the logprobs.
pub(super) async fn moved(
    bench: &Workbench,
    lora: LoraConfig,
    optimizer: AdamParameters,
) -> Result<Vec<f64>, BackendError> {
    let model = bench.model(lora).await?;
    let update = update(&model, &batch::supervised(&[1.0, 0.5]), LossFunction::CrossEntropy, optimizer).await?;
    Ok(changes(&update.before, &update.after))
}

fn is_same(changes: &[f64], others: &[f64]) -> bool {
    let difference: Vec<f64> = changes.iter().zip(others).map(|(one, other)| one - other).collect();
    greatest(&difference) <= SAME * greatest(others)
}

/// Whether an update at a smaller learning rate is smaller by as much. `at_full_rate` is one at [`LEARNING_RATE`].
pub(super) async fn check_learning_rate(
    bench: &Workbench,
    lora: LoraConfig,
    at_full_rate: &[f64],
) -> Result<CheckFinding, BackendError> {
    let slower = AdamParameters { learning_rate: LEARNING_RATE * SLOWER, ..optimizer(0.0) };
    let changes = moved(bench, lora, slower).await?;
    Ok(learning_rate_finding(share_along(&changes, at_full_rate)))
}

fn learning_rate_finding(share: Option<f64>) -> CheckFinding {
    const CHECK: &str = "learning rate";
    let Some(share) = share else { return CheckFinding::new(CHECK, CheckVerdict::Wrong, "an update moves nothing") };
    let seen = format!("an update at {SLOWER} of the learning rate goes {share:.2} as far");
    if SLOWER_SHARES.contains(&share) {
        CheckFinding::new(CHECK, CheckVerdict::Ok, seen)
    } else if share > SLOWER_SHARES.end() + SLOWER {
        CheckFinding::new(CHECK, CheckVerdict::Wrong, format!("{seen}: the rate is ignored"))
    } else {
        CheckFinding::new(CHECK, CheckVerdict::Wrong, format!("{seen}: another rate is used"))
    }
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
    let without = moved(bench, (switch.turn_off)(lora), optimizer(0.0)).await?;
    let finding = if is_same(&without, with_all) {
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
    let clipped = moved(bench, lora, optimizer(TINY_NORM)).await?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_learning_rate_that_is_ignored_or_another_is_wrong() {
        let verdict = |share| {
            let CheckFinding { verdict, message, .. } = learning_rate_finding(share);
            (verdict, message.rsplit(": ").next().unwrap_or_default().to_owned())
        };
        assert_eq!(verdict(Some(0.25)).0, CheckVerdict::Ok);
        assert_eq!(verdict(Some(1.0)), (CheckVerdict::Wrong, "the rate is ignored".into()));
        assert_eq!(verdict(Some(0.02)), (CheckVerdict::Wrong, "another rate is used".into()));
        assert_eq!(verdict(None).0, CheckVerdict::Wrong);
    }
}
