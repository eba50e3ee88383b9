use serde::Deserialize;
use serde_json::{Map, Value};

use super::generate_reply::GenerateReply;
use crate::dialects::field_checks::refuse;
use crate::dialects::field_kinds::left_out;
use crate::dialects::object_fields::OF_GENERATE;
use crate::dialects::openai::sampling_fields::SamplingFields;
use crate::error::ProxyError;
use crate::requests::model_request::{AnswerOptions, CallIds, Endpoint, ModelRequest, Prompt};
use crate::requests::request_body::{digest, read_fields};

/// Readers of spans find the call by the name that a completion's has.
const GENERATE: Endpoint = Endpoint {
    span_name: "openai.completion",
    operation_name: "text_completion",
    id_prefix: "generate-tokens-",
    prompt_field: "token_ids",
    call_ids: CallIds::Seeded,
};

/// vLLM's default of `max_tokens`.
const DEFAULT_MAX_TOKENS: u32 = 16;

#[derive(Debug, Deserialize)]
struct GenerateFields {
    model: String,
    token_ids: Vec<u32>,
    #[serde(default)]
    sampling_params: Map<String, Value>,
    stream: Option<bool>,
}

/// The fields of `sampling_params` beside those that Completions has, too.
#[derive(Debug, Deserialize)]
struct GenerateSampling {
    /// How many of the likeliest tokens come with each; absent: no logprobs.
    logprobs: Option<usize>,
    stop_token_ids: Option<Vec<u32>>,
    /// That the tokens of `stop_token_ids` alone end an answer.
    ignore_eos: Option<bool>,
    /// How an answer is handed over, which changes no token of it.
    #[serde(rename = "output_kind")]
    _output_kind: Option<Value>,
    #[serde(rename = "stream_interval")]
    _stream_interval: Option<Value>,
    #[serde(rename = "detokenize")]
    _detokenize: Option<Value>,
    /// How its text would be spelt, and it has none.
    #[serde(rename = "skip_special_tokens")]
    _skip_special_tokens: Option<Value>,
    #[serde(rename = "spaces_between_special_tokens")]
    _spaces_between_special_tokens: Option<Value>,
}

/// Reads and checks a request to a model with those stop tokens.
pub(crate) fn read(mut body: Map<String, Value>, stop_tokens: &[u32]) -> Result<ModelRequest, ProxyError> {
    let digest = digest(&body);
    let GenerateFields { model, token_ids, mut sampling_params, stream } = read_fields(&mut body)?;
    let own: GenerateSampling = read_fields(&mut sampling_params).map_err(|error| below(error, "sampling_params"))?;
    // The model's own end the turn whether or not they are named.
    let named = own.stop_token_ids.unwrap_or_default();
    let are_named = stop_tokens.iter().all(|token| named.contains(token));
    let ends_at_once = sampling_params.get("max_tokens").is_some_and(|limit| *limit == 1);
    if own.ignore_eos == Some(true) && !are_named && !ends_at_once {
        refuse("sampling_params.ignore_eos", "is not supported; leave it out, or name the model's stop tokens")?;
    }
    if let Some(foreign) = named.iter().find(|token| !stop_tokens.contains(token)) {
        let why = format!("has {foreign}, which does not end this model's turns; use stop");
        refuse("sampling_params.stop_token_ids", &why)?;
    }
    sampling_params.insert("model".to_owned(), model.into());
    let fields = SamplingFields::read(sampling_params).map_err(|error| below(error, "sampling_params"))?;
    let max_tokens = ("max_tokens", Some(fields.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS)));
    let options = fields.check(max_tokens, ("logprobs", own.logprobs), own.logprobs.is_some());
    let options: AnswerOptions = options.map_err(|error| below(error, "sampling_params"))?;
    if token_ids.is_empty() {
        refuse("token_ids", "must hold at least one token")?;
    }
    let left_out_of_body = left_out(&body, OF_GENERATE);
    let mut request = fields.request_of(&GENERATE, Prompt::Tokens(token_ids), options, digest, Box::new(GenerateReply));
    request.stream = stream.unwrap_or(false);
    request.left_out.extend(left_out_of_body);
    request.extra.extend(body);
    Ok(request)
}

/// An error about a field that is below another.
fn below(error: ProxyError, above: &str) -> ProxyError {
    match error {
        ProxyError::InvalidRequest { message, parameter, code } => {
            let message = match &parameter {
                Some(field) if message.starts_with(field.as_str()) => format!("{above}.{message}"),
                _ => message,
            };
            ProxyError::InvalidRequest { message, parameter: parameter.map(|field| format!("{above}.{field}")), code }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::dialects::field_checks::refused_field;

    fn read_value(body: Value) -> Result<ModelRequest, ProxyError> {
        read(body.as_object().cloned().unwrap(), &[7])
    }

    #[test]
    fn tokens_are_the_prompt_and_sampling_is_as_completions_have_it() {
        let request = read_value(json!({
            "model": "m", "token_ids": [1, 2], "stream": true, "priority": 1, "cache_salt": "s",
            "sampling_params": { "max_tokens": 5, "temperature": 0.5, "logprobs": 1, "stop_token_ids": [7], "seed": 3,
                                 "detokenize": false, "skip_special_tokens": false },
        }))
        .unwrap();
        assert_eq!(request.prompt, Prompt::Tokens(vec![1, 2]));
        assert_eq!((request.options.max_tokens, request.options.top_logprobs, request.seed), (Some(5), 1, Some(3)));
        assert!(request.stream && request.options.logprobs && request.left_out.unknown.is_empty());
    }

    #[test]
    fn every_fault_names_its_field() {
        let with =
            |key: &str, value: Value| json!({ "model": "m", "token_ids": [1], "sampling_params": { key: value } });
        for (body, field) in [
            (json!({ "model": "m", "token_ids": [] }), "token_ids"),
            (with("temperature", json!(3)), "sampling_params.temperature"),
            (with("logprobs", json!(21)), "sampling_params.logprobs"),
            (with("stop_token_ids", json!([8])), "sampling_params.stop_token_ids"),
            (with("allowed_token_ids", json!([8])), "sampling_params.allowed_token_ids"),
            (with("ignore_eos", json!(true)), "sampling_params.ignore_eos"),
            (with("max_tokens", json!(0)), "sampling_params.max_tokens"),
        ] {
            assert_eq!(refused_field(read_value(body.clone()).unwrap_err()), field, "{body}");
        }
    }
}
