//! A proxy over real sockets, in front of a sampler that plays scripts.

pub mod clients;
pub mod conversations;
pub mod families;
pub mod google;
pub mod messages;
pub mod upstreams;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fulgurite_api::RouteNeeds;
use fulgurite_backends::{
    BackendError, Capabilities, NewWeights, SampleEvent, SampleRequest, SampleStream, SampledToken, Sampler,
    SamplerInfo, SamplingEnd, WeightsSource,
};
use fulgurite_proxy::{Proxy, ProxyOptions, SampledModel, ServedModel};
use fulgurite_renderers::{
    Continuation, FormatOptions, Renderer, RendererChoice, Tokenizer, ToolWriting, open_renderer, renderer_of,
    train_byte_level_tokenizer, write_tokenizer_directory,
};
use fulgurite_store::{Store, StoreOptions};
use fulgurite_types::{Generation, GenerationFilter, Message, NewRollout, SpanFilter, WeightsVersion};
use serde_json::{Value, json};
use tokio::sync::oneshot;

pub const CONTEXT_LENGTH: usize = 64;
pub const VOCABULARY_SIZE: usize = 400;
pub const BODY_LIMIT: usize = 4096;

/// How one request is answered.
pub enum Script {
    /// These tokens, then the end.
    Answer(Vec<u32>, SamplingEnd),
    /// These tokens after a prompt of which so many were cached, then the end.
    Cached(Vec<u32>, usize),
    /// These tokens, then the weights that sampled them, then the end.
    OfWeights(Vec<u32>, WeightsVersion),
    /// These tokens, then nothing until the listener is gone, which is told.
    Hang(Vec<u32>, oneshot::Sender<()>),
    /// These tokens, then a failure.
    Break(Vec<u32>),
}

pub struct ScriptedSampler {
    pub info: SamplerInfo,
    pub scripts: Mutex<VecDeque<Script>>,
    pub requests: Mutex<Vec<SampleRequest>>,
    /// The newest weights; the test may replace them.
    pub weights: Mutex<WeightsVersion>,
}

#[async_trait]
impl Sampler for ScriptedSampler {
    async fn info(&self) -> Result<SamplerInfo, BackendError> {
        Ok(self.info.clone())
    }

    fn weights_version(&self) -> Option<WeightsVersion> {
        Some(*self.weights.lock().unwrap())
    }

    /// Takes model directories alone.
    async fn load_weights(&self, weights: &NewWeights) -> Result<(), BackendError> {
        let WeightsSource::Model(_) = weights.source else {
            return Err(BackendError::Configuration { message: "whole models only".into() });
        };
        *self.weights.lock().unwrap() = weights.version;
        Ok(())
    }

    fn takes_adapters(&self) -> bool {
        true
    }

    /// Samples by the same script. A configuration that is empty is of another model.
    async fn with_adapter(self: Arc<Self>, directory: &Path) -> Result<Arc<dyn Sampler>, BackendError> {
        match std::fs::read_to_string(directory.join("adapter_config.json")).unwrap().as_str() {
            "" => Err(BackendError::Configuration { message: "rank 4 where the configuration has 8".into() }),
            _ => Ok(self),
        }
    }

    async fn sample(&self, request: SampleRequest) -> Result<SampleStream, BackendError> {
        let script = self.scripts.lock().unwrap().pop_front().ok_or(BackendError::Overloaded { limit: 0 })?;
        self.requests.lock().unwrap().push(request);
        let (sender, stream) = SampleStream::channel();
        let extra = match &script {
            Script::Cached(_, cached) => Some(SampleEvent::CachedPrompt(*cached)),
            Script::OfWeights(tokens, weights) => {
                Some(SampleEvent::WeightsVersions(vec![Some(*weights); tokens.len()]))
            }
            Script::Answer(..) | Script::Hang(..) | Script::Break(_) => None,
        };
        let (tokens, then) = match script {
            Script::Cached(tokens, _) | Script::OfWeights(tokens, _) => {
                (tokens, Ok(Ok(SampleEvent::Finished(SamplingEnd::StopToken))))
            }
            Script::Answer(tokens, reason) => (tokens, Ok(Ok(SampleEvent::Finished(reason)))),
            Script::Hang(tokens, on_disconnect) => (tokens, Err(on_disconnect)),
            Script::Break(tokens) => (tokens, Ok(Err(BackendError::Internal { message: "it broke".into() }))),
        };
        for (index, id) in tokens.into_iter().enumerate() {
            let logprob = -0.25 * (index + 1) as f32;
            let token = SampledToken { id, logprob, weights_version: self.weights_version(), top_logprobs: vec![] };
            sender.send(Ok(SampleEvent::Token(token))).unwrap();
        }
        extra.into_iter().for_each(|extra| sender.send(Ok(extra)).unwrap());
        match then {
            Ok(last) => sender.send(last).unwrap(),
            Err(on_disconnect) => {
                tokio::spawn(async move {
                    sender.closed().await;
                    on_disconnect.send(()).unwrap();
                });
            }
        }
        Ok(stream)
    }
}

