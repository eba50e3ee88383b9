//! Where a store is: reading its URL, connecting to it, and naming it without its password.

use std::fmt;
use std::fs::OpenOptions;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{AnyConnection, AnyPool, ConnectOptions};

use crate::database::dialect::Dialect;
use crate::{Result, StoreError};

/// How long to try to reach a database.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Whether a database may be made, changed, or only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Create,
    Change,
    Read,
    /// For read-only file systems, where not even the files that readers share can be written.
    ReadFrozen,
}

/// What a store's URL names.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Location {
    /// The absolute path of a file.
    Sqlite(String),
    /// The URL, which may hold a password.
    Postgres(String),
}

impl fmt::Debug for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(formatter, "sqlite://{path}"),
            Self::Postgres(url) => formatter.write_str(&redact_url(url)),
        }
    }
}

impl Location {
    /// Reads a store's URL: `sqlite://PATH`, a plain path, `postgres://..` or `postgresql://..`.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let path = match url.split_once("://") {
            Some(("postgres" | "postgresql", _)) => return Ok(Self::Postgres(url.to_owned())),
            Some(("sqlite", path)) => path,
            Some((scheme, _)) => {
                let message = format!(
                    "`{scheme}` is not a database that this program knows; use sqlite://PATH or \
                     postgres://USER:PASSWORD@HOST/DATABASE"
                );
                return Err(StoreError::invalid("store.url", message));
            }
            None => url,
        };
        let invalid = |message: String| StoreError::invalid("store.url", message);
        let absolute = std::path::absolute(Path::new(path)).map_err(|error| invalid(format!("{path:?}: {error}")))?;
        let path = absolute.to_str().ok_or_else(|| invalid(format!("{path:?} is not UTF-8")))?;
        Ok(Self::Sqlite(path.to_owned()))
    }

    pub(crate) fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Whether the database certainly does not exist, without connecting to it.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Sqlite(path) if !Path::new(path).exists())
    }

    /// Makes a file that is not there yet, for its owner alone, and warns of one that others may read. The files that SQLite
    /// puts beside it have the same permissions. Says whether it made one.
    pub(crate) fn make_private(&self) -> bool {
        let Self::Sqlite(path) = self else { return false };
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let mode = std::fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode());
        if made.is_err() && mode & 0o077 != 0 {
            let mode = format!("{:o}", mode & 0o777);
            tracing::warn!(path, mode, "others may read or write the store; `chmod 600` keeps it to its owner");
        }
        // SQLite's own error message explains better why the file cannot be created.
        made.is_ok()
    }

    /// What to read a database with that could not be opened as others are: where nothing can be written, SQLite takes it as
    /// it is, if all of it is in the file.
    pub(crate) fn frozen(&self, error: &StoreError) -> Result<Option<Access>> {
        /// SQLite's codes for what it cannot write or make.
        const READ_ONLY: u32 = 8;
        const CANNOT_OPEN: u32 = 14;
        let (Self::Sqlite(path), StoreError::Database { source }) = (self, error) else { return Ok(None) };
        let code = source.as_database_error().and_then(|error| error.code()?.parse::<u32>().ok());
        if !matches!(code.map(|code| code & 0xff), Some(READ_ONLY | CANNOT_OPEN)) {
            return Ok(None);
        }
        if std::fs::metadata(format!("{path}-wal")).is_ok_and(|log| log.len() > 0) {
            let message = format!(
                "what was recorded last is in {path}-wal, which can be read only where {path} can be written; copy both \
                 files to where you may write"
            );
            return Err(StoreError::invalid("store.url", message));
        }
        Ok(Some(Access::ReadFrozen))
    }

    /// How to connect; `preparation` is SQL that each new connection begins with.
    pub(crate) fn connector(&self, access: Access, preparation: String) -> Result<Connector> {
        sqlx::any::install_default_drivers();
        let options = match self {
            Self::Sqlite(path) => {
                let path = path.replace('%', "%25").replace('?', "%3F").replace('#', "%23");
                let mode = match access {
                    Access::Create => "rwc",
                    Access::Change => "rw",
                    Access::Read => "ro",
                    Access::ReadFrozen => "ro&immutable=1",
                };
                format!("sqlite://{path}?mode={mode}").parse::<AnyConnectOptions>()
            }
            Self::Postgres(url) => url.parse(),
        };
        let options = options.map_err(|error| StoreError::invalid("store.url", error.to_string()))?;
        // Every statement would be timed and its text looked at, whether or not anybody reads it.
        let options = options.disable_statement_logging();
        Ok(Connector { options, preparation: preparation.into() })
    }
}

