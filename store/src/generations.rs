//! Generations: one answered model call each, stored as what it adds to the generation that it continues.

use std::collections::{HashMap, HashSet};

use sqlx::AnyConnection;
use sqlx::any::AnyRow;

use crate::attempts::hear_of;
use crate::conversations::{Conversation, StoredConversation};
use crate::generation_spans::span_of;
use crate::model::{Generation, GenerationFilter, NewGeneration, RecordedGeneration, Span, WeightsFrom};
use crate::spans::{allocate_sequence_id, insert_span, raise_sequence_id};
use crate::sql::{SortField, Sql, column, count, json, optional_plain, plain, to_integer, to_json};
use crate::tokens::{ContextHash, PrefixHasher, pack_logprobs, pack_tokens, unpack_logprobs, unpack_tokens};
use crate::writer::Write;
use crate::{Result, Store, StoreError};

/// The sequence id of a rollout's first span.
const FIRST: u64 = 1;
/// Why a generation must not be trained: at least one of its logprobs was not a finite number.
const NON_FINITE_LOGPROBS: &str = "non_finite_logprobs";
/// Why sampling ended where its client had gone: such an answer is nobody's, and nothing continues it.
pub(crate) const CLIENT_GONE: &str = "client_gone";
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

impl Store {
    /// Records an answered model call in one transaction: its span, its tokens, and that its attempt has been heard
    /// of. Refused, with nothing stored, if the attempt is not known, if the id is taken, or if the lists do not fit
    /// each other. Logprobs that are not all finite are left out, and the generation says so as its defect.
    pub async fn record_generation(&self, generation: NewGeneration) -> Result<RecordedGeneration> {
        validate(&generation)?;
        let telling = self.telling(&generation);
        let recorded = self.write(move |write| Box::pin(async move { record(write, generation).await })).await?;
        telling.into_iter().for_each(|telling| telling.recorded(&recorded));
        Ok(recorded)
    }

    /// Records a model call that was answered to its end in the place of its beginning, which was recorded when its
    /// client had gone: the same id, the same place among the spans. Refused, with nothing changed, where no such
    /// beginning is recorded.
    pub async fn replace_generation(&self, generation: NewGeneration) -> Result<RecordedGeneration> {
        validate(&generation)?;
        let telling = self.telling(&generation);
        let recorded = self.write(move |write| Box::pin(async move { replace(write, generation).await })).await?;
        telling.into_iter().for_each(|telling| telling.recorded(&recorded));
        Ok(recorded)
    }

    /// Notes whether the client of a generation hung up before it had the whole answer.
    pub async fn set_client_gone(&self, generation_id: &str, client_gone: bool) -> Result<()> {
        let generation_id = generation_id.to_owned();
        self.write(move |write| {
            Box::pin(async move {
                let marked = sqlx::query("UPDATE generations SET client_gone = $2 WHERE generation_id = $1")
                    .bind(generation_id.as_str())
                    .bind(i64::from(client_gone))
                    .execute(write.connection())
                    .await?
                    .rows_affected();
                if marked == 0 { Err(StoreError::not_found("generation", &generation_id)) } else { Ok(()) }
            })
        })
        .await
    }

