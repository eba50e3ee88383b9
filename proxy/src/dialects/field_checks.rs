//! Checks of a request's fields that every dialect makes.

use std::ops::RangeInclusive;

use fulgurite_types::SamplingParameters;
use serde_json::{Map, Value, json};

use crate::error::ProxyError;
use crate::request_fields::TEMPLATE_ARGUMENTS;

/// Refuses a field by its name.
pub(crate) fn refuse(name: &str, why: &str) -> Result<(), ProxyError> {
    Err(ProxyError::invalid(name, format!("{name} {why}")))
}

/// Fields that change an answer or its distribution and that nothing here honours, with the values that change nothing, and
/// what to do instead.
pub(crate) const BINDING: [(&str, &[Neutral], &str); 48] = [
    ("add_generation_prompt", &[Neutral::True], LEAVE_OUT),
    ("add_special_tokens", &[Neutral::False], "the model's own template writes them"),
    ("allowed_token_ids", &[Neutral::Empty], "use logit_bias"),
    ("audio", &[], "the models here answer in text"),
    ("bad_words", &[Neutral::Empty], LEAVE_OUT),
    ("best_of", &[Neutral::Number(1.0)], "send the request again for another sample"),
    ("chat_template", &[], "the model's own template is used; chat_template_kwargs reach it"),
    ("compaction", &[], "the history is sampled from as it is sent; a call of your own can summarize it"),
    ("continue_final_message", &[Neutral::False], "no answer can be begun for this model"),
    ("documents", &[Neutral::Empty], "put them into a message"),
    ("echo", &[Neutral::False], "return_token_ids gives the prompt's tokens"),
    ("frequency_penalty", &[Neutral::Number(0.0)], LEAVE_OUT),
    ("guided_choice", &[], TAKES_A_SCHEMA),
    ("guided_grammar", &[], TAKES_A_SCHEMA),
    ("guided_json", &[], TAKES_A_SCHEMA),
    ("guided_regex", &[], TAKES_A_SCHEMA),
    ("ignore_eos", &[Neutral::False], LEAVE_OUT),
    ("include_stop_str_in_output", &[Neutral::False], LEAVE_OUT),
    ("length_penalty", &[Neutral::Number(1.0)], LEAVE_OUT),
    ("logit_bias", &[Neutral::Empty], LEAVE_OUT),
    ("logits_processors", &[Neutral::Empty], LEAVE_OUT),
    ("logprob_token_ids", &[Neutral::Empty], "top_logprobs gives the likeliest tokens'"),
    ("max_thinking_tokens", &[], LEAVE_OUT),
    ("media_io_kwargs", &[Neutral::Empty], LEAVE_OUT),
    ("min_p", &[Neutral::Number(0.0)], LEAVE_OUT),
    ("min_tokens", &[Neutral::Number(0.0)], LEAVE_OUT),
    ("mm_processor_kwargs", &[Neutral::Empty], LEAVE_OUT),
    ("modalities", &[Neutral::OnlyText], "the models here answer in text"),
    ("n", &[Neutral::Number(1.0)], "send the request again for another sample"),
    ("presence_penalty", &[Neutral::Number(0.0)], LEAVE_OUT),
    ("previous_input_messages", &[Neutral::Empty], "put them into input"),
    ("prompt_embeds", &[], "send the prompt's text or tokens"),
    ("prompt_logprobs", &[Neutral::Number(0.0), Neutral::False], LEAVE_OUT),
    ("repetition_detection", &[], LEAVE_OUT),
    ("repetition_penalty", &[Neutral::Number(1.0)], LEAVE_OUT),
    ("response_format", &[Neutral::PlainText], TAKES_A_SCHEMA),
    ("skip_special_tokens", &[Neutral::True], LEAVE_OUT),
    ("spaces_between_special_tokens", &[Neutral::True], LEAVE_OUT),
    ("stop", &[Neutral::Empty], LEAVE_OUT),
    ("stop_token_ids", &[Neutral::Empty], LEAVE_OUT),
    ("structured_outputs", &[], TAKES_A_SCHEMA),
    ("thread", &[], "no conversation is kept here: send all of its messages"),
    ("top_a", &[Neutral::Number(0.0)], LEAVE_OUT),
    ("truncate_prompt_tokens", &[], "too long a prompt is refused"),
    ("typical_p", &[Neutral::Number(1.0)], LEAVE_OUT),
    ("use_beam_search", &[Neutral::False], LEAVE_OUT),
    ("vllm_xargs", &[Neutral::Empty], LEAVE_OUT),
    ("watermarking", &[Neutral::False], LEAVE_OUT),
];

const LEAVE_OUT: &str = "leave it out";
const TAKES_A_SCHEMA: &str =
    "a JSON schema is taken by a chat's response_format, a response's text.format and a message's output_config.format";

/// A value that changes nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Neutral {
    True,
    False,
    Number(f64),
    /// An empty list, object or text.
    Empty,
    /// The list of modalities `["text"]`.
    OnlyText,
    /// The form `{"type": "text"}` of an answer.
    PlainText,
    /// This word.
    Word(&'static str),
}

