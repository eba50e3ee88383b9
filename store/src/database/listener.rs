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
    /// Begins to raise `signals` for what others commit to the database at `url`.
    #[expect(clippy::disallowed_methods, reason = "who is returned holds it")]
    pub(crate) fn start(url: String, signals: Arc<Signals>) -> Self {
        Self(tokio::spawn(async move {
            loop {
                let Err(error) = listen(&url, &signals).await;
                tracing::warn!(%error, "this server does not hear what other servers commit; trying again");
                tokio::time::sleep(PAUSE).await;
            }
        }))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn listen(url: &str, signals: &Signals) -> Result<Infallible, sqlx::Error> {
    let mut listener = PgListener::connect(url).await?;
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
            None => signals.raise_all(),
        }
    }
}
