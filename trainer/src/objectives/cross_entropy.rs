//! Cross entropy on conversations, and what of it validation rows tell.

use std::sync::Arc;

use async_trait::async_trait;
use fulgurite_backends::{Learner, LossFunction};
use fulgurite_types::{Datum, LossInputs};
use serde_json::Map;

use super::objective::{Lesson, Measurement, Objective, Pass};
use crate::sources::DataPosition;
use crate::{Reporter, TrainError};

/// The mean over a batch's trained tokens.
pub(crate) struct CrossEntropy;

#[async_trait]
impl Objective<Vec<Datum>> for CrossEntropy {
    async fn lesson(
        &mut self,
        _: u64,
        rows: Vec<Datum>,
        _: &mut DataPosition,
        _: &dyn Learner,
        _: &mut dyn Reporter,
    ) -> Result<Lesson, TrainError> {
        let mut metrics = Map::new();
        metrics.insert("num_sequences".to_owned(), rows.len().into());
        metrics.insert("num_tokens".to_owned(), rows.iter().map(Datum::positions).sum::<usize>().into());
        metrics.insert("num_loss_tokens".to_owned(), f64::from(total_weight(&rows)).into());
        let substeps = Lesson::substeps_of(per_token(rows), LossFunction::CrossEntropy);
        Ok(Lesson { substeps, metrics, ..Lesson::default() })
    }

    fn measure(&self, passes: &[Pass]) -> Result<Measurement, TrainError> {
        let trained = |datum: &Datum| match &datum.loss_inputs {
            LossInputs::Supervised { weights } => weights.iter().filter(|weight| **weight != 0.0).count(),
            LossInputs::Policy { .. } | LossInputs::SoftTargets { .. } => 0,
        };
        let rows = || passes.iter().flat_map(|pass| pass.data.iter());
        let nll = passes.iter().map(|pass| pass.loss_sum).sum::<f64>() / passes.len() as f64;
        Ok(Measurement { metrics: vec![("train_mean_nll", nll)], trained_tokens: rows().map(trained).sum() })
    }
}

fn total_weight(rows: &[Datum]) -> f32 {
    let weights = |datum: &Datum| match &datum.loss_inputs {
        LossInputs::Supervised { weights } => weights.iter().sum::<f32>(),
        LossInputs::Policy { .. } | LossInputs::SoftTargets { .. } => 0.0,
    };
    rows.iter().map(weights).sum()
}

/// Divides every weight by their sum, so that the summed loss is the mean over the batch's trained tokens; `None` if no
/// token is trained.
fn per_token(mut batch: Vec<Datum>) -> Option<Arc<[Datum]>> {
    let total = total_weight(&batch);
    if total == 0.0 {
        return None;
    }
    for datum in &mut batch {
        if let LossInputs::Supervised { weights } = &mut datum.loss_inputs {
            weights.iter_mut().for_each(|weight| *weight /= total);
        }
    }
    Some(batch.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_a_batch_sum_to_one() {
        let datum = |weights: Vec<f32>| Datum {
            model_input: vec![fulgurite_types::Chunk::Tokens(vec![0; weights.len()])],
            target_tokens: vec![0; weights.len()],
            loss_inputs: LossInputs::Supervised { weights },
        };
        let batch = per_token(vec![datum(vec![0.0, 1.0, 1.0]), datum(vec![1.0, 1.0])]).unwrap();
        let LossInputs::Supervised { weights } = &batch[0].loss_inputs else { panic!("supervised") };
        assert_eq!(weights, &[0.0, 0.25, 0.25]);
        assert!(per_token(vec![datum(vec![0.0, 0.0])]).is_none(), "nothing is divided by 0");
    }
}
