use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::generations::packing::{pack_logprobs, pack_tokens, unpack_logprobs, unpack_tokens};
use crate::{Generation, Object};

const PROMPT_TOKENS: &str = "prompt_tokens";
const SAMPLED_TOKENS: &str = "sampled_tokens";
const LOGPROBS: &str = "logprobs";

/// A generation for the wire, exact to the bit: as [`Generation`] is written in JSON, but `prompt_tokens`,
/// `sampled_tokens` and `logprobs` are base64 (standard, padded) of little-endian `u32` and `f32`; no logprobs are null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PackedGeneration(Object);

/// What a packed generation cannot be read for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct PackingError {
    /// The field at fault; empty for the whole.
    pub field: &'static str,
    /// What is wrong with it.
    pub message: String,
}

impl TryFrom<Generation> for PackedGeneration {
    type Error = PackingError;

    fn try_from(mut generation: Generation) -> Result<Self, PackingError> {
        let prompt_tokens = STANDARD.encode(pack_tokens(&std::mem::take(&mut generation.prompt_tokens)));
        let sampled_tokens = STANDARD.encode(pack_tokens(&std::mem::take(&mut generation.sampled_tokens)));
        let logprobs = generation.logprobs.take().map(|logprobs| STANDARD.encode(pack_logprobs(&logprobs)));
        let Value::Object(mut object) = serde_json::to_value(&generation).map_err(|error| of_the_whole(&error))? else {
            return Err(PackingError { field: "", message: "it is no object".to_owned() });
        };
        object.insert(PROMPT_TOKENS.to_owned(), prompt_tokens.into());
        object.insert(SAMPLED_TOKENS.to_owned(), sampled_tokens.into());
        object.insert(LOGPROBS.to_owned(), logprobs.into());
        Ok(Self(object))
    }
}

impl TryFrom<PackedGeneration> for Generation {
    type Error = PackingError;

    fn try_from(PackedGeneration(mut object): PackedGeneration) -> Result<Self, PackingError> {
        let prompt_tokens = words(&mut object, PROMPT_TOKENS, unpack_tokens)?;
        let sampled_tokens = words(&mut object, SAMPLED_TOKENS, unpack_tokens)?;
        let logprobs = match object.get(LOGPROBS) {
            Some(Value::Null) => None,
            _ => Some(words(&mut object, LOGPROBS, unpack_logprobs)?),
        };
        if let Some(logprobs) = &logprobs
            && logprobs.len() != sampled_tokens.len()
        {
            let message = format!("{} of them for {} sampled tokens", logprobs.len(), sampled_tokens.len());
            return Err(PackingError { field: LOGPROBS, message });
        }
        let nothing = Value::Array(Vec::new());
        object.insert(PROMPT_TOKENS.to_owned(), nothing.clone());
        object.insert(SAMPLED_TOKENS.to_owned(), nothing);
        object.insert(LOGPROBS.to_owned(), Value::Null);
        let rest: Self = serde_json::from_value(Value::Object(object)).map_err(|error| of_the_whole(&error))?;
        Ok(Self { prompt_tokens, sampled_tokens, logprobs, ..rest })
    }
}

/// Reads a field of packed words of four bytes.
fn words<T>(
    object: &mut Object,
    field: &'static str,
    unpack: fn(&[u8]) -> Option<Vec<T>>,
) -> Result<Vec<T>, PackingError> {
    let wrong = |message: &str| PackingError { field, message: message.to_owned() };
    let Some(Value::String(text)) = object.remove(field) else { return Err(wrong("it is no text")) };
    let bytes = STANDARD.decode(text).map_err(|error| wrong(&format!("it is no base64: {error}")))?;
    unpack(&bytes).ok_or_else(|| wrong("its bytes do not come in fours"))
}

fn of_the_whole(error: &serde_json::Error) -> PackingError {
    PackingError { field: "", message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::RecordedSampling;

    fn generation(prompt_tokens: Vec<u32>, sampled: &[(u32, f32)], has_logprobs: bool) -> Generation {
        Generation {
            generation_id: "g".into(),
            rollout_id: "r".into(),
            attempt_id: "a".into(),
            span_id: "s".into(),
            trace_id: "t".into(),
            name: "openai.chat.completion".into(),
            sequence_id: 3,
            parent_id: None,
            branch_reason: Some("first_turn".into()),
            start_time: 1.1,
            end_time: f64::MAX,
            model: "m".into(),
            prompt_tokens,
            sampled_tokens: sampled.iter().map(|(token, _)| *token).collect(),
            logprobs: has_logprobs.then(|| sampled.iter().map(|(_, logprob)| *logprob).collect()),
            stop_reason: "stop".into(),
            weights_versions: vec![],
            sampling: RecordedSampling(json!({"temperature": 1.0})),
            seed: u64::MAX,
            renderer: "chatml".into(),
            tokenizer: "sha256:0".into(),
            request_digest: String::new(),
            client_disconnected: true,
            defect: None,
        }
    }

    proptest! {
        #[test]
        fn the_wire_changes_no_bit(prompt: Vec<u32>, sampled: Vec<(u32, f32)>, has_logprobs: bool) {
            let before = generation(prompt, &sampled, has_logprobs);
            let text = serde_json::to_string(&PackedGeneration::try_from(before.clone()).unwrap()).unwrap();
            let packed: PackedGeneration = serde_json::from_str(&text).unwrap();
            let after = Generation::try_from(packed).unwrap();
            let bits = |generation: &Generation| -> Option<Vec<u32>> {
                Some(generation.logprobs.as_ref()?.iter().map(|logprob| logprob.to_bits()).collect())
            };
            prop_assert_eq!(bits(&after), bits(&before));
            let without_logprobs = |generation: Generation| Generation { logprobs: None, ..generation };
            prop_assert_eq!(without_logprobs(after), without_logprobs(before));
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let packed = PackedGeneration::try_from(generation(vec![1], &[(2, -0.5)], true)).unwrap();
        let refused = |field: &str, value: Value| {
            let mut packed = packed.clone();
            packed.0.insert(field.to_owned(), value);
            Generation::try_from(packed).unwrap_err().to_string()
        };
        assert_eq!(refused("prompt_tokens", json!([1])), "prompt_tokens: it is no text");
        assert!(refused("sampled_tokens", json!("?")).starts_with("sampled_tokens: it is no base64"));
        assert_eq!(refused("sampled_tokens", json!("AAAA")), "sampled_tokens: its bytes do not come in fours");
        assert_eq!(refused("logprobs", json!("AAAAAAAAAAA=")), "logprobs: 2 of them for 1 sampled tokens");
        assert!(refused("seed", json!(-1)).contains("-1"));
    }
}
