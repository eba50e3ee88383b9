//! Lists over all rollouts: the newest records, or what is new since the last look.

use std::collections::HashMap;

use fulgurite_types::{Attempt, Cursor, FoundReward, Generation, ListFilter, Listed, Part, Rollout, Span};
use sqlx::AnyConnection;
use sqlx::any::AnyRow;

use crate::database::sql::{SortField, Sql, column};
use crate::generations::reading as generations;
use crate::generations::reading::rebuild;
use crate::queries::Queries;
use crate::reward_rules::annotations::recorded_reward;
use crate::rollouts::attempts;
use crate::rollouts::attempts::rows::attempt_from_row;
use crate::rollouts::rows::rollout_from_row;
use crate::spans::rows::span_from_row;
use crate::spans::with_tokens::add_tokens;
use crate::{Result, rollouts, spans};

/// One kind of record.
pub(crate) struct Kind {
    /// Every record, with a column `position` by which they come in the order of their making.
    pub(crate) select: &'static str,
    /// An expression that no two records share.
    pub(crate) key: &'static str,
    /// How far back from the last position a record may still appear.
    pub(crate) slack: i64,
    /// What it may be sorted by.
    pub(crate) sort_fields: &'static [SortField],
    /// What is put around the conditions on a record's rollout; nothing where the record is one.
    pub(crate) of_rollouts: Option<[&'static str; 2]>,
    /// Columns that a filter's conditions are about, if there are any.
    pub(crate) attempt_id: Option<&'static str>,
    pub(crate) name: Option<&'static str>,
}

/// Around conditions on the rollout of a record.
pub(crate) const OF_ROLLOUTS: Option<[&str; 2]> =
    Some([" AND rollout_id IN (SELECT rollout_id FROM rollouts WHERE 1 = 1", ")"]);

pub(crate) const ROLLOUTS: Kind = Kind {
    select: "SELECT * FROM rollouts",
    key: "rollout_id",
    slack: 0,
    sort_fields: rollouts::rows::SORT_FIELDS,
    of_rollouts: None,
    attempt_id: None,
    name: None,
};

/// Attempts have no position of their own. Their creation time, in microseconds, is used instead; the clocks of several
/// servers may differ by the slack.
pub(crate) const ATTEMPTS: Kind = Kind {
    select: "SELECT attempts.*, CAST(start_time * 1000000 AS BIGINT) AS position FROM attempts",
    key: "rollout_id || '/' || attempt_id",
    slack: 60_000_000,
    sort_fields: attempts::rows::SORT_FIELDS,
    of_rollouts: OF_ROLLOUTS,
    attempt_id: Some("attempt_id"),
    name: None,
};

pub(crate) const SPANS: Kind = Kind {
    select: "SELECT * FROM spans",
    key: "rollout_id || '/' || attempt_id || '/' || span_id",
    slack: 0,
    sort_fields: spans::rows::SORT_FIELDS,
    of_rollouts: OF_ROLLOUTS,
    attempt_id: Some("attempt_id"),
    name: Some("name"),
};

/// Spans that may hold a reward: every encoding of one has the word in it.
const REWARDS: Kind = Kind { select: "SELECT * FROM spans WHERE body LIKE '%reward%'", ..SPANS };

pub(crate) const GENERATIONS: Kind = Kind {
    select: generations::SELECT,
    key: "generation_id",
    slack: 0,
    sort_fields: generations::SORT_FIELDS,
    of_rollouts: OF_ROLLOUTS,
    attempt_id: Some("attempt_id"),
    name: Some("name"),
};

impl Queries {
    /// Rollouts.
    pub async fn list_rollouts(&self, filter: &ListFilter, part: &Part) -> Result<Listed<Rollout>> {
        let (rows, cursor) =
            page(start(&ROLLOUTS, filter), &ROLLOUTS, part, &mut *self.database.reader().await?).await?;
        Ok(Listed { items: rows.iter().map(rollout_from_row).collect::<Result<_>>()?, cursor })
    }

