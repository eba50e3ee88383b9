//! The losses: whether each is taken, what it is, and where an update on it goes.

use std::sync::Arc;

use fulgurite_backends::{BackendError, LossFunction, RatioBounds};
use fulgurite_types::Datum;

use super::batch;
use super::expectation::{changes, cosine, greatest, is_close, is_close_loss, mean_difference, slopes};
use super::finding::{CheckFinding, CheckNumbers, CheckVerdict};
use super::fresh_learner::FreshLearner;
use super::probe_model::Workbench;
use super::update::{Update, optimizer, update, wire_pass};
use crate::client::datums::loss_of;
use crate::wire::LoraConfig;

/// A loss over the known batch.
#[derive(Clone, Debug)]
pub(super) struct LossProbe {
    pub(super) name: &'static str,
    pub(super) loss: LossFunction,
    pub(super) data: Vec<Datum>,
}

/// Every loss whose formula is known. Of policies' losses the model's own logprobs have to be known.
pub(super) fn loss_probes(logprobs: &[Vec<f32>]) -> Vec<LossProbe> {
    let supervised = |name, data| LossProbe { name, loss: LossFunction::CrossEntropy, data };
    let mut probes = vec![
        supervised("loss cross_entropy", batch::supervised(&[1.0, 0.5])),
        supervised("negative weights", batch::supervised(&[1.0, -0.5, -1.0])),
        supervised("soft targets", batch::soft_targets()),
    ];
    let policy = batch::policy(logprobs);
    for (name, loss) in [
        ("loss importance_sampling", LossFunction::ImportanceSampling),
        ("loss ppo", LossFunction::Ppo(RatioBounds::PPO)),
        ("loss cispo", LossFunction::Cispo(RatioBounds { low: 0.8, high: 1.2 })),
        ("loss gspo", LossFunction::Gspo(RatioBounds::GSPO)),
        ("loss dro", LossFunction::Dro { beta: 0.05 }),
    ] {
        probes.push(LossProbe { name, loss, data: policy.clone() });
    }
    probes
}

/// What the engine computes of the same update.
pub(super) struct ReferenceUpdate {
    loss: f64,
    before: Vec<Vec<f32>>,
    changes: Vec<f64>,
}

/// The same update by the embedded engine.
pub(super) async fn reference_update(
    probe: &LossProbe,
    lora: &LoraConfig,
    reference: &FreshLearner,
) -> Result<ReferenceUpdate, BackendError> {
    let (learner, data): (_, Arc<[Datum]>) = (reference(lora)?, probe.data.clone().into());
    let pass = learner.forward_backward(data.clone(), probe.loss).await?;
    learner.optimizer_step(optimizer(0.0)).await?;
    let after = learner.forward(data).await?;
    Ok(ReferenceUpdate { loss: pass.loss_sum, changes: changes(&pass.logprobs, &after), before: pass.logprobs })
}

/// Makes one update, and compares it.
pub(super) async fn check_loss(
    bench: &Workbench,
    probe: &LossProbe,
    lora: LoraConfig,
    reference: Option<&ReferenceUpdate>,
) -> Result<CheckFinding, BackendError> {
    let model = bench.model(lora).await?;
    let update = update(&model, &probe.data, probe.loss, 0.0).await?;
    Ok(compare(probe, &update, reference))
}

fn compare(probe: &LossProbe, update: &Update, reference: Option<&ReferenceUpdate>) -> CheckFinding {
    let Update { reported_loss, before, after } = update;
    let slopes = slopes(&probe.data, before, probe.loss);
    let expected = loss_of(&probe.data, before, probe.loss);
    let moved = changes(before, after);
    let gain: f64 = slopes.iter().zip(&moved).map(|(slope, change)| slope * change).sum();
    let numbers = CheckNumbers {
        loss: *reported_loss,
        expected_loss: Some(expected),
        reference_loss: reference.map(|reference| reference.loss),
        logprob_difference: reference.map(|reference| mean_difference(before, &reference.before)),
        gain: Some(gain),
        update_cosine: reference.and_then(|reference| cosine(&moved, &reference.changes)),
    };
    let stated = match reported_loss {
        Some(loss) => format!("loss {loss:.4}"),
        None => "no loss reported".to_owned(),
    };
    let wrong = |message: String| CheckFinding::new(probe.name, CheckVerdict::Wrong, message).with(numbers);
    if let Some(loss) = reported_loss.filter(|loss| !is_close_loss(*loss, expected, &slopes)) {
        return wrong(format!("its loss is {loss:.4}, and by the formula and its own logprobs {expected:.4}"));
    }
    if let Some(difference) = numbers.logprob_difference.filter(|difference| !is_close(*difference)) {
        return wrong(format!("its logprobs differ from the engine's by {difference:.3} on average: other weights?"));
    }
    if greatest(&moved) == 0.0 {
        return wrong(format!("{stated}; one update changes no logprob"));
    }
    if gain.is_nan() || gain <= 0.0 {
        return wrong(format!(
            "{stated}; one update moves the logprobs the wrong way: the loss grows by {:.2e}",
            -gain
        ));
    }
    if let Some(cosine) = numbers.update_cosine.filter(|cosine| *cosine <= 0.0) {
        return wrong(format!("{stated}; one update goes another way than the engine's: their cosine is {cosine:.3}"));
    }
    let of_engine = match (numbers.logprob_difference, numbers.update_cosine) {
        (Some(difference), Some(cosine)) => {
            format!("; to the engine: logprobs {difference:.1e}, cosine of the update {cosine:.3}")
        }
        _ => String::new(),
    };
    CheckFinding::new(probe.name, CheckVerdict::Ok, format!("{stated}; an update lowers it by {gain:.2e}{of_engine}"))
        .with(numbers)
}

/// A loss that nobody has: a service that takes it computes something else in silence.
pub(super) async fn check_unknown_loss(bench: &Workbench, lora: LoraConfig) -> Result<CheckFinding, BackendError> {
    const CHECK: &str = "unknown loss";
    let mut pass = wire_pass(&batch::supervised(&[1.0]), LossFunction::CrossEntropy)?;
    pass.loss = "fulgurite_no_such_loss".to_owned();
    let model = bench.model(lora).await?;
    match model.pass(pass).await {
        Ok(_) => Ok(CheckFinding::new(CHECK, CheckVerdict::Wrong, "it takes a loss that there is not")),
        Err(error) if CheckVerdict::of(&error) == CheckVerdict::Refused => {
            Ok(CheckFinding::new(CHECK, CheckVerdict::Ok, "refused, as it must be"))
        }
        Err(error) => Err(error),
    }
}
