use fulgurite_types::{GenerationFilter, RolloutRecord};

use crate::Result;
use crate::generations::Generations;
use crate::queries::Queries;
use crate::rewards::Rewards;
use crate::rollouts::Rollouts;
use crate::rollouts::attempts::Attempts;

impl Queries {
    /// A rollout with all that was recorded of it, or with so many of its generations; `None` if it is not there.
    pub async fn rollout_record(&self, rollout_id: &str, generations: Option<u64>) -> Result<Option<RolloutRecord>> {
        let Some((rollout, _)) = Rollouts::new(&self.database).get(rollout_id).await? else { return Ok(None) };
        let attempts = Attempts::new(&self.database).of_rollout(rollout_id).await?;
        let rewards = match attempts.last() {
            Some(attempt) => Rewards::new(&self.database).of_attempt(rollout_id, attempt.attempt_id.as_str()).await?,
            None => Vec::new(),
        };
        let rollout_id = Some(rollout_id.to_owned());
        let filter = GenerationFilter { rollout_id, limit: generations, ..GenerationFilter::default() };
        let generations = Generations::new(&self.database).matching(&filter).await?;
        Ok(Some(RolloutRecord { rollout, attempts, rewards, generations }))
    }
}