    /// Attempts.
    pub async fn list_attempts(&self, filter: &ListFilter, part: &Part) -> Result<Listed<Attempt>> {
        let mut sql = start(&ATTEMPTS, filter);
        if let Some(statuses) = &filter.attempt_status_in {
            sql.push(" AND status IN ").list(statuses.iter().map(|status| status.as_str()));
        }
        if let Some(worker_id) = &filter.worker_id {
            sql.push(" AND worker_id = ").text(worker_id);
        }
        let (rows, cursor) = page(sql, &ATTEMPTS, part, &mut *self.database.reader().await?).await?;
        Ok(Listed { items: rows.iter().map(attempt_from_row).collect::<Result<_>>()?, cursor })
    }

    /// The latest attempts at these rollouts, by the rollouts' ids.
    pub async fn latest_attempts(&self, rollouts: &[Rollout]) -> Result<HashMap<String, Attempt>> {
        let ids = rollouts.iter().map(|rollout| rollout.rollout_id.clone()).collect();
        let of_these = ListFilter { rollout_id_in: Some(ids), ..ListFilter::default() };
        let mut latest: HashMap<String, Attempt> = HashMap::new();
        let every = Part::Newest { limit: None, sort_by: None };
        for attempt in self.list_attempts(&of_these, &every).await?.items {
            let known = latest.get(&attempt.rollout_id);
            if known.is_none_or(|known| known.sequence_id < attempt.sequence_id) {
                latest.insert(attempt.rollout_id.clone(), attempt);
            }
        }
        Ok(latest)
    }

    /// Spans, those of generations with their tokens as attributes.
    pub async fn list_spans(&self, filter: &ListFilter, part: &Part) -> Result<Listed<Span>> {
        let mut connection = self.database.reader().await?;
        let (rows, cursor) = page(start(&SPANS, filter), &SPANS, part, &mut connection).await?;
        let spans = rows.iter().map(span_from_row).collect::<Result<_>>()?;
        Ok(Listed { items: add_tokens_by_rollout(&mut connection, spans).await?, cursor })
    }

    /// Generations, each with its whole prompt.
    pub async fn list_generations(&self, filter: &ListFilter, part: &Part) -> Result<Listed<Generation>> {
        let mut sql = start(&GENERATIONS, filter);
        if let Some(model) = &filter.model {
            sql.push(" AND model = ").text(model);
        }
        let mut connection = self.database.reader().await?;
        let (rows, cursor) = page(sql, &GENERATIONS, part, &mut connection).await?;
        // Prompts are put together parents first, whatever the list is sorted by.
        let mut places: Vec<(i64, usize, AnyRow)> = rows
            .into_iter()
            .enumerate()
            .map(|(place, row)| Ok((column(&row, "position")?, place, row)))
            .collect::<Result<_>>()?;
        places.sort_by_key(|(position, ..)| *position);
        let (order, rows): (Vec<usize>, Vec<AnyRow>) = places.into_iter().map(|(_, place, row)| (place, row)).unzip();
        let mut places: Vec<_> = order.into_iter().zip(rebuild(&mut connection, &rows).await?).collect();
        places.sort_by_key(|(place, _)| *place);
        let items = places.into_iter().map(|(_, generation)| generation).collect();
        Ok(Listed { items, cursor })
    }

