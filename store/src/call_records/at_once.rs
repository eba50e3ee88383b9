//! Calls as one statement of SQLite's: the insertion into a view, whose trigger does whatever a call changes. Outside a
//! transaction the statement is one, so that a call is one trip to the database and one commit.
//!
//! What that saves, against `recording::one_by_one` in the same run (`recording::cost_tests`, two processors of a shared
//! machine; calls a second, and milliseconds of a processor's time for each call):
//!
//! | writers | as one statement | one by one | calls a second | saved |
//! |---|---|---|---|---|
//! | 1 | 1,118; 0.25 ms | 1,214; 0.40 ms | 0.92 times | 0.15 ms |
//! | 8 | 4,141; 0.11 ms | 1,962; 0.30 ms | 2.1 times | 0.19 ms |
//! | 64 | 5,805; 0.08 ms | 2,607; 0.26 ms | 2.2 times | 0.18 ms |
//!
//! A whole model call takes about 0.26 ms with it (`docs/reference/costs.md`), so that it would take two thirds more
//! without.

use std::sync::{Arc, LazyLock};

use fulgurite_types::{AttemptStatus, RolloutStatus, StopReason};
use sqlx::{AnyConnection, AssertSqlSafe};

use crate::Result;
use crate::call_records::call_record::CallRecord;
use crate::call_records::columns::{AT_ONCE, Column, GENERATION, OWNER, SPAN, Writing, bind, names, width};
use crate::checksums::MASK;
use crate::error::is_constraint;
use crate::lifecycle::{ATTEMPTS_THAT_WAKE, ROLLOUTS_THAT_WAIT, sql_words};
use crate::row_checksums::{attempt_state, difference, rollout_state};
use fulgurite_types::time::now;

/// Calls that one statement takes, at most.
pub(crate) const CALLS_AT_ONCE: usize = 32;

/// Columns of the view.
const COLUMNS: &[&[Column]] = &[OWNER, SPAN, GENERATION, AT_ONCE];

/// Makes view and triggers, of the one connection.
///
/// A call with `session_config` is the only one of a session, which begins and ends with it; it does not matter which of
/// the triggers comes first. An insertion of a `SELECT` would be a table of its own in between, made for every call, as
/// would an order be, and so there is neither.
///
/// A generation's parent is the one of its attempt whose prompt and answer are the longest prefix of its prompt, of equal
/// ones the latest. `parent_length` and `parent_hash` are a guess, as are those of the messages: the statement fails if
/// there is none such, or if another one might be longer, whose tokens would have to be compared. Of the messages it is
/// given the hashes of all beginnings that are longer than the guess, one after the other, of 32 bytes each.
pub(crate) fn preparation() -> String {
    let view: Vec<String> =
        COLUMNS.iter().flat_map(|columns| columns.iter()).map(|column| format!("NULL AS {}", column.name)).collect();
    format!("CREATE TEMP VIEW call_records AS SELECT {};{}{}", view.join(", "), session_trigger(), call_trigger())
}

/// Begins and ends a session with its one call.
fn session_trigger() -> String {
    let (rollout_succeeded, succeeded) = (RolloutStatus::Succeeded.as_str(), AttemptStatus::Succeeded.as_str());
    let latest_resources = "FROM resources ORDER BY update_time DESC, position DESC LIMIT 1";
    format!(
        "
    CREATE TEMP TRIGGER session_is_recorded INSTEAD OF INSERT ON call_records WHEN NEW.session_config IS NOT NULL BEGIN
        INSERT INTO rollouts (rollout_id, input, start_time, end_time, resources_id, status, config, metadata, checksum)
        VALUES (NEW.rollout_id, 'null', NEW.heard_time, NEW.heard_time, (SELECT resources_id {latest_resources}),
            '{rollout_succeeded}', NEW.session_config, NEW.session_metadata,
            (NEW.rollout_checksum + CASE WHEN EXISTS (SELECT 1 FROM resources)
                THEN (SELECT id_checksum {latest_resources}) ELSE 0 END) & {MASK});
        INSERT INTO completions (position, rollout_id)
        VALUES ((SELECT COALESCE(MAX(position), 0) + 1 FROM completions), NEW.rollout_id);
        INSERT INTO attempts (rollout_id, attempt_id, sequence_id, start_time, end_time, status, last_heartbeat_time,
            span_count, generation_count, digest, checksum, heartbeat_checksum)
        VALUES (NEW.rollout_id, NEW.attempt_id, 1, NEW.heard_time, NEW.heard_time, '{succeeded}', NEW.heard_time,
            1, 1, (NEW.span_digest + 1 + NEW.checksum / 2) & {MASK}, NEW.attempt_checksum, NEW.heartbeat_checksum);
    END;"
    )
}