    /// Generations that meet a filter, in the order in which they were recorded, each with its whole prompt.
    pub async fn generations(&self, filter: &GenerationFilter) -> Result<Vec<Generation>> {
        let mut connection = self.reader().await?;
        let rows = matching(SELECT, filter)?.all(&mut connection).await?;
        rebuild(&mut connection, &rows).await
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

fn validate(generation: &NewGeneration) -> Result<()> {
    for (field, value) in [("generation_id", &generation.generation_id), ("span_id", &generation.span_id)] {
        if value.is_empty() {
            return Err(StoreError::invalid(field, "must not be empty"));
        }
    }
    for (field, time) in [("start_time", generation.start_time), ("end_time", generation.end_time)] {
        if !time.is_finite() {
            return Err(StoreError::invalid(field, "is not a finite number"));
        }
    }
    let sampled = generation.sampled_tokens.len();
    if let Some(logprobs) = &generation.logprobs
        && logprobs.len() != sampled
    {
        let message = format!("has {} entries for {sampled} sampled tokens", logprobs.len());
        return Err(StoreError::invalid("logprobs", message));
    }
    validate_weights(&generation.weights_versions, sampled)
}

fn validate_weights(weights: &[WeightsFrom], sampled: usize) -> Result<()> {
    let begins_at_0 = weights.first().is_none_or(|first| first.first_token == 0);
    let increases = weights.windows(2).all(|pair| pair[0].first_token < pair[1].first_token);
    let ends_inside = weights.last().is_none_or(|last| last.first_token < sampled);
    if begins_at_0 && increases && ends_inside {
        return Ok(());
    }
    let message = format!("must begin at token 0, increase, and stay below the {sampled} sampled tokens");
    Err(StoreError::invalid("weights_versions", message))
}

async fn record(write: &mut Write, generation: NewGeneration) -> Result<RecordedGeneration> {
    hear_of(write, &generation.rollout_id, &generation.attempt_id).await?;
    let sequence_id = allocate_sequence_id(write, &generation.rollout_id).await?;
    record_at(write, generation, sequence_id, sequence_id == FIRST).await
}

async fn replace(write: &mut Write, generation: NewGeneration) -> Result<RecordedGeneration> {
    hear_of(write, &generation.rollout_id, &generation.attempt_id).await?;
    // Nothing continues such a generation: its client never had it as an answer.
    let begun = sqlx::query(
        "DELETE FROM generations WHERE generation_id = $1 AND rollout_id = $2 AND attempt_id = $3 AND stop_reason = $4
         RETURNING span_id",
    )
    .bind(generation.generation_id.as_str())
    .bind(generation.rollout_id.as_str())
    .bind(generation.attempt_id.as_str())
    .bind(CLIENT_GONE)
    .fetch_optional(write.connection())
    .await?
    .ok_or_else(|| StoreError::not_found("generation", &generation.generation_id))?;
    let span = sqlx::query(
        "DELETE FROM spans WHERE rollout_id = $1 AND attempt_id = $2 AND span_id = $3 RETURNING sequence_id",
    )
    .bind(generation.rollout_id.as_str())
    .bind(generation.attempt_id.as_str())
    .bind(column::<&str>(&begun, "span_id")?)
    .fetch_one(write.connection())
    .await?;
    record_at(write, generation, count(&span, "sequence_id")?, false).await
}

/// Records a generation at its place. `is_first` says that its rollout has had none before, so that none need be looked
/// for.
async fn record_at(
    write: &mut Write,
    mut generation: NewGeneration,
    sequence_id: u64,
    is_first: bool,
) -> Result<RecordedGeneration> {
    let conversation = take_conversation(write.connection(), &mut generation, is_first).await?;
    let span = span_of(&generation, generation.attributes.clone(), sequence_id);
    if !insert_span(write, &span).await? {
        refuse_known(write.connection(), &generation.generation_id).await?;
        return Err(StoreError::Conflict { kind: "span", id: generation.span_id });
    }
    let parent = if is_first { None } else { find_parent(write.connection(), &generation).await? };
    insert(write.connection(), &generation, parent.as_ref(), conversation.as_ref()).await?;
    Ok(RecordedGeneration {
        generation_id: generation.generation_id,
        sequence_id,
        parent_id: parent.map(|parent| parent.generation_id),
    })
}

/// Takes the conversation out of a generation's attributes, as far as the store keeps it elsewhere.
async fn take_conversation(
    connection: &mut AnyConnection,
    generation: &mut NewGeneration,
    is_first: bool,
) -> Result<Option<StoredConversation>> {
    let Some(conversation) = Conversation::take(&mut generation.attributes) else { return Ok(None) };
    if is_first {
        return conversation.whole().map(Some);
    }
    conversation.without_known(connection, &generation.rollout_id, &generation.attempt_id).await.map(Some)
}

async fn refuse_known(connection: &mut AnyConnection, generation_id: &str) -> Result<()> {
    let known = sqlx::query("SELECT 1 FROM generations WHERE generation_id = $1")
        .bind(generation_id)
        .fetch_optional(connection)
        .await?;
    match known {
        None => Ok(()),
        Some(_) => Err(conflict(generation_id)),
    }
}

fn conflict(generation_id: &str) -> StoreError {
    StoreError::Conflict { kind: "generation", id: generation_id.to_owned() }
}

/// Stores a generation of an archive together with its span, as they were; whether they were not there before.
pub(crate) async fn import(write: &mut Write, mut generation: NewGeneration, span: Span) -> Result<bool> {
    validate(&generation)?;
    let conversation = take_conversation(write.connection(), &mut generation, false).await?;
    let span = Span { attributes: generation.attributes.clone(), ..span };
    if !insert_span(write, &span).await? {
        return Ok(false);
    }
    raise_sequence_id(write, &span.rollout_id, span.sequence_id).await?;
    let parent = find_parent(write.connection(), &generation).await?;
    insert(write.connection(), &generation, parent.as_ref(), conversation.as_ref()).await?;
    Ok(true)
}

/// A generation that others may continue.
struct Context {
    generation_id: String,
    /// Tokens of its prompt and answer.
    length: usize,
    hash: Vec<u8>,
}

/// The generation of the same attempt whose prompt and answer are the longest prefix of this prompt; of equal ones,
/// the latest.
async fn find_parent(connection: &mut AnyConnection, generation: &NewGeneration) -> Result<Option<Context>> {
    let rows = sqlx::query(
        "SELECT generation_id, context_length, context_hash FROM generations
         WHERE rollout_id = $1 AND attempt_id = $2 AND context_length > 0 AND context_length <= $3
             AND stop_reason <> $4
         ORDER BY context_length, position",
    )
    .bind(generation.rollout_id.as_str())
    .bind(generation.attempt_id.as_str())
    .bind(to_integer("prompt_tokens", generation.prompt_tokens.len())?)
    .bind(CLIENT_GONE)
    .fetch_all(&mut *connection)
    .await?;
    let mut hasher = PrefixHasher::new(&generation.prompt_tokens);
    let mut matching = Vec::new();
    for row in &rows {
        let candidate = Context {
            generation_id: column(row, "generation_id")?,
            length: count(row, "context_length")?,
            hash: column(row, "context_hash")?,
        };
        if hasher.prefix(candidate.length).is_some_and(|hash| hash[..] == candidate.hash) {
            matching.push(candidate);
        }
    }
    while let Some(candidate) = matching.pop() {
        // A hash only says where to look; the tokens themselves decide.
        let chain = load_chains(connection, &[candidate.generation_id.as_str()]).await?;
        let mut context = Vec::with_capacity(candidate.length);
        for link in chain {
            context.extend(link.prompt_delta);
            context.extend(link.sampled_tokens);
        }
        if generation.prompt_tokens.starts_with(&context) && context.len() == candidate.length {
            return Ok(Some(candidate));
        }
        tracing::warn!(generation_id = candidate.generation_id, "a context hash matches tokens that differ");
    }
    Ok(None)
}

/// Inserts a generation, unless its id is taken.
async fn insert(
    connection: &mut AnyConnection,
    generation: &NewGeneration,
    parent: Option<&Context>,
    conversation: Option<&StoredConversation>,
) -> Result<()> {
    let held_by_parent = parent.map_or(0, |parent| parent.length);
    let prompt_delta = generation.prompt_tokens.get(held_by_parent..).unwrap_or_default();
    let (context_length, context_hash) = context(generation);
    let finite = generation.logprobs.as_ref().is_none_or(|logprobs| logprobs.iter().all(|value| value.is_finite()));
    let logprobs = generation.logprobs.as_ref().filter(|_| finite);
    let inserted = sqlx::query(
        "INSERT INTO generations (generation_id, rollout_id, attempt_id, span_id, parent_id, branch_reason, model,
             prompt_tokens, sampled_tokens, logprobs, sampled_length, context_length, context_hash, stop_reason,
             weights_versions, sampling, seed, renderer, tokenizer, request_digest, client_gone, defect,
             messages_parent_id, messages, answer, messages_length, messages_hash)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
             $23, $24, $25, $26, $27)
         ON CONFLICT (generation_id) DO NOTHING",
    )
    .bind(plain("generation_id", &generation.generation_id)?)
    .bind(generation.rollout_id.as_str())
    .bind(generation.attempt_id.as_str())
    .bind(generation.span_id.as_str())
    .bind(parent.map(|parent| parent.generation_id.as_str()))
    .bind(optional_plain("branch_reason", generation.branch_reason.as_deref())?)
    .bind(plain("model", &generation.model)?)
    .bind(pack_tokens(prompt_delta))
    .bind(pack_tokens(&generation.sampled_tokens))
    .bind(logprobs.map(|logprobs| pack_logprobs(logprobs)))
    .bind(to_integer("sampled_tokens", generation.sampled_tokens.len())?)
    .bind(to_integer("prompt_tokens", context_length)?)
    .bind(&context_hash[..])
    .bind(plain("stop_reason", &generation.stop_reason)?)
    .bind(to_json("weights_versions", &generation.weights_versions)?)
    .bind(to_json("sampling", &generation.sampling)?)
    .bind(generation.seed.cast_signed())
    .bind(plain("renderer", &generation.renderer)?)
    .bind(plain("tokenizer", &generation.tokenizer)?)
    .bind(plain("request_digest", &generation.request_digest)?)
    .bind(i64::from(generation.client_gone))
    .bind(optional_plain("defect", Some(NON_FINITE_LOGPROBS).filter(|_| !finite).or(generation.defect.as_deref()))?)
    .bind(conversation.and_then(|conversation| conversation.parent_id.as_deref()))
    .bind(conversation.map(|conversation| conversation.messages.as_str()))
    .bind(conversation.map(|conversation| conversation.answer.as_str()))
    .bind(conversation.map(|conversation| conversation.length))
    .bind(conversation.map(|conversation| &conversation.hash[..]))
    .execute(connection)
    .await?
    .rows_affected();
    match inserted {
        0 => Err(conflict(&generation.generation_id)),
        _ => Ok(()),
    }
}