/// Makes connections that are ready for use.
#[derive(Clone)]
pub(crate) struct Connector {
    options: AnyConnectOptions,
    preparation: Arc<str>,
}

impl Connector {
    /// One connection.
    pub(crate) async fn connect(&self) -> Result<AnyConnection> {
        let connecting = async {
            let mut connection = self.options.connect().await?;
            prepare(&mut connection, &self.preparation).await?;
            Ok::<_, sqlx::Error>(connection)
        };
        match tokio::time::timeout(PATIENCE, connecting).await {
            Ok(connected) => Ok(connected?),
            Err(_) => Err(StoreError::Unavailable { message: format!("no answer in {} s", PATIENCE.as_secs()) }),
        }
    }

    /// Up to so many connections, made as needed; the first one at once.
    pub(crate) async fn pool(&self, connections: u32) -> Result<AnyPool> {
        let preparation = Arc::clone(&self.preparation);
        let pool = AnyPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(PATIENCE)
            .idle_timeout(None)
            .max_lifetime(None)
            .after_connect(move |connection, _| {
                let preparation = Arc::clone(&preparation);
                Box::pin(async move { prepare(connection, &preparation).await })
            })
            .connect_with(self.options.clone())
            .await?;
        Ok(pool)
    }
}

async fn prepare(connection: &mut AnyConnection, preparation: &Arc<str>) -> sqlx::Result<()> {
    sqlx::raw_sql(sqlx::AssertSqlSafe(Arc::clone(preparation))).execute(connection).await?;
    Ok(())
}

/// A store's URL as it may be shown: without a password, and without options, which may hold one too.
pub fn redact_url(url: &str) -> String {
    let Some((scheme @ ("postgres" | "postgresql"), rest)) = url.split_once("://") else { return url.to_owned() };
    // A password may hold any of these, though it should not.
    let (user, address) = match rest.rsplit_once('@') {
        // This may be a password or options.
        Some((before, _)) if before.contains('?') => return format!("{scheme}://..."),
        Some((user, address)) => (user.split(':').next(), address),
        None => (None, rest),
    };
    let address = address.split(['?', '#']).next().unwrap_or_default();
    match user {
        Some(user) => format!("{scheme}://{user}@{address}"),
        None => format!("{scheme}://{address}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_what_is_secret() {
        let table = [
            ("postgres://me:secret@host:5432/db?sslmode=require", "postgres://me@host:5432/db"),
            ("postgresql://me:se/cr@et:@host/db", "postgresql://me@host/db"),
            ("postgres://host/db?user=me&password=secret", "postgres://host/db"),
            ("postgres://host:5432/db?password=se@cret", "postgres://..."),
            ("postgres://me@%2Frun%2Fpostgresql/db", "postgres://me@%2Frun%2Fpostgresql/db"),
            ("sqlite://a:b@c.db", "sqlite://a:b@c.db"),
        ];
        for (url, shown) in table {
            assert_eq!(redact_url(url), shown);
        }
        let location = Location::parse("postgres://me:secret@host/db").unwrap();
        assert_eq!(format!("{location} {location:?}"), "postgres://me@host/db postgres://me@host/db");
    }

    #[tokio::test]
    async fn a_url_that_cannot_be_read_is_refused_without_its_password() {
        for url in ["postgres://me:secret@host:port/db", "postgres://me:secret@host/db?sslmode=secret-mode"] {
            let connector = Location::parse(url).unwrap().connector(Access::Change, String::new());
            let error = match connector {
                Err(error) => error,
                Ok(connector) => connector.connect().await.unwrap_err(),
            };
            assert!(!error.to_string().contains("me:secret"), "{error}");
        }
        let error = Location::parse("mysql://host").unwrap_err().to_string();
        assert!(error.starts_with("store.url: `mysql` is not a database"), "{error}");
    }
}
