use std::collections::BTreeMap;
use std::time::Duration;

use fulgurite_store::Store;
use fulgurite_types::{Backoff, NewNamedWeights, Publication, WeightsId, WeightsVersion};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::models::gate::{Gate, Holder};
use crate::models::weights::model_weights::{CaughtUp, ModelWeights, WeightsOf};
use crate::models::weights::reports::{ServerName, report};
use fulgurite_types::time::now;

/// What a model is held for at first.
const FIRST_WEIGHTS: &str = "its published weights are being loaded";
/// Time between looks for publications that nobody told of.
const LOOK: Duration = Duration::from_secs(3);
/// The pause before weights are tried again whose host was away.
const HOST_AWAY: Duration = Duration::from_secs(1);
/// The first pause before weights are tried again that could not be loaded; it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Seconds after which a server of a shared store is forgotten that has said nothing.
const FORGOTTEN_AFTER: f64 = 24.0 * 3600.0;

/// What a server that follows the store's publications starts with.
#[derive(Debug, Default)]
pub struct FollowingServer {
    /// Where it listens.
    pub url: String,
    /// What is published. Calls of these models are held until their weights are there.
    pub published: Vec<Publication>,
    /// Which weights models have of their own, where that is known.
    pub base_weights: BTreeMap<String, WeightsId>,
}

/// The tasks that keep a server's models at the weights that are published. They end when it is dropped.
#[derive(Debug)]
pub struct WeightsFollower {
    tasks: JoinSet<()>,
    server: ServerName,
    store: Store,
}

/// A model that follows.
pub(crate) struct FollowingModel {
    pub(crate) weights: ModelWeights,
    pub(crate) of: WeightsOf,
    pub(crate) gate: Gate,
}

impl WeightsFollower {
    /// Holds the calls of models that have other weights to load, and begins to load them.
    pub(crate) async fn start(
        store: Store,
        server: FollowingServer,
        models: Vec<FollowingModel>,
        host_patience: Duration,
    ) -> Self {
        let FollowingServer { url, published, base_weights } = server;
        let server = ServerName { server_id: Uuid::now_v7().to_string(), url };
        // A store that is not shared has this server alone.
        let forgotten = if store.others_write() { now() - FORGOTTEN_AFTER } else { now() };
        if let Err(error) = store.weights().forget_servers_before(forgotten).await {
            tracing::warn!(%error, "servers that have ended are not forgotten");
        }
        // Killed processes could not take their reports back.
        if let Err(error) = store.weights().forget_earlier_servers(&server.url, &server.server_id).await {
            tracing::warn!(%error, "earlier processes of this server are not forgotten");
        }
        let mut tasks = JoinSet::new();
        for FollowingModel { weights, of, gate } in models {
            let base = base_weights.get(&of.model).copied();
            if let Some(weights_id) = base {
                weights.has_of_its_own(weights_id);
            }
            // Of a host elsewhere it is not known until the host says so.
            if let (Some(weights_id), Some(_)) = (base, of.sampler.weights_version()) {
                weights.started_with(weights_id);
            }
            let is_held = published.iter().any(|published| published.weights.model == of.model);
            if is_held {
                gate.pause(Holder::FirstWeights, Some(FIRST_WEIGHTS.to_owned()));
            }
            tasks.spawn(report(server.clone(), weights.clone(), of.clone()));
            tasks.spawn(follow(FollowingModel { weights, of, gate }, is_held, base, host_patience));
        }
        Self { tasks, server, store }
    }

    /// Loads nothing any more, and has the store forget this server.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
        if let Err(error) = self.store.weights().forget_server(&self.server.server_id).await {
            tracing::warn!(%error, "the store still knows this server");
        }
    }
}

async fn follow(model: FollowingModel, mut is_held: bool, base: Option<WeightsId>, host_patience: Duration) {
    let FollowingModel { weights, of, gate } = model;
    let mut published = of.store.weights().published_weights();
    let (mut away_since, mut backoff, mut checked) = (None, Backoff::new(FIRST_PAUSE, LONGEST_PAUSE), None);
    loop {
        let caught_up = weights.catch_up(&of).await;
        let waits = match caught_up {
            CaughtUp::Away | CaughtUp::Unread => away_since.get_or_insert_with(Instant::now).elapsed() < host_patience,
            CaughtUp::NothingPublished | CaughtUp::Serving | CaughtUp::Failed => {
                away_since = None;
                false
            }
        };
        let is_missing = matches!(caught_up, CaughtUp::Away) || is_held && matches!(caught_up, CaughtUp::Unread);
        if is_missing && !waits {
            weights.gives_up_waiting(&of);
        }
        if is_held && !waits {
            is_held = false;
            gate.resume(Holder::FirstWeights);
        }
        let pause = match caught_up {
            CaughtUp::NothingPublished => {
                check_label(&weights, &of, base, &mut checked).await;
                LOOK
            }
            CaughtUp::Serving => LOOK,
            CaughtUp::Away | CaughtUp::Unread => HOST_AWAY,
            CaughtUp::Failed => backoff.pause(),
        };
        if !matches!(caught_up, CaughtUp::Failed) {
            backoff.reset();
        }
        tokio::select! {
            // The store is in our hands, so that this does not fail.
            _ = published.changed() => backoff.reset(),
            () = weights.is_to_look() => {}
            () = sleep(pause) => {}
        }
    }
}

