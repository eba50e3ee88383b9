//! How far an update has moved what it learnt from, and whether its weights are put behind the model.

use std::sync::Arc;

use fulgurite_types::{Datum, LossInputs};
use serde_json::{Map, Value};

use super::{BehindModel, GateRule};
use crate::objectives::Lesson;
use crate::run::training_run::{Progress, TrainingRun, set};
use crate::{Reporter, TrainError, TrainEvent};

impl<Data> TrainingRun<Data> {
    /// Puts the weights of an update behind the model, if nothing more is to be known of them than the update, or keeps them
    /// back.
    pub(in crate::run) async fn publish_update(
        &self,
        progress: &mut Progress,
        step: u64,
        lesson: &Lesson,
        metrics: &mut Map<String, Value>,
        reporter: &mut dyn Reporter,
    ) -> Result<(), TrainError> {
        let max_kl = match self.publish_gate.map(|gate| gate.rule) {
            None => return self.publish(step).await,
            Some(GateRule::NotWorse) => return Ok(()),
            Some(GateRule::WithinBounds { max_kl }) => max_kl,
        };
        let kl = self.movement(lesson).await?;
        // No number is within no bounds.
        let is_within = kl.is_none_or(|kl| kl <= max_kl);
        if is_within {
            self.publish(step).await?;
            progress.behind = Some(BehindModel { step, costs: Vec::new() });
        }
        let behind = progress.behind.as_ref().map_or(step, |behind| behind.step);
        let version = self.version_after(behind);
        set(metrics, "publish/version", version);
        set(metrics, "publish/kept_back", u64::from(!is_within));
        if let Some(kl) = kl {
            set(metrics, "publish/kl", kl);
            if !is_within {
                reporter.report(TrainEvent::WeightsMovedTooFar { step, version, kl, max_kl });
            }
        }
        Ok(())
    }

    /// Whether the weights of `step` updates are kept back for how far they have moved: no run goes on from those.
    pub(in crate::run) fn is_out_of_bounds(&self, progress: &Progress) -> bool {
        let is_bounded = matches!(self.publish_gate.map(|gate| gate.rule), Some(GateRule::WithinBounds { .. }));
        is_bounded && progress.behind.as_ref().is_some_and(|behind| behind.step != progress.step)
    }

    /// The mean k3 estimate over the tokens that the update trained; `None` if it trained none that was sampled.
    async fn movement(&self, lesson: &Lesson) -> Result<Option<f64>, TrainError> {
        let parts = lesson.substeps.iter().flatten().filter(|part| !part.is_auxiliary);
        let (mut sum, mut count) = (0.0, 0u64);
        for part in parts.filter(|part| part.data.iter().any(is_sampled)) {
            let logprobs = self.learner.forward(Arc::clone(&part.data)).await?;
            for (datum, new) in part.data.iter().zip(&logprobs) {
                let (of_datum, trained) = k3(datum, new);
                (sum, count) = (sum + of_datum, count + trained);
            }
        }
        Ok((count > 0).then(|| sum / count as f64))
    }
}

fn is_sampled(datum: &Datum) -> bool {
    matches!(datum.loss_inputs, LossInputs::Policy { .. })
}

/// Sum and count of `r - 1 - ln r` over trained tokens, where `r` is how much likelier a token has become than when it was
/// sampled: an estimate of the KL divergence of what sampled from what is there now that is never below 0 (Schulman, k3).
fn k3(datum: &Datum, new: &[f32]) -> (f64, u64) {
    let LossInputs::Policy { logprobs, mask, .. } = &datum.loss_inputs else { return (0.0, 0) };
    let trained = logprobs.iter().zip(new).zip(mask).filter(|(_, mask)| **mask != 0.0);
    trained.fold((0.0, 0), |(sum, count), ((old, new), _)| {
        let log_ratio = f64::from(*new) - f64::from(*old);
        (sum + log_ratio.exp() - 1.0 - log_ratio, count + 1)
    })
}

#[cfg(test)]
mod tests {
    use fulgurite_types::Chunk;

    use super::*;

    #[test]
    fn what_stays_has_not_moved_and_what_is_not_trained_does_not_count() {
        let datum = Datum {
            model_input: vec![Chunk::Tokens(vec![1; 3])],
            target_tokens: vec![1; 3],
            loss_inputs: LossInputs::Policy {
                logprobs: vec![-1.0, -2.0, -9.0],
                advantages: vec![1.0; 3],
                mask: vec![1.0, 1.0, 0.0],
            },
        };
        assert_eq!(k3(&datum, &[-1.0, -2.0, -1.0]), (0.0, 2));
        let (sum, count) = k3(&datum, &[-0.5, -2.5, -1.0]);
        let expected = 0.5f64.exp() - 1.5 + (-0.5f64).exp() - 0.5;
        assert!((sum - expected).abs() < 1e-12 && count == 2, "{sum}");
        assert!(k3(&datum, &[f32::NEG_INFINITY, -2.0, -1.0]).0.is_infinite());
        assert!(k3(&datum, &[f32::NAN, -2.0, -1.0]).0.is_nan());
    }
}
