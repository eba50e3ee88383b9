use std::sync::{Arc, LazyLock};

use fulgurite_types::{
    AttemptRef, AttemptStatus, AttemptUpdate, NewGeneration, NewRollout, RolloutStatus, Span, StopReason,
};
use sqlx::{AnyConnection, AssertSqlSafe};

use crate::call_records::call_record::CallRecord;
use crate::call_records::columns::{Column, GENERATION, OWNER, SPAN, Writing, bind, names, width};
use crate::call_records::conversations::{RecordedConversation, StoredConversation};
use crate::call_records::tokens::{ContextHash, PrefixHasher};
use crate::checksums::Recorded;
use crate::database::sql::{HASHES_PER_QUERY, Sql, column, count, to_integer};
use crate::database::writer::Write;
use crate::generations::reading::load_chains;
use crate::rollouts::attempts::activity::{add_counts, record_activity};
use crate::rollouts::attempts::propagation::apply;
use crate::rollouts::attempts::rows::{existing_attempt, insert_attempt};
use crate::rollouts::changes::insert_rollout;
use crate::spans::writing::{allocate_sequence_id, insert_span, raise_sequence_id};
use crate::{Result, StoreError};
use fulgurite_types::time::now;

/// The sequence id of a rollout's first span.
const FIRST: u64 = 1;

const SPAN_COLUMNS: &[&[Column]] = &[OWNER, SPAN];
const GENERATION_COLUMNS: &[&[Column]] = &[OWNER, GENERATION];

static INSERT_SPAN: LazyLock<Arc<str>> = LazyLock::new(|| {
    let conflict = "ON CONFLICT (rollout_id, attempt_id, span_id) DO NOTHING";
    insertion("spans", SPAN_COLUMNS, &["sequence_id", "body"], conflict)
});

static INSERT_GENERATION: LazyLock<Arc<str>> = LazyLock::new(|| {
    let others = ["parent_id", "messages_parent_id", "messages"];
    insertion("generations", GENERATION_COLUMNS, &others, "ON CONFLICT (generation_id) DO NOTHING")
});

/// The insertion of a row that has columns of a call, and others behind them.
fn insertion(table: &str, columns: &[&[Column]], others: &[&str], conflict: &str) -> Arc<str> {
    let places: Vec<String> = (1..=width(columns) + others.len()).map(|number| format!("${number}")).collect();
    let (names, others, places) = (names("", columns), others.join(", "), places.join(", "));
    format!("INSERT INTO {table} ({names}, {others}) VALUES ({places}) {conflict}").into()
}

/// Records a call, and the session that begins and ends with it, if there is one.
pub(crate) async fn record_one_by_one(write: &mut Write, call: &CallRecord) -> Result<()> {
    if call.session.is_none() {
        return record_next(write, call).await;
    }
    let NewGeneration { rollout_id, attempt_id, .. } = &call.generation;
    let session = NewRollout { rollout_id: Some(rollout_id.clone()), ..NewRollout::session() };
    insert_rollout(write, session, RolloutStatus::Preparing).await?;
    let attempt = insert_attempt(write.connection(), rollout_id, attempt_id, None, None).await?;
    record_next(write, call).await?;
    let attempt = existing_attempt(write.connection(), rollout_id, &AttemptRef::Id(attempt.attempt_id)).await?;
    apply(write, attempt, AttemptUpdate::status(AttemptStatus::Succeeded)).await?;
    Ok(())
}

/// Records a call of an existing attempt.
async fn record_next(write: &mut Write, call: &CallRecord) -> Result<()> {
    let sequence_id = allocate_sequence_id(write, &call.generation.rollout_id).await?;
    record_at(write, call, sequence_id, sequence_id == FIRST, Recorded::default()).await
}

/// Records a call in the place of its beginning.
pub(super) async fn replace(write: &mut Write, call: &CallRecord) -> Result<()> {
    let NewGeneration { generation_id, rollout_id, attempt_id, .. } = &call.generation;
    // Nothing continues such a generation: its client never had it as an answer.
    let partial = sqlx::query(
        "DELETE FROM generations WHERE generation_id = $1 AND rollout_id = $2 AND attempt_id = $3 AND stop_reason = $4
         RETURNING span_id, checksum",
    )
    .bind(generation_id.as_str())
    .bind(rollout_id.as_str())
    .bind(attempt_id.as_str())
    .bind(StopReason::CLIENT_DISCONNECTED)
    .fetch_optional(write.connection())
    .await?
    .ok_or_else(|| StoreError::not_found("generation", generation_id))?;
    let span = sqlx::query(
        "DELETE FROM spans WHERE rollout_id = $1 AND attempt_id = $2 AND span_id = $3 RETURNING sequence_id, body",
    )
    .bind(rollout_id.as_str())
    .bind(attempt_id.as_str())
    .bind(column::<&str>(&partial, "span_id")?)
    .fetch_one(write.connection())
    .await?;
    let sequence_id = count(&span, "sequence_id")?;
    let replaced =
        Recorded::span(column(&span, "body")?, sequence_id)?.and(Recorded::generation(column(&partial, "checksum")?));
    record_at(write, call, sequence_id, false, replaced).await
}

/// Stores a generation of an archive together with its span, as they were; whether they were not there before.
pub(crate) async fn import(write: &mut Write, generation: NewGeneration, mut span: Span) -> Result<bool> {
    span.attributes = generation.attributes.clone();
    RecordedConversation::take(&mut span.attributes);
    let call = CallRecord::new(generation, &[])?;
    let conversation = stored_conversation(write.connection(), &call).await?;
    if !insert_span(write, &span).await? {
        return Ok(false);
    }
    raise_sequence_id(write, &span.rollout_id, span.sequence_id).await?;
    let parent = find_parent(write.connection(), &call).await?;
    insert(write.connection(), &call, parent.as_ref(), conversation.as_ref()).await?;
    let recorded = Recorded::generation(Some(call.checksum(held_by(parent.as_ref()))?));
    add_counts(write.connection(), &span.rollout_id, &span.attempt_id, recorded).await?;
    Ok(true)
}

