use async_trait::async_trait;
use fulgurite_types::SamplingParameters;
use reqwest::StatusCode;

use super::completions::CompletionReader;
use super::generate::GenerateReader;
use super::prompt_scores::score_prompt;
use super::request::{Completion, Generate};
use super::{sleep, weights};
use crate::remote::answer::{Answer, EndsAt};
use crate::remote::probe::probe;
use crate::remote::sampler::{Remote, RemoteSampler, Wire};
use crate::remote::served_models::served_model;
use crate::remote::serving::Serving;
use crate::{
    BackendError, Capabilities, Changeover, PromptScores, SampleEvent, SampleRequest, SampleStream, SamplerInfo,
};

const COMPLETIONS: &str = "v1/completions";
const GENERATE: &str = "inference/v1/generate";
/// The server's own default of `--max-logprobs`.
const GREATEST_TOP_LOGPROBS: usize = 20;

/// A vLLM server: tokens in, and tokens, logprobs and, where it tells them, versions of weights out.
///
/// `/inference/v1/generate` is taken where the server offers it (`--enable-scale-out`), since that route alone tells
/// which weights sampled which tokens; `/v1/completions` otherwise, where the version stays unknown. A version is known
/// if the server's label of it is a number or `v` and a number (`POST /update_weight_version`). It comes with an answer's
/// end, so that an answer which whoever asked cuts short is of unknown weights.
///
/// By default vLLM reports logprobs of the model's own distribution, before temperature, top-p, top-k, penalties,
/// biases and constraints. With `--logprobs-mode processed_logprobs` they are those of the distribution that was
/// sampled from. One token sampled at top-k 1 tells which it is. Requests whose logprobs would not be those of what
/// was sampled are refused. At temperature 0 the sampled token was certain, and its logprob is 0.
pub type VllmSampler = RemoteSampler<Vllm>;

/// vLLM's wire, as version 0.32 speaks it.
#[derive(Debug)]
pub struct Vllm;

/// What was found out about a server.
#[derive(Clone, Debug)]
pub struct VllmServer {
    /// What it calls the model.
    model: String,
    context_length: usize,
    generates: bool,
    /// Whether logprobs are those of the distribution that was sampled from.
    logprobs_are_processed: bool,
}

#[async_trait]
impl Wire for Vllm {
    type Server = VllmServer;
    const SCORES_PROMPTS: bool = true;

    async fn look(remote: &Remote) -> Result<VllmServer, BackendError> {
        let listed = served_model(&remote.host, &remote.model).await?;
        let unknown = || remote.unusable("it does not tell the model's max_model_len");
        let context_length = listed.max_model_len.ok_or_else(unknown)?;
        let generates = match remote.host.status_of_empty_post(GENERATE).await? {
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => true,
            StatusCode::FORBIDDEN | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => false,
            status => {
                let message = format!("{} answers {} to POST /{GENERATE}", remote.host.name(), status.as_u16());
                return Err(BackendError::Unavailable { message });
            }
        };
        let server = VllmServer { model: listed.id, context_length, generates, logprobs_are_processed: false };
        Ok(VllmServer { logprobs_are_processed: logprobs_are_processed(remote, &server).await?, ..server })
    }

    fn info(remote: &Remote, server: &VllmServer) -> SamplerInfo {
        SamplerInfo {
            context_length: server.context_length,
            vocabulary_size: remote.vocabulary_size,
            capabilities: Capabilities {
                penalties: true,
                logit_bias: true,
                stop_sequences: false,
                json_schema: true,
                lark: true,
                top_logprobs: GREATEST_TOP_LOGPROBS,
            },
        }
    }

    async fn unfaithful(
        _: &Remote,
        server: &VllmServer,
        request: &SampleRequest,
    ) -> Result<Option<String>, BackendError> {
        let why = "this vLLM reports those of the model's own distribution, which is not what is sampled from when \
                   temperature is not 1 or top_p, top_k, penalties, logit_bias or a response format are asked for; start \
                   it with --logprobs-mode processed_logprobs, or leave these out";
        let is_faithful = server.logprobs_are_processed || request.sampling.is_unmodified();
        Ok((!is_faithful).then(|| why.to_owned()))
    }

    async fn start_sampling(
        remote: &Remote,
        server: &VllmServer,
        request: &SampleRequest,
        serving: &Serving,
    ) -> Result<SampleStream, BackendError> {
        let ends_at = if request.sampling.constraint.is_none() { EndsAt::StopTokens } else { EndsAt::HostsEnd };
        let answer = Answer::new(request, remote.vocabulary_size, ends_at);
        let model = serving.adapter.as_ref().unwrap_or(&server.model);
        if server.generates {
            // The server reports the version of the model below an adapter.
            let answer = answer.of_weights(serving.adapter.as_ref().and(serving.version));
            let body = Generate::new(model, request, GREATEST_TOP_LOGPROBS);
            remote.stream(GENERATE, &body, answer, GenerateReader).await
        } else {
            let body = Completion::new(model, request);
            remote.stream(COMPLETIONS, &body, answer.of_weights(serving.version), CompletionReader).await
        }
    }

    async fn score_prompt(
        remote: &Remote,
        server: &VllmServer,
        prompt: &[u32],
        alternatives: usize,
        serving: &Serving,
    ) -> Result<PromptScores, BackendError> {
        let model = serving.adapter.as_ref().unwrap_or(&server.model);
        score_prompt(remote, model, prompt, alternatives).await
    }

    async fn load_model(
        remote: &Remote,
        directory: &str,
        label: &str,
        changeover: Changeover,
    ) -> Result<(), BackendError> {
        weights::load_model(remote, directory, label, changeover).await
    }

    async fn model_label(remote: &Remote) -> Result<Option<String>, BackendError> {
        weights::model_label(remote).await
    }

    async fn is_asleep(remote: &Remote) -> Result<bool, BackendError> {
        sleep::is_asleep(remote).await
    }

    async fn sleep(remote: &Remote) -> Result<(), BackendError> {
        sleep::sleep(remote).await
    }

    async fn wake(remote: &Remote) -> Result<(), BackendError> {
        sleep::wake(remote).await
    }

    async fn load_adapter(remote: &Remote, name: &str, directory: &str) -> Result<(), BackendError> {
        weights::load_adapter(remote, name, directory).await
    }

    async fn unload_adapter(remote: &Remote, name: &str) -> Result<(), BackendError> {
        weights::unload_adapter(remote, name).await
    }
}

/// Samples one token at top-k 1. Only where logprobs are processed is there no alternative to it.
async fn logprobs_are_processed(remote: &Remote, server: &VllmServer) -> Result<bool, BackendError> {
    let sampling = SamplingParameters { top_k: Some(1), ..SamplingParameters::default() };
    let request = probe(sampling, 1, 2);
    let mut stream = Vllm::start_sampling(remote, server, &request, &Serving::default()).await?;
    match stream.next().await? {
        SampleEvent::Token(token) => Ok(token.top_logprobs.len() < 2),
        event => Err(remote.unusable(&format!("asked for one token, it answers with {event:?}"))),
    }
}
