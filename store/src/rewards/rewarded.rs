//! Attempts in the order in which they were rewarded, for trainers.

use fulgurite_types::{Rewarded, RewardedAttempts};

use crate::Result;
use crate::database::sql::{Sql, column, count, to_integer};
use crate::reward_rules::annotations::REWARDS_A_WHOLE;
use crate::rewards::Rewards;

impl Rewards {
    /// Up to `limit` attempts that were rewarded as a whole after the place `after`, each where it was first, in the order
    /// of their rewards.
    pub async fn rewarded_attempts(&self, after: u64, limit: u64) -> Result<RewardedAttempts> {
        let mut connection = self.database.reader().await?;
        let last =
            sqlx::query("SELECT COALESCE(MAX(position), 0) AS last FROM spans").fetch_one(&mut *connection).await?;
        let last: u64 = count(&last, "last")?;
        // An annotation may have nothing to do with rewards.
        let mut sql = Sql::new("SELECT position, rollout_id, attempt_id FROM spans WHERE ");
        sql.push(REWARDS_A_WHOLE);
        sql.push(
            " AND NOT EXISTS (
                     SELECT 1 FROM spans AS earlier
                     WHERE earlier.rollout_id = spans.rollout_id AND earlier.attempt_id = spans.attempt_id
                         AND earlier.position < spans.position AND earlier.name = 'agentlightning.annotation'
                         AND earlier.body LIKE '%reward%' AND earlier.body NOT LIKE '%\"agentlightning.link.%'
                 ) AND position <= ",
        );
        sql.integer(to_integer("last", last)?).push(" AND position > ").integer(to_integer("after", after)?);
        let rows = sql.push(" ORDER BY position").part(Some(limit), 0)?.all(&mut connection).await?;
        let items = rows
            .iter()
            .map(|row| Ok(Rewarded { rollout_id: column(row, "rollout_id")?, attempt_id: column(row, "attempt_id")? }));
        let items: Vec<Rewarded> = items.collect::<Result<_>>()?;
        let next_after = match rows.last() {
            Some(row) if items.len() as u64 == limit => count(row, "position")?,
            _ => last.max(after),
        };
        Ok(RewardedAttempts { items, next_after })
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{Reward, Rewarded, RewardedAttempts};

    use crate::testing::{TestStore, generation};

    #[tokio::test]
    async fn each_attempt_comes_once_where_it_was_first_rewarded_as_a_whole() {
        let store = TestStore::new().await;
        let (first, second) = (store.start().await, store.start().await);
        let reward = async |of: &fulgurite_types::AttemptedRollout, generation_id: Option<&str>| {
            let (rollout_id, attempt_id) = (&of.rollout.rollout_id, &of.attempt.attempt_id);
            store.rewards().add(rollout_id, attempt_id, generation_id, Reward::new(1.0)).await.unwrap();
        };
        for (id, of) in [("a", &first), ("b", &second)] {
            store.recording().record(generation(id, of, &[9], &[1])).await.unwrap();
        }
        reward(&first, Some("a")).await;
        let RewardedAttempts { items, next_after } = store.rewards().rewarded_attempts(0, 10).await.unwrap();
        assert!(items.is_empty(), "a call alone was rewarded");
        assert!(next_after > 0);
        for of in [&second, &first, &second, &first] {
            reward(of, None).await;
        }
        let named = |of: &fulgurite_types::AttemptedRollout| Rewarded {
            rollout_id: of.rollout.rollout_id.clone(),
            attempt_id: of.attempt.attempt_id.clone(),
        };
        let page = store.rewards().rewarded_attempts(0, 1).await.unwrap();
        assert_eq!(page.items, [named(&second)]);
        let page = store.rewards().rewarded_attempts(page.next_after, 1).await.unwrap();
        assert_eq!(page.items, [named(&first)]);
        let end = store.rewards().rewarded_attempts(page.next_after, 1).await.unwrap();
        assert!(end.items.is_empty());
        assert_eq!(store.rewards().rewarded_attempts(0, 10).await.unwrap().items, [named(&second), named(&first)]);
        assert_eq!(store.rewards().rewarded_attempts(end.next_after, 1).await.unwrap(), end);
    }
}
