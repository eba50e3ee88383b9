use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use fulgurite_types::{Datum, WeightsVersion};
use serde::{Deserialize, Serialize};

use crate::{BackendError, Comparisons, LossFunction};

/// AdamW with decoupled weight decay; defaults are those of the Tinker API's `AdamParams`, but for `epsilon`
/// (1e-8, tinker-cookbook's) and clipping.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdamParameters {
    /// Step size.
    pub learning_rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// Greatest L2 norm of the whole gradient; 0 does not clip.
    pub gradient_clip_norm: f64,
}

impl Default for AdamParameters {
    fn default() -> Self {
        Self { learning_rate: 1e-4, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weight_decay: 0.0, gradient_clip_norm: 1.0 }
    }
}

/// What one pass over some datums gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForwardBackward {
    /// The loss, summed over tokens and datums.
    pub loss_sum: f64,
    /// For each datum, the logprob of each target token under the weights before the update. No list at all from hosts that do
    /// not report them.
    pub logprobs: Vec<Vec<f32>>,
    /// For each datum and each target, the entropy of the distribution that predicts it, in nats, exact over the vocabulary; 0
    /// of targets that take no part in the loss, and of all but the first of those that one position has. `None` from hosts
    /// that do not report it.
    pub entropies: Option<Vec<Vec<f32>>>,
}

/// What an optimizer step did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OptimizerStep {
    /// L2 norm of the accumulated gradient, before clipping.
    pub gradient_norm: f64,
    /// Anything else that the host reports, by name.
    pub metrics: BTreeMap<String, f64>,
}

/// What became of an optimizer step whose gradient is held against a bound.
#[derive(Clone, Debug, PartialEq)]
pub enum GuardedStep {
    /// It was made.
    Made(OptimizerStep),
    /// Weights and optimizer state stayed as they were, and the gradient was dropped.
    Skipped {
        /// Its L2 norm, which may be no number.
        gradient_norm: f64,
    },
}

/// Of a host whose steps cannot be left out.
const NO_GUARD: &str = "this model host makes every optimizer step: leave out [trainer] spike_factor";

/// Of a host that has no weights but those that it trains.
const NO_REFERENCE: &str = "this model host cannot tell logprobs of the weights that training began with";

/// Refuses a temperature at which nothing is sampled.
///
/// # Errors
/// [`BackendError::InvalidRequest`] names it.
pub fn check_temperature(temperature: f32) -> Result<(), BackendError> {
    if temperature.is_finite() && temperature > 0.0 {
        return Ok(());
    }
    Err(BackendError::InvalidRequest { message: format!("the temperature is {temperature}, but must be above 0") })
}

/// A model host that learns. Calls are made one after another; gradients add up until the optimizer steps.
#[async_trait]
pub trait Learner: Send + Sync + 'static {
    /// Logprob of each target token of each datum; no gradient.
    async fn forward(&self, data: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError>;

    /// The exact entropy, in nats, of the distribution that predicts each target of each datum; no gradient. 0 of targets whose
    /// weight or mask is 0.
    ///
    /// # Errors
    /// [`BackendError::Configuration`] from a host that cannot.
    async fn entropies(&self, _data: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        let message =
            "[trainer] top_entropy: this model host tells no entropies before a gradient; leave it out".to_owned();
        Err(BackendError::Configuration { message })
    }

    /// Keeps the weights as they are now, for [`forward_reference`](Self::forward_reference); those that were kept before are
    /// let go.
    ///
    /// # Errors
    /// [`BackendError::Configuration`] from a host that cannot.
    async fn keep_reference(&self) -> Result<(), BackendError> {
        Err(BackendError::Configuration { message: NO_REFERENCE.to_owned() })
    }

    /// As [`forward`](Self::forward), under the weights that were kept.
    async fn forward_reference(&self, _: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        Err(BackendError::Configuration { message: NO_REFERENCE.to_owned() })
    }

    /// Adds the gradient of `loss` over `data` to what has accumulated.
    async fn forward_backward(&self, data: Arc<[Datum]>, loss: LossFunction) -> Result<ForwardBackward, BackendError>;

    /// As [`forward_backward`](Self::forward_backward), less `entropy_weight` times the exact entropy, in nats, of the distribution
    /// that predicts each target which takes part in the loss. The sum that is told is that of the loss alone.
    ///
    /// # Errors
    /// [`BackendError::Configuration`] from a host that cannot.
    async fn forward_backward_with_entropy(
        &self,
        _data: Arc<[Datum]>,
        _loss: LossFunction,
        _entropy_weight: f32,
    ) -> Result<ForwardBackward, BackendError> {
        let message = "[trainer] entropy_bonus: this model host has no gradient of an entropy; leave it out".to_owned();
        Err(BackendError::Configuration { message })
    }

    /// As [`forward_backward`](Self::forward_backward), for a loss of whole answers. A host that has no such loss is asked
    /// for the logprobs first, and then for the gradient of the cross entropy that has the same one.
    async fn forward_backward_comparisons(
        &self,
        data: Arc<[Datum]>,
        comparisons: Arc<Comparisons>,
    ) -> Result<ForwardBackward, BackendError> {
        comparisons.check(&data)?;
        let logprobs = self.forward(Arc::clone(&data)).await?;
        let (loss_sum, linear) = comparisons.as_cross_entropy(&data, &logprobs);
        self.forward_backward(linear.into(), LossFunction::CrossEntropy).await?;
        Ok(ForwardBackward { loss_sum, logprobs, entropies: None })
    }

    /// Takes tokens of datums that carry a sampler's logprobs for sampled at this temperature from now on: their logprobs,
    /// losses and entropies are those of logits that it divides. All other datums stay at temperature 1.
    ///
    /// # Errors
    /// [`BackendError::Configuration`] from a host that trains at temperature 1 alone.
    async fn set_sampling_temperature(&self, temperature: f32) -> Result<(), BackendError> {
        if temperature == 1.0 {
            return Ok(());
        }
        let message = format!(
            "[trainer] sampling_parameters.temperature is {temperature}, but this model host trains at temperature 1 alone: \
             leave it out"
        );
        Err(BackendError::Configuration { message })
    }

    /// Applies the accumulated gradient and clears it. Fails if the gradient is not finite: weights and optimizer state stay as
    /// they are, and the gradient is dropped.
    async fn optimizer_step(&self, parameters: AdamParameters) -> Result<OptimizerStep, BackendError>;

    /// As [`optimizer_step`](Self::optimizer_step), unless the norm of the accumulated gradient is above `most`, or no finite
    /// number.
    ///
    /// # Errors
    /// [`BackendError::Configuration`] from a host that cannot leave out a step.
    async fn optimizer_step_within(&self, _: AdamParameters, _: f64) -> Result<GuardedStep, BackendError> {
        Err(BackendError::Configuration { message: NO_GUARD.to_owned() })
    }

    /// Writes weights and optimizer state into `directory` (created; must not exist yet), durable on return.
    /// The directory is a model directory in its own right, so that it can be served.
    async fn save_checkpoint(&self, directory: &Path) -> Result<(), BackendError>;

    /// Restores exactly what `save_checkpoint` wrote, and drops accumulated gradients.
    async fn load_checkpoint(&self, directory: &Path) -> Result<(), BackendError>;

    /// Writes the weights alone into `directory` (created; must not exist yet), a model directory that can be served.
    async fn save_weights(&self, directory: &Path) -> Result<(), BackendError>;

    /// Puts the current weights behind the sampler as `version`. When it returns, new requests are sampled from them.
    async fn publish_weights(&self, version: WeightsVersion) -> Result<(), BackendError>;
}