    /// Rewards, however their spans encode them.
    pub async fn list_rewards(&self, filter: &ListFilter, part: &Part) -> Result<Listed<FoundReward>> {
        let mut connection = self.database.reader().await?;
        let mut part = part.clone();
        let wanted = match &part {
            Part::Newest { limit, .. } => *limit,
            Part::After { .. } => None,
        };
        loop {
            let (rows, cursor) = page(start(&REWARDS, filter), &REWARDS, &part, &mut connection).await?;
            let spans = rows.iter().map(span_from_row).collect::<Result<Vec<_>>>()?;
            let mut items: Vec<FoundReward> = spans.iter().filter_map(found_reward).collect();
            let (Some(wanted), Part::Newest { limit: Some(looked_at), .. }) = (wanted, &mut part) else {
                return Ok(Listed { items, cursor });
            };
            if items.len() as u64 >= wanted || (rows.len() as u64) < *looked_at {
                items.drain(..items.len().saturating_sub(usize::try_from(wanted).unwrap_or(usize::MAX)));
                return Ok(Listed { items, cursor });
            }
            // Some of them only spoke of a reward.
            *looked_at *= 4;
        }
    }
}

/// The reward that a span holds, if it does, with its rollout and attempt.
pub fn found_reward(span: &Span) -> Option<FoundReward> {
    Some(FoundReward {
        rollout_id: span.rollout_id.clone(),
        span_name: span.name.clone(),
        recorded: recorded_reward(span)?,
    })
}

/// A query of one kind, with the conditions that several kinds share.
pub(crate) fn start(kind: &Kind, filter: &ListFilter) -> Sql {
    let mut sql = Sql::new("SELECT listed.*, ");
    sql.push(kind.key).push(" AS list_key FROM (").push(kind.select).push(") AS listed WHERE 1 = 1");
    if let Some(ids) = &filter.rollout_id_in {
        sql.push(" AND rollout_id IN ").list(ids.iter().map(String::as_str));
    }
    push_rollout_conditions(&mut sql, kind, filter);
    for (name, value) in [(kind.attempt_id, &filter.attempt_id), (kind.name, &filter.name)] {
        if let (Some(name), Some(value)) = (name, value) {
            sql.push(" AND ").push(name).push(" = ").text(value);
        }
    }
    if let Some(since) = filter.since {
        sql.push(" AND COALESCE(start_time, end_time) >= ").optional_real(Some(since));
    }
    sql
}

/// What only the rollout of a record knows.
fn push_rollout_conditions(sql: &mut Sql, kind: &Kind, filter: &ListFilter) {
    let any = filter.rollout_status_in.is_some()
        || filter.mode.is_some()
        || filter.run_id.is_some()
        || filter.of_no_run
        || filter.before_rollout.is_some()
        || filter.same_task_as.is_some()
        || filter.step.is_some()
        || filter.rollout_since.is_some();
    if !any {
        return;
    }
    let [before, after] = kind.of_rollouts.unwrap_or_default();
    sql.push(before);
    if let Some(statuses) = &filter.rollout_status_in {
        sql.push(" AND status IN ").list(statuses.iter().map(|status| status.as_str()));
    }
    if let Some(mode) = filter.mode {
        sql.push(" AND mode = ").text(mode.as_str());
    }
    if let Some(run_id) = &filter.run_id {
        sql.push(" AND run_id = ").text(run_id);
    }
    if filter.of_no_run {
        sql.push(" AND run_id IS NULL");
    }
    if let Some(before) = &filter.before_rollout {
        sql.push(" AND position < (SELECT position FROM rollouts WHERE rollout_id = ").text(before).push(")");
    }
    if let Some(like) = &filter.same_task_as {
        sql.push(" AND rollout_id <> ").text(like);
        sql.push(" AND input = (SELECT input FROM rollouts WHERE rollout_id = ").text(like).push(")");
    }
    if let Some(step) = filter.step {
        sql.push(" AND step = ").integer(step);
    }
    if let Some(since) = filter.rollout_since {
        sql.push(" AND start_time >= ").optional_real(Some(since));
    }
    sql.push(after);
}

/// Runs a query for a part of its list; the rows come newest last.
pub(crate) async fn page(
    mut sql: Sql,
    kind: &Kind,
    part: &Part,
    connection: &mut AnyConnection,
) -> Result<(Vec<AnyRow>, Cursor)> {
    let (rows, mut cursor) = match part {
        Part::Newest { limit, sort_by } => {
            sql.newest(*limit, sort_by.as_deref(), kind.sort_fields)?;
            let mut rows = sql.all(connection).await?;
            rows.reverse();
            (rows, Cursor::default())
        }
        Part::After { cursor, limit } => {
            sql.push(" AND position >= ").integer(cursor.position.saturating_sub(kind.slack));
            if !cursor.read.is_empty() {
                sql.push(" AND ").push(kind.key).push(" NOT IN ");
                sql.list(cursor.read.iter().map(|(_, key)| key.as_str()));
            }
            sql.push(" ORDER BY position, list_key").part(*limit, 0)?;
            (sql.all(connection).await?, cursor.clone())
        }
    };
    for row in &rows {
        let position = column(row, "position")?;
        cursor.read.insert((position, column(row, "list_key")?));
        cursor.position = cursor.position.max(position);
    }
    let oldest = cursor.position.saturating_sub(kind.slack);
    cursor.read = cursor.read.split_off(&(oldest, String::new()));
    Ok((rows, cursor))
}

/// Gives the spans of generations their tokens, rollout by rollout.
async fn add_tokens_by_rollout(connection: &mut AnyConnection, spans: Vec<Span>) -> Result<Vec<Span>> {
    let mut places: Vec<(usize, Span)> = spans.into_iter().enumerate().collect();
    places.sort_by(|(_, one), (_, other)| one.rollout_id.cmp(&other.rollout_id));
    let (order, mut spans): (Vec<usize>, Vec<Span>) = places.into_iter().unzip();
    for of_one_rollout in spans.chunk_by_mut(|one, other| one.rollout_id == other.rollout_id) {
        add_tokens(connection, of_one_rollout).await?;
    }
    let mut places: Vec<(usize, Span)> = order.into_iter().zip(spans).collect();
    places.sort_by_key(|(place, _)| *place);
    Ok(places.into_iter().map(|(_, span)| span).collect())
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{
        AttemptStatus, AttemptUpdate, AttemptedRollout, NewRollout, Reward, RolloutMode, RolloutStatus,
    };
    use serde_json::json;

    use super::*;
    use crate::Store;
    use crate::StoreError;
    use crate::database::dialect::Dialect;
    use crate::testing::{TestStore, generation};

    const ALL: Part = Part::Newest { limit: None, sort_by: None };

    fn newest(limit: u64) -> Part {
        Part::Newest { limit: Some(limit), sort_by: None }
    }

    /// What a database reads for the newest rows of a list, in its own words.
    async fn plan(store: &Store, filter: &ListFilter) -> (Dialect, String) {
        let mut connection = store.database().reader().await.unwrap();
        let dialect = Dialect::of(&connection);
        let mut sql = start(&ROLLOUTS, filter);
        sql.newest(Some(200), None, ROLLOUTS.sort_fields).unwrap();
        let (before, column_name) = match dialect {
            Dialect::Sqlite => ("EXPLAIN QUERY PLAN ", "detail"),
            Dialect::Postgres => ("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ", "QUERY PLAN"),
        };
        let rows = sql.inside(before, "").all(&mut connection).await.unwrap();
        let lines: Vec<String> = rows.iter().map(|row| column(row, column_name).unwrap()).collect();
        (dialect, lines.join("\n"))
    }

    /// Rows that the parts of PostgreSQL's plan gave, and those that they threw away.
    fn rows_read(plan: &str) -> u64 {
        let number = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<u64>();
        let after = |line: &str, word: &str| line.split_once(word).and_then(|(_, rest)| number(rest).ok());
        let given = plan.lines().filter_map(|line| after(line, "rows="));
        given.chain(plan.lines().filter_map(|line| after(line, "Rows Removed by Filter: "))).sum()
    }

    #[tokio::test]
    async fn the_newest_rollouts_are_found_without_reading_the_others() {
        let store = TestStore::new().await;
        let many = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 20000)
            INSERT INTO rollouts (rollout_id, input, start_time, end_time, mode, status, config, run_id, step)
            SELECT 'r' || n, 'null', n, n, 'train', 'succeeded', '{}',
                CASE WHEN n = 20000 THEN NULL WHEN n % 2 = 0 THEN 'one' ELSE 'two' END, n / 100
            FROM numbers";
        store
            .database()
            .write(move |write| {
                Box::pin(async move {
                    for statement in [many, "ANALYZE"] {
                        sqlx::query(statement).execute(write.connection()).await?;
                    }
                    Ok(())
                })
            })
            .await
            .unwrap();
        let run = |run_id: &str| ListFilter { run_id: Some(run_id.to_owned()), ..ListFilter::default() };
        for filter in [
            ListFilter::default(),
            run("one"),
            ListFilter { step: Some(7), ..run("two") },
            ListFilter { before_rollout: Some("r9000".to_owned()), ..run("one") },
            ListFilter { of_no_run: true, ..ListFilter::default() },
        ] {
            let (dialect, plan) = plan(&store, &filter).await;
            let is_cheap = match dialect {
                // Everything is found by an index, or read in the order of the list.
                Dialect::Sqlite => filter.step.is_some() || !plan.contains("TEMP B-TREE"),
                Dialect::Postgres => rows_read(&plan) < 2000,
            };
            assert!(is_cheap, "{filter:?}\n{plan}");
        }
        let listed = store
            .queries()
            .list_rollouts(&ListFilter { of_no_run: true, ..ListFilter::default() }, &ALL)
            .await
            .unwrap();
        assert_eq!(ids(listed), ["r20000"]);
        let before = ListFilter { before_rollout: Some("r5".to_owned()), ..run("two") };
        assert_eq!(ids(store.queries().list_rollouts(&before, &ALL).await.unwrap()), ["r1", "r3"]);
        let same = ListFilter { same_task_as: Some("r1".to_owned()), step: Some(0), ..run("two") };
        let same = ids(store.queries().list_rollouts(&same, &ALL).await.unwrap());
        assert_eq!((same.len(), same[0].as_str()), (49, "r3"), "all but itself");
    }

