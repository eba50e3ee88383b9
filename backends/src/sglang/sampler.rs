use async_trait::async_trait;
use serde_json::{Value, json};

use super::generate::generate;
use super::prompt_scores::score_prompt;
use super::request::is_truncated;
use super::server::{self, SglangServer};
use crate::remote::sampler::{Remote, RemoteSampler, Wire, with_hint};
use crate::remote::serving::Serving;
use crate::{BackendError, Capabilities, Changeover, PromptScores, SampleRequest, SampleStream, SamplerInfo};

/// An SGLang server by its own `/generate`: tokens in, and tokens, logprobs and versions of weights out.
///
/// Logprobs are taken after temperature, penalties, biases and constraints, but before top-k and top-p. What these left
/// and the logprobs among it (`return_sampling_mask`) are requested where the server reports them, which it does beside
/// a top-k that is not too large; other requests for top-p and top-k are refused, except at temperature 0, where the
/// sampled token was certain and its logprob is 0. A server may have been told to take logprobs before the temperature
/// too, and does not say so: the first request for another temperature than 1 has this tried out with a few tokens.
///
/// Seeds count only where the server was started with `--enable-deterministic-inference`. What the model itself takes
/// for the end of a text also ends an answer, since SGLang's `ignore_eos` would ignore stop tokens too. Each token has
/// the version of the weights that its event reports; spans that a server reports at the end take precedence.
pub type SglangSampler = RemoteSampler<Sglang>;

/// SGLang's wire, as version 0.5.23 speaks it.
#[derive(Debug)]
pub struct Sglang;

/// No limit is documented; it is that of OpenAI's API.
const GREATEST_TOP_LOGPROBS: usize = 20;

#[async_trait]
impl Wire for Sglang {
    type Server = SglangServer;
    const SCORES_PROMPTS: bool = true;

    async fn look(remote: &Remote) -> Result<SglangServer, BackendError> {
        server::look(remote).await
    }

    fn info(remote: &Remote, server: &SglangServer) -> SamplerInfo {
        SamplerInfo {
            context_length: server.context_length,
            vocabulary_size: remote.vocabulary_size,
            capabilities: Capabilities {
                penalties: true,
                logit_bias: true,
                stop_sequences: false,
                json_schema: true,
                lark: server.takes_lark,
                top_logprobs: GREATEST_TOP_LOGPROBS,
            },
        }
    }

    async fn unfaithful(
        remote: &Remote,
        server: &SglangServer,
        request: &SampleRequest,
    ) -> Result<Option<String>, BackendError> {
        if is_truncated(request) {
            // With these it reports the logprobs after the temperature too.
            return Ok(server.truncation_unreported(request));
        }
        let is_faithful = request.sampling.temperature == 1.0 || server.reports_temperature(remote).await?;
        let why = "this SGLang takes them before the temperature: SGLANG_RETURN_ORIGINAL_LOGPROB is set where it runs; \
                   start it without that, or leave temperature at 1";
        Ok((!is_faithful).then(|| why.to_owned()))
    }

    async fn start_sampling(
        remote: &Remote,
        server: &SglangServer,
        request: &SampleRequest,
        serving: &Serving,
    ) -> Result<SampleStream, BackendError> {
        generate(remote, server, request, serving).await
    }

    async fn score_prompt(
        remote: &Remote,
        _: &SglangServer,
        prompt: &[u32],
        alternatives: usize,
        serving: &Serving,
    ) -> Result<PromptScores, BackendError> {
        score_prompt(remote, prompt, alternatives, serving).await
    }

    async fn load_model(
        remote: &Remote,
        directory: &str,
        label: &str,
        changeover: Changeover,
    ) -> Result<(), BackendError> {
        let host = &remote.host;
        let update = async {
            let body = json!({ "model_path": directory, "weight_version": label, "flush_cache": true });
            succeeded(remote, host.post("update_weights_from_disk", &[], &body).await?)
        };
        match changeover {
            Changeover::Drain => update.await?,
            Changeover::InFlight => {
                // Back to the queue, so that what is cached of their prompts is computed again.
                host.post("pause_generation", &[], &json!({ "mode": "retract" })).await?;
                let updated = update.await;
                host.post("continue_generation", &[], &json!({})).await?;
                updated?;
            }
        }
        remote.confirm_weights(&server::get_either(remote, "model_info").await?, label)
    }

    async fn model_label(remote: &Remote) -> Result<Option<String>, BackendError> {
        let info = server::get_either(remote, "model_info").await?;
        Ok(info["weight_version"].as_str().map(str::to_owned))
    }

    async fn load_adapter(remote: &Remote, name: &str, directory: &str) -> Result<(), BackendError> {
        let body = json!({ "lora_name": name, "lora_path": directory });
        let loaded = remote.host.post("load_lora_adapter", &[], &body).await;
        let hint = "start it with --enable-lora, --max-lora-rank and --lora-target-modules";
        succeeded(remote, loaded.map_err(|error| with_hint(error, hint))?)
    }

    async fn unload_adapter(remote: &Remote, name: &str) -> Result<(), BackendError> {
        succeeded(remote, remote.host.post("unload_lora_adapter", &[], &json!({ "lora_name": name })).await?)
    }
}

/// Failures to change weights come with status 200 too.
fn succeeded(remote: &Remote, reply: Value) -> Result<(), BackendError> {
    if reply["success"] == json!(true) {
        return Ok(());
    }
    let reason = [&reply["message"], &reply["error_message"]].into_iter().find_map(Value::as_str);
    Err(remote.unusable(reason.unwrap_or("it does not say that it has done what it was asked")))
}
