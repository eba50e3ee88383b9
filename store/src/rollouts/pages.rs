//! Any number of rollouts, a few in memory at a time, read as `spans::pages` reads spans.

use std::collections::HashMap;
use std::vec::IntoIter;

use fulgurite_types::{Attempt, Rollout, RolloutFilter};

use crate::Result;
use crate::database::sql::{Sql, column};
use crate::open_database::Database;
use crate::rollouts::Rollouts;
use crate::rollouts::attempts::rows::latest_attempts;
use crate::rollouts::rows::{SORT_FIELDS, push_conditions, rollout_from_row};

/// Rollouts that are read at a time.
const PART: usize = 128;

/// Rollouts that meet a filter, in its order. One that is deleted before its turn comes is left out.
pub struct RolloutPages {
    database: Database,
    positions: IntoIter<i64>,
    /// How many there are, on this page and others.
    pub total: u64,
}

impl Rollouts {
    /// Rollouts as [`Rollouts::query`] gives them.
    pub async fn pages(&self, filter: &RolloutFilter) -> Result<RolloutPages> {
        let mut connection = self.database.reader().await?;
        let mut total = Sql::new("SELECT COUNT(*) FROM rollouts");
        push_conditions(&mut total, filter)?;
        let mut page = Sql::new("SELECT position FROM rollouts");
        push_conditions(&mut page, filter)?;
        page.page(&filter.page, SORT_FIELDS)?;
        let total = total.total(&mut connection).await?;
        let mut positions = Vec::new();
        page.each(&mut connection, |row| {
            positions.push(column(row, "position")?);
            Ok(())
        })
        .await?;
        Ok(RolloutPages { database: self.database.clone(), positions: positions.into_iter(), total })
    }
}

impl RolloutPages {
    /// The next rollouts, each with its latest attempt; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<Vec<(Rollout, Option<Attempt>)>>> {
        let positions: Vec<i64> = self.positions.by_ref().take(PART).collect();
        if positions.is_empty() {
            return Ok(None);
        }
        let mut connection = self.database.reader().await?;
        let mut sql = Sql::new("SELECT * FROM rollouts WHERE position IN ");
        sql.integers(positions.iter().copied(), PART);
        let rows = sql.all(&mut connection).await?;
        let mut places: HashMap<i64, usize> = HashMap::new();
        positions.iter().enumerate().for_each(|(place, position)| _ = places.insert(*position, place));
        let mut found = rows
            .iter()
            .map(|row| Ok((places.get(&column(row, "position")?).copied(), rollout_from_row(row)?)))
            .collect::<Result<Vec<(Option<usize>, Rollout)>>>()?;
        found.sort_by_key(|(place, _)| *place);
        let rollouts: Vec<Rollout> = found.into_iter().map(|(_, rollout)| rollout).collect();
        let mut attempts = latest_attempts(&mut connection, &rollouts).await?;
        let with_attempt = |rollout: Rollout| {
            let attempt = attempts.remove(&rollout.rollout_id);
            (rollout, attempt)
        };
        Ok(Some(rollouts.into_iter().map(with_attempt).collect()))
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{NewRollout, Page, SortOrder};
    use serde_json::json;

    use super::*;
    use crate::testing::TestStore;

    #[tokio::test]
    async fn parts_are_the_whole_page() {
        let store = TestStore::new().await;
        for _ in 0..3 {
            store.start().await;
        }
        let new = (0..2 * PART + 3).map(|number| NewRollout { input: json!(number), ..NewRollout::default() });
        store.rollouts().enqueue(new.collect()).await.unwrap();
        let sort_by = Some("rollout_id".to_owned());
        for page in [
            Page::default(),
            Page { limit: Some(PART as u64 + 5), offset: 4, sort_by, sort_order: Some(SortOrder::Descending) },
            Page { limit: Some(5), offset: 1000, ..Page::default() },
        ] {
            let filter = RolloutFilter { page, ..RolloutFilter::default() };
            let whole = store.rollouts().query(&filter).await.unwrap();
            let mut pages = store.rollouts().pages(&filter).await.unwrap();
            let mut items = Vec::new();
            while let Some(rollouts) = pages.next().await.unwrap() {
                assert!(rollouts.len() <= PART);
                items.extend(rollouts);
            }
            assert_eq!((items, pages.total), (whole.items, whole.total));
        }
    }
}
