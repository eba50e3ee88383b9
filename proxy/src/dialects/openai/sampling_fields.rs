use std::collections::BTreeMap;

use fulgurite_types::SamplingParameters;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::reply::OpenAiReply;
use super::reply_shape::Shape;
use crate::dialects::field_checks::{
    check_bias_count, check_other_hosts_fields, refuse, sampling, stop_strings, token_limit, within,
};
use crate::dialects::field_kinds::left_out;
use crate::dialects::object_fields::STREAM_OPTIONS;
use crate::error::ProxyError;
use crate::requests::model_request::{AnswerOptions, Endpoint, ModelRequest, Prompt, ReplyFormat};
use crate::requests::request_body::read_fields;
use crate::requests::structured_output::StructuredOutput;

pub(crate) const MAXIMUM_TOP_LOGPROBS: usize = 20;
/// OpenAI's greatest `n`.
const MAXIMUM_CHOICES: u32 = 128;

/// The fields that Chat Completions and Completions share; what neither knows stays in `extra`.
#[derive(Debug, Deserialize)]
pub(crate) struct SamplingFields {
    model: String,
    stream: Option<bool>,
    stream_options: Option<Map<String, Value>>,
    pub(crate) max_tokens: Option<u32>,
    temperature: Option<f32>,
    top_p: Option<f32>,
    top_k: Option<i64>,
    stop: Option<Stop>,
    seed: Option<i64>,
    n: Option<u32>,
    presence_penalty: Option<f32>,
    frequency_penalty: Option<f32>,
    logit_bias: Option<Map<String, Value>>,
    return_token_ids: Option<bool>,
    #[serde(skip)]
    extra: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a string or an array of strings")]
enum Stop {
    One(String),
    Many(Vec<String>),
}

impl SamplingFields {
    /// Reads what is left of a body, once each endpoint's own fields have been taken out.
    pub(crate) fn read(mut body: Map<String, Value>) -> Result<Self, ProxyError> {
        let fields: Self = read_fields(&mut body)?;
        Ok(Self { extra: body, ..fields })
    }

    /// Checks every field that we act on and refuses by name what we cannot honour. `max_tokens` and `top_logprobs`
    /// are each endpoint's own, under the names that it has for them.
    pub(crate) fn check(
        &self,
        max_tokens: (&str, Option<u32>),
        top_logprobs: (&str, Option<usize>),
        logprobs: bool,
    ) -> Result<AnswerOptions, ProxyError> {
        check_other_hosts_fields(&self.extra)?;
        if self.include_usage().is_some_and(|include_usage| !include_usage.is_boolean()) {
            refuse("stream_options.include_usage", "must be true or false")?;
        }
        let (name, limit) = max_tokens;
        let max_tokens = token_limit(name, limit)?;
        let (name, top_logprobs) = top_logprobs;
        let top_logprobs = top_logprobs.unwrap_or(0);
        if top_logprobs > MAXIMUM_TOP_LOGPROBS {
            return Err(ProxyError::invalid(name, format!("{name} must be at most {MAXIMUM_TOP_LOGPROBS}")));
        }
        Ok(AnswerOptions {
            sets_temperature: self.temperature.is_some(),
            sampling: SamplingParameters {
                presence_penalty: within("presence_penalty", self.presence_penalty, -2.0..=2.0)?.unwrap_or_default(),
                frequency_penalty: within("frequency_penalty", self.frequency_penalty, -2.0..=2.0)?.unwrap_or_default(),
                logit_bias: self.logit_bias()?,
                ..sampling(self.temperature, self.top_p, self.top_k)?
            },
            form: StructuredOutput::default(),
            max_tokens,
            stop_strings: self.stop_strings()?,
            logprobs,
            top_logprobs,
            choices: self.choices()?,
        })
    }

    /// The whole request, once these fields have been checked and given `options`.
    pub(crate) fn request(self, shape: Shape, prompt: Prompt, options: AnswerOptions, digest: String) -> ModelRequest {
        let include_usage = self.include_usage() == Some(&Value::Bool(true));
        self.request_of(shape.endpoint(), prompt, options, digest, Box::new(OpenAiReply { shape, include_usage }))
    }

    /// The same of another endpoint, whose answers are written in another way.
    pub(crate) fn request_of(
        self,
        endpoint: &'static Endpoint,
        prompt: Prompt,
        options: AnswerOptions,
        digest: String,
        reply: Box<dyn ReplyFormat>,
    ) -> ModelRequest {
        let mut left_out = left_out(&self.extra, &[]);
        let stream_options = self.stream_options.map(Value::Object);
        left_out.look_into("stream_options", stream_options.as_ref(), STREAM_OPTIONS);
        ModelRequest {
            endpoint,
            prompt,
            options,
            stream: self.stream.unwrap_or(false),
            return_token_ids: self.return_token_ids.unwrap_or(false),
            seed: self.seed,
            model: self.model,
            ignored_tools: Vec::new(),
            left_out,
            extra: self.extra,
            digest,
            reply,
        }
    }

    /// `stream_options.include_usage`, which is null for nothing.
    fn include_usage(&self) -> Option<&Value> {
        self.stream_options.as_ref()?.get("include_usage").filter(|include_usage| !include_usage.is_null())
    }

    /// `logit_bias`: added logits by token id, which JSON spells as a key.
    fn logit_bias(&self) -> Result<BTreeMap<u32, f32>, ProxyError> {
        check_bias_count(self.logit_bias.as_ref().map_or(0, Map::len))?;
        let entry = |(token, bias): (&String, &Value)| {
            let field = format!("logit_bias.{token}");
            let id: u32 =
                token.parse().map_err(|_| ProxyError::invalid(&field, format!("{field}: `{token}` is no token id")))?;
            let bias = bias.as_f64().ok_or_else(|| ProxyError::invalid(&field, format!("{field} must be a number")))?;
            Ok((id, within(&field, Some(bias as f32), -100.0..=100.0)?.unwrap_or_default()))
        };
        self.logit_bias.iter().flatten().map(entry).collect()
    }

    fn choices(&self) -> Result<usize, ProxyError> {
        let choices = self.n.unwrap_or(1);
        match (1..=MAXIMUM_CHOICES).contains(&choices) {
            true => Ok(choices as usize),
            false => {
                Err(ProxyError::invalid("n", format!("n is {choices}, but must be between 1 and {MAXIMUM_CHOICES}")))
            }
        }
    }

    fn stop_strings(&self) -> Result<Vec<String>, ProxyError> {
        let strings = match &self.stop {
            None => Vec::new(),
            Some(Stop::One(string)) => vec![string.clone()],
            Some(Stop::Many(strings)) => strings.clone(),
        };
        stop_strings("stop", strings)
    }
}
