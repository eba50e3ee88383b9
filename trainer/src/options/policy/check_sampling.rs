//! What agents may be told to send with their calls.

use fulgurite_types::nearest_name;
use serde_json::{Map, Value, json};

use crate::TrainError;
use crate::options::keys::refusal::refuse;

/// What agents can be told to send with their calls: the parameters of OpenAI's API, and those that model hosts add to it.
const SAMPLING_PARAMETERS: [&str; 22] = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "max_tokens",
    "max_completion_tokens",
    "min_tokens",
    "stop",
    "stop_token_ids",
    "seed",
    "n",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "response_format",
    "parallel_tool_calls",
    "reasoning_effort",
    "extra_body",
    "chat_template_kwargs",
];

/// Those of them that count something.
const COUNTS: [&str; 3] = ["max_tokens", "max_completion_tokens", "n"];

/// With which values a parameter leaves the model's own distribution as it is.
const NEUTRAL: [(&str, &[f64]); 6] = [
    ("top_p", &[1.0]),
    ("top_k", &[0.0, -1.0]),
    ("min_p", &[0.0]),
    ("frequency_penalty", &[0.0]),
    ("presence_penalty", &[0.0]),
    ("repetition_penalty", &[1.0]),
];

/// The greatest temperature that a call may have.
const GREATEST_TEMPERATURE: f64 = 2.0;

/// The temperature among what agents are told to send.
pub(crate) fn temperature_of(parameters: &Map<String, Value>) -> f32 {
    parameters.get("temperature").and_then(Value::as_f64).unwrap_or(1.0) as f32
}

/// Refuses what is no sampling parameter, and what would sample from another distribution than the model's at
/// some temperature.
pub(crate) fn check_sampling(parameters: &Map<String, Value>) -> Result<(), TrainError> {
    for (name, value) in parameters {
        let key = format!("[trainer] sampling_parameters.{name}");
        if !SAMPLING_PARAMETERS.contains(&name.as_str()) {
            let message = match nearest_name(name, &SAMPLING_PARAMETERS) {
                Some(nearest) => format!("is no sampling parameter; did you mean `{nearest}`?"),
                None => format!("is no sampling parameter; there is `{}`", SAMPLING_PARAMETERS.join("`, `")),
            };
            return Err(TrainError::Option { key, message });
        }
        let is_temperature = |value: f64| value > 0.0 && value <= GREATEST_TEMPERATURE;
        if name == "temperature" && !value.as_f64().is_some_and(is_temperature) {
            let message =
                "must be above 0 and at most 2: the learner divides the logits by it, and at 0 a token is certain";
            return refuse(&key, value, message);
        }
        let neutral = NEUTRAL.iter().find(|(neutral, _)| neutral == name);
        if let Some((_, neutral)) = neutral
            && !value.as_f64().is_some_and(|value| neutral.contains(&value))
        {
            let must = json!(neutral[0]);
            let message = format!(
                "must be {must} or left out: tokens that were sampled from another distribution than the model's are not trained"
            );
            return refuse(&key, value, &message);
        }
        if COUNTS.contains(&name.as_str()) && value.as_u64().is_none_or(|count| count == 0) {
            return refuse(&key, value, "must be a whole number of at least 1");
        }
    }
    Ok(())
}
