//! Comparisons in the learner's passes: their datums stay together, and weigh what all of them cost.

use fulgurite_backends::{AnswerScore, Comparisons, datum_score};

use crate::model::pass_sizes::ROWS;
use crate::training::example::{Example, Scored};

/// Comparisons with the datums that they are of.
#[derive(Debug)]
pub(crate) struct Compared<'a> {
    comparisons: &'a Comparisons,
    /// Of each datum, the place of its comparison.
    places: Vec<usize>,
}

/// What a datum counts in the gradient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DatumCost {
    pub(crate) datum: usize,
    /// What its weights are multiplied by.
    pub(crate) factor: f64,
    /// The loss of its comparison, told of the first datum alone.
    pub(crate) value: f64,
}

impl<'a> Compared<'a> {
    /// Of comparisons that have been checked.
    pub(crate) fn new(comparisons: &'a Comparisons) -> Self {
        let places = comparisons.list.iter().enumerate().flat_map(|(place, one)| one.data().map(move |_| place));
        Self { comparisons, places: places.collect() }
    }

    /// Deals the examples out to so many shards, each comparison to the one that has the fewest positions so far.
    pub(crate) fn deal<'e>(&self, examples: Vec<Example<'e>>, shards: usize) -> Vec<Vec<Example<'e>>> {
        let mut hands = vec![Vec::new(); shards];
        let mut positions = vec![0; shards];
        let mut current = (None, 0);
        for example in examples {
            let place = self.places[example.index];
            if current.0 != Some(place) {
                current = (Some(place), (0..shards).min_by_key(|&shard| positions[shard]).unwrap_or(0));
            }
            positions[current.1] += example.positions();
            hands[current.1].push(example);
        }
        hands
    }

    /// Cuts examples into runs of whole comparisons, of at most [`ROWS`] positions or one comparison.
    pub(crate) fn batches<'e, 'b>(&self, mut examples: &'b [Example<'e>]) -> impl Iterator<Item = &'b [Example<'e>]> {
        std::iter::from_fn(move || {
            let (mut count, mut positions) = (0, 0);
            while let Some(first) = examples.get(count) {
                let place = self.places[first.index];
                let own = examples[count..].iter().take_while(|example| self.places[example.index] == place);
                let (length, size) =
                    own.fold((0, 0), |(length, size), example| (length + 1, size + example.positions()));
                if count > 0 && positions + size > ROWS {
                    break;
                }
                (count, positions) = (count + length, positions + size);
            }
            let (batch, later) = examples.split_at(count);
            examples = later;
            (!batch.is_empty()).then_some(batch)
        })
    }

    /// What each datum of whole comparisons counts, once their logprobs are known.
    pub(crate) fn costs(&self, batch: &[Example<'_>], scored: &[Scored]) -> Vec<DatumCost> {
        let Some(first) = batch.first().map(|example| example.index) else { return Vec::new() };
        let mut sums = vec![AnswerScore::default(); batch.last().map_or(0, |last| last.index + 1 - first)];
        for (example, own) in batch.iter().zip(scored) {
            sums[example.index - first] = datum_score(example.datum, &own.logprobs);
        }
        let mut costs = Vec::with_capacity(batch.len());
        let mut last = None;
        for place in batch.iter().map(|example| self.places[example.index]) {
            if last == Some(place) {
                continue;
            }
            last = Some(place);
            let comparison = &self.comparisons.list[place];
            let (cost, factors) = self.comparisons.linear(comparison, |datum| sums[datum - first]);
            let value = |index: usize| if index == 0 { cost } else { 0.0 };
            let factors = factors.into_iter().enumerate();
            costs.extend(factors.map(|(index, (datum, factor))| DatumCost { datum, factor, value: value(index) }));
        }
        costs
    }
}