/// Length and hash of what a later prompt must begin with to continue this generation.
fn context(generation: &NewGeneration) -> (usize, ContextHash) {
    let tokens = [generation.prompt_tokens.as_slice(), generation.sampled_tokens.as_slice()].concat();
    let hash = PrefixHasher::new(&tokens).prefix(tokens.len()).unwrap_or_default();
    (tokens.len(), hash)
}

/// A generation's own tokens, and whom it continues.
struct Link {
    generation_id: String,
    parent_id: Option<String>,
    prompt_delta: Vec<u32>,
    sampled_tokens: Vec<u32>,
}

/// These generations and all that they continue, parents before children.
async fn load_chains(connection: &mut AnyConnection, generation_ids: &[&str]) -> Result<Vec<Link>> {
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
pub(crate) async fn generations_behind(
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
        branch_reason: column(row, "branch_reason")?,
        start_time: column(row, "start_time")?,
        end_time: column(row, "end_time")?,
        model: column(row, "model")?,
        prompt_tokens: tokens(row, "prompt_tokens")?,
        sampled_tokens: tokens(row, "sampled_tokens")?,
        logprobs: logprobs.map(|bytes| unpack_logprobs(bytes).ok_or_else(|| not_in_fours("logprobs"))).transpose()?,
        stop_reason: column(row, "stop_reason")?,
        weights_versions: json(row, "weights_versions")?,
        sampling: json(row, "sampling")?,
        seed: column::<i64>(row, "seed")?.cast_unsigned(),
        renderer: column(row, "renderer")?,
        tokenizer: column(row, "tokenizer")?,
        request_digest: column(row, "request_digest")?,
        client_gone: column::<i64>(row, "client_gone")? != 0,
        defect: column(row, "defect")?,
    })
}

fn tokens(row: &AnyRow, name: &'static str) -> Result<Vec<u32>> {
    unpack_tokens(column(row, name)?).ok_or_else(|| not_in_fours(name))
}

fn not_in_fours(column: &str) -> StoreError {
    StoreError::Corrupt { column: column.to_owned(), message: "its length is not a multiple of 4".into() }
}

#[cfg(test)]
mod tests;