/// Warns of a host that labels its own weights with a version that names others in this store.
async fn check_label(
    weights: &ModelWeights,
    of: &WeightsOf,
    base: Option<WeightsId>,
    checked: &mut Option<WeightsVersion>,
) {
    let Some(label) = of.sampler.weights_version().filter(|label| *checked != Some(*label)) else { return };
    let WeightsOf { model, store, .. } = of;
    let version = label.0;
    let named = match base {
        Some(weights_id) => {
            let new = NewNamedWeights::of_no_run(model, weights_id, version);
            store.weights().name(new).await.map(|named| (named.version != version).then_some(()))
        }
        None => store.weights().of_version(model, version).await.map(|named| named.map(drop)),
    };
    match named {
        Ok(others) => {
            *checked = Some(label);
            if let (Some(weights_id), None) = (base, others) {
                weights.started_with(weights_id);
            }
            if others.is_some() {
                tracing::warn!(
                    model,
                    version,
                    "the model's host labels its own weights with a version that names others in this store: what is \
                     sampled from them is recorded as sampled from those; start the host with a label that is free, or post \
                     weights"
                );
            }
        }
        Err(error) => tracing::warn!(model, %error, "which weights the model's version names cannot be read"),
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_backends::BackendError;
    use fulgurite_types::ServingState;

    use super::*;
    use crate::models::weights::testing::Hosted;
    use crate::models::weights::without_new_weights::WithoutNewWeights;

    fn away() -> BackendError {
        BackendError::Unavailable { message: "it starts".into() }
    }

    async fn followed(it: &Hosted, without_new_weights: WithoutNewWeights, host_patience: Duration) -> WeightsFollower {
        it.publish_elsewhere(3).await;
        let of = WeightsOf { without_new_weights, ..it.of.clone() };
        let model = FollowingModel { weights: it.weights.clone(), of, gate: it.gate.clone() };
        let published = it.of.store.weights().publications().await.unwrap();
        let server = FollowingServer { url: "http://here".into(), published, base_weights: BTreeMap::new() };
        WeightsFollower::start(it.of.store.clone(), server, vec![model], host_patience).await
    }

    async fn until(it: &Hosted, state: ServingState) {
        it.weights.changes().wait_for(|status| status.state == state).await.unwrap();
    }

    #[tokio::test]
    async fn a_model_is_held_while_its_host_starts() {
        let it = Hosted::new([away()]).await;
        let follower = followed(&it, WithoutNewWeights::Refuse, Duration::from_secs(3600)).await;
        assert!(it.gate.state().is_paused());
        it.host.permits.add_permits(1);
        assert_eq!(it.host.requested(2).await, [3, 3]);
        assert_eq!((it.gate.state().is_paused(), it.gate.refusal()), (true, None));
        it.host.permits.add_permits(1);
        it.gate.enter().await;
        assert_eq!(it.weights.status().state, ServingState::Serving);
        follower.stop().await;
        assert_eq!(it.of.store.weights().served(0.0).await.unwrap(), []);
    }

    #[tokio::test]
    async fn a_model_whose_host_is_away_for_too_long_is_held_no_longer() {
        for (without_new_weights, state) in
            [(WithoutNewWeights::Serve, ServingState::Behind), (WithoutNewWeights::Refuse, ServingState::Refusing)]
        {
            let it = Hosted::new([away()]).await;
            let follower = followed(&it, without_new_weights, Duration::ZERO).await;
            it.host.permits.add_permits(1);
            until(&it, state).await;
            it.gate.enter().await;
            let refusal =
                it.gate.refusal().filter(|reason| reason.contains("version 3") && reason.contains("it starts"));
            assert_eq!(refusal.is_some(), state == ServingState::Refusing);
            it.host.permits.add_permits(1);
            until(&it, ServingState::Serving).await;
            assert_eq!(it.gate.refusal(), None);
            follower.stop().await;
        }
    }
}
