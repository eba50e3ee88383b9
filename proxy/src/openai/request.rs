use fulgurite_backends::SamplingParameters;
use fulgurite_renderers::Message;
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::error::ProxyError;

const ROLES: [&str; 5] = ["system", "developer", "user", "assistant", "tool"];
const MAXIMUM_STOP_STRINGS: usize = 16;
const MAXIMUM_TOP_LOGPROBS: usize = 20;

/// A Chat Completions request as it came in; fields that we do not know stay in `extra`.
#[derive(Debug, Deserialize)]
pub(crate) struct ChatRequest {
    pub(crate) model: String,
    pub(crate) messages: Vec<Message>,
    pub(crate) stream: Option<bool>,
    pub(crate) stream_options: Option<StreamOptions>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    temperature: Option<f32>,
    top_p: Option<f32>,
    top_k: Option<i64>,
    stop: Option<Stop>,
    pub(crate) seed: Option<i64>,
    n: Option<u32>,
    logprobs: Option<bool>,
    top_logprobs: Option<usize>,
    presence_penalty: Option<f64>,
    frequency_penalty: Option<f64>,
    logit_bias: Option<Map<String, Value>>,
    tools: Option<Vec<Value>>,
    functions: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    response_format: Option<Value>,
    pub(crate) return_token_ids: Option<bool>,
    #[serde(flatten)]
    pub(crate) extra: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct StreamOptions {
    #[serde(default)]
    pub(crate) include_usage: bool,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Stop {
    One(String),
    Many(Vec<String>),
}

/// What a checked request asks of the sampler.
#[derive(Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) sampling: SamplingParameters,
    /// `None`: as many as the context has room for.
    pub(crate) max_tokens: Option<usize>,
    pub(crate) stop_strings: Vec<String>,
    pub(crate) logprobs: bool,
    pub(crate) top_logprobs: usize,
}

/// Reads a request body; the error names the field at fault.
pub(crate) fn parse(body: &[u8]) -> Result<(ChatRequest, String), ProxyError> {
    let value: Value = serde_json::from_slice(body).map_err(|error| ProxyError::InvalidRequest {
        message: format!("the request body is not JSON: {error}"),
        parameter: None,
        code: Some("invalid_json"),
    })?;
    if !value.is_object() {
        return Err(ProxyError::InvalidRequest {
            message: "the request body must be a JSON object".to_owned(),
            parameter: None,
            code: Some("invalid_json"),
        });
    }
    let digest = request_digest(&value);
    let request = serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        let message = if path == "." { inner.to_string() } else { format!("{path}: {inner}") };
        ProxyError::InvalidRequest { message, parameter: (path != ".").then_some(path), code: None }
    })?;
    Ok((request, digest))
}

