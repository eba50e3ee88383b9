use crate::adapters::adapter::{AdapterRun, adapt};
use crate::adapters::policy::Policy;
use crate::kernels::{LogSoftmax, add_entropy_gradient, dot, softmax_gradient};
use crate::model::model_head::ModelHead;
use crate::model::pass_sizes::chunk_rows;
use crate::model::projection::Projection;
use crate::passes::backward::ProductScratch;
use crate::passes::loss::TokenLoss;

/// One prediction: the row that predicts, what it should predict, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Prediction {
    /// Row among the packed rows.
    pub(crate) row: usize,
    /// Which of the packed sequences predicts: several may share the row.
    pub(crate) sequence: usize,
    /// Place among the targets of its datum.
    pub(crate) slot: usize,
    pub(crate) target: u32,
    pub(crate) loss: TokenLoss,
    /// What the logits are divided by; of all predictions of a sequence the same.
    pub(crate) temperature: f32,
    /// What the entropy is worth, in the gradient alone; of all predictions of a sequence the same.
    pub(crate) entropy_weight: f32,
    /// Filled in by the head.
    pub(crate) logprob: f32,
    /// Of the distribution that the row predicts, in nats, at the first of a sequence's predictions from it; filled in by a
    /// pass with a gradient.
    pub(crate) entropy: f32,
}

impl Prediction {
    /// One at temperature 1 of which nothing is known yet.
    pub(crate) fn new(row: usize, slot: usize, target: u32, loss: TokenLoss) -> Self {
        Self { row, sequence: 0, slot, target, loss, temperature: 1.0, entropy_weight: 0.0, logprob: 0.0, entropy: 0.0 }
    }

    /// The same at another temperature.
    pub(crate) fn at_temperature(self, temperature: f32) -> Self {
        Self { temperature, ..self }
    }

