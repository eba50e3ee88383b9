//! Checks of a request's fields that every dialect makes.

use std::ops::RangeInclusive;

use fulgurite_types::SamplingParameters;
use serde_json::{Map, Value, json};

use crate::error::ProxyError;
use crate::requests::request_fields::TEMPLATE_ARGUMENTS;

/// Refuses a field by its name.
pub(crate) fn refuse(name: &str, why: &str) -> Result<(), ProxyError> {
    Err(ProxyError::invalid(name, format!("{name} {why}")))
}

/// Checks fields of other hosts beside the dialects': those that change sampling must have their neutral value, and
/// arguments for the model's template must be an object.
pub(crate) fn check_other_hosts_fields(fields: &Map<String, Value>) -> Result<(), ProxyError> {
    for (name, neutral) in [
        ("min_p", json!(0.0)),
        ("repetition_penalty", json!(1.0)),
        ("min_tokens", json!(0.0)),
        ("ignore_eos", json!(false)),
        ("stop_token_ids", json!([])),
        ("bad_words", json!([])),
    ] {
        let given = fields.get(name).unwrap_or(&Value::Null);
        // 1 is 1.0.
        let given = given.as_f64().map_or_else(|| given.clone(), Value::from);
        if !given.is_null() && given != neutral {
            refuse(name, "is not supported; leave it out")?;
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
