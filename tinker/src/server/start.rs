use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use super::base::TinkerBase;
use super::error::TinkerServerError;
use super::futures::Futures;
use super::options::TinkerServerOptions;
use super::registry::Registry;
use super::sampling::repeated_seeds::SeedCounts;
use super::sampling::sampled_requests::SampledRequests;
use super::tinker_server::TinkerServer;
use crate::server::management::link_signer::LinkSigner;
use crate::server::sampling::weights_cache::WeightsCache;
use crate::server::state::state_directory::StateDirectory;
use fulgurite_types::time::now;

/// How often sessions and checkpoints are looked at that nobody may need any more.
const SWEEP: Duration = Duration::from_secs(15);

impl TinkerServer {
    /// Offers these models, and goes on with what the state directory holds. Called within a Tokio runtime.
    pub fn start(bases: Vec<TinkerBase>, options: TinkerServerOptions) -> Result<Arc<Self>, TinkerServerError> {
        let state = StateDirectory::new(options.state_directory.clone());
        state.clear_plaintext()?;
        let registry = Registry {
            sessions: state.read()?,
            runs: state.read()?,
            checkpoints: state.read()?,
            samplers: state.read()?,
            ..Registry::default()
        };
        let server = Arc::new(Self {
            options,
            bases: bases.into_iter().map(Arc::new).collect(),
            futures: Futures::default(),
            seed_counts: SeedCounts::default(),
            sampled: SampledRequests::default(),
            weights: WeightsCache::default(),
            state,
            links: LinkSigner::new()?,
            registry: Mutex::new(registry),
        });
        #[expect(clippy::disallowed_methods, reason = "it holds the server weakly, and ends with it")]
        tokio::spawn(sweep(Arc::downgrade(&server)));
        Ok(server)
    }
}

/// Drops expired results, ends expired sessions and deletes expired checkpoints, for as long as the server runs.
async fn sweep(server: Weak<TinkerServer>) {
    loop {
        let pause = server.upgrade().map_or(SWEEP, |server| server.options.silence.min(SWEEP));
        tokio::time::sleep(pause).await;
        let Some(server) = server.upgrade() else { return };
        server.futures.sweep(Instant::now());
        for session_id in server.expired_sessions(Instant::now()) {
            tracing::info!(session_id, "a session of the Tinker API is over: nobody has kept it alive");
            if let Err(error) = server.end_session(&session_id, None).await {
                tracing::warn!(%error, session_id, "a session that is over cannot be cleared away");
            }
        }
        for path in server.expired_checkpoints(now()) {
            tracing::info!(path, "a checkpoint's time has come");
            if let Err(refusal) = server.delete_checkpoint(&path).await {
                tracing::warn!(error = refusal.detail, path, "a checkpoint whose time has come cannot be deleted");
            }
        }
    }
}
