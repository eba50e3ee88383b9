//! What is trained and what is scored of data that are there.

use std::sync::Arc;

use super::order::Split;
use super::sequences::Sequences;
use crate::TrainError;

/// Rows that have been looked at.
pub(crate) struct SplitData<Row> {
    pub(crate) trained: Arc<dyn Sequences<Row>>,
    pub(crate) split: Arc<Split>,
    pub(crate) scored: Arc<dyn Sequences<Row>>,
    /// Which of them are scored.
    pub(crate) scored_numbers: Vec<u64>,
}

impl<Row> SplitData<Row> {
    /// What is scored are rows of their own, or a `share` of the others, which is then not trained.
    pub(crate) fn new(
        seed: u64,
        trained: Arc<dyn Sequences<Row>>,
        scored: Option<Arc<dyn Sequences<Row>>>,
        share: Option<f64>,
    ) -> Result<Self, TrainError> {
        let all = trained.count();
        let held_out = share.map_or(Ok(0), |share| held_out(all, share))?;
        let split = Arc::new(Split::new(seed, all, held_out));
        let scored_numbers = match &scored {
            Some(scored) => (0..scored.count()).collect(),
            None => split.held_out().collect(),
        };
        let scored = scored.unwrap_or_else(|| Arc::clone(&trained));
        Ok(Self { trained, split, scored, scored_numbers })
    }
}

/// How many of `all` conversations a share is: one at least, and not all.
fn held_out(all: u64, share: f64) -> Result<u64, TrainError> {
    let held_out = ((all as f64 * share).round() as u64).max(1);
    if held_out < all {
        return Ok(held_out);
    }
    Err(TrainError::Option {
        key: "[trainer] source.validation".to_owned(),
        message: format!("is {share}, and of {all} conversations that leaves none to train on"),
    })
}
