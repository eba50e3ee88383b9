//! Generations: one answered model call each, stored as what it adds to the generation that it continues.

use std::collections::{HashMap, HashSet};

use fulgurite_types::{Generation, GenerationFilter, unpack_logprobs, unpack_tokens};
use sqlx::AnyConnection;
use sqlx::any::AnyRow;

use crate::database::sql::{SortField, Sql, column, count, json, optional_word, word};
use crate::generations::Generations;
use crate::{Result, StoreError};

/// Ids in one `IN (..)`.
const IDS_PER_QUERY: usize = 10_000;

pub(crate) const SORT_FIELDS: &[SortField] = &[
    SortField::text("generation_id"),
    SortField::text("rollout_id"),
    SortField::text("attempt_id"),
    SortField::time("start_time"),
    SortField::time("end_time"),
    SortField::text("model"),
    SortField::number("sampled_length"),
    SortField::number("context_length"),
    SortField::text("stop_reason"),
];

pub(crate) const SELECT: &str = "SELECT g.*, s.trace_id, s.name, s.sequence_id, s.start_time, s.end_time
    FROM generations g JOIN spans s USING (rollout_id, attempt_id, span_id) WHERE 1 = 1";

impl Generations {
    /// Generations that meet a filter, in the order in which they were recorded, each with its whole prompt.
    pub async fn matching(&self, filter: &GenerationFilter) -> Result<Vec<Generation>> {
        let mut connection = self.database.reader().await?;
        let rows = matching(SELECT, filter)?.all(&mut connection).await?;
        rebuild(&mut connection, &rows).await
    }

    /// Fingerprints of the tokenizers that a rollout's generations were made with.
    pub async fn tokenizers_of(&self, rollout_id: &str) -> Result<Vec<String>> {
        let mut sql = Sql::new("SELECT DISTINCT tokenizer FROM generations WHERE rollout_id = ");
        sql.text(rollout_id).push(" ORDER BY tokenizer");
        sql.all(&mut *self.database.reader().await?).await?.iter().map(|row| column(row, "tokenizer")).collect()
    }

    /// The generations of an attempt behind a place among all, 0 being before the first: places and ids, in their order.
    /// One whose place is behind another's was committed after it, too.
    pub async fn after(&self, rollout_id: &str, attempt_id: &str, place: i64) -> Result<Vec<(i64, String)>> {
        let mut sql = Sql::new("SELECT position, generation_id FROM generations WHERE rollout_id = ");
        sql.text(rollout_id).push(" AND attempt_id = ").text(attempt_id);
        sql.push(" AND position > ").integer(place).push(" ORDER BY position");
        let rows = self.database.patiently(|| async { sql.all(&mut *self.database.reader().await?).await }).await?;
        rows.iter().map(|row| Ok((column(row, "position")?, column(row, "generation_id")?))).collect()
    }
}

/// Rows of `select`, which is [`SELECT`] or has its columns and more, that meet a filter, in the order of recording.
pub(crate) fn matching(select: &str, filter: &GenerationFilter) -> Result<Sql> {
    let mut sql = Sql::new(select);
    for (condition, value) in [
        (" AND g.generation_id = ", &filter.generation_id),
        (" AND g.rollout_id = ", &filter.rollout_id),
        (" AND g.attempt_id = ", &filter.attempt_id),
        (" AND g.request_digest = ", &filter.request_digest),
    ] {
        if let Some(value) = value {
            sql.push(condition).text(value);
        }
    }
    if let Some(run_id) = &filter.run_id {
        sql.push(" AND g.rollout_id IN (SELECT rollout_id FROM rollouts WHERE run_id = ").text(run_id).push(")");
    }
    sql.push(" ORDER BY g.position").part(filter.limit, filter.offset)?;
    Ok(sql)
}

/// A generation's own tokens, and whom it continues.
pub(crate) struct Link {
    generation_id: String,
    parent_id: Option<String>,
    pub prompt_delta: Vec<u32>,
    pub sampled_tokens: Vec<u32>,
}

/// These generations and all that they continue, parents before children.
pub(crate) async fn load_chains(connection: &mut AnyConnection, generation_ids: &[&str]) -> Result<Vec<Link>> {
    let mut sql = Sql::new(
        "WITH RECURSIVE needed (generation_id) AS (
             SELECT generation_id FROM generations WHERE generation_id IN ",
    );
    sql.list(generation_ids.iter().copied()).push(
        "    UNION
             SELECT g.parent_id FROM generations g JOIN needed USING (generation_id) WHERE g.parent_id IS NOT NULL
         )
         SELECT generation_id, parent_id, prompt_tokens, sampled_tokens
         FROM generations JOIN needed USING (generation_id) ORDER BY position",
    );
    sql.all(connection)
        .await?
        .iter()
        .map(|row| {
            Ok(Link {
                generation_id: column(row, "generation_id")?,
                parent_id: column(row, "parent_id")?,
                prompt_delta: tokens(row, "prompt_tokens")?,
                sampled_tokens: tokens(row, "sampled_tokens")?,
            })
        })
        .collect()
}

