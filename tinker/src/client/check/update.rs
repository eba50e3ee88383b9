//! One update on the known batch.

use fulgurite_backends::{AdamParameters, BackendError, LossFunction};
use fulgurite_types::Datum;

use super::probe_model::ProbeModel;
use crate::client::datums::{self, Pass};
use crate::client::wire_pass::WirePass;

/// The step of an update: large, so that it shows in any precision.
pub(super) const LEARNING_RATE: f64 = 1e-3;

/// An optimizer that clips the gradient to a norm; 0 does not.
pub(super) fn optimizer(gradient_clip_norm: f64) -> AdamParameters {
    AdamParameters { learning_rate: LEARNING_RATE, gradient_clip_norm, ..AdamParameters::default() }
}

/// A pass over datums that are trained in every place, which DRO needs on a wire without a mask.
pub(super) fn wire_pass(data: &[Datum], loss: LossFunction) -> Result<WirePass, BackendError> {
    let inputs = match loss {
        LossFunction::Dro { .. } => LossFunction::ImportanceSampling,
        loss => loss,
    };
    let wire = |datum| datums::wire_datum(datum, Pass::ForwardBackward(inputs));
    let data = data.iter().map(wire).collect::<Result<_, _>>()?;
    Ok(WirePass::of(data, Pass::ForwardBackward(loss)))
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
    optimizer: AdamParameters,
) -> Result<Update, BackendError> {
    let output = model.pass(wire_pass(data, loss)?).await?;
    let before = model.logprobs(&output, data)?;
    model.step(optimizer).await?;
    let after = model.forward(data).await?;
    Ok(Update { reported_loss: datums::reported_loss(&output), before, after })
}
