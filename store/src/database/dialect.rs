//! The differences between SQLite and PostgreSQL. All other SQL is one text for both.

use std::time::Duration;

use sqlx::AnyConnection;

use crate::database::options::Synchronous;

/// How long a transaction on PostgreSQL may be idle before the server ends it, so that a frozen process does not keep the
/// others from writing for ever.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Which of the two databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

/// A piece of SQL that each database spells in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// The function that finds a text in a text, counting from 1, with 0 for nowhere; it minds case.
    PositionOf,
    /// The empty text; whatever is compared together with it is ordered by its bytes.
    EmptyText,
    /// Begins the list of the texts of a JSON array, which comes next.
    TextsOf,
    /// Ends that list.
    TextsEnd,
}

/// For SQLite's one writing connection: 32 MiB of log before the connection itself copies it into the file, while a call
/// waits, unless the log was restarted by then; and 16 MiB of cached pages, because calls change the ends of most trees.
const WRITING: &str = "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 8000; PRAGMA cache_size = -16384;";

impl Dialect {
    /// The one that a connection speaks.
    pub(crate) fn of(connection: &AnyConnection) -> Self {
        match connection.backend_name() {
            "PostgreSQL" => Self::Postgres,
            _ => Self::Sqlite,
        }
    }

    /// How it spells a word.
    pub(crate) fn spell(self, word: Word) -> &'static str {
        match (self, word) {
            (Self::Sqlite, Word::PositionOf) => "instr",
            (Self::Postgres, Word::PositionOf) => "strpos",
            (Self::Sqlite, Word::EmptyText) => "''",
            (Self::Postgres, Word::EmptyText) => "'' COLLATE \"C\"",
            (Self::Sqlite, Word::TextsOf) => "(SELECT value FROM json_each(",
            (Self::Postgres, Word::TextsOf) => "(SELECT jsonb_array_elements_text(CAST(",
            (Self::Sqlite, Word::TextsEnd) => "))",
            (Self::Postgres, Word::TextsEnd) => " AS jsonb)))",
        }
    }

    /// Appends the placeholder of a statement's argument, of which the earlier ones come first; counted from 1.
    pub(crate) fn push_argument(self, text: &mut String, number: usize) {
        match self {
            // Without a name, for the driver looks every name up among all that the statement has.
            Self::Sqlite => text.push('?'),
            Self::Postgres => {
                text.push('$');
                text.push_str(&number.to_string());
            }
        }
    }

    /// Begins a transaction that sees one moment of the database.
    pub(crate) fn begin_snapshot(self) -> &'static str {
        match self {
            Self::Sqlite => "BEGIN",
            Self::Postgres => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        }
    }

    /// Gives every table's `name`, with the `bytes` that it and its indexes take.
    pub(crate) fn table_sizes(self) -> &'static str {
        match self {
            Self::Sqlite => {
                "SELECT m.tbl_name AS name, SUM(d.pgsize) AS bytes FROM dbstat d JOIN sqlite_master m ON m.name = d.name
                 WHERE m.tbl_name NOT LIKE '\\_%' ESCAPE '\\' AND m.tbl_name NOT LIKE 'sqlite%'
                 GROUP BY m.tbl_name ORDER BY 1"
            }
            Self::Postgres => {
                "SELECT CAST(c.relname AS TEXT) AS name, pg_total_relation_size(c.oid) AS bytes FROM pg_class c
                 JOIN pg_namespace n ON n.oid = c.relnamespace
                 WHERE c.relkind = 'r' AND n.nspname = current_schema() AND left(c.relname, 1) <> '_' ORDER BY 1"
            }
        }
    }

    /// Begins the only transaction that writes: others wait here, where nothing is lost yet. On PostgreSQL they take
    /// turns by a lock that goes with the transaction, so that they never wait for each other's rows.
    pub(crate) fn begin(self) -> &'static str {
        match self {
            Self::Sqlite => "BEGIN IMMEDIATE",
            // The holder of the lock sees everything that was committed before, which only this isolation level guarantees.
            // The number is `fulgurit` in ASCII.
            // By the setting the triggers know that a change is this program's.
            Self::Postgres => {
                "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL fulgurite.writes = 'on';
                 SELECT txid_current() AS id FROM (SELECT pg_advisory_xact_lock(7382926355751659892)) AS held"
            }
        }
    }

    /// Prepares a connection for writing.
    pub(crate) fn prepare_writing(self, synchronous: Synchronous, busy: Duration) -> String {
        match (self, synchronous) {
            (Self::Sqlite, Synchronous::Full) => {
                format!("{} {WRITING} PRAGMA synchronous = FULL", pragmas(busy))
            }
            (Self::Sqlite, Synchronous::Normal) => {
                format!("{} {WRITING} PRAGMA synchronous = NORMAL", pragmas(busy))
            }
            // A stricter setting of the server's own stays.
            (Self::Postgres, Synchronous::Full) => format!(
                "{} SELECT set_config('synchronous_commit', 'on', false)
                 WHERE current_setting('synchronous_commit') = 'off'",
                timeouts(busy)
            ),
            (Self::Postgres, Synchronous::Normal) => format!("{} SET synchronous_commit = off", timeouts(busy)),
        }
    }

    /// Prepares a connection for reading, and only that.
    pub(crate) fn prepare_reading(self, busy: Duration) -> String {
        match self {
            Self::Sqlite => format!("{} PRAGMA query_only = ON", pragmas(busy)),
            Self::Postgres => "SET default_transaction_read_only = on".to_owned(),
        }
    }
}

fn pragmas(busy: Duration) -> String {
    format!("PRAGMA busy_timeout = {}; PRAGMA foreign_keys = ON;", busy.as_millis())
}

fn timeouts(busy: Duration) -> String {
    // 0 would mean no limit.
    let (lock, pause) = (busy.as_millis().max(1), LONGEST_PAUSE.as_millis());
    format!("SET lock_timeout = {lock}; SET idle_in_transaction_session_timeout = {pause};")
}
