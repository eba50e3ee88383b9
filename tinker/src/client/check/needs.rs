//! What a run needs of a service, asked before it begins.

use std::sync::Arc;

use fulgurite_backends::{BackendError, LossFunction};
use fulgurite_types::Datum;

use super::batch;
use super::finding::CheckVerdict;
use super::probe_model::Workbench;
use crate::client::datums::{self, Pass};
use crate::client::learner::TinkerLearnerOptions;
use crate::client::service::TinkerService;
use crate::client::wire_pass::WirePass;
use crate::wire::LoraConfig;

/// Ranks that a service is asked for where it has refused another, the likeliest first.
const OTHER_RANKS: [u32; 5] = [32, 16, 8, 64, 1];
/// Logprob of every token of the known batch, as if it had been sampled.
const SAMPLED_LOGPROB: f32 = -2.0;

/// What a run needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Need {
    /// A model of this base with this adapter.
    Model,
    /// A policy's loss, or cross entropy.
    Loss(LossFunction),
    /// Cross entropy with weights below 0, which losses of comparisons become.
    NegativeWeights,
    /// Several targets for one place.
    SoftTargets,
    /// Logprobs without a gradient, under the weights as they are.
    Forward,
    /// A second model beside the first, which is never trained.
    Reference,
}

/// A need that a service does not meet.
#[derive(Debug)]
pub struct UnmetNeed {
    /// Which.
    pub need: Need,
    /// Why.
    pub error: BackendError,
    /// Of [`Need::Model`], a rank that the service takes for this base; none if it takes none of those that were tried.
    pub possible_rank: Option<u32>,
}

/// The first need that the service refuses, if it refuses one. The models that are made for it are removed again.
///
/// # Errors
/// If the service fails or refuses the key, which says nothing of what it takes.
pub async fn find_unmet_need(
    service: Arc<TinkerService>,
    options: &TinkerLearnerOptions,
    needs: &[Need],
) -> Result<Option<UnmetNeed>, BackendError> {
    let bench = Workbench::new(service, options.base_model.clone());
    let unmet = first_unmet(&bench, options.lora_config, needs).await;
    let remains = bench.clear_all().await;
    if !remains.is_empty() {
        tracing::warn!(service = %bench.service.name(), %remains, "what a start has asked with stays at the service");
    }
    unmet
}

async fn first_unmet(bench: &Workbench, lora: LoraConfig, needs: &[Need]) -> Result<Option<UnmetNeed>, BackendError> {
    let model = match bench.model(lora).await {
        Ok(model) => model,
        Err(error) => {
            let error = refused(error)?;
            return Ok(Some(UnmetNeed { need: Need::Model, error, possible_rank: possible_rank(bench, lora).await }));
        }
    };
    for &need in needs {
        let met = match need {
            Need::Model => Ok(()),
            Need::Forward => model.forward(&batch::supervised(&[1.0])).await.map(drop),
            Need::Reference => bench.model(lora).await.map(drop),
            Need::Loss(_) | Need::NegativeWeights | Need::SoftTargets => match pass(need) {
                Ok(pass) => model.pass(pass).await.map(drop),
                Err(error) => Err(error),
            },
        };
        if let Err(error) = met {
            return Ok(Some(UnmetNeed { need, error: refused(error)?, possible_rank: None }));
        }
    }
    Ok(None)
}

/// An error that is a refusal of what was requested; another one, such as that of a key, is the caller's.
fn refused(error: BackendError) -> Result<BackendError, BackendError> {
    let is_of_key = matches!(error, BackendError::KeyRefused { .. });
    if CheckVerdict::of(&error) == CheckVerdict::Refused && !is_of_key { Ok(error) } else { Err(error) }
}

async fn possible_rank(bench: &Workbench, lora: LoraConfig) -> Option<u32> {
    for rank in OTHER_RANKS.into_iter().filter(|&rank| rank != lora.rank) {
        if bench.model(LoraConfig { rank, ..lora }).await.is_ok() {
            return Some(rank);
        }
    }
    None
}

/// As a run sends it, with what a run cannot send refused.
fn pass(need: Need) -> Result<WirePass, BackendError> {
    let (data, loss): (Vec<Datum>, LossFunction) = match need {
        Need::Loss(loss) if loss != LossFunction::CrossEntropy => {
            let logprobs: Vec<Vec<f32>> =
                batch::sequences().iter().map(|tokens| vec![SAMPLED_LOGPROB; tokens.len() - 1]).collect();
            (batch::policy(&logprobs), loss)
        }
        Need::NegativeWeights => (batch::supervised(&[1.0, -0.5]), LossFunction::CrossEntropy),
        Need::SoftTargets => (batch::soft_targets(), LossFunction::CrossEntropy),
        Need::Loss(_) | Need::Model | Need::Forward | Need::Reference => {
            (batch::supervised(&[1.0]), LossFunction::CrossEntropy)
        }
    };
    let pass = Pass::ForwardBackward(loss);
    let data = data.iter().map(|datum| datums::wire_datum(datum, pass)).collect::<Result<_, _>>()?;
    Ok(WirePass::of(data, pass))
}