    async fn three_rollouts(store: &Store) -> Vec<AttemptedRollout> {
        let mut started = Vec::new();
        for (id, run_id) in [("c", "one"), ("a", "two"), ("b", "two")] {
            let rollout = NewRollout {
                rollout_id: Some(id.into()),
                mode: Some(if id == "c" { RolloutMode::Val } else { RolloutMode::Train }),
                metadata: json!({"run_id": run_id, "step": 1}).as_object().cloned(),
                ..NewRollout::default()
            };
            started.push(store.rollouts().start(rollout, Some(run_id)).await.unwrap());
        }
        started
    }

    fn ids(listed: Listed<Rollout>) -> Vec<String> {
        listed.items.into_iter().map(|rollout| rollout.rollout_id).collect()
    }

    #[tokio::test]
    async fn the_newest_come_last() {
        let store = TestStore::new().await;
        three_rollouts(&store).await;
        let filter = ListFilter::default();
        assert_eq!(ids(store.queries().list_rollouts(&filter, &ALL).await.unwrap()), ["c", "a", "b"]);
        assert_eq!(ids(store.queries().list_rollouts(&filter, &newest(2)).await.unwrap()), ["a", "b"]);
        let sorted = Part::Newest { limit: Some(2), sort_by: Some("rollout_id".into()) };
        assert_eq!(ids(store.queries().list_rollouts(&filter, &sorted).await.unwrap()), ["b", "c"]);
        let unknown = Part::Newest { limit: None, sort_by: Some("colour".into()) };
        let error = store.queries().list_rollouts(&filter, &unknown).await.unwrap_err();
        assert!(matches!(error, StoreError::Invalid { field, .. } if field == "sort_by"));
    }

