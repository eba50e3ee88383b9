//! Attempts that are created because a request names them.

use fulgurite_types::{Attempt, AttemptRef};

use crate::database::writer::Write;
use crate::rollouts::attempts::Attempts;
use crate::rollouts::attempts::rows::{find_attempt, insert_attempt};
use crate::rollouts::rows::existing_rollout;
use crate::{Result, StoreError};

impl Attempts {
    /// An attempt by its id, which is made if its rollout has none of that name.
    pub async fn open(&self, rollout_id: &str, attempt_id: &str) -> Result<Attempt> {
        let id = AttemptRef::Id(attempt_id.to_owned());
        if let Some(attempt) = find_attempt(&mut *self.database.reader().await?, rollout_id, &id).await? {
            return Ok(attempt);
        }
        let (rollout_id, attempt_id) = (rollout_id.to_owned(), attempt_id.to_owned());
        self.database
            .write(move |write| Box::pin(async move { open_attempt(write, &rollout_id, &attempt_id).await }))
            .await
    }
}

/// An attempt by its id, which is made if its rollout has none of that name.
pub(crate) async fn open_attempt(write: &mut Write, rollout_id: &str, attempt_id: &str) -> Result<Attempt> {
    if attempt_id.is_empty() {
        return Err(StoreError::invalid("attempt_id", "must not be empty"));
    }
    let id = AttemptRef::Id(attempt_id.to_owned());
    if let Some(attempt) = find_attempt(write.connection(), rollout_id, &id).await? {
        return Ok(attempt);
    }
    existing_rollout(write.connection(), rollout_id).await?;
    write.rollout_changed(rollout_id);
    insert_attempt(write.connection(), rollout_id, attempt_id, None, None).await
}
