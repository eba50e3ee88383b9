//! Calls as one statement of SQLite's: the insertion into a view, whose trigger does whatever a call changes. Outside a
//! transaction the statement is one, so that a call is one trip to the database and one commit.

use std::sync::{Arc, LazyLock};

use sqlx::{AnyConnection, AssertSqlSafe};

use crate::Result;
use crate::database::clock::now;
use crate::database::sql::to_integer;
use crate::error::is_constraint;
use crate::recording::call_record::CallRecord;
use crate::recording::columns::{CallQuery, bind_generation, bind_span};

/// Calls that one statement takes, at most.
pub(crate) const CALLS_AT_ONCE: usize = 32;

/// Makes view and trigger, of the one connection.
///
/// A call with `session_config` is the only one of a session, which begins and ends with it; it does not matter which of
/// the triggers comes first. The number behind `&` is [`crate::checksums::MASK`]. An insertion of a `SELECT` would be a table of its own in between, made for every call, as
/// would an order be, and so there is neither.
///
/// A generation's parent is the one of its attempt whose prompt and answer are the longest prefix of its prompt, of
/// equal ones the latest. `parent_length` and `parent_hash` are a guess, as are those of the messages: refused if there
/// is none such, or if another one might be longer, whose tokens would have to be looked at. Of messages it is told the
/// hashes of all beginnings that are longer than the guess, one behind the other, of 32 bytes each.
pub(crate) const PREPARATION: &str = "
    CREATE TEMP VIEW call_records AS SELECT
        NULL AS rollout_id, NULL AS attempt_id, NULL AS span_id, NULL AS trace_id, NULL AS name, NULL AS start_time,
        NULL AS end_time, NULL AS generation_id, NULL AS branch_reason, NULL AS model, NULL AS sampled_tokens,
        NULL AS logprobs, NULL AS sampled_length, NULL AS context_length, NULL AS context_hash, NULL AS stop_reason,
        NULL AS weights_versions, NULL AS sampling, NULL AS seed, NULL AS renderer, NULL AS tokenizer,
        NULL AS request_digest, NULL AS client_gone, NULL AS defect, NULL AS heard_time, NULL AS body_before,
        NULL AS body_after, NULL AS prompt_tokens, NULL AS parent_length, NULL AS parent_hash, NULL AS first_message,
        NULL AS later_messages, NULL AS answer, NULL AS messages_length, NULL AS messages_hash,
        NULL AS messages_parent_length, NULL AS messages_parent_hash, NULL AS session_config,
        NULL AS session_metadata, NULL AS messages_hashes, NULL AS checksum, NULL AS span_digest;
    CREATE TEMP TRIGGER session_is_recorded INSTEAD OF INSERT ON call_records WHEN NEW.session_config IS NOT NULL BEGIN
        INSERT INTO rollouts (rollout_id, input, start_time, end_time, resources_id, status, config, metadata)
        VALUES (NEW.rollout_id, 'null', NEW.heard_time, NEW.heard_time,
            (SELECT resources_id FROM resources ORDER BY update_time DESC, position DESC LIMIT 1), 'succeeded',
            NEW.session_config, NEW.session_metadata);
        INSERT INTO completions (position, rollout_id)
        VALUES ((SELECT COALESCE(MAX(position), 0) + 1 FROM completions), NEW.rollout_id);
        INSERT INTO attempts (rollout_id, attempt_id, sequence_id, start_time, end_time, status, last_heartbeat_time,
            span_count, generation_count, digest)
        VALUES (NEW.rollout_id, NEW.attempt_id, 1, NEW.heard_time, NEW.heard_time, 'succeeded', NEW.heard_time,
            1, 1, (NEW.span_digest + 1 + NEW.checksum / 2) & 1152921504606846975);
    END;
    CREATE TEMP TRIGGER call_is_recorded INSTEAD OF INSERT ON call_records BEGIN
        INSERT INTO sequence_counters (rollout_id, value) VALUES (NEW.rollout_id, 1)
        ON CONFLICT (rollout_id) DO UPDATE SET value = value + 1;
        UPDATE attempts SET last_heartbeat_time = NEW.heard_time, span_count = span_count + 1,
            generation_count = generation_count + 1,
            digest = (digest + NEW.span_digest + NEW.checksum / 2 + (
                (SELECT value FROM sequence_counters WHERE rollout_id = NEW.rollout_id) & 1152921504606846975
            )) & 1152921504606846975
        WHERE rollout_id = NEW.rollout_id AND attempt_id = NEW.attempt_id AND NEW.session_config IS NULL;
        UPDATE attempts SET status = 'running', end_time = NULL
        WHERE rollout_id = NEW.rollout_id AND attempt_id = NEW.attempt_id AND status IN ('preparing', 'unresponsive');
        UPDATE rollouts SET status = 'running', queue_position = NULL
        WHERE rollout_id = NEW.rollout_id AND status IN ('preparing', 'requeuing') AND 'running' = (
            SELECT CASE attempt_id WHEN NEW.attempt_id THEN status END FROM attempts
            WHERE rollout_id = NEW.rollout_id ORDER BY sequence_id DESC LIMIT 1);
        INSERT INTO spans (rollout_id, attempt_id, span_id, sequence_id, trace_id, name, start_time, end_time, body)
        VALUES (NEW.rollout_id, NEW.attempt_id, NEW.span_id,
            (SELECT value FROM sequence_counters WHERE rollout_id = NEW.rollout_id),
            NEW.trace_id, NEW.name, NEW.start_time, NEW.end_time,
            NEW.body_before || (SELECT value FROM sequence_counters WHERE rollout_id = NEW.rollout_id)
                || NEW.body_after);
        SELECT RAISE(ABORT, 'another call may be continued') WHERE EXISTS (
            SELECT 1 FROM generations WHERE rollout_id = NEW.rollout_id AND attempt_id = NEW.attempt_id
                AND context_length > COALESCE(NEW.parent_length, 0)
                AND context_length <= NEW.context_length - NEW.sampled_length
                AND stop_reason <> 'client_gone'
        ) OR EXISTS (
            SELECT 1 FROM generations WHERE rollout_id = NEW.rollout_id AND attempt_id = NEW.attempt_id
                AND messages_length > COALESCE(NEW.messages_parent_length, 0)
                AND messages_length <= NEW.messages_length AND messages_hash = substr(NEW.messages_hashes,
                    32 * (messages_length - COALESCE(NEW.messages_parent_length, 0)) - 31, 32)
                AND stop_reason <> 'client_gone'
        );
        INSERT INTO generations (generation_id, rollout_id, attempt_id, span_id, parent_id, branch_reason, model,
            prompt_tokens, sampled_tokens, logprobs, sampled_length, context_length, context_hash, stop_reason,
            weights_versions, sampling, seed, renderer, tokenizer, request_digest, client_gone, defect,
            messages_parent_id, messages, answer, messages_length, messages_hash, checksum)
        VALUES (NEW.generation_id, NEW.rollout_id, NEW.attempt_id, NEW.span_id, (
                SELECT generation_id FROM generations WHERE position = (
                    SELECT MAX(position) FROM generations
                    WHERE rollout_id = NEW.rollout_id AND attempt_id = NEW.attempt_id
                        AND context_length = NEW.parent_length AND context_hash = NEW.parent_hash
                        AND stop_reason <> 'client_gone')
            ), NEW.branch_reason, NEW.model, NEW.prompt_tokens, NEW.sampled_tokens, NEW.logprobs, NEW.sampled_length,
            NEW.context_length, NEW.context_hash, NEW.stop_reason, NEW.weights_versions,
            NEW.sampling, NEW.seed, NEW.renderer, NEW.tokenizer, NEW.request_digest, NEW.client_gone, NEW.defect, (
                SELECT generation_id FROM generations WHERE position = (
                    SELECT MAX(position) FROM generations
                    WHERE rollout_id = NEW.rollout_id AND attempt_id = NEW.attempt_id
                        AND messages_length = NEW.messages_parent_length AND messages_hash = NEW.messages_parent_hash
                        AND stop_reason <> 'client_gone')
            ),
            '[' || COALESCE(CASE NEW.first_message WHEN (
                SELECT answer FROM generations WHERE position = (
                    SELECT MAX(position) FROM generations
                    WHERE rollout_id = NEW.rollout_id AND attempt_id = NEW.attempt_id
                        AND messages_length = NEW.messages_parent_length AND messages_hash = NEW.messages_parent_hash
                        AND stop_reason <> 'client_gone')
            ) THEN 'null' ELSE NEW.first_message END, '') || NEW.later_messages || ']',
            NEW.answer, NEW.messages_length, NEW.messages_hash, NEW.checksum);
        SELECT RAISE(ABORT, 'there is no such call to continue') FROM generations
        WHERE position = last_insert_rowid() AND (
            (parent_id IS NULL) <> (NEW.parent_length IS NULL)
            OR (messages_parent_id IS NULL) <> (NEW.messages_parent_length IS NULL));
    END;";