fn capabilities() -> Capabilities {
    Capabilities { top_logprobs: 20, ..Capabilities::default() }
}

pub struct Setup {
    pub url: String,
    pub store: Store,
    pub sampler: Arc<ScriptedSampler>,
    pub renderer: Arc<dyn Renderer>,
    pub client: reqwest::Client,
    options: ProxyOptions,
    _directory: tempfile::TempDir,
}

impl Setup {
    pub async fn new(scripts: Vec<Script>) -> Self {
        let setup =
            Self::with_options(ProxyOptions { body_limit: BODY_LIMIT, seed: 1, ..ProxyOptions::default() }).await;
        setup.sampler.scripts.lock().unwrap().extend(scripts);
        setup
    }

    pub async fn with_options(options: ProxyOptions) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tokenizer = train_byte_level_tokenizer(["I am 17. Say you are 17."; 3], 280, &[]).unwrap();
        write_tokenizer_directory(directory.path(), &tokenizer).unwrap();
        let renderer = open_renderer(directory.path(), "chatml").unwrap();
        let info = SamplerInfo {
            context_length: CONTEXT_LENGTH,
            vocabulary_size: VOCABULARY_SIZE,
            capabilities: capabilities(),
        };
        Self::serve(renderer, info, options).await
    }

    /// A model with a chat template of its own.
    pub async fn of_template(template: &str) -> Self {
        Self::of_template_and(template, ToolWriting::Template).await
    }

    /// The same, told of tools in this way.
    pub async fn of_template_and(template: &str, tools: ToolWriting) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tokenizer = train_byte_level_tokenizer(["I am 17. Say you are 17."; 3], 280, &[]).unwrap();
        write_tokenizer_directory(directory.path(), &tokenizer).unwrap();
        std::fs::write(directory.path().join("chat_template.jinja"), template).unwrap();
        let renderer = open_renderer(directory.path(), RendererChoice { name: "template", tools }).unwrap();
        let info = SamplerInfo { context_length: 4096, vocabulary_size: VOCABULARY_SIZE, capabilities: capabilities() };
        Self::serve(renderer, info, ProxyOptions::default()).await
    }

    /// A model of a family: the format of that name, on that small tokenizer.
    pub async fn of_family(format: &str, tokenizer: &str) -> Self {
        Self::of_family_on(format, tokenizer, capabilities()).await
    }

    /// A model of a family at a host that can do this.
    pub async fn of_family_on(format: &str, tokenizer: &str, capabilities: Capabilities) -> Self {
        let tokenizers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../renderers/tests/vectors/tokenizers");
        let tokenizer = Arc::new(Tokenizer::open(&tokenizers.join(tokenizer)).unwrap());
        let info = SamplerInfo { context_length: 4096, vocabulary_size: tokenizer.vocabulary_size(), capabilities };
        let options = FormatOptions { current_date: Some("2026-01-02".to_owned()), ..FormatOptions::default() };
        Self::serve(renderer_of(tokenizer, format, &options).unwrap(), info, ProxyOptions::default()).await
    }

    async fn serve(renderer: Arc<dyn Renderer>, info: SamplerInfo, options: ProxyOptions) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", directory.path().join("test.db").display());
        let store = Store::open(&url, StoreOptions::default()).await.unwrap();
        let sampler = Arc::new(ScriptedSampler {
            info,
            scripts: Mutex::default(),
            requests: Mutex::default(),
            weights: Mutex::new(WeightsVersion(3)),
        });
        let url = listen(&store, &renderer, &sampler, &options).await;
        Self { url, store, sampler, renderer, client: reqwest::Client::new(), options, _directory: directory }
    }

    /// Another server over the same store, as after a restart; requests go there from now on.
    pub async fn restart(&mut self) {
        self.url = listen(&self.store, &self.renderer, &self.sampler, &self.options).await;
    }

    pub fn tokens(&self, text: &str) -> Vec<u32> {
        self.renderer.tokenizer().encode_ordinary(text).unwrap()
    }

    /// Tokens as the model would sample them: marks that the text spells are the format's own tokens.
    pub fn sampled(&self, text: &str) -> Vec<u32> {
        self.renderer.tokenizer().encode_with_specials(text).unwrap()
    }

    pub fn stop(&self) -> u32 {
        self.renderer.stop_tokens()[0]
    }

    pub fn play(&self, script: Script) {
        self.sampler.scripts.lock().unwrap().push_back(script);
    }

    /// An attempt and the base URL of its agent.
    pub async fn attempt(&self) -> (String, String) {
        let started = self.store.rollouts().start(NewRollout::default(), None).await.unwrap();
        let (rollout, attempt) = (started.rollout.rollout_id, started.attempt.attempt_id);
        (rollout.clone(), format!("{}/rollout/{rollout}/attempt/{attempt}/v1", self.url))
    }

    /// The base URL of a new attempt, of a rollout with that seed, and the rollout.
    pub async fn seeded_attempt(&self, seed: u64) -> (String, String) {
        let metadata = json!({ "seed": seed }).as_object().cloned();
        let rollout = NewRollout { metadata, ..NewRollout::default() };
        let started = self.store.rollouts().start(rollout, None).await.unwrap();
        let (rollout, attempt) = (started.rollout.rollout_id, started.attempt.attempt_id);
        (rollout.clone(), format!("{}/rollout/{rollout}/attempt/{attempt}/v1", self.url))
    }

    /// The prompt that goes on with the first request's: what was sampled after it, and the messages from `new_from` on.
    pub fn continued(&self, messages: &Value, tools: &Value, new_from: usize, sampled: &[u32]) -> Vec<u32> {
        let messages: Vec<Message> = serde_json::from_value(messages.clone()).unwrap();
        let tools: Vec<Value> = serde_json::from_value(tools.clone()).unwrap();
        let continuation = Continuation { messages: &messages, new_from, sampled, tools: &tools };
        let appended = self.renderer.render_continuation(&continuation).unwrap();
        let first = self.sampler.requests.lock().unwrap()[0].prompt.clone();
        [first, sampled.to_vec(), appended].concat()
    }

    /// Attributes of a rollout's last call, as readers get them.
    pub async fn attributes(&self, rollout: &str) -> Value {
        let filter = SpanFilter { rollout_id: rollout.to_owned(), ..SpanFilter::default() };
        let spans = self.store.spans().query(&filter).await.unwrap().items;
        json!(spans.last().unwrap().attributes)
    }

    pub async fn post(&self, base: &str, body: &Value) -> reqwest::Response {
        self.client.post(format!("{base}/chat/completions")).json(body).send().await.unwrap()
    }

    pub async fn generations(&self) -> Vec<Generation> {
        generations(&self.store).await
    }

    /// A generation of a rollout, once there is one.
    pub async fn generation_of(&self, rollout: &str) -> Generation {
        for _ in 0..500 {
            if let Some(found) = self.generations().await.into_iter().find(|found| found.rollout_id == rollout) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("not recorded: {:?}", self.generations().await);
    }

    /// The only generation, once what the server still writes about it is written.
    pub async fn generation_when(&self, holds: impl Fn(&Generation) -> bool) -> Generation {
        generation_when(&self.store, holds).await
    }
}