impl Neutral {
    pub(crate) fn is(self, value: &Value) -> bool {
        match self {
            Self::True => *value == Value::Bool(true),
            Self::False => *value == Value::Bool(false),
            Self::Number(number) => value.as_f64() == Some(number),
            Self::Empty => *value == json!([]) || *value == json!({}) || *value == "",
            Self::OnlyText => *value == json!(["text"]),
            Self::PlainText => *value == json!({ "type": "text" }),
            Self::Word(word) => *value == word,
        }
    }
}

/// Checks fields beside those that a dialect's reader takes: those that change an answer must have a value that changes
/// nothing, and arguments for the model's template must be an object.
pub(crate) fn check_other_hosts_fields(fields: &Map<String, Value>) -> Result<(), ProxyError> {
    for (name, neutral, instead) in BINDING {
        let Some(given) = fields.get(name).filter(|given| !given.is_null()) else { continue };
        if !neutral.iter().any(|neutral| neutral.is(given)) {
            refuse(name, &format!("is not supported; {instead}"))?;
        }
    }
    match fields.get(TEMPLATE_ARGUMENTS) {
        None | Some(Value::Null | Value::Object(_)) => Ok(()),
        Some(_) => refuse(TEMPLATE_ARGUMENTS, "must be an object"),
    }
}

/// A number that must lie in a range if it is given.
pub(crate) fn within(name: &str, value: Option<f32>, range: RangeInclusive<f32>) -> Result<Option<f32>, ProxyError> {
    match value {
        Some(value) if !range.contains(&value) => Err(ProxyError::invalid(
            name,
            format!("{name} is {value}, but must be between {} and {}", range.start(), range.end()),
        )),
        value => Ok(value),
    }
}

/// How tokens are drawn, by the fields that all dialects have under the same names.
pub(crate) fn sampling(
    temperature: Option<f32>,
    top_p: Option<f32>,
    top_k: Option<i64>,
) -> Result<SamplingParameters, ProxyError> {
    let temperature = within("temperature", temperature, 0.0..=2.0)?.unwrap_or(1.0);
    let top_p = within("top_p", top_p, 0.0..=1.0)?.unwrap_or(1.0);
    if top_p == 0.0 {
        return Err(ProxyError::invalid("top_p", "top_p must be above 0"));
    }
    // vLLM's clients send -1 or 0 for "all".
    let top_k = match top_k {
        None | Some(-1 | 0) => None,
        Some(k) => Some(
            usize::try_from(k).map_err(|_| ProxyError::invalid("top_k", "top_k must be positive, or -1 for all"))?,
        ),
    };
    Ok(SamplingParameters { temperature, top_p, top_k, ..SamplingParameters::default() })
}

/// A limit of sampled tokens, which must allow one.
pub(crate) fn token_limit(name: &str, limit: Option<u32>) -> Result<Option<usize>, ProxyError> {
    match limit {
        Some(0) => Err(ProxyError::invalid(name, format!("{name} must be at least 1"))),
        limit => Ok(limit.map(|limit| limit as usize)),
    }
}

/// Stop strings of a request: the text of each token is looked through for all of them.
const MAXIMUM_STOP_STRINGS: usize = 64;
/// Bytes of a stop string, as many of which a stream may hold back.
const MAXIMUM_STOP_BYTES: usize = 1024;
/// Entries of a `logit_bias`, each of which is added at every token.
const MAXIMUM_BIASES: usize = 1024;
/// Tools of a request. OpenAI takes 128; agents that collect tools from many servers have more.
const MAXIMUM_TOOLS: usize = 1024;

/// Stop strings, none of which may be empty.
pub(crate) fn stop_strings(name: &str, strings: Vec<String>) -> Result<Vec<String>, ProxyError> {
    at_most(name, strings.len(), MAXIMUM_STOP_STRINGS, "strings")?;
    for string in &strings {
        if string.is_empty() {
            return Err(ProxyError::invalid(name, format!("{name}: a stop string must not be empty")));
        }
        if string.len() > MAXIMUM_STOP_BYTES {
            let message =
                format!("{name}: a stop string has {} bytes, but at most {MAXIMUM_STOP_BYTES} may be", string.len());
            return Err(ProxyError::invalid(name, message));
        }
    }
    Ok(strings)
}

/// Refuses more tools than a request may have.
pub(crate) fn check_tool_count(tools: &[Value]) -> Result<(), ProxyError> {
    at_most("tools", tools.len(), MAXIMUM_TOOLS, "tools")
}

/// Refuses more biases than a request may have.
pub(crate) fn check_bias_count(biases: usize) -> Result<(), ProxyError> {
    at_most("logit_bias", biases, MAXIMUM_BIASES, "entries")
}

fn at_most(name: &str, count: usize, limit: usize, what: &str) -> Result<(), ProxyError> {
    match count > limit {
        true => refuse(name, &format!("holds {count} {what}, but may hold at most {limit}")),
        false => Ok(()),
    }
}

/// The field that a refusal names, with which its message begins.
#[cfg(test)]
pub(crate) fn refused_field(error: ProxyError) -> String {
    match error {
        ProxyError::InvalidRequest { message, parameter: Some(field), .. } if message.starts_with(&field) => field,
        other => panic!("{other:?}"),
    }
}
