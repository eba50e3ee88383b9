//! What is trained and what is scored of data that are there.

use std::sync::Arc;

use super::order::{Order, Sides, Split};
use super::sequences::{FoundForm, Sequences};
use crate::TrainError;

/// Rows that have been looked at.
pub(crate) struct SplitData<Row> {
    pub(crate) trained: Arc<dyn Sequences<Row>>,
    pub(crate) split: Arc<Order>,
    pub(crate) scored: Vec<HeldOutRows<Row>>,
}

/// Rows that are scored together.
pub(crate) struct HeldOutRows<Row> {
    /// What their metrics are called, if they have such of their own.
    pub(crate) name: Option<String>,
    pub(crate) rows: Arc<dyn Sequences<Row>>,
    /// Which of them.
    pub(crate) numbers: Vec<u64>,
}

impl<Row> HeldOutRows<Row> {
    /// All of these.
    pub(crate) fn all(name: Option<String>, rows: Arc<dyn Sequences<Row>>) -> Self {
        let numbers = (0..rows.count()).collect();
        Self { name, rows, numbers }
    }
}

impl<Row> SplitData<Row> {
    /// What is scored are rows of their own, or a `share` of the others, which is then not trained.
    pub(crate) fn new(
        seed: u64,
        trained: Arc<dyn Sequences<Row>>,
        mut scored: Vec<HeldOutRows<Row>>,
        share: Option<f64>,
    ) -> Result<Self, TrainError> {
        let split = Order::from(split_of(seed, trained.as_ref(), share, &mut Sides::new())?);
        if share.is_some() {
            let numbers = split.held_out();
            scored.push(HeldOutRows { name: None, rows: Arc::clone(&trained), numbers });
        }
        Ok(Self { trained, split: Arc::new(split), scored })
    }

    /// What the rows of its files were found to be, where the config leaves that open.
    pub(crate) fn found(&self) -> Vec<FoundForm> {
        let files = std::iter::once(&self.trained).chain(self.scored.iter().map(|held_out| &held_out.rows));
        let mut found: Vec<FoundForm> = files.flat_map(|rows| rows.found()).collect();
        found.dedup();
        found
    }
}

/// Which of these rows are trained, where a `share` of them may be held out. `sides` are those of groups of other files.
pub(crate) fn split_of<Row>(
    seed: u64,
    rows: &dyn Sequences<Row>,
    share: Option<f64>,
    sides: &mut Sides,
) -> Result<Split, TrainError> {
    let all = rows.count();
    let Some(share) = share else { return Ok(Split::new(seed, all, 0)) };
    let held_out = held_out(all, share)?;
    let Some(groups) = rows.groups() else { return Ok(Split::new(seed, all, held_out)) };
    Split::of_groups(seed, groups, held_out, sides).ok_or_else(|| TrainError::Option {
        key: "[trainer] source.validation".to_owned(),
        message: format!(
            "is a share, and all of {all} conversations have one prompt or one value of validation_group, which stay \
             together: name another file"
        ),
    })
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