pub async fn generations(store: &Store) -> Vec<Generation> {
    store.generations().matching(&GenerationFilter::default()).await.unwrap()
}

/// The only generation of a store, once what a server still writes about it is written.
pub async fn generation_when(store: &Store, holds: impl Fn(&Generation) -> bool) -> Generation {
    for _ in 0..500 {
        if let [generation] = generations(store).await.as_slice()
            && holds(generation)
        {
            return generation.clone();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not recorded so: {:?}", generations(store).await);
}

async fn listen(
    store: &Store,
    renderer: &Arc<dyn Renderer>,
    sampler: &Arc<ScriptedSampler>,
    options: &ProxyOptions,
) -> String {
    let model = ServedModel::Sampled(SampledModel {
        name: "tiny".into(),
        renderer: renderer.clone(),
        sampler: sampler.clone(),
    });
    let router = fulgurite_proxy::routes(
        Proxy::new(store.clone(), vec![model], options.clone()).unwrap(),
        &mut RouteNeeds::default(),
    )
    .fallback(fulgurite_proxy::unknown_route);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

pub fn body() -> Value {
    json!({ "model": "tiny", "messages": [{ "role": "user", "content": "Say you are 17." }] })
}

/// The data of a stream's events.
pub fn events(text: &str) -> Vec<String> {
    text.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).map(str::to_owned).collect()
}

/// The chunks of a stream that ended well.
pub fn chunks(text: &str) -> Vec<Value> {
    let events = events(text);
    assert_eq!(events.last().unwrap(), "[DONE]");
    events[..events.len() - 1].iter().map(|event| serde_json::from_str(event).unwrap()).collect()
}