/// The next place among the spans of a call's rollout.
const PLACE: &str = "(SELECT value FROM sequence_counters WHERE rollout_id = NEW.rollout_id)";
const OF_ATTEMPT: &str = "rollout_id = NEW.rollout_id AND attempt_id = NEW.attempt_id";

/// Records a call, with the activity of its attempt.
fn call_trigger() -> String {
    let (span, span_values) = (names("", &[OWNER, SPAN]), names("NEW.", &[OWNER, SPAN]));
    let (activity, generation) = (activity_statements(), generation_statements());
    format!(
        "
    CREATE TEMP TRIGGER call_is_recorded INSTEAD OF INSERT ON call_records BEGIN
        INSERT INTO sequence_counters (rollout_id, value) VALUES (NEW.rollout_id, 1)
        ON CONFLICT (rollout_id) DO UPDATE SET value = value + 1;
        {activity}
        INSERT INTO spans ({span}, sequence_id, body)
        VALUES ({span_values}, {PLACE}, NEW.body_before || {PLACE} || NEW.body_after);
        {generation}
    END;"
    )
}

/// The attempt has a span and a generation more, and runs with its rollout.
fn activity_statements() -> String {
    let running = RolloutStatus::Running.as_str();
    let runs = AttemptStatus::Running.as_str();
    let (wake, wait) = (sql_words(&ATTEMPTS_THAT_WAKE), sql_words(&ROLLOUTS_THAT_WAIT));
    let (preparing, rollout_preparing) = (AttemptStatus::Preparing, RolloutStatus::Preparing);
    // What a change of a status adds to the checksum of its row; neither has an end time.
    let attempt_runs = difference(attempt_state(preparing, None), attempt_state(AttemptStatus::Running, None));
    let rollout_runs = |from| difference(rollout_state(from, None), rollout_state(RolloutStatus::Running, None));
    let (prepared_runs, requeued_runs) = (rollout_runs(rollout_preparing), rollout_runs(RolloutStatus::Requeuing));
    format!(
        "UPDATE attempts SET last_heartbeat_time = NEW.heard_time, span_count = span_count + 1,
            generation_count = generation_count + 1, heartbeat_checksum = NEW.heartbeat_checksum,
            digest = (digest + NEW.span_digest + NEW.checksum / 2 + ({PLACE} & {MASK})) & {MASK}
        WHERE {OF_ATTEMPT} AND NEW.session_config IS NULL;
        UPDATE attempts SET end_time = NULL, checksum = (checksum + {attempt_runs}) & {MASK},
            status = CASE status WHEN '{preparing}' THEN '{runs}' ELSE RAISE(ABORT, 'its end is in its checksum') END
        WHERE {OF_ATTEMPT} AND status IN ({wake});
        UPDATE rollouts SET status = '{running}', queue_position = NULL, checksum = (checksum
            + CASE status WHEN '{rollout_preparing}' THEN {prepared_runs} ELSE {requeued_runs} END) & {MASK}
        WHERE rollout_id = NEW.rollout_id AND status IN ({wait}) AND '{runs}' = (
            SELECT CASE attempt_id WHEN NEW.attempt_id THEN status END FROM attempts
            WHERE rollout_id = NEW.rollout_id ORDER BY sequence_id DESC LIMIT 1);"
    )
}

