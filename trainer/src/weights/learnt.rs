//! What a learner was given, as a digest: two updates of the same weights by the same data make the same weights.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use fulgurite_backends::{
    AdamParameters, BackendError, Comparisons, ForwardBackward, GuardedStep, Learner, LossFunction, OptimizerStep,
};
use fulgurite_types::{Chunk, Datum, LossInputs, WeightsVersion};
use sha2::{Digest, Sha256};

/// A learner that takes the digest of all that changes its weights, in order.
pub(crate) struct DigestingLearner {
    learner: Arc<dyn Learner>,
    digest: Mutex<Sha256>,
    /// Of the sampler, where it is not 1: other gradients follow from the same data.
    temperature: Mutex<Option<f32>>,
}

impl DigestingLearner {
    pub(crate) fn new(learner: Arc<dyn Learner>) -> Self {
        Self { learner, digest: Mutex::default(), temperature: Mutex::default() }
    }

    /// The digest of what it was given since it was last taken.
    pub(crate) fn take_digest(&self) -> [u8; 32] {
        self.with_digest(|digest| digest.finalize_reset().into())
    }

    fn with_digest<T>(&self, work: impl FnOnce(&mut Sha256) -> T) -> T {
        work(&mut self.digest.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Learner for DigestingLearner {
    async fn forward(&self, data: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        self.learner.forward(data).await
    }

    async fn entropies(&self, data: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        self.learner.entropies(data).await
    }

    async fn keep_reference(&self) -> Result<(), BackendError> {
        self.learner.keep_reference().await
    }

    async fn forward_reference(&self, data: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        self.learner.forward_reference(data).await
    }

    async fn forward_backward(&self, data: Arc<[Datum]>, loss: LossFunction) -> Result<ForwardBackward, BackendError> {
        self.with_digest(|digest| {
            add_text(digest, &format!("{loss:?}"));
            if let Some(temperature) = *self.temperature.lock().unwrap_or_else(PoisonError::into_inner) {
                add_text(digest, &format!("temperature {temperature}"));
            }
            add_data(digest, &data);
        });
        self.learner.forward_backward(data, loss).await
    }

    async fn forward_backward_with_entropy(
        &self,
        data: Arc<[Datum]>,
        loss: LossFunction,
        entropy_weight: f32,
    ) -> Result<ForwardBackward, BackendError> {
        self.with_digest(|digest| {
            add_text(digest, &format!("{loss:?} entropy {entropy_weight}"));
            if let Some(temperature) = *self.temperature.lock().unwrap_or_else(PoisonError::into_inner) {
                add_text(digest, &format!("temperature {temperature}"));
            }
            add_data(digest, &data);
        });
        self.learner.forward_backward_with_entropy(data, loss, entropy_weight).await
    }

    async fn forward_backward_comparisons(
        &self,
        data: Arc<[Datum]>,
        comparisons: Arc<Comparisons>,
    ) -> Result<ForwardBackward, BackendError> {
        self.with_digest(|digest| {
            add_text(digest, &format!("{comparisons:?}"));
            add_data(digest, &data);
        });
        self.learner.forward_backward_comparisons(data, comparisons).await
    }

    async fn set_sampling_temperature(&self, temperature: f32) -> Result<(), BackendError> {
        self.learner.set_sampling_temperature(temperature).await?;
        let other = (temperature != 1.0).then_some(temperature);
        *self.temperature.lock().unwrap_or_else(PoisonError::into_inner) = other;
        Ok(())
    }

    async fn optimizer_step(&self, parameters: AdamParameters) -> Result<OptimizerStep, BackendError> {
        self.with_digest(|digest| add_text(digest, &format!("{parameters:?}")));
        self.learner.optimizer_step(parameters).await
    }

    async fn optimizer_step_within(&self, parameters: AdamParameters, most: f64) -> Result<GuardedStep, BackendError> {
        self.with_digest(|digest| add_text(digest, &format!("{parameters:?} {most:?}")));
        self.learner.optimizer_step_within(parameters, most).await
    }

    async fn save_checkpoint(&self, directory: &Path) -> Result<(), BackendError> {
        self.learner.save_checkpoint(directory).await
    }

    async fn load_checkpoint(&self, directory: &Path) -> Result<(), BackendError> {
        // What has accumulated is dropped with it.
        self.take_digest();
        self.learner.load_checkpoint(directory).await
    }

    async fn save_weights(&self, directory: &Path) -> Result<(), BackendError> {
        self.learner.save_weights(directory).await
    }

    async fn publish_weights(&self, version: WeightsVersion) -> Result<(), BackendError> {
        self.learner.publish_weights(version).await
    }
}

fn add_length(digest: &mut Sha256, length: usize) {
    digest.update((length as u64).to_le_bytes());
}

fn add_text(digest: &mut Sha256, text: &str) {
    add_length(digest, text.len());
    digest.update(text);
}

fn add_tokens(digest: &mut Sha256, tokens: &[u32]) {
    add_length(digest, tokens.len());
    tokens.iter().for_each(|token| digest.update(token.to_le_bytes()));
}

fn add_numbers(digest: &mut Sha256, numbers: &[f32]) {
    add_length(digest, numbers.len());
    numbers.iter().for_each(|number| digest.update(number.to_bits().to_le_bytes()));
}

fn add_data(digest: &mut Sha256, data: &[Datum]) {
    add_length(digest, data.len());
    for Datum { model_input, target_tokens, loss_inputs } in data {
        add_length(digest, model_input.len());
        for chunk in model_input {
            match chunk {
                Chunk::Tokens(tokens) => add_tokens(digest, tokens),
                Chunk::Image { digest: image, expected_tokens } => {
                    add_text(digest, image);
                    add_length(digest, *expected_tokens);
                }
            }
        }
        add_tokens(digest, target_tokens);
        match loss_inputs {
            LossInputs::Supervised { weights } => {
                add_text(digest, "supervised");
                add_numbers(digest, weights);
            }
            LossInputs::SoftTargets { width, tokens, weights } => {
                add_text(digest, "soft_targets");
                add_length(digest, *width);
                add_tokens(digest, tokens);
                add_numbers(digest, weights);
            }
            LossInputs::Policy { logprobs, advantages, mask } => {
                add_text(digest, "policy");
                [logprobs, advantages, mask].into_iter().for_each(|numbers| add_numbers(digest, numbers));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest_of(data: &[Datum]) -> [u8; 32] {
        let mut digest = Sha256::new();
        add_data(&mut digest, data);
        digest.finalize().into()
    }

    #[test]
    fn whatever_is_learnt_from_changes_the_digest() {
        let numbers = |value: f32| vec![0.0, value];
        let datum = Datum {
            model_input: vec![Chunk::Tokens(vec![1, 2])],
            target_tokens: vec![2, 3],
            loss_inputs: LossInputs::Policy { logprobs: numbers(-0.5), advantages: numbers(1.0), mask: numbers(1.0) },
        };
        let policy = |logprob: f32, advantage: f32, mask: f32| LossInputs::Policy {
            logprobs: numbers(logprob),
            advantages: numbers(advantage),
            mask: numbers(mask),
        };
        let changed = [
            Datum { model_input: vec![Chunk::Tokens(vec![1, 3])], ..datum.clone() },
            Datum { model_input: vec![Chunk::Tokens(vec![1]), Chunk::Tokens(vec![2])], ..datum.clone() },
            Datum { target_tokens: vec![2, 4], ..datum.clone() },
            Datum { loss_inputs: policy(-0.25, 1.0, 1.0), ..datum.clone() },
            Datum { loss_inputs: policy(-0.5, -1.0, 1.0), ..datum.clone() },
            Datum { loss_inputs: policy(-0.5, 1.0, 0.0), ..datum.clone() },
            Datum { loss_inputs: LossInputs::Supervised { weights: numbers(1.0) }, ..datum.clone() },
        ];
        let mut digests: Vec<[u8; 32]> = changed.iter().map(|datum| digest_of(std::slice::from_ref(datum))).collect();
        digests.push(digest_of(std::slice::from_ref(&datum)));
        digests.push(digest_of(&[datum.clone(), changed[0].clone()]));
        digests.push(digest_of(&[changed[0].clone(), datum.clone()]));
        assert_eq!(digest_of(std::slice::from_ref(&datum)), digests[7]);
        let count = digests.len();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), count);
    }
}
