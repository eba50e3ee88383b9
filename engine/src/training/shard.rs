use crate::model::memory::activation_bytes;
use crate::model::pass_sizes::{ROWS, SavedActivations};
use crate::model::policy::Policy;
use crate::passes::backward::{BackwardScratch, backward};
use crate::passes::forward::{Activations, PackedRows, forward};
use crate::passes::head::{HeadScratch, Logits, Prediction, score, score_backward};
use crate::passes::loss::TokenLoss;
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
    activations: Activations,
    head: HeadScratch,
    backward: BackwardScratch,
    normed_gradient: Vec<f32>,
}

/// Deals the examples out to so many shards, each to the one that has the fewest positions so far.
pub(crate) fn deal<'a>(examples: Vec<Example<'a>>, shards: usize) -> Vec<Vec<Example<'a>>> {
    let mut hands = vec![Vec::new(); shards];
    let mut positions = vec![0; shards];
    for example in examples {
        let lightest = (0..shards).min_by_key(|&shard| positions[shard]).unwrap_or(0);
        positions[lightest] += example.positions();
        hands[lightest].push(example);
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
            for (example, rows) in batch.iter().zip(&self.rows.sequences) {
                let factor = costs.iter().find(|cost| cost.datum == example.index).map_or(0.0, |cost| cost.factor);
                for prediction in self.predictions.iter_mut().filter(|prediction| rows.contains(&prediction.row)) {
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
            for ((_, logprob), told) in targets.filter(|((loss, _), _)| **loss == TokenLoss::Nothing) {
                *logprob = told;
            }
        }
    }

    fn pack(&mut self, batch: &[Example<'_>], predicts: impl Fn(&TokenLoss) -> bool) {
        self.rows.clear();
        self.predictions.clear();
        for example in batch {
            let start = self.rows.len();
            let (width, targets) = (example.datum.targets_per_position(), example.datum.targets());
            self.rows.push(example.tokens());
            for (offset, loss) in example.losses.iter().enumerate().filter(|(_, loss)| predicts(loss)) {
                let row = start + offset / width;
                self.predictions.push(Prediction::new(row, offset, targets[offset], *loss));
            }
        }
    }

    fn collect(&self, batch: &[Example<'_>], scored: &mut Vec<Scored>) {
        let mut predictions = self.predictions.iter().peekable();
        for (example, rows) in batch.iter().zip(&self.rows.sequences) {
            let logprobs = vec![0.0; example.losses.len()];
            let mut own = Scored { index: example.index, loss: 0.0, entropy: 0.0, logprobs };
            while let Some(prediction) = predictions.next_if(|prediction| rows.contains(&prediction.row)) {
                own.logprobs[prediction.slot] = prediction.logprob;
                own.entropy += f64::from(prediction.entropy);
                own.loss += prediction.loss.value(prediction.logprob);
            }
            scored.push(own);
        }
    }
}

/// Cuts examples into runs of at most [`ROWS`] positions, or one example.
fn batches<'a, 'b>(mut examples: &'b [Example<'a>]) -> impl Iterator<Item = &'b [Example<'a>]> {
    std::iter::from_fn(move || {
        let mut positions = 0;
        let fitting = examples.iter().take_while(|example| {
            positions += example.positions();
            positions <= ROWS
        });
        let count = fitting.count().max(1).min(examples.len());
        let (batch, later) = examples.split_at(count);
        examples = later;
        (!batch.is_empty()).then_some(batch)
    })
}
