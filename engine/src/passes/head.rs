use crate::adapters::adapter::{AdapterRun, adapt};
use crate::kernels::{LogSoftmax, softmax_gradient};
use crate::model::pass_sizes::chunk_rows;
use crate::model::policy::Policy;
use crate::model::projection::Projection;
use crate::passes::backward::ProductScratch;
use crate::passes::loss::TokenLoss;

/// One prediction: the row that predicts, what it should predict, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Prediction {
    /// Row among the packed rows.
    pub(crate) row: usize,
    pub(crate) target: u32,
    pub(crate) loss: TokenLoss,
    /// Filled in by the head.
    pub(crate) logprob: f32,
    /// Of the distribution that the row predicts, in nats; filled in by a pass with a gradient.
    pub(crate) entropy: f32,
}

impl Prediction {
    /// One of which nothing is known yet.
    pub(crate) fn new(row: usize, target: u32, loss: TokenLoss) -> Self {
        Self { row, target, loss, logprob: 0.0, entropy: 0.0 }
    }
}

/// Memory of the head, kept between passes.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeadScratch {
    products: ProductScratch,
    rows: Vec<f32>,
    logits: Vec<f32>,
    row_gradients: Vec<f32>,
}

/// The logprob of every prediction, from what the decoder left for the head.
pub(crate) fn score(policy: &Policy, normed: &[f32], predictions: &mut [Prediction], scratch: &mut HeadScratch) {
    let config = &policy.weights.model.config;
    for chunk in predictions.chunks_mut(chunk_rows(config)) {
        compute_logits(policy, normed, chunk, scratch);
        for (prediction, logits) in chunk.iter_mut().zip(scratch.logits.chunks_exact(config.vocab_size)) {
            prediction.logprob = LogSoftmax::new(logits).logprob(logits[prediction.target as usize]);
        }
    }
}

/// Shows the logits of every prediction's row, in order.
pub(crate) fn for_each_logits(
    policy: &Policy,
    normed: &[f32],
    predictions: &[Prediction],
    scratch: &mut HeadScratch,
    mut see: impl FnMut(&Prediction, &[f32]),
) {
    let config = &policy.weights.model.config;
    for chunk in predictions.chunks(chunk_rows(config)) {
        compute_logits(policy, normed, chunk, scratch);
        for (prediction, logits) in chunk.iter().zip(scratch.logits.chunks_exact(config.vocab_size)) {
            see(prediction, logits);
        }
    }
}

/// The logprob of every prediction, and the gradients of the summed loss: written to `normed_gradient` (rows without a prediction become 0),
/// added to `gradient`.
pub(crate) fn score_backward(
    policy: &Policy,
    normed: &[f32],
    predictions: &mut [Prediction],
    scratch: &mut HeadScratch,
    normed_gradient: &mut [f32],
    gradient: &mut [f32],
) {
    let config = &policy.weights.model.config;
    let (hidden, vocabulary) = (config.hidden_size, config.vocab_size);
    normed_gradient.fill(0.0);
    for chunk in predictions.chunks_mut(chunk_rows(config)) {
        compute_logits(policy, normed, chunk, scratch);
        let HeadScratch { products, rows, logits, row_gradients } = scratch;
        for (prediction, logits) in chunk.iter_mut().zip(logits.chunks_exact_mut(vocabulary)) {
            let (softmax, target) = (LogSoftmax::new(logits), prediction.target as usize);
            prediction.logprob = softmax.logprob(logits[target]);
            let slope = prediction.loss.slope(prediction.logprob);
            prediction.entropy = softmax_gradient(logits, &softmax, target, slope);
        }
        row_gradients.resize(chunk.len() * hidden, 0.0);
        products.backward(policy, Projection::Head, rows, logits, row_gradients, gradient);
        for (prediction, from) in chunk.iter().zip(row_gradients.chunks_exact(hidden)) {
            normed_gradient[prediction.row * hidden..][..hidden].copy_from_slice(from);
        }
    }
}

fn compute_logits(policy: &Policy, normed: &[f32], chunk: &[Prediction], scratch: &mut HeadScratch) {
    let weights = &policy.weights;
    let (hidden, vocabulary) = (weights.model.config.hidden_size, weights.model.config.vocab_size);
    scratch.rows.clear();
    for prediction in chunk {
        scratch.rows.extend_from_slice(&normed[prediction.row * hidden..][..hidden]);
    }
    scratch.logits.resize(chunk.len() * vocabulary, 0.0);
    let HeadScratch { products, rows, logits, .. } = scratch;
    weights.multiply(Projection::Head, rows, logits);
    let run = AdapterRun { adapter: policy.adapter.as_deref(), rows: chunk.len() };
    adapt(&[run], Projection::Head, rows, logits, &mut products.adapter);
}
