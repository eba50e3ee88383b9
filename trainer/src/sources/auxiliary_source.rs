//! Conversations beside what a run learns from otherwise.

use async_trait::async_trait;
use fulgurite_types::GenerationUse;

use super::conversations::{ConversationBatch, ConversationSource};
use super::source::{DataPosition, Source};
use crate::{Reporter, TrainError};

/// What another source gives, and conversations, which have a place of their own.
pub(crate) struct AuxiliarySource<Data> {
    pub(crate) main: Box<dyn Source<Data>>,
    pub(crate) conversations: ConversationSource,
}

#[async_trait]
impl<Data: Send> Source<(Data, ConversationBatch)> for AuxiliarySource<Data> {
    async fn next(
        &mut self,
        step: u64,
        position: &mut DataPosition,
        reporter: &mut dyn Reporter,
    ) -> Result<(Data, ConversationBatch), TrainError> {
        let mut place = DataPosition {
            data_cursor: position.conversation_cursor,
            data_fingerprint: position.data_fingerprint.clone(),
            ..DataPosition::default()
        };
        let conversations = self.conversations.next(step, &mut place, reporter).await?;
        let data = self.main.next(step, position, reporter).await?;
        position.conversation_cursor = place.data_cursor;
        position.data_fingerprint = place.data_fingerprint;
        Ok((data, conversations))
    }

    async fn sampled_for_nothing(
        &mut self,
        step: u64,
        reporter: &mut dyn Reporter,
    ) -> Result<Vec<GenerationUse>, TrainError> {
        self.main.sampled_for_nothing(step, reporter).await
    }
}
