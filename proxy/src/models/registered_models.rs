use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fulgurite_backends::{BackendError, ReplicaOptions, Upstream, UpstreamDialect, UpstreamOptions};
use serde::{Deserialize, Serialize};

use crate::models::served_model::UpstreamModel;

/// A server that was registered for a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RemoteModel {
    model: String,
    endpoint: String,
    #[serde(default)]
    version: i64,
}

/// A server that cannot be registered: its place among those that were given, and why.
#[derive(Debug)]
pub(crate) struct UnusableServer {
    pub(crate) index: usize,
    pub(crate) error: BackendError,
}

/// Registered servers, which calls of their models are forwarded to.
#[derive(Default)]
pub(crate) struct RegisteredModels {
    registered: Mutex<Registered>,
}

#[derive(Clone, Default)]
struct Registered {
    /// In the order of their registration.
    servers: Vec<RemoteModel>,
    /// By name: all servers of a model are one upstream.
    models: BTreeMap<String, UpstreamModel>,
}

impl RegisteredModels {
    fn registered(&self) -> MutexGuard<'_, Registered> {
        // All of it is put in its place at once, so that a poisoned lock holds nothing broken.
        self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The models that they answer for, by name.
    pub(crate) fn models(&self) -> BTreeMap<String, UpstreamModel> {
        self.registered().models.clone()
    }

    /// In the order of their registration.
    pub(crate) fn servers(&self) -> Vec<RemoteModel> {
        self.registered().servers.clone()
    }

    /// Forgets all of them.
    pub(crate) fn clear(&self) {
        *self.registered() = Registered::default();
    }

    /// Puts each server in the place of the same one, or at the end: all of them, or none if one cannot be used.
    pub(crate) fn register(&self, servers: &[RemoteModel]) -> Result<(), UnusableServer> {
        let mut registered = self.registered();
        let mut next = registered.clone();
        for (index, server) in servers.iter().enumerate() {
            next.put(server);
            let upstream = next.upstream(&server.model).map_err(|error| UnusableServer { index, error })?;
            next.models.insert(server.model.clone(), upstream);
        }
        *registered = next;
        Ok(())
    }
}

impl Registered {
    fn put(&mut self, server: &RemoteModel) {
        let same = |known: &&mut RemoteModel| known.model == server.model && known.endpoint == server.endpoint;
        match self.servers.iter_mut().find(same) {
            Some(known) => *known = server.clone(),
            None => self.servers.push(server.clone()),
        }
    }

    fn upstream(&self, model: &str) -> Result<UpstreamModel, BackendError> {
        let servers = self.servers.iter().filter(|server| server.model == model);
        let options = UpstreamOptions {
            urls: servers.map(|server| server.endpoint.clone()).collect(),
            dialect: UpstreamDialect::OpenAi,
            api_key: None,
            key_header: None,
            replicas: ReplicaOptions { model: model.to_owned(), ..ReplicaOptions::default() },
        };
        let upstream = Arc::new(Upstream::new(&options)?);
        Ok(UpstreamModel { name: model.to_owned(), upstream_name: model.to_owned(), upstream })
    }
}