    /// The same, by another sequence than the first.
    pub(crate) fn of_sequence(self, sequence: usize) -> Self {
        Self { sequence, ..self }
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

/// The logprob of every prediction, from what the decoder left for the head; of a model whose head is a score, that in its
/// place.
pub(crate) fn score(policy: &Policy, normed: &[f32], predictions: &mut [Prediction], scratch: &mut HeadScratch) {
    let config = &policy.weights.model.config;
    if config.head == ModelHead::Score {
        return read_scores(policy, normed, predictions);
    }
    for mut chunk in row_chunks(predictions, chunk_rows(config)) {
        compute_logits(policy, normed, rows_of(&chunk), scratch);
        for (of_row, logits) in chunk.iter_mut().zip(scratch.logits.chunks_exact(config.vocab_size)) {
            let softmax = LogSoftmax::at_temperature(logits, temperature_of(of_row));
            for prediction in of_row.iter_mut() {
                prediction.logprob = softmax.logprob(logits[prediction.target as usize]);
            }
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
        compute_logits(policy, normed, chunk.iter().map(|prediction| prediction.row), scratch);
        for (prediction, logits) in chunk.iter().zip(scratch.logits.chunks_exact(config.vocab_size)) {
            see(prediction, logits);
        }
    }
}

/// What [`score_backward`] finds in the scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logits {
    /// Nothing of use.
    Unknown,
    /// Of the last chunk, what [`score`] computed for these very predictions.
    OfLastChunk,
}

/// The logprob of every prediction, and the gradients of the summed loss: written to `normed_gradient` (rows without a prediction become 0),
/// added to `gradient`.
pub(crate) fn score_backward(
    policy: &Policy,
    normed: &[f32],
    predictions: &mut [Prediction],
    scratch: &mut HeadScratch,
    logits: Logits,
    normed_gradient: &mut [f32],
    gradient: &mut [f32],
) {
    let config = &policy.weights.model.config;
    let (hidden, vocabulary) = (config.hidden_size, config.vocab_size);
    normed_gradient.fill(0.0);
    if config.head == ModelHead::Score {
        read_scores(policy, normed, predictions);
        return differentiate_scores(policy, normed, predictions, normed_gradient, gradient);
    }
    let are_known = logits == Logits::OfLastChunk && predictions.len() <= chunk_rows(config);
    for mut chunk in row_chunks(predictions, chunk_rows(config)) {
        if !are_known {
            compute_logits(policy, normed, rows_of(&chunk), scratch);
        }
        let HeadScratch { products, rows, logits, row_gradients } = scratch;
        for (of_row, logits) in chunk.iter_mut().zip(logits.chunks_exact_mut(vocabulary)) {
            differentiate_row(of_row, logits);
        }
        row_gradients.resize(chunk.len() * hidden, 0.0);
        products.backward(policy, Projection::Head, rows, logits, row_gradients, gradient);
        // Several sequences that share a row may each predict from it.
        for (row, from) in rows_of(&chunk).zip(row_gradients.chunks_exact(hidden)) {
            let sums = &mut normed_gradient[row * hidden..][..hidden];
            sums.iter_mut().zip(from).for_each(|(sum, value)| *sum += value);
        }
    }
}

/// The score of the row of every prediction, as its logprob.
fn read_scores(policy: &Policy, normed: &[f32], predictions: &mut [Prediction]) {
    let weights = &policy.weights;
    let (hidden, score) = (weights.model.config.hidden_size, &weights.vectors[weights.model.layout.score.clone()]);
    for prediction in predictions {
        prediction.logprob = dot(score, &normed[prediction.row * hidden..][..hidden]);
        prediction.entropy = 0.0;
    }
}

/// The gradients of the summed loss by the rows and by the score's weights, which are trained with all others.
fn differentiate_scores(
    policy: &Policy,
    normed: &[f32],
    predictions: &[Prediction],
    normed_gradient: &mut [f32],
    gradient: &mut [f32],
) {
    let weights = &policy.weights;
    let (hidden, place) = (weights.model.config.hidden_size, weights.model.layout.score.clone());
    let (score, own) = (&weights.vectors[place.clone()], &mut gradient[place]);
    for prediction in predictions {
        let (slope, row) = (prediction.loss.slope(prediction.logprob), prediction.row * hidden);
        let sums = normed_gradient[row..][..hidden].iter_mut().zip(score);
        sums.for_each(|(sum, weight)| *sum += slope * weight);
        own.iter_mut().zip(&normed[row..][..hidden]).for_each(|(sum, value)| *sum += slope * value);
    }
}

/// The logprobs of a row's predictions; turns its logits into the gradient of their losses.
fn differentiate_row(of_row: &mut [Prediction], logits: &mut [f32]) {
    let temperature = temperature_of(of_row);
    let softmax = LogSoftmax::at_temperature(logits, temperature);
    for prediction in of_row.iter_mut() {
        prediction.logprob = softmax.logprob(logits[prediction.target as usize]);
    }
    let slope = |prediction: &Prediction| prediction.loss.slope(prediction.logprob) / temperature;
    let total = of_row.iter().map(slope).reduce(|sum, slope| sum + slope).unwrap_or_default();
    let slopes = of_row.iter().map(|prediction| (prediction.target as usize, slope(prediction)));
    let entropy_weight = of_row.first().map_or(0.0, |first| first.entropy_weight);
    let known = if entropy_weight == 0.0 { Vec::new() } else { logits.to_vec() };
    let entropy = softmax_gradient(logits, &softmax, total, slopes);
    if entropy_weight != 0.0 {
        add_entropy_gradient(logits, &known, &softmax, entropy, entropy_weight);
    }
    if let Some(first) = of_row.first_mut() {
        first.entropy = entropy;
    }
}

/// The temperature of a row's predictions, which are of one sequence.
fn temperature_of(of_row: &[Prediction]) -> f32 {
    of_row.first().map_or(1.0, |first| first.temperature)
}

/// Cuts predictions, row by row, into chunks of at most so many rows.
fn row_chunks(predictions: &mut [Prediction], rows: usize) -> impl Iterator<Item = Vec<&mut [Prediction]>> {
    let mut of_rows = predictions.chunk_by_mut(|one, other| (one.sequence, one.row) == (other.sequence, other.row));
    std::iter::from_fn(move || {
        let chunk: Vec<_> = of_rows.by_ref().take(rows).collect();
        (!chunk.is_empty()).then_some(chunk)
    })
}

/// The rows of a chunk.
fn rows_of(chunk: &[&mut [Prediction]]) -> impl ExactSizeIterator<Item = usize> {
    chunk.iter().map(|of_row| of_row[0].row)
}

fn compute_logits(
    policy: &Policy,
    normed: &[f32],
    rows: impl ExactSizeIterator<Item = usize>,
    scratch: &mut HeadScratch,
) {
    let weights = &policy.weights;
    let (hidden, vocabulary) = (weights.model.config.hidden_size, weights.model.config.vocab_size);
    let count = rows.len();
    scratch.rows.clear();
    for row in rows {
        scratch.rows.extend_from_slice(&normed[row * hidden..][..hidden]);
    }
    scratch.logits.resize(count * vocabulary, 0.0);
    let HeadScratch { products, rows, logits, .. } = scratch;
    weights.multiply(Projection::Head, rows, logits);
    let run = AdapterRun { adapter: policy.adapter.as_deref(), rows: count };
    adapt(&[run], Projection::Head, rows, logits, &mut products.adapter);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use super::*;
    use crate::passes::loss::Sampled;

    fn floats(value: &Value) -> Vec<f32> {
        value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
    }

    #[test]
    fn the_gradient_at_a_temperature_with_an_entropy_is_the_values_derivative() {
        let logits = [0.5_f32, -1.25, 2.0, 0.75, -0.5];
        let learn = |logits: &[f32]| {
            let sampled = Sampled { logprob: -1.0, advantage: 1.5 };
            let prediction = Prediction::new(0, 0, 3, TokenLoss::ImportanceSampling { sampled }).at_temperature(0.7);
            let prediction = Prediction { entropy_weight: 0.4, ..prediction };
            let (mut of_row, mut gradient) = ([prediction], logits.to_vec());
            differentiate_row(&mut of_row, &mut gradient);
            (of_row[0], gradient)
        };
        let (made, gradient) = learn(&logits);
        let exact: Vec<f64> = logits.iter().map(|logit| (f64::from(*logit) / f64::from(0.7_f32)).exp()).collect();
        let probabilities: Vec<f64> = exact.iter().map(|one| one / exact.iter().sum::<f64>()).collect();
        assert!((f64::from(made.logprob) - probabilities[3].ln()).abs() < 1e-6);
        let entropy: f64 = probabilities.iter().map(|one| -one * one.ln()).sum();
        assert!((f64::from(made.entropy) - entropy).abs() < 1e-6);
        for (place, slope) in gradient.into_iter().enumerate() {
            let moved = |step: f32| {
                let mut logits = logits;
                logits[place] += step;
                let made = learn(&logits).0;
                made.loss.value(made.logprob) - 0.4 * f64::from(made.entropy)
            };
            let numeric = (moved(1.0 / 128.0) - moved(-1.0 / 128.0)) * 64.0;
            assert!((f64::from(slope) - numeric).abs() < 1e-3, "{place}: {slope} {numeric}");
        }
    }

    #[test]
    fn pytorchs_cross_entropy_with_several_targets_and_its_gradient_by_the_logits() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/torch/distillation.json");
        let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let case = &file["soft_targets"];
        let close = |actual: f64, expected: f64| {
            assert!(
                (actual - expected).abs() <= 1e-5 * expected.abs().max(1e-2),
                "{actual}, but PyTorch has {expected}"
            );
        };
        let mut value = 0.0;
        for row in 0..case["logits"].as_array().unwrap().len() {
            let targets = floats(&case["tokens"][row]).into_iter().zip(floats(&case["targets"][row]));
            let prediction = |(slot, (target, weight)): (usize, (f32, f32))| {
                Prediction::new(row, slot, target as u32, TokenLoss::CrossEntropy { weight })
            };
            let mut of_row: Vec<Prediction> = targets.enumerate().map(prediction).collect();
            let mut logits = floats(&case["logits"][row]);
            differentiate_row(&mut of_row, &mut logits);
            value += of_row.iter().map(|made| made.loss.value(made.logprob)).sum::<f64>();
            let expected = case["gradient"][row].as_array().unwrap();
            logits.iter().zip(expected).for_each(|(made, theirs)| close((*made).into(), theirs.as_f64().unwrap()));
        }
        close(value, case["value"].as_f64().unwrap());
    }
}
