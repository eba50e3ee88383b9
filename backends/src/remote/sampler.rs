use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::Mutex;

use crate::remote::answer::Answer;
use crate::remote::host::{Host, RemoteOptions};
use crate::remote::pump::{LastWeights, Pump, ReadEvent};
use crate::{BackendError, SampleRequest, SampleStream, Sampler, SamplerInfo, WeightsVersion};

/// How a kind of server is talked to.
#[async_trait]
pub trait Wire: Send + Sync + 'static {
    /// What is found out about a server before it is asked for tokens.
    type Server: Clone + Debug + Send + Sync + 'static;

    /// Finds it out.
    async fn look(remote: &Remote) -> Result<Self::Server, BackendError>;

    /// Its limits.
    fn info(remote: &Remote, server: &Self::Server) -> SamplerInfo;

    /// Why the logprobs of an answer to this request would not be those of what it was sampled from, if so.
    fn unfaithful(server: &Self::Server, request: &SampleRequest) -> Option<&'static str>;

    /// Starts sampling.
    async fn ask(remote: &Remote, server: &Self::Server, request: &SampleRequest)
    -> Result<SampleStream, BackendError>;
}

/// A server of some kind, as it was configured.
#[derive(Debug)]
pub struct Remote {
    pub(crate) host: Arc<Host>,
    /// The model's name here.
    pub(crate) model: String,
    pub(crate) vocabulary_size: usize,
    last_weights: LastWeights,
}

impl Remote {
    /// Posts a request, and reads the stream of events that answers it.
    pub(crate) async fn stream(
        &self,
        path: &str,
        body: &Value,
        answer: Answer,
        reader: impl ReadEvent,
    ) -> Result<SampleStream, BackendError> {
        let response = self.host.stream(path, body).await?;
        let (host, last_weights) = (self.host.clone(), self.last_weights.clone());
        Ok(Pump { host, response, reader, answer, last_weights }.start())
    }

    /// A server that is there and cannot be used.
    pub(crate) fn unusable(&self, message: &str) -> BackendError {
        BackendError::Configuration { message: format!("{}: {message}", self.host.name()) }
    }
}

/// A remote server that samples, reached by wire `W`.
///
/// It is looked at when it is first needed, and again after it could not be used: it may be down at first, and another
/// may come to stand in its place.
#[derive(Debug)]
pub struct RemoteSampler<W: Wire> {
    remote: Remote,
    server: Mutex<Option<W::Server>>,
}

impl<W: Wire> RemoteSampler<W> {
    /// A server that is not looked at yet. Fails for what cannot be a host's address or key.
    pub fn new(options: &RemoteOptions) -> Result<Self, BackendError> {
        let remote = Remote {
            host: Arc::new(Host::new(options)?),
            model: options.model.clone(),
            vocabulary_size: options.vocabulary_size,
            last_weights: LastWeights::default(),
        };
        Ok(Self { remote, server: Mutex::new(None) })
    }

    async fn server(&self) -> Result<W::Server, BackendError> {
        let mut known = self.server.lock().await;
        if let Some(server) = &*known {
            return Ok(server.clone());
        }
        let server = W::look(&self.remote).await?;
        tracing::info!(host = %self.remote.host.name(), ?server, "found a model host");
        Ok(known.insert(server).clone())
    }
}

#[async_trait]
impl<W: Wire> Sampler for RemoteSampler<W> {
    async fn info(&self) -> Result<SamplerInfo, BackendError> {
        Ok(W::info(&self.remote, &self.server().await?))
    }

    /// As the last answer told it.
    fn weights_version(&self) -> Option<WeightsVersion> {
        self.remote.last_weights.get()
    }

    async fn sample(&self, request: SampleRequest) -> Result<SampleStream, BackendError> {
        let server = self.server().await?;
        W::info(&self.remote, &server).check(&request)?;
        if request.sampling.temperature != 0.0
            && let Some(why) = W::unfaithful(&server, &request)
        {
            let message =
                format!("the host of `{}` cannot tell the logprobs of such an answer: {why}", self.remote.model);
            return Err(BackendError::InvalidRequest { message });
        }
        let asked = W::ask(&self.remote, &server, &request).await;
        if asked.as_ref().is_err_and(BackendError::is_hosts_fault) {
            *self.server.lock().await = None;
        }
        asked
    }

    async fn check_health(&self) -> Result<(), BackendError> {
        self.remote.host.check_health().await
    }
}
