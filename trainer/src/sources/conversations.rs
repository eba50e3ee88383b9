//! Conversations in epochs, each in an order of its own that follows from the seed.

use std::sync::Arc;

use async_trait::async_trait;

use super::source::{DataPosition, Source};
use crate::conversations::{Example, FoundForm, MarksAsText, Order, Sequences};
use crate::{Reporter, TrainError, TrainEvent};

/// Conversations, or comparisons, of an update.
pub(crate) struct ConversationBatch<Item = Example> {
    pub(crate) examples: Vec<Item>,
    /// Epochs that were read whole before it.
    pub(crate) epoch: u64,
    /// Rows of the data that are left out, by cause.
    pub(crate) skipped: Vec<(&'static str, u64)>,
}

/// Says what the rows of files were found to be.
pub(crate) fn report_forms(found: Vec<FoundForm>, reporter: &mut dyn Reporter) {
    for FoundForm { file, form } in found {
        reporter.report(TrainEvent::RowsFound { file, form });
    }
}

/// Reads on in conversations from where the position stands.
pub(crate) struct ConversationSource<Item = Example> {
    pub(crate) conversations: Arc<dyn Sequences<Item>>,
    pub(crate) split: Arc<Order>,
    pub(crate) batch_size: usize,
}

#[async_trait]
impl<Item: Send> Source<ConversationBatch<Item>> for ConversationSource<Item> {
    async fn next(
        &mut self,
        _: u64,
        position: &mut DataPosition,
        reporter: &mut dyn Reporter,
    ) -> Result<ConversationBatch<Item>, TrainError> {
        let fingerprint = self.conversations.fingerprint();
        if position.data_fingerprint.is_empty() {
            position.data_fingerprint = fingerprint.to_owned();
        } else if position.data_fingerprint != fingerprint {
            return Err(TrainError::DataChanged);
        }
        let MarksAsText { rows, marks } = self.conversations.marks_as_text();
        if position.data_cursor == 0 && marks > 0 {
            reporter.report(TrainEvent::MarksAsText { rows, marks });
        }
        let epoch = position.data_cursor / self.split.trained();
        let numbers = self.split.read(position.data_cursor, self.batch_size as u64);
        let examples = self.conversations.read(&numbers).await?;
        position.data_cursor += numbers.len() as u64;
        let skipped = self.conversations.skipped().iter().map(|(cause, rows)| (cause.as_str(), *rows)).collect();
        Ok(ConversationBatch { examples, epoch, skipped })
    }
}
