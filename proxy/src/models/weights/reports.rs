use std::time::Duration;

use fulgurite_types::{ServedWeights, ServingState};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::models::weights::model_weights::{ModelWeights, WeightsOf, WeightsStatus};

/// Time after which a server says again what it has, where others would take its silence for its end.
const HEARTBEAT: Duration = Duration::from_secs(20);
/// Time between looks at what a host says of its weights by itself.
const LOOK: Duration = Duration::from_secs(3);
/// Digits of an identity that people are shown.
const SHOWN_DIGITS: usize = 8;

/// What a process of a server is known by.
#[derive(Clone, Debug)]
pub(crate) struct ServerName {
    pub(crate) server_id: String,
    pub(crate) url: String,
}

/// Records what the server samples a model from, whenever that changes.
pub(crate) async fn report(server: ServerName, weights: ModelWeights, of: WeightsOf) {
    let mut changes = weights.changes();
    let mut last: Option<(Instant, ServedWeights)> = None;
    loop {
        let WeightsStatus { state, message, .. } = changes.borrow_and_update().clone();
        let ServerName { server_id, url } = server.clone();
        let version = of.sampler.weights_version().map(|version| version.0);
        let served = ServedWeights { server_id, url, model: of.model.clone(), version, state, message, time: 0.0 };
        let is_known = last
            .as_ref()
            .is_some_and(|(time, known)| *known == served && (time.elapsed() < HEARTBEAT || !of.store.others_write()));
        if !is_known {
            match of.store.weights().report_served(served.clone()).await {
                Ok(()) => last = Some((Instant::now(), served)),
                Err(error) => {
                    last = None;
                    tracing::debug!(%error, "what is sampled from is not recorded; it is tried again");
                }
            }
        }
        tokio::select! {
            // The model is in our hands, so that this does not fail.
            _ = changes.changed() => {}
            () = sleep(LOOK) => {}
        }
    }
}

/// What `/healthz` says of a model. It needs no key, so that it names no files.
#[derive(Serialize)]
pub(crate) struct ModelHealth {
    /// Null where that is not known.
    weights_version: Option<u64>,
    weights_id: Option<String>,
    state: ServingState,
}

impl ModelHealth {
    pub(crate) fn new(status: &WeightsStatus, version: Option<u64>) -> Self {
        let digits = |id: fulgurite_types::WeightsId| id.to_string().chars().take(SHOWN_DIGITS).collect();
        Self { weights_version: version, weights_id: status.weights_id.map(digits), state: status.state }
    }
}
