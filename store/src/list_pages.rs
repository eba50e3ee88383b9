//! Lists of any length, a few records in memory at a time, read as `spans::pages` reads spans.

use std::collections::HashMap;
use std::vec::IntoIter;

use fulgurite_types::Page;
use sqlx::AnyConnection;
use sqlx::any::AnyRow;

use crate::Result;
use crate::database::sql::{SortField, Sql, column};
use crate::open_database::Database;

/// How records of a list are found and read.
pub(crate) struct ListKind<T> {
    /// What they may be sorted by.
    pub sort_fields: &'static [SortField],
    /// Records that are read at a time.
    pub part: usize,
    /// A record of a row.
    pub read: fn(&AnyRow) -> Result<T>,
}

/// Records that meet a filter, in its order. One that is deleted before its turn comes is left out.
pub struct ListPages<T> {
    database: Database,
    positions: IntoIter<i64>,
    /// Up to the positions that are wanted.
    rows: Sql,
    kind: ListKind<T>,
    /// How many there are, on this page and others.
    pub total: u64,
}

impl<T> ListPages<T> {
    /// `total` counts the records that meet the filter, `places` selects their `position`, and `rows` selects records up
    /// to the list of positions in which theirs is.
    pub(crate) async fn find(
        database: &Database,
        kind: ListKind<T>,
        total: &Sql,
        mut places: Sql,
        rows: Sql,
        page: &Page,
    ) -> Result<Self> {
        let mut connection = database.reader().await?;
        places.page(page, kind.sort_fields)?;
        let total = total.total(&mut connection).await?;
        let positions = positions(&places, &mut connection).await?.into_iter();
        Ok(Self { database: database.clone(), positions, rows, kind, total })
    }

    /// The next records; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<Vec<T>>> {
        let positions: Vec<i64> = self.positions.by_ref().take(self.kind.part).collect();
        if positions.is_empty() {
            return Ok(None);
        }
        let mut sql = self.rows.clone();
        sql.integers(positions.iter().copied(), self.kind.part);
        let rows = sql.all(&mut *self.database.reader().await?).await?;
        let mut found: HashMap<i64, &AnyRow> = HashMap::new();
        for row in &rows {
            found.insert(column(row, "position")?, row);
        }
        let rows = positions.iter().filter_map(|position| found.get(position));
        Ok(Some(rows.map(|row| (self.kind.read)(row)).collect::<Result<_>>()?))
    }
}

async fn positions(places: &Sql, connection: &mut AnyConnection) -> Result<Vec<i64>> {
    let mut positions = Vec::new();
    places
        .each(connection, |row| {
            positions.push(column(row, "position")?);
            Ok(())
        })
        .await?;
    Ok(positions)
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{Object, SortOrder, TextFilter, WorkerFilter};
    use serde_json::json;

    use super::*;
    use crate::testing::TestStore;

    async fn all<T>(mut pages: ListPages<T>, part: usize) -> (Vec<T>, u64) {
        let mut items = Vec::new();
        while let Some(some) = pages.next().await.unwrap() {
            assert!(some.len() <= part, "{}", some.len());
            items.extend(some);
        }
        (items, pages.total)
    }

    fn pages() -> [Page; 3] {
        let sort_by = |name: &str| Some(name.to_owned());
        [
            Page::default(),
            Page {
                limit: Some(133),
                offset: 4,
                sort_by: sort_by("worker_id"),
                sort_order: Some(SortOrder::Descending),
            },
            Page { limit: Some(5), offset: 1000, ..Page::default() },
        ]
    }

    #[tokio::test]
    async fn parts_of_every_list_are_the_whole_page() {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        let rollout_id = &attempted.rollout.rollout_id;
        let resource = json!({ "a": { "resource_type": "prompt_template", "template": "x", "engine": "jinja" } });
        let resource: Object = resource.as_object().cloned().unwrap();
        for number in 0..140 {
            store.workers().update(&format!("w-{}", number % 137), None).await.unwrap();
            store.rollouts().start_attempt(rollout_id, Some("w-1")).await.unwrap();
            store.resources().update(None, resource.clone()).await.unwrap();
        }
        for page in pages() {
            let filter = WorkerFilter { page: page.clone(), ..WorkerFilter::default() };
            let whole = store.workers().query(&filter).await.unwrap();
            assert_eq!(all(store.workers().pages(&filter).await.unwrap(), 128).await, (whole.items, whole.total));
            let page = Page { sort_by: None, ..page };
            let whole = store.attempts().query(rollout_id, &page).await.unwrap();
            let paged = store.attempts().pages(rollout_id, &page).await.unwrap();
            assert_eq!(all(paged, 128).await, (whole.items, whole.total));
            let whole = store.resources().query(&TextFilter::default(), &page).await.unwrap();
            let paged = store.resources().pages(&TextFilter::default(), &page).await.unwrap();
            assert_eq!(all(paged, 8).await, (whole.items, whole.total));
        }
    }
}