    #[tokio::test]
    async fn every_condition_narrows_every_list_that_it_is_about() {
        let store = TestStore::new().await;
        let started = three_rollouts(&store).await;
        for (index, attempted) in started.iter().enumerate() {
            let mut generation = generation(&format!("g{index}"), attempted, &[1], &[2]);
            generation.model = attempted.rollout.rollout_id.clone();
            store.recording().record(generation).await.unwrap();
        }
        let failed = AttemptUpdate::status(AttemptStatus::Failed);
        store.attempts().update("a", "latest", failed).await.unwrap();
        // More than a statement takes arguments.
        let many = (0..70_000).map(|number| number.to_string()).chain(["a".to_owned()]).collect();
        let filters = [
            (ListFilter { rollout_id_in: Some(vec!["a".into()]), ..ListFilter::default() }, [1, 1, 1]),
            (ListFilter { rollout_id_in: Some(many), ..ListFilter::default() }, [1, 1, 1]),
            (ListFilter { mode: Some(RolloutMode::Train), ..ListFilter::default() }, [2, 2, 2]),
            (ListFilter { run_id: Some("two".into()), ..ListFilter::default() }, [2, 2, 2]),
            (ListFilter { step: Some(2), ..ListFilter::default() }, [0, 0, 0]),
            (ListFilter { rollout_status_in: Some(vec![RolloutStatus::Failed]), ..ListFilter::default() }, [1, 1, 1]),
            (ListFilter { attempt_status_in: Some(vec![AttemptStatus::Failed]), ..ListFilter::default() }, [3, 1, 3]),
            (ListFilter { worker_id: Some("one".into()), ..ListFilter::default() }, [3, 1, 3]),
            (ListFilter { model: Some("b".into()), ..ListFilter::default() }, [3, 3, 1]),
            (ListFilter { name: Some("none".into()), ..ListFilter::default() }, [3, 3, 0]),
            (ListFilter { since: Some(f64::from(u32::MAX)), ..ListFilter::default() }, [0, 0, 0]),
        ];
        for (filter, expected) in filters {
            let counts = [
                store.queries().list_rollouts(&filter, &ALL).await.unwrap().items.len(),
                store.queries().list_attempts(&filter, &ALL).await.unwrap().items.len(),
                store.queries().list_generations(&filter, &ALL).await.unwrap().items.len(),
            ];
            assert_eq!(counts, expected, "{filter:?}");
        }
    }

