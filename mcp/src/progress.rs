//! What the agent's host is told while a tool works.

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};

/// Tells the host how far a call has come, if it asked for that.
pub(crate) struct Progress {
    to: Option<(Peer<RoleServer>, ProgressToken)>,
}

impl Progress {
    pub(crate) fn new(to: Option<(Peer<RoleServer>, ProgressToken)>) -> Self {
        Self { to }
    }

    /// So much of so much is done.
    pub(crate) async fn tell(&self, done: u64, total: u64, message: String) {
        let Some((peer, token)) = &self.to else { return };
        let notification = ProgressNotificationParam::new(token.clone(), done as f64);
        // A host that has gone away is noticed by the call's own end.
        let _ = peer.notify_progress(notification.with_total(total as f64).with_message(message)).await;
    }
}
