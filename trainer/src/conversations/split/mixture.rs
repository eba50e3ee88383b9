//! Several files as one: how often the rows of each are read in an epoch.

use std::sync::Arc;

use async_trait::async_trait;

use super::order::{Order, Sides, Split};
use super::sequences::{CutOff, FirstSkipped, FoundForm, MarksAsText, Sequences, SkippedRows};
use super::split_data::{HeldOutRows, SplitData, split_of};
use crate::TrainError;
use crate::options::{MixtureUnit, Portion};

/// A file of a mixture.
pub(crate) struct MixturePart<Row> {
    pub(crate) rows: Arc<dyn Sequences<Row>>,
    pub(crate) portion: Portion,
}

impl<Row: Send + 'static> SplitData<Row> {
    /// Rows of several files, of each of which a `share` may be held out.
    pub(crate) fn mixed(
        seed: u64,
        parts: Vec<MixturePart<Row>>,
        unit: MixtureUnit,
        mut scored: Vec<HeldOutRows<Row>>,
        share: Option<f64>,
    ) -> Result<Self, TrainError> {
        let mut sides = Sides::new();
        let splits = parts.iter().map(|part| split_of(seed, part.rows.as_ref(), share, &mut sides));
        let splits: Vec<Split> = splits.collect::<Result<_, _>>()?;
        let reads = rows_per_epoch(&parts, &splits, unit);
        let portions: Vec<_> = parts.iter().map(|part| part.portion).collect();
        let rows: Vec<_> = parts.into_iter().map(|part| part.rows).collect();
        let mixed: Arc<dyn Sequences<Row>> = Arc::new(MixedRows::new(rows, &portions));
        let order = Order::mixed(seed, splits, &reads);
        if share.is_some() {
            scored.push(HeldOutRows { name: None, rows: Arc::clone(&mixed), numbers: order.held_out() });
        }
        Ok(Self { trained: mixed, split: Arc::new(order), scored })
    }
}

/// How many rows of each file an epoch reads: as many of all together as there are, where they are weighed.
fn rows_per_epoch<Row>(parts: &[MixturePart<Row>], splits: &[Split], unit: MixtureUnit) -> Vec<u64> {
    let weight = |part: &MixturePart<Row>| match part.portion {
        Portion::Weight(weight) => weight,
        Portion::Epochs(_) => 0.0,
    };
    let mean_tokens = |part: &MixturePart<Row>| part.rows.tokens().max(1) as f64 / part.rows.count().max(1) as f64;
    let weights: f64 = parts.iter().map(weight).sum();
    let sizes = parts.iter().zip(splits).map(|(part, split)| match unit {
        MixtureUnit::Rows => split.trained() as f64,
        MixtureUnit::Tokens => split.trained() as f64 * mean_tokens(part),
    });
    let all: f64 = sizes.sum();
    let of_part = |(part, split): (&MixturePart<Row>, &Split)| {
        let rows = match (part.portion, unit) {
            (Portion::Epochs(epochs), _) => split.trained() as f64 * epochs,
            (Portion::Weight(weight), MixtureUnit::Rows) => all * weight / weights,
            (Portion::Weight(weight), MixtureUnit::Tokens) => all * weight / weights / mean_tokens(part),
        };
        (rows.round() as u64).max(1)
    };
    parts.iter().zip(splits).map(of_part).collect()
}

/// Rows of several files, one file behind the other.
struct MixedRows<Row> {
    parts: Vec<Arc<dyn Sequences<Row>>>,
    fingerprint: String,
    skipped: SkippedRows,
    first_skipped: Vec<FirstSkipped>,
}

impl<Row> MixedRows<Row> {
    fn new(parts: Vec<Arc<dyn Sequences<Row>>>, portions: &[Portion]) -> Self {
        let mut skipped = SkippedRows::new();
        for (cause, rows) in parts.iter().flat_map(|part| part.skipped()) {
            *skipped.entry(*cause).or_default() += rows;
        }
        let fingerprints =
            parts.iter().zip(portions).map(|(part, portion)| format!("{} {portion:?}", part.fingerprint()));
        let fingerprint = fingerprints.collect::<Vec<_>>().join("; ");
        let first_skipped = parts.iter().flat_map(|part| part.first_skipped()).cloned().collect();
        Self { parts, fingerprint, skipped, first_skipped }
    }

    /// The file of a row, and the row's number in it.
    fn place(&self, number: u64) -> Option<(usize, u64)> {
        let mut number = number;
        for (index, part) in self.parts.iter().enumerate() {
            match number.checked_sub(part.count()) {
                None => return Some((index, number)),
                Some(behind) => number = behind,
            }
        }
        None
    }
}

#[async_trait]
impl<Row: Send + 'static> Sequences<Row> for MixedRows<Row> {
    fn count(&self) -> u64 {
        self.parts.iter().map(|part| part.count()).sum()
    }

    async fn read(&self, numbers: &[u64]) -> Result<Vec<Row>, TrainError> {
        let mut read: Vec<Option<Row>> = numbers.iter().map(|_| None).collect();
        for (index, part) in self.parts.iter().enumerate() {
            let own = numbers.iter().enumerate().filter_map(|(place, number)| match self.place(*number)? {
                (part, own) if part == index => Some((place, own)),
                _ => None,
            });
            let (places, own): (Vec<usize>, Vec<u64>) = own.unzip();
            for (place, row) in places.into_iter().zip(part.read(&own).await?) {
                read[place] = Some(row);
            }
        }
        Ok(read.into_iter().flatten().collect())
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn skipped(&self) -> &SkippedRows {
        &self.skipped
    }

    fn marks_as_text(&self) -> MarksAsText {
        let marks = self.parts.iter().map(|part| part.marks_as_text());
        marks.fold(MarksAsText::default(), |sum, part| MarksAsText {
            rows: sum.rows + part.rows,
            marks: sum.marks + part.marks,
        })
    }

    fn first_skipped(&self) -> &[FirstSkipped] {
        &self.first_skipped
    }

    fn cut(&self) -> CutOff {
        let cuts = self.parts.iter().map(|part| part.cut());
        cuts.fold(CutOff::default(), |sum, part| CutOff {
            sequences: sum.sequences + part.sequences,
            tokens: sum.tokens + part.tokens,
        })
    }

    fn tokens(&self) -> u64 {
        self.parts.iter().map(|part| part.tokens()).sum()
    }

    fn found(&self) -> Vec<FoundForm> {
        self.parts.iter().flat_map(|part| part.found()).collect()
    }
}
