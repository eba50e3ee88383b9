use async_trait::async_trait;
use reqwest::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Mutex;

use super::completions::CompletionReader;
use super::generate::GenerateReader;
use super::request;
use crate::remote::answer::{Answer, EndsAt};
use crate::remote::host::{Host, RemoteOptions, error_message};
use crate::remote::pump::{LastWeights, Pump};
use crate::remote::served_models::served_model;
use crate::{
    AnswerFault, BackendError, Capabilities, SampleEvent, SampleRequest, SampleStream, Sampler, SamplerInfo,
    SamplingParameters, StopReason, WeightsVersion,
};

const COMPLETIONS: &str = "v1/completions";
const GENERATE: &str = "inference/v1/generate";
/// The server's own default of `--max-logprobs`.
const GREATEST_TOP_LOGPROBS: usize = 20;

/// A vLLM server: tokens in, and tokens, logprobs and, where it tells them, versions of weights out.
///
/// It is looked at when it is first needed, and again after it could not be used. `/inference/v1/generate` is taken
/// where the server offers it (`--enable-scale-out`), since that route alone tells which weights sampled which tokens;
/// `/v1/completions` otherwise, where the version stays unknown. A version is known if the server's label of it is a
/// number or `v` and a number (`POST /update_weight_version`).
///
/// By default vLLM reports logprobs of the model's own distribution, before temperature, top-p, top-k, penalties,
/// biases and constraints. With `--logprobs-mode processed_logprobs` they are those of the distribution that was
/// sampled from. One token sampled at top-k 1 tells which it is. Requests whose logprobs would not be those of what
/// was sampled are refused. At temperature 0 the sampled token was certain, and its logprob is 0.
#[derive(Debug)]
pub struct VllmSampler {
    host: Host,
    model: String,
    vocabulary_size: usize,
    server: Mutex<Option<Server>>,
    last_weights: LastWeights,
}

/// What was found out about a server.
#[derive(Clone, Debug)]
struct Server {
    /// What it calls the model.
    model: String,
    context_length: usize,
    generates: bool,
    /// Whether logprobs are those of the distribution that was sampled from.
    logprobs_are_processed: bool,
}

impl VllmSampler {
    /// A server that is not looked at yet. Fails for what cannot be a host's address or key.
    pub fn new(options: &RemoteOptions) -> Result<Self, BackendError> {
        Ok(Self {
            host: Host::new(options)?,
            model: options.model.clone(),
            vocabulary_size: options.vocabulary_size,
            server: Mutex::new(None),
            last_weights: LastWeights::default(),
        })
    }

    async fn server(&self) -> Result<Server, BackendError> {
        let mut server = self.server.lock().await;
        if let Some(server) = &*server {
            return Ok(server.clone());
        }
        Ok(server.insert(self.look().await?).clone())
    }

    async fn look(&self) -> Result<Server, BackendError> {
        let listed = served_model(&self.host, &self.model).await?;
        let unusable =
            |message: &str| BackendError::Configuration { message: format!("{}: {message}", self.host.name()) };
        let context_length =
            listed.max_model_len.ok_or_else(|| unusable("it does not tell the model's max_model_len"))?;
        let generates = match self.host.status_of_empty_post(GENERATE).await? {
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => true,
            StatusCode::FORBIDDEN | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => false,
            status => {
                let message = format!("{} answers {} to POST /{GENERATE}", self.host.name(), status.as_u16());
                return Err(BackendError::Unavailable { message });
            }
        };
        let mut server = Server { model: listed.id, context_length, generates, logprobs_are_processed: false };
        server.logprobs_are_processed = self.logprobs_are_processed(&server).await?;
        tracing::info!(host = %self.host.name(), ?server, "found a vLLM server");
        Ok(server)
    }

    /// Samples one token at top-k 1. Only where logprobs are processed is there no alternative to it.
    async fn logprobs_are_processed(&self, server: &Server) -> Result<bool, BackendError> {
        let request = SampleRequest {
            prompt: vec![0],
            max_tokens: 1,
            sampling: SamplingParameters { top_k: Some(1), ..SamplingParameters::default() },
            stop_tokens: Vec::new(),
            seed: 0,
            top_logprobs: 2,
            affinity: None,
        };
        let mut stream = self.ask(server, &request).await?;
        match stream.next().await? {
            SampleEvent::Token(token) => Ok(token.top_logprobs.len() < 2),
            event => {
                let message = format!("{} samples nothing when it is asked for a token: {event:?}", self.host.name());
                Err(BackendError::Internal { message })
            }
        }
    }

