use std::ops::Range;

use crate::adapters::policy::Policy;
use crate::kernels::LogSoftmax;
use crate::model::memory::activation_bytes;
use crate::model::pass_sizes::{ROWS, SavedActivations};
use crate::passes::backward::{BackwardScratch, backward};
use crate::passes::forward::{Activations, forward};
use crate::passes::head::{HeadScratch, Logits, Prediction, for_each_logits, score, score_backward};
use crate::passes::loss::TokenLoss;
use crate::passes::packed_rows::PackedRows;
use crate::training::compared::Compared;
use crate::training::example::{Example, ReportedLogprobs, Scored};

/// One part of the learner's work: its own gradient, summed over its datums in order, and its own memory.
#[derive(Debug)]
pub(crate) struct Shard {
    /// Laid out like what is trained; empty while nothing has accumulated.
    pub(crate) gradient: Vec<f32>,
    /// Bytes that its activations may take; where all of a pass's would take more, some are computed twice.
    activation_bytes: u64,
    rows: PackedRows,
    predictions: Vec<Prediction>,
    /// Predictions of each example.
    of_examples: Vec<Range<usize>>,
    activations: Activations,
    head: HeadScratch,
    backward: BackwardScratch,
    normed_gradient: Vec<f32>,
}

/// Deals the examples out to so many shards, those that begin alike to the same one, and to each about as many of the
/// positions that have to be computed.
pub(crate) fn deal(mut examples: Vec<Example<'_>>, shards: usize) -> Vec<Vec<Example<'_>>> {
    examples.sort_by(|one, other| one.tokens.cmp(&other.tokens));
    let before = std::iter::once(None).chain(examples.iter().map(Some));
    let costs: Vec<usize> = examples.iter().zip(before).map(|(own, before)| own.positions_behind(before)).collect();
    let all: usize = costs.iter().sum();
    let mut hands = vec![Vec::new(); shards];
    let mut dealt = 0;
    for (example, cost) in examples.into_iter().zip(costs) {
        // Where its middle is among all positions.
        let shard = (dealt + cost / 2) * shards / all.max(1);
        hands[shard.min(shards - 1)].push(example);
        dealt += cost;
    }
    hands
}

impl Shard {
    /// An empty one whose activations may take so many bytes.
    pub(crate) fn new(activation_bytes: u64) -> Self {
        Self {
            gradient: Vec::new(),
            activation_bytes,
            rows: PackedRows::default(),
            predictions: Vec::new(),
            of_examples: Vec::new(),
            activations: Activations::default(),
            head: HeadScratch::default(),
            backward: BackwardScratch::default(),
            normed_gradient: Vec::new(),
        }
    }

    /// The logprob of every target that is to be reported.
    pub(crate) fn score(
        &mut self,
        policy: &Policy,
        examples: &[Example<'_>],
        reported: ReportedLogprobs,
    ) -> Vec<Scored> {
        let mut scored = Vec::with_capacity(examples.len());
        for batch in batches(examples) {
            self.pack(batch, |loss| reported == ReportedLogprobs::All || *loss != TokenLoss::Nothing);
            forward(policy, &self.rows, SavedActivations::Nothing, &mut self.activations);
            score(policy, &self.activations.normed_output, &mut self.predictions, &mut self.head);
            self.collect(batch, &mut scored);
        }
        scored
    }

    /// The entropy of the distribution that predicts each target which takes part in the loss.
    pub(crate) fn entropies(&mut self, policy: &Policy, examples: &[Example<'_>]) -> Vec<Scored> {
        let mut scored = Vec::with_capacity(examples.len());
        for batch in batches(examples) {
            self.pack(batch, |loss| *loss != TokenLoss::Nothing);
            forward(policy, &self.rows, SavedActivations::Nothing, &mut self.activations);
            let mut entropies = Vec::with_capacity(self.predictions.len());
            let normed = &self.activations.normed_output;
            for_each_logits(policy, normed, &self.predictions, &mut self.head, |prediction, logits| {
                entropies.push(LogSoftmax::at_temperature(logits, prediction.temperature).entropy(logits));
            });
            self.predictions.iter_mut().zip(entropies).for_each(|(prediction, entropy)| prediction.entropy = entropy);
            self.collect(batch, &mut scored);
        }
        scored
    }

    /// The logprob of every target that is to be reported; adds the gradient of the summed loss. Which are reported
    /// changes nothing else.
    pub(crate) fn score_backward(
        &mut self,
        policy: &Policy,
        examples: &[Example<'_>],
        reported: ReportedLogprobs,
    ) -> Vec<Scored> {
        let mut scored = Vec::with_capacity(examples.len());
        self.gradient.resize(policy.trained_count(), 0.0);
        for batch in batches(examples) {
            self.pack(batch, |loss| *loss != TokenLoss::Nothing);
            forward(policy, &self.rows, self.saved_activations(policy), &mut self.activations);
            let normed = &self.activations.normed_output;
            self.normed_gradient.resize(normed.len(), 0.0);
            let (head, normed_gradient) = (&mut self.head, &mut self.normed_gradient);
            let unknown = Logits::Unknown;
            score_backward(policy, normed, &mut self.predictions, head, unknown, normed_gradient, &mut self.gradient);
            let (rows, scratch) = (&self.rows, &mut self.backward);
            backward(policy, rows, &mut self.activations, normed_gradient, scratch, &mut self.gradient);
            self.collect(batch, &mut scored);
            if reported == ReportedLogprobs::All {
                self.score_others(policy, batch, &mut scored);
            }
        }
        scored
    }

    /// As [`score_backward`](Self::score_backward), for losses of comparisons: what a token counts is known only once the
    /// logprobs of all its comparison's tokens are. The examples of a comparison follow each other.
    pub(crate) fn score_backward_comparisons(
        &mut self,
        policy: &Policy,
        examples: &[Example<'_>],
        compared: &Compared<'_>,
    ) -> Vec<Scored> {
        let mut scored = Vec::with_capacity(examples.len());
        self.gradient.resize(policy.trained_count(), 0.0);
        for batch in compared.batches(examples) {
            self.pack(batch, |loss| *loss != TokenLoss::Nothing);
            forward(policy, &self.rows, self.saved_activations(policy), &mut self.activations);
            let normed = &self.activations.normed_output;
            score(policy, normed, &mut self.predictions, &mut self.head);
            let of_batch = scored.len();
            self.collect(batch, &mut scored);
            let costs = compared.costs(batch, &scored[of_batch..]);
            for (example, own) in batch.iter().zip(&self.of_examples) {
                let factor = costs.iter().find(|cost| cost.datum == example.index).map_or(0.0, |cost| cost.factor);
                for prediction in &mut self.predictions[own.clone()] {
                    if let TokenLoss::CrossEntropy { weight } = &mut prediction.loss {
                        *weight = (f64::from(*weight) * factor) as f32;
                    }
                }
            }
            self.normed_gradient.resize(normed.len(), 0.0);
            let (head, normed_gradient) = (&mut self.head, &mut self.normed_gradient);
            let known = Logits::OfLastChunk;
            score_backward(policy, normed, &mut self.predictions, head, known, normed_gradient, &mut self.gradient);
            let (rows, scratch) = (&self.rows, &mut self.backward);
            backward(policy, rows, &mut self.activations, normed_gradient, scratch, &mut self.gradient);
            scored.truncate(of_batch);
            self.collect(batch, &mut scored);
            for own in &mut scored[of_batch..] {
                own.loss = costs.iter().filter(|cost| cost.datum == own.index).map(|cost| cost.value).sum();
            }
        }
        scored
    }

    /// What the forward pass over the packed rows is to keep. It changes no bit of the gradient.
    fn saved_activations(&self, policy: &Policy) -> SavedActivations {
        let need = activation_bytes(&policy.weights.model.config, self.rows.len(), SavedActivations::Everything);
        if need > self.activation_bytes { SavedActivations::Inputs } else { SavedActivations::Everything }
    }

    /// Fills in the logprobs of a batch's targets that have no loss, from what its forward pass has left.
    fn score_others(&mut self, policy: &Policy, batch: &[Example<'_>], scored: &mut [Scored]) {
        self.pack(batch, |loss| *loss == TokenLoss::Nothing);
        score(policy, &self.activations.normed_output, &mut self.predictions, &mut self.head);
        let mut others = Vec::with_capacity(batch.len());
        self.collect(batch, &mut others);
        let of_batch = scored.len() - batch.len();
        for ((example, own), other) in batch.iter().zip(&mut scored[of_batch..]).zip(others) {
            let targets = example.losses.iter().zip(&mut own.logprobs).zip(other.logprobs);
            for ((_, logprob), other) in targets.filter(|((loss, _), _)| **loss == TokenLoss::Nothing) {
                *logprob = other;
            }
        }
    }

    fn pack(&mut self, batch: &[Example<'_>], predicts: impl Fn(&TokenLoss) -> bool) {
        self.rows.clear();
        self.predictions.clear();
        self.of_examples.clear();
        let paths = self.rows.push_shared(&batch.iter().map(|example| &example.tokens[..]).collect::<Vec<_>>());
        for (sequence, (example, path)) in batch.iter().zip(paths).enumerate() {
            let first = self.predictions.len();
            let (width, targets) = (example.datum.targets_per_position(), example.datum.targets());
            for (offset, loss) in example.losses.iter().enumerate().filter(|(_, loss)| predicts(loss)) {
                let prediction = Prediction::new(path[offset / width], offset, targets[offset], *loss);
                let prediction = prediction.of_sequence(sequence).at_temperature(example.temperature);
                self.predictions.push(Prediction { entropy_weight: example.entropy_weight, ..prediction });
            }
            self.of_examples.push(first..self.predictions.len());
        }
    }

    fn collect(&self, batch: &[Example<'_>], scored: &mut Vec<Scored>) {
        for (example, predictions) in batch.iter().zip(&self.of_examples) {
            let nothing = vec![0.0; example.losses.len()];
            let mut own = Scored { index: example.index, loss: 0.0, logprobs: nothing.clone(), entropies: nothing };
            for prediction in &self.predictions[predictions.clone()] {
                own.logprobs[prediction.slot] = prediction.logprob;
                own.entropies[prediction.slot] = prediction.entropy;
                own.loss += prediction.loss.value(prediction.logprob);
            }
            scored.push(own);
        }
    }
}

/// Cuts examples into runs of at most [`ROWS`] positions that have to be computed, or of one example and half as many behind it,
/// so that a long beginning is shared too.
fn batches<'a, 'b>(mut examples: &'b [Example<'a>]) -> impl Iterator<Item = &'b [Example<'a>]> {
    std::iter::from_fn(move || {
        let (mut positions, mut before) = (0, None);
        let limit = ROWS.max(examples.first().map_or(0, Example::positions) + ROWS / 2);
        let fitting = examples.iter().take_while(|example| {
            positions += example.positions_behind(before.replace(*example));
            positions <= limit
        });
        let count = fitting.count();
        let (batch, later) = examples.split_at(count);
        examples = later;
        (!batch.is_empty()).then_some(batch)
    })
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{Chunk, Datum, LossInputs};

    use super::*;

    #[test]
    fn those_that_begin_alike_are_dealt_together_and_hands_are_even() {
        let sequences: Vec<Vec<u32>> = (0..8).map(|n| [vec![n % 2; 100], vec![n; 4]].concat()).collect();
        let data: Vec<Datum> = (sequences.iter())
            .map(|tokens| Datum {
                model_input: vec![Chunk::Tokens(tokens.clone())],
                target_tokens: tokens.clone(),
                loss_inputs: LossInputs::Supervised { weights: vec![] },
            })
            .collect();
        let examples: Vec<_> =
            data.iter().enumerate().map(|(index, datum)| Example::new(index, datum, vec![])).collect();
        let indices = |hands: Vec<Vec<Example<'_>>>| -> Vec<Vec<usize>> {
            hands.iter().map(|hand| hand.iter().map(|example| example.index).collect()).collect()
        };
        assert_eq!(indices(deal(examples.clone(), 2)), [[0, 2, 4, 6], [1, 3, 5, 7]]);
        assert_eq!(indices(deal(examples[..1].to_vec(), 2)).concat(), [0]);
        assert_eq!(indices(deal(Vec::new(), 2)), [[0_usize; 0]; 2]);
        // 100 and four times 4 positions are computed for four of them: 16 fit where 4 did.
        let hand = deal(examples, 1).remove(0);
        assert_eq!(batches(&hand).map(<[_]>::len).collect::<Vec<_>>(), [8]);
    }

    /// An attempt of so many calls whose harness writes the newest turns anew each time: what the calls' histories have in
    /// common grows by a few tokens with each, and none goes on where another ended. Positions of its datums, and those that
    /// are computed.
    fn rewritten(calls: u32, task: usize) -> (usize, usize) {
        let history = |call: u32| -> Vec<u32> { (0..call).flat_map(|turn| vec![turn + 2; 8]).collect() };
        let sequences = (0..calls).map(|call| [vec![1; task], history(call), vec![1000 + call; 4]].concat());
        let data: Vec<Datum> = sequences
            .map(|tokens| Datum {
                model_input: vec![Chunk::Tokens(tokens.clone())],
                target_tokens: tokens,
                loss_inputs: LossInputs::Supervised { weights: vec![] },
            })
            .collect();
        let examples: Vec<_> =
            data.iter().enumerate().map(|(index, datum)| Example::new(index, datum, vec![])).collect();
        let hand = deal(examples, 1).remove(0);
        let computed = batches(&hand).map(|batch| {
            let mut rows = PackedRows::default();
            rows.push_shared(&batch.iter().map(|example| &example.tokens[..]).collect::<Vec<_>>());
            rows.len()
        });
        (hand.iter().map(Example::positions).sum(), computed.sum())
    }

    #[test]
    fn what_rewritten_histories_share_is_computed_once_in_a_batch() {
        // 100 of the task, 8 for each turn of the longest history, 4 of each call's own.
        assert_eq!(rewritten(20, 100), (20 * 104 + 8 * 190, 100 + 8 * 19 + 20 * 4));
        // Each batch begins with all that its first example holds, so that more calls cost more than their own tokens.
        let (positions, computed) = rewritten(160, 100);
        assert!(computed * 8 < positions, "{computed} of {positions}");
    }
}