/// Columns of the view.
const COLUMNS: usize = 42;

/// The insertion of so many calls, from one on. What became of them is not asked: it would be a second statement, and
/// each of its rows would wake whoever waits for the commit.
static STATEMENTS: LazyLock<[Arc<str>; CALLS_AT_ONCE]> = LazyLock::new(|| {
    std::array::from_fn(|index| {
        let row = format!("({})", vec!["?"; COLUMNS].join(", "));
        format!("INSERT INTO call_records VALUES {}", vec![row; index + 1].join(", ")).into()
    })
});

/// Records calls, at most [`CALLS_AT_ONCE`], in their order. `false`, with nothing changed, if one of them must be
/// recorded in another way, or cannot be.
pub(crate) async fn record_at_once(connection: &mut AnyConnection, calls: &[&CallRecord]) -> Result<bool> {
    let Some(statement) = calls.len().checked_sub(1).and_then(|index| STATEMENTS.get(index)) else { return Ok(false) };
    let heard_time = now();
    let mut query = sqlx::query(AssertSqlSafe(Arc::clone(statement)));
    for call in calls {
        query = bind(query, call, heard_time)?;
    }
    // There is no row to come; whoever asks for one is woken by the statement's end alone, and not once more by the end of
    // what it was told through.
    match query.fetch_optional(connection).await {
        Ok(_) => Ok(true),
        Err(error) if is_constraint(&error) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Appends the columns of the view, in their order.
fn bind<'q>(query: CallQuery<'q>, call: &'q CallRecord, heard_time: f64) -> Result<CallQuery<'q>> {
    let held_tokens = call.expected_to_be_held();
    let held_messages = call.messages_parent.map_or(0, |(length, _)| length);
    let written = call.conversation.as_ref();
    let integer = |field, length: Option<usize>| length.map(|length| to_integer(field, length)).transpose();
    let query = bind_generation(bind_span(query, call), call)?
        .bind(heard_time)
        .bind(call.body.before.as_str())
        .bind(call.body.after.as_str())
        .bind(call.prompt_from(held_tokens))
        .bind(integer("prompt_tokens", call.context_parent.map(|(length, _)| length))?)
        .bind(call.context_parent.map(|(_, hash)| hash.to_vec()))
        .bind(written.and_then(|written| written.message(held_messages)))
        .bind(written.map(|written| written.listed_from(held_messages + 1)))
        .bind(written.map(|written| written.answer.as_str()))
        .bind(integer("messages", written.map(|written| written.length()))?)
        .bind(written.map(|written| written.hash().to_vec()))
        .bind(integer("messages", call.messages_parent.map(|(length, _)| length))?)
        .bind(call.messages_parent.map(|(_, hash)| hash.to_vec()))
        .bind(call.session.as_ref().map(|session| session.config.as_str()))
        .bind(call.session.as_ref().map(|session| session.metadata.as_str()))
        .bind(written.map(|written| written.hashes_beyond(held_messages)))
        .bind(call.checksum(held_tokens)?)
        .bind(call.span_digest);
    Ok(query)
}