/// Records a call of an existing attempt at its place, instead of a row that was removed. `is_first`: its rollout has had
/// no calls before, so that no parent need be looked for.
async fn record_at(
    write: &mut Write,
    call: &CallRecord,
    sequence_id: u64,
    is_first: bool,
    replaced: Recorded,
) -> Result<()> {
    let NewGeneration { rollout_id, attempt_id, .. } = &call.generation;
    let conversation = match (&call.conversation, is_first) {
        (Some(written), true) => Some(written.whole()),
        _ => stored_conversation(write.connection(), call).await?,
    };
    let parent = if is_first { None } else { find_parent(write.connection(), call).await? };
    let recorded = call.recorded(sequence_id, held_by(parent.as_ref()))?;
    record_activity(write, rollout_id, attempt_id, recorded.without(replaced)).await?;
    insert_call_span(write.connection(), call, sequence_id).await?;
    insert(write.connection(), call, parent.as_ref(), conversation.as_ref()).await
}

/// The columns that hold the call's messages.
async fn stored_conversation(connection: &mut AnyConnection, call: &CallRecord) -> Result<Option<StoredConversation>> {
    let Some(written) = &call.conversation else { return Ok(None) };
    let NewGeneration { rollout_id, attempt_id, .. } = &call.generation;
    written.without_known(connection, rollout_id, attempt_id).await.map(Some)
}

async fn insert_call_span(connection: &mut AnyConnection, call: &CallRecord, sequence_id: u64) -> Result<()> {
    let generation = &call.generation;
    let query = sqlx::query(AssertSqlSafe(Arc::clone(&INSERT_SPAN)));
    let inserted = bind(query, SPAN_COLUMNS, call, Writing { held_tokens: 0, time: now() })?
        .bind(to_integer("sequence_id", sequence_id)?)
        .bind(call.body.at(sequence_id))
        .execute(&mut *connection)
        .await?
        .rows_affected();
    if inserted > 0 {
        return Ok(());
    }
    refuse_known(connection, &generation.generation_id).await?;
    Err(StoreError::Conflict { kind: "span", id: generation.span_id.clone() })
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

/// A generation that others may continue.
struct Context {
    generation_id: String,
    /// Tokens of its prompt and answer.
    length: usize,
}

/// The tokens of a prompt that its parent holds.
fn held_by(parent: Option<&Context>) -> usize {
    parent.map_or(0, |parent| parent.length)
}

/// The generation of the same attempt whose prompt and answer are the longest prefix of this prompt; of equal ones,
/// the latest.
async fn find_parent(connection: &mut AnyConnection, call: &CallRecord) -> Result<Option<Context>> {
    let generation = &call.generation;
    let rows = sqlx::query(
        "SELECT DISTINCT context_length FROM generations
         WHERE rollout_id = $1 AND attempt_id = $2 AND context_length > 0 AND context_length <= $3
         ORDER BY context_length",
    )
    .bind(generation.rollout_id.as_str())
    .bind(generation.attempt_id.as_str())
    .bind(to_integer("prompt_tokens", generation.prompt_tokens.len())?)
    .fetch_all(&mut *connection)
    .await?;
    let lengths = rows.iter().map(|row| count(row, "context_length")).collect::<Result<Vec<usize>>>()?;
    let mut hasher = PrefixHasher::new(call.prompt());
    let hashes: Vec<ContextHash> = lengths.into_iter().filter_map(|length| hasher.prefix(length)).collect();
    // The longest first.
    for hashes in hashes.rchunks(HASHES_PER_QUERY) {
        if let Some(parent) = longest_with(connection, generation, hashes).await? {
            return Ok(Some(parent));
        }
    }
    Ok(None)
}

/// The generation of the same attempt whose prompt and answer have one of these hashes and are the longest prefix of
/// this prompt; of equal ones, the latest.
async fn longest_with(
    connection: &mut AnyConnection,
    generation: &NewGeneration,
    hashes: &[ContextHash],
) -> Result<Option<Context>> {
    let mut sql = Sql::new("SELECT generation_id, context_length FROM generations WHERE rollout_id = ");
    sql.text(&generation.rollout_id).push(" AND attempt_id = ").text(&generation.attempt_id);
    sql.push(" AND context_length > 0 AND context_hash IN ").hashes(hashes);
    sql.push(" AND stop_reason <> ").text(StopReason::CLIENT_DISCONNECTED);
    sql.push(" ORDER BY context_length DESC, position DESC");
    for row in sql.all(connection).await? {
        let candidate =
            Context { generation_id: column(&row, "generation_id")?, length: count(&row, "context_length")? };
        // A hash is only a candidate; the tokens themselves decide.
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
    call: &CallRecord,
    parent: Option<&Context>,
    conversation: Option<&StoredConversation>,
) -> Result<()> {
    let generation = &call.generation;
    let query = sqlx::query(AssertSqlSafe(Arc::clone(&INSERT_GENERATION)));
    let inserted = bind(query, GENERATION_COLUMNS, call, Writing { held_tokens: held_by(parent), time: now() })?
        .bind(parent.map(|parent| parent.generation_id.as_str()))
        .bind(conversation.and_then(|conversation| conversation.parent_id.as_deref()))
        .bind(conversation.map(|conversation| conversation.messages.as_str()))
        .execute(connection)
        .await?
        .rows_affected();
    match inserted {
        0 => Err(conflict(&generation.generation_id)),
        _ => Ok(()),
    }
}
