//! Hears from PostgreSQL what other servers on the same database have committed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgListener;
use tokio::task::JoinHandle;

use crate::database::signals::Signals;

/// Where messages go. One database has one channel of this name.
pub(crate) const CHANNEL: &str = "fulgurite";
/// Time between attempts to listen again.
const PAUSE: Duration = Duration::from_secs(1);

/// Listens until it is dropped.
pub(crate) struct Listener(JoinHandle<()>);

impl Listener {
    /// Begins to raise `signals` for what others commit to the database at `url`. While it listens, the lock of this number
    /// is held, by which others see that this server lives.
    #[expect(clippy::disallowed_methods, reason = "who is returned holds it")]
    pub(crate) fn start(url: String, signals: Arc<Signals>, server_id: i64) -> Self {
        Self(tokio::spawn(async move {
            loop {
                let Err(error) = listen(&url, &signals, server_id).await;
                tracing::warn!(%error, "this server does not hear what other servers commit; trying again");
                tokio::time::sleep(PAUSE).await;
            }
        }))
    }
}

impl Listener {
    /// Hears nothing from now on, and gives the server's lock back.
    pub(crate) fn stop(&self) {
        self.0.abort();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn listen(url: &str, signals: &Signals, server_id: i64) -> Result<Infallible, sqlx::Error> {
    let mut listener = PgListener::connect(url).await?;
    hold(&mut listener, server_id).await?;
    listener.listen(CHANNEL).await?;
    signals.raise_all();
    loop {
        match listener.try_recv().await? {
            Some(notification) => {
                if let Some(effects) = signals.read(notification.payload()) {
                    signals.raise(&effects);
                }
            }
            // The connection was lost and has been restored.
            None => {
                hold(&mut listener, server_id).await?;
                signals.raise_all();
            }
        }
    }
}

/// Takes the lock of a server, which goes with the connection. It is nobody else's, unless the server has not noticed yet
/// that its own last connection was lost.
async fn hold(listener: &mut PgListener, server_id: i64) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT pg_try_advisory_lock_shared($1)").bind(server_id).execute(listener).await?;
    Ok(())
}
