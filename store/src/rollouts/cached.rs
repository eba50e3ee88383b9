//! Whose a model call is.

use std::sync::Arc;

use crate::Result;
use crate::database::rollout_cache::CachedRollout;
use crate::rollouts::Rollouts;

impl Rollouts {
    /// The rollout that a call belongs to, as [`Rollouts::get`], but without its input, and with a
    /// `last_heartbeat_time` that only shows whether there was any activity. Where one program has the database, rollouts
    /// that it has lately written or read come from a cache.
    pub async fn cached(&self, rollout_id: &str) -> Result<Option<CachedRollout>> {
        let known = self.database.rollout_cache();
        let reading = match known.of(rollout_id) {
            Some(found) => return Ok(Some(found)),
            None => known.start_read(rollout_id),
        };
        let found = self.database.patiently(|| self.get(rollout_id)).await?;
        let Some((mut rollout, attempt)) = found else { return Ok(None) };
        rollout.input.take();
        let found = Arc::new((rollout, attempt));
        known.finish_read(&found, reading);
        Ok(Some(found))
    }
}