/// What makes two requests the same: SHA-256 of the body, keys sorted, without how the answer is to be written.
fn request_digest(body: &Value) -> String {
    let mut body = body.clone();
    if let Some(object) = body.as_object_mut() {
        object.remove("stream");
        object.remove("stream_options");
    }
    body.sort_all_objects();
    let digest = Sha256::digest(body.to_string().as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl ChatRequest {
    /// Checks every field that we act on and refuses by name what we cannot honour.
    pub(crate) fn check(&self) -> Result<Asked, ProxyError> {
        self.check_messages()?;
        self.refuse_unsupported()?;
        let temperature = within("temperature", self.temperature, 0.0..=2.0)?.unwrap_or(1.0);
        let top_p = within("top_p", self.top_p, 0.0..=1.0)?.unwrap_or(1.0);
        if top_p == 0.0 {
            return Err(ProxyError::invalid("top_p", "top_p must be above 0"));
        }
        // -1 and 0 are how vLLM's clients say "all".
        let top_k = match self.top_k {
            None | Some(-1 | 0) => None,
            Some(k) => Some(
                usize::try_from(k)
                    .map_err(|_| ProxyError::invalid("top_k", "top_k must be positive, or -1 for all"))?,
            ),
        };
        let max_tokens = self.max_completion_tokens.or(self.max_tokens);
        if max_tokens == Some(0) {
            let name = if self.max_completion_tokens.is_some() { "max_completion_tokens" } else { "max_tokens" };
            return Err(ProxyError::invalid(name, format!("{name} must be at least 1")));
        }
        let logprobs = self.logprobs.unwrap_or(false);
        let top_logprobs = self.top_logprobs.unwrap_or(0);
        if top_logprobs > MAXIMUM_TOP_LOGPROBS {
            let message = format!("top_logprobs must be at most {MAXIMUM_TOP_LOGPROBS}");
            return Err(ProxyError::invalid("top_logprobs", message));
        }
        if top_logprobs > 0 && !logprobs {
            return Err(ProxyError::invalid("top_logprobs", "top_logprobs needs logprobs: true"));
        }
        Ok(Asked {
            sampling: SamplingParameters { temperature, top_p, top_k },
            max_tokens: max_tokens.map(|limit| limit as usize),
            stop_strings: self.stop_strings()?,
            logprobs,
            top_logprobs,
        })
    }

    fn check_messages(&self) -> Result<(), ProxyError> {
        if self.messages.is_empty() {
            return Err(ProxyError::invalid("messages", "messages must hold at least one message"));
        }
        for (index, message) in self.messages.iter().enumerate() {
            if !ROLES.contains(&message.role.as_str()) {
                return Err(ProxyError::invalid(
                    &format!("messages[{index}].role"),
                    format!("`{}` is not a role; expected one of {}", message.role, ROLES.join(", ")),
                ));
            }
        }
        Ok(())
    }

    fn refuse_unsupported(&self) -> Result<(), ProxyError> {
        let refuse = |name: &str, why: &str| Err(ProxyError::invalid(name, format!("{name} {why}")));
        if self.n.is_some_and(|n| n != 1) {
            return refuse("n", "other than 1 is not supported; send the request again for another sample");
        }
        for (name, penalty) in
            [("presence_penalty", self.presence_penalty), ("frequency_penalty", self.frequency_penalty)]
        {
            if penalty.is_some_and(|penalty| penalty != 0.0) {
                return refuse(name, "is not supported by this model host");
            }
        }
        if self.logit_bias.as_ref().is_some_and(|bias| !bias.is_empty()) {
            return refuse("logit_bias", "is not supported by this model host");
        }
        for (name, list) in [("tools", &self.tools), ("functions", &self.functions)] {
            if list.as_ref().is_some_and(|list| !list.is_empty()) {
                return refuse(name, "are not supported by this model's renderer");
            }
        }
        if self.tool_choice.as_ref().is_some_and(|choice| !matches!(choice.as_str(), Some("auto" | "none"))) {
            return refuse("tool_choice", "is not supported by this model's renderer");
        }
        let format = self.response_format.as_ref().and_then(|format| format.get("type")).and_then(Value::as_str);
        if self.response_format.is_some() && format != Some("text") {
            return refuse("response_format", "other than text is not supported by this model host");
        }
        Ok(())
    }

    fn stop_strings(&self) -> Result<Vec<String>, ProxyError> {
        let strings = match &self.stop {
            None => Vec::new(),
            Some(Stop::One(string)) => vec![string.clone()],
            Some(Stop::Many(strings)) => strings.clone(),
        };
        if strings.len() > MAXIMUM_STOP_STRINGS {
            return Err(ProxyError::invalid("stop", format!("stop may hold at most {MAXIMUM_STOP_STRINGS} strings")));
        }
        if strings.iter().any(String::is_empty) {
            return Err(ProxyError::invalid("stop", "a stop string must not be empty"));
        }
        Ok(strings)
    }
}

fn within(name: &str, value: Option<f32>, range: std::ops::RangeInclusive<f32>) -> Result<Option<f32>, ProxyError> {
    match value {
        Some(value) if !range.contains(&value) => Err(ProxyError::invalid(
            name,
            format!("{name} is {value}, but must be between {} and {}", range.start(), range.end()),
        )),
        value => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<Asked, (Option<String>, String)> {
        let checked = parse(value.to_string().as_bytes()).and_then(|(request, _)| request.check());
        checked.map_err(|error| match error {
            ProxyError::InvalidRequest { message, parameter, .. } => (parameter, message),
            other => panic!("{other:?}"),
        })
    }

    fn with(key: &str, value: Value) -> Value {
        let mut body = json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] });
        body[key] = value;
        body
    }

    #[test]
    fn every_fault_names_its_field() {
        for (body, parameter) in [
            (json!({ "model": "m" }), None),
            (with("messages", json!([])), Some("messages")),
            (with("messages", json!([{ "role": "robot", "content": "x" }])), Some("messages[0].role")),
            (with("messages", json!([{ "content": "x" }])), Some("messages[0]")),
            (with("messages", json!("hi")), Some("messages")),
            (with("temperature", json!(3)), Some("temperature")),
            (with("temperature", json!("warm")), Some("temperature")),
            (with("max_tokens", json!(0)), Some("max_tokens")),
            (with("max_tokens", json!(-1)), Some("max_tokens")),
            (with("top_p", json!(0)), Some("top_p")),
            (with("n", json!(2)), Some("n")),
            (with("tools", json!([{}])), Some("tools")),
            (with("logit_bias", json!({ "1": 2 })), Some("logit_bias")),
            (with("response_format", json!({ "type": "json_object" })), Some("response_format")),
            (with("stop", json!([""])), Some("stop")),
            (with("top_logprobs", json!(2)), Some("top_logprobs")),
        ] {
            let (found, message) = read(body.clone()).expect_err(&body.to_string());
            assert_eq!(found.as_deref(), parameter, "{body}: {message}");
        }
    }

    #[test]
    fn what_changes_nothing_is_taken() {
        let mut body = with("n", json!(1));
        body["presence_penalty"] = json!(0);
        body["tools"] = json!([]);
        body["user"] = json!("someone");
        body["top_k"] = json!(-1);
        body["max_tokens"] = json!(5);
        let asked = read(body).unwrap();
        assert_eq!((asked.max_tokens, asked.sampling), (Some(5), SamplingParameters::default()));
    }

    #[test]
    fn the_digest_sees_through_key_order_and_streaming() {
        let digest = |text: &str| parse(text.as_bytes()).unwrap().1;
        let plain = digest(r#"{"model":"m","messages":[]}"#);
        assert_eq!(plain, digest(r#"{"stream":true,"messages":[],"stream_options":null,"model":"m"}"#));
        assert_ne!(plain, digest(r#"{"model":"n","messages":[]}"#));
    }
}
