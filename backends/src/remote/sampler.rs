use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fulgurite_types::WeightsVersion;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Mutex, OwnedRwLockWriteGuard};

use crate::remote::answer::Answer;
use crate::remote::answer_stream::{AnswerStream, LastWeights, ReadEvent};
use crate::remote::http::host::{Host, RemoteOptions};
use crate::remote::serving::{Serving, WeightsInUse};
use crate::remote::weights_label::{BASE, WholeModel};
use crate::sampling::sampler::NO_PROMPT_SCORES;
use crate::{
    BackendError, Changeover, NewWeights, PromptScores, SampleRequest, SampleStream, Sampler, SamplerInfo,
    WeightsSource,
};

/// How often a server that sleeps is told to wake before that is given up.
const WAKE_TRIES: usize = 4;
/// Time between.
const WAKE_PAUSE: Duration = Duration::from_secs(1);

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
    async fn unfaithful(
        remote: &Remote,
        server: &Self::Server,
        request: &SampleRequest,
    ) -> Result<Option<String>, BackendError>;

    /// Starts sampling from what is served.
    async fn start_sampling(
        remote: &Remote,
        server: &Self::Server,
        request: &SampleRequest,
        serving: &Serving,
    ) -> Result<SampleStream, BackendError>;

    /// Whether such a server tells the logprobs of a prompt.
    const SCORES_PROMPTS: bool = false;

    /// How likely the tokens of a prompt are, and the likeliest `alternatives` in the place of each.
    async fn score_prompt(
        remote: &Remote,
        _server: &Self::Server,
        _prompt: &[u32],
        _alternatives: usize,
        _serving: &Serving,
    ) -> Result<PromptScores, BackendError> {
        Err(remote.unusable(NO_PROMPT_SCORES))
    }

    /// Replaces the model by that of a directory, which tokens are from then on said to be sampled from by `label`. The
    /// server holds requests meanwhile. What fails in the middle leaves a label that is no version.
    async fn load_model(
        remote: &Remote,
        _directory: &str,
        _label: &str,
        _changeover: Changeover,
    ) -> Result<(), BackendError> {
        Err(remote.unusable("such a server takes no new weights while it runs"))
    }

    /// The server's label of its whole model; `None` from one whose model cannot be replaced as it was started.
    async fn model_label(_remote: &Remote) -> Result<Option<String>, BackendError> {
        Ok(None)
    }

    /// Whether the server can sleep, and whether it does.
    async fn is_asleep(remote: &Remote) -> Result<bool, BackendError> {
        Err(remote.unusable("such a server does not give its GPU to a learner"))
    }

    /// Gives the memory of its GPU to others.
    async fn sleep(remote: &Remote) -> Result<(), BackendError> {
        Self::is_asleep(remote).await.map(drop)
    }

    /// Takes the memory back; nothing if it has it.
    async fn wake(remote: &Remote) -> Result<(), BackendError> {
        Self::is_asleep(remote).await.map(drop)
    }

    /// Adds an adapter under a name that no other has had. It is over the model that the server has now.
    async fn load_adapter(remote: &Remote, _name: &str, _directory: &str) -> Result<(), BackendError> {
        Err(remote.unusable("such a server takes no adapters while it runs"))
    }

    /// Removes an adapter that is no longer used.
    async fn unload_adapter(_remote: &Remote, _name: &str) -> Result<(), BackendError> {
        Ok(())
    }
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
        body: &impl Serialize,
        answer: Answer,
        reader: impl ReadEvent,
    ) -> Result<SampleStream, BackendError> {
        let reply = self.host.stream(path, body).await?;
        let (host, last_weights) = (self.host.clone(), self.last_weights.clone());
        Ok(SampleStream::new(AnswerStream::new(host, reply, reader, answer, last_weights)))
    }

    /// Takes a server's word for the weights that it has now: only these will do.
    pub(crate) fn confirm_weights(&self, reported: &Value, label: &str) -> Result<(), BackendError> {
        match reported["weight_version"].as_str() {
            Some(version) if version == label => Ok(()),
            reported => Err(self.unusable(&format!("after an update to `{label}` it says that it has {reported:?}"))),
        }
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
    weights: WeightsInUse,
    /// The files of the model that the server was started with, if they are known.
    base: Option<PathBuf>,
    /// Adapters that were replaced and that somebody may still use. Held while weights are put behind the server, which
    /// happens once at a time.
    replaced: Mutex<Vec<Arc<Serving>>>,
    /// Holds requests while the server sleeps.
    asleep: Mutex<Option<OwnedRwLockWriteGuard<()>>>,
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
        let weights = WeightsInUse::new(options.changeover);
        Ok(Self {
            remote,
            server: Mutex::new(None),
            weights,
            base: None,
            replaced: Mutex::default(),
            asleep: Mutex::default(),
        })
    }

    /// Says where the files of the model are that the server was started with. The server must see them under the same path.
    /// They are loaded again before an adapter is, if the whole model was replaced.
    #[must_use]
    pub fn with_base(mut self, directory: Option<PathBuf>) -> Self {
        self.base = directory;
        self
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

    async fn start_sampling(&self, server: &W::Server, request: &SampleRequest) -> Result<SampleStream, BackendError> {
        W::info(&self.remote, server).check(request)?;
        if request.sampling.temperature != 0.0
            && let Some(why) = W::unfaithful(&self.remote, server, request).await?
        {
            let message =
                format!("the host of `{}` cannot tell the logprobs of such an answer: {why}", self.remote.model);
            return Err(BackendError::InvalidRequest { message });
        }
        let hold = self.weights.hold().await;
        let stream = W::start_sampling(&self.remote, server, request, &hold.serving).await?;
        Ok(stream.keeping(hold))
    }

    async fn load_model(&self, directory: &str, version: WeightsVersion) -> Result<(), BackendError> {
        let _alone = self.weights.alone().await;
        // Until the server confirms it, and if it does not.
        self.weights.replace(Serving::default());
        let label = format!("v{}", version.0);
        W::load_model(&self.remote, directory, &label, self.weights.changeover).await?;
        let is_certain = self.weights.changeover == Changeover::Drain;
        self.weights.replace(Serving { version: is_certain.then_some(version), adapter: None });
        Ok(())
    }

    async fn load_adapter(
        &self,
        directory: &str,
        version: WeightsVersion,
        replaced: &mut Vec<Arc<Serving>>,
    ) -> Result<(), BackendError> {
        // Of each load its own: hosts find what they computed of prompts by it, and some refuse one that they have.
        let load = uuid::Uuid::now_v7().simple();
        let name = format!("{}-weights-{}-{load}", self.remote.model, version.0);
        // No request gets the base alone meanwhile.
        let _alone = self.put_base_back(replaced).await?;
        W::load_adapter(&self.remote, &name, directory).await?;
        let before = self.weights.replace(Serving { version: Some(version), adapter: Some(name) });
        if before.adapter.is_some() {
            replaced.push(before);
        }
        Ok(())
    }

    /// Reloads the model that the server was started with, if its whole model was replaced: an adapter is over that one.
    /// Returns what holds requests until the adapter is there.
    async fn put_base_back(
        &self,
        replaced: &mut Vec<Arc<Serving>>,
    ) -> Result<Option<OwnedRwLockWriteGuard<()>>, BackendError> {
        let label = W::model_label(&self.remote).await?;
        let found = match WholeModel::of_label(label.as_deref()) {
            WholeModel::AsStarted => return Ok(None),
            WholeModel::Replaced { label } => label,
        };
        let Some(base) = &self.base else {
            return Err(self.remote.unusable(&format!(
                "its whole model is labelled `{found}`, so that it may not be the one that the adapter is over, and the \
                 files of that are not known here (help: restart the host without a label that is a version, or let \
                 [[models]] path name the files that it was started with)"
            )));
        };
        let alone = self.weights.alone().await;
        let before = self.weights.replace(Serving::default());
        if before.adapter.is_some() {
            replaced.push(before);
        }
        W::load_model(&self.remote, &absolute(base)?, BASE, self.weights.changeover).await?;
        tracing::info!(host = %self.remote.host.name(), "the model that the host was started with is behind it again");
        Ok(alone)
    }

    async fn wake_server(&self) -> Result<(), BackendError> {
        let mut tries = 1;
        loop {
            match W::wake(&self.remote).await {
                Ok(()) => return Ok(()),
                Err(error) if tries == WAKE_TRIES => return Err(error),
                Err(error) => tracing::warn!(host = %self.remote.host.name(), %error, "a model host does not wake yet"),
            }
            tries += 1;
            tokio::time::sleep(WAKE_PAUSE).await;
        }
    }

    /// Removes those replaced adapters that are no longer used.
    async fn unload(&self, replaced: &mut Vec<Arc<Serving>>) {
        let (unused, used) = replaced.drain(..).partition(|serving| Arc::strong_count(serving) == 1);
        *replaced = used;
        for name in Vec::into_iter(unused).filter_map(|serving: Arc<Serving>| serving.adapter.clone()) {
            if let Err(error) = W::unload_adapter(&self.remote, &name).await {
                tracing::warn!(host = %self.remote.host.name(), name, %error, "an adapter could not be removed");
            }
        }
    }
}

