use std::sync::Arc;

use serde_json::Value;
use tokio::sync::OnceCell;

use crate::remote::sampler::Remote;
use crate::remote::served_models::served_model;
use crate::{BackendError, SampleRequest};

/// What was found out about a server.
#[derive(Clone, Debug)]
pub struct SglangServer {
    /// Tokens of prompt and answer together.
    pub(super) context_length: usize,
    /// The model's own limit of these, of which the server keeps some to itself.
    pub(super) longest: usize,
    /// The largest top-k beside which it reports what top-k and top-p left; `None` where it never does.
    greatest_reported_top_k: Option<usize>,
    /// Whether its grammars are llguidance's.
    pub(super) takes_lark: bool,
    /// Whether a request may say how many tokens are reported together.
    pub(super) takes_stream_interval: bool,
    /// What requests are given where they say nothing.
    pub(super) preferred: Arc<[String]>,
    pub(super) reports_temperature: Arc<OnceCell<bool>>,
}

/// Looks which model a server has, and how it was started.
pub(super) async fn look(remote: &Remote) -> Result<SglangServer, BackendError> {
    let listed = served_model(&remote.host, &remote.model).await?;
    let longest = listed.max_model_len;
    let longest = longest.ok_or_else(|| remote.unusable("it does not tell the model's max_model_len"))?;
    let settings = settings(remote).await?;
    if settings["incremental_streaming_output"] == false {
        tracing::warn!(
            host = %remote.host.name(),
            "this SGLang repeats an answer's tokens with each that is new; start it with --incremental-streaming-output"
        );
    }
    Ok(SglangServer::new(longest, &settings))
}

/// How a server was started; null where it does not say.
async fn settings(remote: &Remote) -> Result<Value, BackendError> {
    match get_either(remote, "server_info").await {
        Err(BackendError::Configuration { .. }) => Ok(Value::Null),
        known => known,
    }
}

/// The settings at a route, which older servers have by another name.
pub(super) async fn get_either(remote: &Remote, route: &str) -> Result<Value, BackendError> {
    match remote.host.get(route).await {
        Err(BackendError::Configuration { .. }) => remote.host.get(&format!("get_{route}")).await,
        known => known,
    }
}

impl SglangServer {
    /// By the model's own limit of tokens, and by the server's reported settings.
    pub(super) fn new(longest: usize, settings: &Value) -> Self {
        let number = |field: &str| settings[field].as_u64().and_then(|number| usize::try_from(number).ok());
        let preferred = settings["preferred_sampling_params"].as_object();
        Self {
            // Prompts of as many are refused, or cut without a word (--allow-auto-truncate).
            context_length: number("max_req_input_len").map_or(longest, |limit| limit.min(longest)),
            longest,
            greatest_reported_top_k: number("sampling_mask_max_tokens"),
            takes_lark: settings["grammar_backend"] == "llguidance",
            // Requests had that before servers had this.
            takes_stream_interval: settings["incremental_streaming_output"].is_boolean(),
            preferred: preferred.into_iter().flat_map(|fields| fields.keys().cloned()).collect(),
            reports_temperature: Arc::default(),
        }
    }

    /// Why it does not report what top-k and top-p left for this request, if so.
    pub(super) fn truncation_unreported(&self, request: &SampleRequest) -> Option<String> {
        let Some(greatest) = self.greatest_reported_top_k else {
            return Some("this SGLang takes them before top_k and top_p; leave these out".to_owned());
        };
        let is_reported = request.sampling.top_k.is_some_and(|top_k| top_k <= greatest);
        (!is_reported).then(|| {
            format!(
                "SGLang tells what top_p left only beside a top_k of at most {greatest} (--sampling-mask-max-tokens); \
                 ask for one too, or leave top_p and top_k out"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::SamplingParameters;
    use serde_json::json;

    use super::*;
    use crate::remote::probe::probe;

    #[test]
    fn prompts_may_be_as_long_as_the_server_takes_them() {
        let of = |settings: Value| SglangServer::new(512, &settings).context_length;
        assert_eq!(of(json!({ "max_req_input_len": 506 })), 506);
        assert_eq!(of(json!({ "max_req_input_len": 4090 })), 512);
        assert_eq!(of(Value::Null), 512);
    }

    #[test]
    fn a_request_is_refused_where_what_was_left_is_not_told() {
        let why = |settings: Value, top_k, top_p| {
            let sampling = SamplingParameters { top_k, top_p, ..SamplingParameters::default() };
            SglangServer::new(512, &settings).truncation_unreported(&probe(sampling, 1, 0))
        };
        let newer = || json!({ "sampling_mask_max_tokens": 100 });
        assert_eq!(why(newer(), Some(100), 0.9), None);
        assert!(why(newer(), Some(101), 1.0).unwrap().contains("at most 100"));
        assert!(why(newer(), None, 0.9).unwrap().contains("ask for one too"));
        assert!(why(Value::Null, Some(5), 1.0).unwrap().contains("leave these out"));
    }
}
