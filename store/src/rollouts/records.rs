use fulgurite_types::{GenerationFilter, RolloutRecord};

use crate::{Result, Store};

impl Store {
    /// A rollout with all that was recorded of it, or with so many of its generations; `None` if it is not there.
    pub async fn rollout_record(&self, rollout_id: &str, generations: Option<u64>) -> Result<Option<RolloutRecord>> {
        let Some((rollout, _)) = self.get_rollout(rollout_id).await? else { return Ok(None) };
        let attempts = self.attempts(rollout_id).await?;
        let rewards = match attempts.last() {
            Some(attempt) => self.rewards(rollout_id, attempt.attempt_id.as_str()).await?,
            None => Vec::new(),
        };
        let rollout_id = Some(rollout_id.to_owned());
        let filter = GenerationFilter { rollout_id, limit: generations, ..GenerationFilter::default() };
        let generations = self.generations(&filter).await?;
        Ok(Some(RolloutRecord { rollout, attempts, rewards, generations }))
    }
}