/// An error that the way a server was started may explain.
pub(crate) fn with_hint(error: BackendError, hint: &str) -> BackendError {
    match error {
        BackendError::Configuration { message } => {
            BackendError::Configuration { message: format!("{message}; {hint}") }
        }
        other => other,
    }
}

/// A path as it is sent to another process.
fn absolute(directory: &Path) -> Result<String, BackendError> {
    let wrong = |message: String| BackendError::Files { path: directory.to_owned(), message };
    let path = std::path::absolute(directory).map_err(|error| wrong(error.to_string()))?;
    path.into_os_string().into_string().map_err(|_| wrong("its path is no UTF-8".to_owned()))
}

#[async_trait]
impl<W: Wire> Sampler for RemoteSampler<W> {
    async fn info(&self) -> Result<SamplerInfo, BackendError> {
        Ok(W::info(&self.remote, &self.server().await?))
    }

    /// As it was put there, or as the last answer reported it.
    fn weights_version(&self) -> Option<WeightsVersion> {
        self.weights.current().version.or_else(|| self.remote.last_weights.get())
    }

    async fn sample(&self, request: SampleRequest) -> Result<SampleStream, BackendError> {
        let server = self.server().await?;
        let started = self.start_sampling(&server, &request).await;
        if started.as_ref().is_err_and(BackendError::is_hosts_fault) {
            *self.server.lock().await = None;
        }
        started
    }

