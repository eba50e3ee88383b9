//! One update on the known batch.

use std::collections::BTreeMap;

use fulgurite_backends::{AdamParameters, BackendError, LossFunction};
use fulgurite_types::Datum;

use super::probe_model::{ProbeModel, WirePass};
use crate::client::datums::{self, Pass};
use crate::wire::AdamParams;

/// The step of an update: large, so that it shows in any precision.
const LEARNING_RATE: f64 = 1e-3;

/// An optimizer that clips the gradient to a norm; 0 does not.
pub(super) fn optimizer(gradient_clip_norm: f64) -> AdamParameters {
    AdamParameters { learning_rate: LEARNING_RATE, gradient_clip_norm, ..AdamParameters::default() }
}

/// The same, as the wire has it.
pub(super) fn wire_optimizer(gradient_clip_norm: f64) -> AdamParams {
    let parameters = optimizer(gradient_clip_norm);
    AdamParams {
        learning_rate: parameters.learning_rate,
        beta1: parameters.beta1,
        beta2: parameters.beta2,
        eps: parameters.epsilon,
        weight_decay: parameters.weight_decay,
        grad_clip_norm: parameters.gradient_clip_norm,
    }
}

/// A pass over datums that are trained in every place, which DRO needs on a wire without a mask.
pub(super) fn wire_pass(data: &[Datum], loss: LossFunction) -> Result<WirePass, BackendError> {
    let inputs = match loss {
        LossFunction::Dro { .. } => LossFunction::ImportanceSampling,
        loss => loss,
    };
    let wire = |datum| datums::wire_datum(datum, Pass::ForwardBackward(inputs));
    let configuration: BTreeMap<String, f64> =
        loss.configuration().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let data = data.iter().map(wire).collect::<Result<_, _>>()?;
    Ok(WirePass { data, loss: loss.name().to_owned(), configuration })
}

/// What an update did.
#[derive(Clone, Debug)]
pub(super) struct Update {
    pub(super) reported_loss: Option<f64>,
    pub(super) before: Vec<Vec<f32>>,
    pub(super) after: Vec<Vec<f32>>,
}

/// A pass with a gradient, a step, and the logprobs after it.
pub(super) async fn update(
    model: &ProbeModel<'_>,
    data: &[Datum],
    loss: LossFunction,
    gradient_clip_norm: f64,
) -> Result<Update, BackendError> {
    let output = model.forward_backward(wire_pass(data, loss)?).await?;
    let before = model.logprobs(&output, data)?;
    model.step(wire_optimizer(gradient_clip_norm)).await?;
    let after = model.forward(data).await?;
    Ok(Update { reported_loss: datums::reported_loss(&output), before, after })
}