    #[tokio::test]
    async fn following_misses_nothing_and_repeats_nothing() {
        let store = TestStore::new().await;
        let filter = ListFilter::default();
        let (mut rollouts, mut attempts) = (Vec::new(), Vec::new());
        let mut cursors = (Cursor::default(), Cursor::default());
        for round in 0..5 {
            for _ in 0..round {
                store.start().await;
            }
            loop {
                let part = Part::After { cursor: cursors.0, limit: Some(2) };
                let listed = store.queries().list_rollouts(&filter, &part).await.unwrap();
                cursors.0 = listed.cursor;
                rollouts.extend(listed.items.iter().map(|rollout| rollout.rollout_id.clone()));
                let part = Part::After { cursor: cursors.1, limit: Some(2) };
                let more = store.queries().list_attempts(&filter, &part).await.unwrap();
                cursors.1 = more.cursor;
                attempts.extend(more.items.iter().map(|attempt| attempt.rollout_id.clone()));
                if listed.items.is_empty() && more.items.is_empty() {
                    break;
                }
            }
        }
        let all = ids(store.queries().list_rollouts(&filter, &ALL).await.unwrap());
        assert_eq!((all.len(), &rollouts), (10, &all));
        attempts.sort();
        rollouts.sort();
        assert_eq!(attempts, rollouts);
    }

    #[tokio::test]
    async fn spans_and_generations_are_as_the_other_queries_give_them() {
        let store = TestStore::new().await;
        let started = three_rollouts(&store).await;
        for (id, attempted, prompt) in
            [("1", &started[0], &[1][..]), ("2", &started[1], &[5]), ("3", &started[0], &[1, 2, 3])]
        {
            store.recording().record(generation(id, attempted, prompt, &[2])).await.unwrap();
        }
        let filter = ListFilter { rollout_id_in: Some(vec!["c".into()]), ..ListFilter::default() };
        let spans = store.queries().list_spans(&ListFilter::default(), &ALL).await.unwrap().items;
        assert_eq!(spans.iter().map(|span| span.span_id.as_str()).collect::<Vec<_>>(), ["span-1", "span-2", "span-3"]);
        assert_eq!(spans[2].attributes["prompt_token_ids"], json!([1, 2, 3]));
        let latest = store.queries().list_generations(&filter, &newest(1)).await.unwrap().items;
        assert_eq!(latest[0].prompt_tokens, [1, 2, 3]);
        let sorted = Part::Newest { limit: None, sort_by: Some("generation_id".into()) };
        let generations = store.queries().list_generations(&ListFilter::default(), &sorted).await.unwrap().items;
        let ids: Vec<&str> = generations.iter().map(|generation| generation.generation_id.as_str()).collect();
        assert_eq!(ids, ["1", "2", "3"]);
        assert_eq!(generations[2].prompt_tokens, [1, 2, 3]);
    }

    #[tokio::test]
    async fn as_many_rewards_are_found_as_asked_for() {
        let store = TestStore::new().await;
        let started = three_rollouts(&store).await;
        for value in [1.0, 2.0] {
            store.rewards().add("c", "latest", None, Reward::new(value)).await.unwrap();
        }
        for number in 0..5 {
            let mut generation = generation(&number.to_string(), &started[0], &[1], &[2]);
            generation.attributes.insert("gen_ai.prompt.0.content".into(), json!("what is a reward?"));
            store.recording().record(generation).await.unwrap();
        }
        let values = |listed: Listed<FoundReward>| {
            listed.items.into_iter().map(|found| found.recorded.reward.value).collect::<Vec<_>>()
        };
        let filter = ListFilter::default();
        assert_eq!(values(store.queries().list_rewards(&filter, &newest(1)).await.unwrap()), [2.0]);
        assert_eq!(values(store.queries().list_rewards(&filter, &newest(3)).await.unwrap()), [1.0, 2.0]);
        let part = Part::After { cursor: Cursor::default(), limit: None };
        assert_eq!(values(store.queries().list_rewards(&filter, &part).await.unwrap()), [1.0, 2.0]);
    }
}