    async fn score_prompt(&self, prompt: &[u32], alternatives: usize) -> Result<PromptScores, BackendError> {
        if !W::SCORES_PROMPTS {
            return Err(self.remote.unusable(NO_PROMPT_SCORES));
        }
        let server = self.server().await?;
        W::info(&self.remote, &server).check_scored(prompt)?;
        let hold = self.weights.hold().await;
        let scores = W::score_prompt(&self.remote, &server, prompt, alternatives, &hold.serving).await;
        if scores.as_ref().is_err_and(BackendError::is_hosts_fault) {
            *self.server.lock().await = None;
        }
        scores
    }

    async fn load_weights(&self, weights: &NewWeights) -> Result<(), BackendError> {
        let mut replaced = self.replaced.lock().await;
        match &weights.source {
            WeightsSource::Model(directory) => self.load_model(&absolute(directory)?, weights.version).await?,
            WeightsSource::Adapter(directory) => {
                self.load_adapter(&absolute(directory)?, weights.version, &mut replaced).await?;
            }
            WeightsSource::Kept(name) => {
                return Err(self.remote.unusable(&format!("such a server keeps no weights by names like `{name}`")));
            }
        }
        self.unload(&mut replaced).await;
        Ok(())
    }

    async fn prepare_sleep(&self) -> Result<(), BackendError> {
        if W::is_asleep(&self.remote).await? {
            self.wake_server().await?;
            tracing::info!(host = %self.remote.host.name(), "a model host was found asleep, and is awake again");
        }
        Ok(())
    }

    async fn sleep(&self) -> Result<(), BackendError> {
        // Looking samples a token, for which it is too late later.
        self.server().await?;
        let mut asleep = self.asleep.lock().await;
        if asleep.is_none() {
            *asleep = self.weights.alone().await;
        }
        W::sleep(&self.remote).await
    }

    /// Requests go on even if it fails: whoever made them is to hear of it.
    async fn wake(&self) -> Result<(), BackendError> {
        let mut asleep = self.asleep.lock().await;
        let woken = self.wake_server().await;
        *asleep = None;
        woken
    }

    async fn check_health(&self) -> Result<(), BackendError> {
        self.remote.host.check_health().await
    }
}
