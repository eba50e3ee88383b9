//! Whose a model call is.

use std::sync::Arc;

use crate::database::rollout_cache::CachedRollout;
use crate::{Result, Store};

impl Store {
    /// Whose a rollout's calls are: as [`Store::get_rollout`], but for its input, and for when its attempt was last heard
    /// of, of which nothing is told but whether it ever was. Where one program has the database, what it has written or
    /// read lately is not read again.
    pub async fn cached_rollout(&self, rollout_id: &str) -> Result<Option<CachedRollout>> {
        let known = self.rollout_cache();
        let reading = match known.of(rollout_id) {
            Some(found) => return Ok(Some(found)),
            None => known.start_read(rollout_id),
        };
        let Some((mut rollout, attempt)) = self.get_rollout(rollout_id).await? else { return Ok(None) };
        rollout.input.take();
        let found = Arc::new((rollout, attempt));
        known.finish_read(&found, reading);
        Ok(Some(found))
    }
}