/// The generation itself, if it continues what it is guessed to.
fn generation_statements() -> String {
    let client_disconnected = StopReason::CLIENT_DISCONNECTED;
    // A column of the latest call of the attempt that can be continued and meets a condition.
    let latest = |column: &str, condition: &str| {
        format!(
            "(SELECT {column} FROM generations WHERE position = (SELECT MAX(position) FROM generations
                 WHERE {OF_ATTEMPT} AND {condition} AND stop_reason <> '{client_disconnected}'))"
        )
    };
    let guessed_tokens = "context_length = NEW.parent_length AND context_hash = NEW.parent_hash";
    let guessed_messages = "messages_length = NEW.messages_parent_length AND messages_hash = NEW.messages_parent_hash";
    let parent = latest("generation_id", guessed_tokens);
    let messages_parent = latest("generation_id", guessed_messages);
    let messages_answer = latest("answer", guessed_messages);
    let (generation, generation_values) = (names("", &[OWNER, GENERATION]), names("NEW.", &[OWNER, GENERATION]));
    format!(
        "SELECT RAISE(ABORT, 'another call may be continued') WHERE EXISTS (
            SELECT 1 FROM generations WHERE {OF_ATTEMPT}
                AND context_length > COALESCE(NEW.parent_length, 0)
                AND context_length <= NEW.context_length - NEW.sampled_length
                AND stop_reason <> '{client_disconnected}'
        ) OR EXISTS (
            SELECT 1 FROM generations WHERE {OF_ATTEMPT}
                AND messages_length > COALESCE(NEW.messages_parent_length, 0)
                AND messages_length <= NEW.messages_length AND messages_hash = substr(NEW.messages_hashes,
                    32 * (messages_length - COALESCE(NEW.messages_parent_length, 0)) - 31, 32)
                AND stop_reason <> '{client_disconnected}'
        );
        INSERT INTO generations ({generation}, parent_id, messages_parent_id, messages)
        VALUES ({generation_values}, {parent}, {messages_parent},
            '[' || COALESCE(CASE NEW.first_message WHEN {messages_answer} THEN 'null' ELSE NEW.first_message END, '')
                || NEW.later_messages || ']');
        SELECT RAISE(ABORT, 'there is no such call to continue') FROM generations
        WHERE position = last_insert_rowid() AND (
            (parent_id IS NULL) <> (NEW.parent_length IS NULL)
            OR (messages_parent_id IS NULL) <> (NEW.messages_parent_length IS NULL));"
    )
}

/// The insertion of so many calls, from one on. Its result is not read: it would be a second statement, and each of its
/// rows would wake the task that waits for the commit.
static STATEMENTS: LazyLock<[Arc<str>; CALLS_AT_ONCE]> = LazyLock::new(|| {
    std::array::from_fn(|index| {
        let row = format!("({})", vec!["?"; width(COLUMNS)].join(", "));
        format!("INSERT INTO call_records VALUES {}", vec![row; index + 1].join(", ")).into()
    })
});

/// Records calls, at most [`CALLS_AT_ONCE`], in their order. `false`, with nothing changed, if one of them must be
/// recorded in another way, or cannot be.
pub(crate) async fn record_at_once(connection: &mut AnyConnection, calls: &[&CallRecord]) -> Result<bool> {
    let Some(statement) = calls.len().checked_sub(1).and_then(|index| STATEMENTS.get(index)) else { return Ok(false) };
    let time = now();
    let mut query = sqlx::query(AssertSqlSafe(Arc::clone(statement)));
    for call in calls {
        query = bind(query, COLUMNS, call, Writing { held_tokens: call.expected_to_be_held(), time })?;
    }
    // It returns no row: the task is woken once, at the statement's end, and not again when the channel of its rows closes.
    match query.fetch_optional(connection).await {
        Ok(_) => Ok(true),
        Err(error) if is_constraint(&error) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