/// Reads rows of [`SELECT`], parents before children, and puts the prompts together.
pub(crate) async fn rebuild(connection: &mut AnyConnection, rows: &[AnyRow]) -> Result<Vec<Generation>> {
    let mut generations: Vec<Generation> = rows.iter().map(generation_from_row).collect::<Result<_>>()?;
    let mut contexts = outside_contexts(connection, &generations).await?;
    let continued: HashSet<String> = generations.iter().filter_map(|generation| generation.parent_id.clone()).collect();
    for generation in &mut generations {
        if let Some(parent_id) = &generation.parent_id {
            let parent = contexts.get(parent_id).ok_or_else(|| missing_parent(parent_id))?;
            generation.prompt_tokens.splice(0..0, parent.iter().copied());
        }
        if continued.contains(&generation.generation_id) {
            let context = [generation.prompt_tokens.as_slice(), generation.sampled_tokens.as_slice()].concat();
            contexts.insert(generation.generation_id.clone(), context);
        }
    }
    Ok(generations)
}

/// Prompt and answer of every generation that one of these continues and that is not among them.
async fn outside_contexts(
    connection: &mut AnyConnection,
    generations: &[Generation],
) -> Result<HashMap<String, Vec<u32>>> {
    let inside: HashSet<&str> = generations.iter().map(|generation| generation.generation_id.as_str()).collect();
    let outside: HashSet<&str> = generations
        .iter()
        .filter_map(|generation| generation.parent_id.as_deref())
        .filter(|parent_id| !inside.contains(parent_id))
        .collect();
    let mut contexts: HashMap<String, Vec<u32>> = HashMap::new();
    for ids in outside.into_iter().collect::<Vec<_>>().chunks(IDS_PER_QUERY) {
        for link in load_chains(connection, ids).await? {
            let mut context = match &link.parent_id {
                Some(parent_id) => contexts.get(parent_id).ok_or_else(|| missing_parent(parent_id))?.clone(),
                None => Vec::new(),
            };
            context.extend(link.prompt_delta);
            context.extend(link.sampled_tokens);
            contexts.insert(link.generation_id, context);
        }
    }
    Ok(contexts)
}

fn missing_parent(parent_id: &str) -> StoreError {
    StoreError::Corrupt { column: "parent_id".into(), message: format!("{parent_id} was not recorded before") }
}

/// Generations of one rollout that have one of these spans or one of these ids.
pub(crate) async fn generations_of_spans(
    connection: &mut AnyConnection,
    rollout_id: &str,
    span_ids: &[&str],
    generation_ids: &[&str],
) -> Result<Vec<Generation>> {
    let mut generations = Vec::new();
    for (key, ids) in [(" AND g.span_id IN ", span_ids), (" AND g.generation_id IN ", generation_ids)] {
        for ids in ids.chunks(IDS_PER_QUERY) {
            let mut sql = Sql::new(SELECT);
            sql.push(" AND g.rollout_id = ").text(rollout_id).push(key);
            sql.list(ids.iter().copied()).push(" ORDER BY g.position");
            let rows = sql.all(connection).await?;
            generations.extend(rebuild(connection, &rows).await?);
        }
    }
    Ok(generations)
}

/// Reads a row of [`SELECT`]; `prompt_tokens` is what the parent does not hold.
fn generation_from_row(row: &AnyRow) -> Result<Generation> {
    let logprobs: Option<&[u8]> = column(row, "logprobs")?;
    Ok(Generation {
        generation_id: column(row, "generation_id")?,
        rollout_id: column(row, "rollout_id")?,
        attempt_id: column(row, "attempt_id")?,
        span_id: column(row, "span_id")?,
        trace_id: column(row, "trace_id")?,
        name: column(row, "name")?,
        sequence_id: count(row, "sequence_id")?,
        parent_id: column(row, "parent_id")?,
        branch_reason: optional_word(row, "branch_reason")?,
        start_time: column(row, "start_time")?,
        end_time: column(row, "end_time")?,
        model: column(row, "model")?,
        prompt_tokens: tokens(row, "prompt_tokens")?,
        sampled_tokens: tokens(row, "sampled_tokens")?,
        logprobs: logprobs.map(|bytes| unpack_logprobs(bytes).ok_or_else(|| not_in_fours("logprobs"))).transpose()?,
        stop_reason: word(row, "stop_reason")?,
        weights_versions: json(row, "weights_versions")?,
        sampling: json(row, "sampling")?,
        seed: column::<i64>(row, "seed")?.cast_unsigned(),
        renderer: column(row, "renderer")?,
        tokenizer: column(row, "tokenizer")?,
        request_digest: column(row, "request_digest")?,
        client_disconnected: column::<i64>(row, "client_gone")? != 0,
        defect: optional_word(row, "defect")?,
    })
}

pub(crate) fn tokens(row: &AnyRow, name: &'static str) -> Result<Vec<u32>> {
    unpack_tokens(column(row, name)?).ok_or_else(|| not_in_fours(name))
}

fn not_in_fours(column: &str) -> StoreError {
    StoreError::Corrupt { column: column.to_owned(), message: "its length is not a multiple of 4".into() }
}
