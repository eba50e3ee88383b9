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

/// The probe of cross entropy with weights of either sign.
pub(super) const NEGATIVE_WEIGHTS: &str = "negative weights";
/// Two updates by one gradient have at least this cosine, also where adapters begin with other numbers.
const LEAST_SLOPE_COSINE: f64 = 0.8;

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
        supervised(NEGATIVE_WEIGHTS, batch::supervised(&[1.0, -0.5, -1.0])),
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

/// Whether the service's own cross entropy is there to compare a policy's loss with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnCrossEntropy {
    /// It is right, with weights of either sign.
    Known,
    /// It is refused, or wrong.
    Unknown,
}

/// Makes one update, and compares it.
pub(super) async fn check_loss(
    bench: &Workbench,
    probe: &LossProbe,
    lora: LoraConfig,
    reference: Option<&ReferenceUpdate>,
    own: OwnCrossEntropy,
) -> Result<CheckFinding, BackendError> {
    let model = bench.model(lora).await?;
    let update = update(&model, &probe.data, probe.loss, optimizer(0.0)).await?;
    let of_slopes = match own {
        OwnCrossEntropy::Known if has_token_slopes(probe.loss) => {
            Some(update_by_slopes(bench, probe, lora, &update.before).await?)
        }
        OwnCrossEntropy::Known | OwnCrossEntropy::Unknown => None,
    };
    Ok(compare(probe, &update, reference, of_slopes.as_deref()))
}

/// Whether each token has a slope of its own: GSPO's ratio is a whole sequence's.
fn has_token_slopes(loss: LossFunction) -> bool {
    !matches!(loss, LossFunction::CrossEntropy | LossFunction::Gspo(_))
}

/// How one update of cross entropy moves the logprobs whose weights are a loss's slopes: its gradient is the loss's.
async fn update_by_slopes(
    bench: &Workbench,
    probe: &LossProbe,
    lora: LoraConfig,
    logprobs: &[Vec<f32>],
) -> Result<Vec<f64>, BackendError> {
    let data = batch::weighted(&slopes(&probe.data, logprobs, probe.loss));
    let model = bench.model(lora).await?;
    let update = update(&model, &data, LossFunction::CrossEntropy, optimizer(0.0)).await?;
    Ok(changes(&update.before, &update.after))
}

fn compare(
    probe: &LossProbe,
    update: &Update,
    reference: Option<&ReferenceUpdate>,
    of_slopes: Option<&[f64]>,
) -> CheckFinding {
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
        slope_cosine: of_slopes.and_then(|changes| cosine(&moved, changes)),
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
    if let Some(cosine) = numbers.slope_cosine.filter(|cosine| *cosine < LEAST_SLOPE_COSINE) {
        return wrong(format!(
            "{stated}; one update goes another way than cross entropy with this loss's slopes as weights: their cosine is {cosine:.3}"
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

#[cfg(test)]
mod tests {
    use super::*;

    /// An update that moves the logprobs by these changes, and reports the right loss.
    fn moving(probe: &LossProbe, before: &[Vec<f32>], changes: &[f64]) -> Update {
        let mut changes = changes.iter();
        let mut moved = |logprob: &f32| logprob + *changes.next().unwrap() as f32 / 1000.0;
        let after = before.iter().map(|row| row.iter().map(&mut moved).collect()).collect();
        let loss = loss_of(&probe.data, before, probe.loss);
        Update { reported_loss: Some(loss), before: before.to_vec(), after }
    }

    /// The batch's advantages are above 0 on average, so that such an update lowers the loss too.
    #[test]
    fn ppo_that_follows_the_gradient_of_cross_entropy_is_found() {
        let logprobs = vec![vec![-2.0; 12]; 4];
        let probe = loss_probes(&logprobs).into_iter().find(|probe| probe.name == "loss ppo").unwrap();
        let slopes = slopes(&probe.data, &logprobs, probe.loss);
        let right = compare(&probe, &moving(&probe, &logprobs, &slopes), None, Some(&slopes));
        assert_eq!(right.verdict, CheckVerdict::Ok, "{right:?}");
        let wrong = moving(&probe, &logprobs, &[1.0; 48]);
        assert_eq!(compare(&probe, &wrong, None, None).verdict, CheckVerdict::Ok);
        let found = compare(&probe, &wrong, None, Some(&slopes));
        assert_eq!(found.verdict, CheckVerdict::Wrong, "{found:?}");
        assert!(found.message.contains("goes another way than cross entropy"), "{found:?}");
    }
}