    async fn ask(&self, server: &Server, request: &SampleRequest) -> Result<SampleStream, BackendError> {
        let ends_at = if request.sampling.constraint.is_none() { EndsAt::StopTokens } else { EndsAt::HostsEnd };
        let answer = Answer::new(request, self.vocabulary_size, ends_at);
        if server.generates {
            let body = request::generate(&server.model, request, GREATEST_TOP_LOGPROBS);
            Ok(self.pump(GENERATE, &body, answer, GenerateReader).await?.start())
        } else {
            let body = request::completion(&server.model, request);
            Ok(self.pump(COMPLETIONS, &body, answer, CompletionReader).await?.start())
        }
    }

    async fn pump<R>(&self, path: &str, body: &Value, answer: Answer, reader: R) -> Result<Pump<R>, BackendError> {
        let response = self.host.stream(path, body).await?;
        let (host, silence_limit) = (self.host.name(), self.host.silence_limit());
        Ok(Pump { host, response, reader, answer, silence_limit, last_weights: self.last_weights.clone() })
    }

    fn info_of(&self, server: &Server) -> SamplerInfo {
        SamplerInfo {
            context_length: server.context_length,
            vocabulary_size: self.vocabulary_size,
            capabilities: Capabilities {
                penalties: true,
                logit_bias: true,
                json_schema: true,
                lark: true,
                top_logprobs: GREATEST_TOP_LOGPROBS,
            },
        }
    }
}

#[async_trait]
impl Sampler for VllmSampler {
    async fn info(&self) -> Result<SamplerInfo, BackendError> {
        Ok(self.info_of(&self.server().await?))
    }

    /// As the last answer told it.
    fn weights_version(&self) -> Option<WeightsVersion> {
        self.last_weights.get()
    }

    async fn sample(&self, request: SampleRequest) -> Result<SampleStream, BackendError> {
        let server = self.server().await?;
        self.info_of(&server).check(&request)?;
        let sampling = &request.sampling;
        if !server.logprobs_are_processed && sampling.temperature != 0.0 && !sampling.is_unmodified() {
            let message = format!(
                "the vLLM server of `{}` reports logprobs of the model's own distribution, not of what it samples from \
                 when temperature is not 1 or top_p, top_k, penalties, logit_bias or a response format are asked for; \
                 start it with --logprobs-mode processed_logprobs, or leave these out",
                self.model
            );
            return Err(BackendError::InvalidRequest { message });
        }
        let asked = self.ask(&server, &request).await;
        if asked.as_ref().is_err_and(BackendError::is_hosts_fault) {
            // Another server may stand there by the next time.
            *self.server.lock().await = None;
        }
        asked
    }

    async fn check_health(&self) -> Result<(), BackendError> {
        self.host.check_health().await
    }
}

/// An event of either route.
#[derive(Deserialize)]
pub(super) struct Event<C> {
    /// One, or none in an event that tells usage.
    #[serde(default = "Vec::new")]
    choices: Vec<C>,
    /// The prompt, where it stands beside the choice.
    pub(super) prompt_token_ids: Option<Vec<i64>>,
    error: Option<Value>,
}

impl<C: DeserializeOwned> Event<C> {
    /// Reads an event that is no error.
    pub(super) fn read(data: &str) -> Result<Self, AnswerFault> {
        if data == "[DONE]" {
            return Err(AnswerFault::BrokenOff { message: ": it is said to be done before it has ended".into() });
        }
        let event: Self =
            serde_json::from_str(data).map_err(|error| AnswerFault::Unreadable { message: error.to_string() })?;
        match event.error {
            Some(error) => Err(AnswerFault::HostError { message: error_message(&error) }),
            None => Ok(event),
        }
    }

    pub(super) fn choice(&mut self) -> Option<C> {
        self.choices.pop()
    }
}

/// Why an answer ended, if it did.
pub(super) fn stop_reason(finish_reason: Option<String>) -> Result<Option<StopReason>, AnswerFault> {
    match finish_reason.as_deref() {
        None => Ok(None),
        Some("stop") => Ok(Some(StopReason::StopToken)),
        Some("length") => Ok(Some(StopReason::Length)),
        Some(reason) => Err(AnswerFault::UnknownEnd { reason: reason.to_owned() }),
    }
}
